"""NumPy's and the Array API standard's functions for tensors, with gradients.

    import tapegrad.numpy as np

    x = np.linspace(0.0, 1.0, 5)
    np.sin(x).sum()

An array is a `tapegrad.Tensor` on the device that `tapegrad.device` selects. Python floats become
float64, as in NumPy. This module defines nothing; it exports the names of other modules.
"""

from __future__ import annotations

import sys
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.tensor import Tensor as ndarray  # noqa: N813 -- NumPy's name
from tapegrad.errors import ArgumentError
from tapegrad.numpy import emath, fft, lib, linalg, polynomial, random, special
from tapegrad.numpy.ufuncs import shorten_calls as _shorten_calls

# Packed, so that the groups are visible at a glance.
# fmt: off
# isort: off
from tapegrad.numpy.constants import (
    e, euler_gamma, inf, little_endian, nan, newaxis, pi,
)
from tapegrad.core.values.dtypes import (
    bool_, complex128, complex64, float16, float32, float64, int16, int32, int64, int8, uint16,
    uint32, uint64, uint8,
)
from tapegrad.numpy.dtypes import (
    astype, bool, byte, can_cast, cdouble, common_type, complexfloating as complexfloating,
    csingle, double, dtype, finfo, floating as floating, generic as generic, half, iinfo,
    inexact as inexact, int_, intc, integer as integer, intp, iscomplexobj, isdtype, isrealobj,
    issubdtype, long, longlong, min_scalar_type, number as number, promote_types, result_type,
    short, signedinteger as signedinteger, single, ubyte, uint, uintc, uintp, ulong, ulonglong,
    unsignedinteger as unsignedinteger, ushort,
)
from tapegrad.numpy.creation import (
    array, asanyarray, asarray, asarray_chkfinite, ascontiguousarray, copy, empty, empty_like,
    from_dlpack, frombuffer, fromfunction, fromiter, full, full_like, ones, ones_like, zeros,
    zeros_like,
)
from tapegrad.numpy.ranges import (
    arange, geomspace, linspace, logspace,
)
from tapegrad.numpy.building import (
    diag, diag_indices, diag_indices_from, diagflat, eye, identity, tri, tril, tril_indices,
    tril_indices_from, triu, triu_indices, triu_indices_from, vander,
)
from tapegrad.numpy.elementwise import (
    abs, absolute, acos, acosh, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh,
    asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_count, bitwise_invert,
    bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, cbrt, ceil,
    conj, conjugate, copysign, cos, cosh, deg2rad, degrees, divide, divmod, equal, exp, exp2,
    expm1, fabs, float_power, floor, floor_divide, fmax, fmin, fmod, frexp, gcd, greater,
    greater_equal, heaviside, hypot, invert, isfinite, isinf, isnan, lcm, ldexp, left_shift,
    less, less_equal, log, log10, log1p, log2, logaddexp, logaddexp2, logical_and, logical_not,
    logical_or, logical_xor, maximum, minimum, mod, modf, multiply, negative, nextafter,
    not_equal, positive, pow, power, rad2deg, radians, reciprocal, remainder, right_shift, rint,
    sign, signbit, sin, sinh, spacing, sqrt, square, subtract, tan, tanh, true_divide, trunc,
)
from tapegrad.numpy.parts import (
    allclose, angle, around, array_equal, array_equiv, clip, fix, i0, imag, isclose, iscomplex,
    isneginf, isposinf, isreal, isscalar, nan_to_num, real, real_if_close, round, sinc, where,
)
from tapegrad.numpy.reductions import (
    all, amax, amin, any, argmax, argmin, count_nonzero, cumprod, cumsum, cumulative_prod,
    cumulative_sum, max, mean, min, prod, ptp, std, sum, var,
)
from tapegrad.numpy.statistics import (
    average, corrcoef, cov,
)
from tapegrad.numpy.quantiles import (
    median, nanmedian, nanpercentile, nanquantile, percentile, quantile,
)
from tapegrad.numpy.nan_functions import (
    nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmin, nanprod, nanstd, nansum,
    nanvar,
)
from tapegrad.numpy.manipulation import (
    atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to,
    expand_dims, flip, fliplr, flipud, matrix_transpose, moveaxis, permute_dims, ravel, repeat,
    reshape, resize, roll, rollaxis, rot90, squeeze, swapaxes, tile, transpose, trim_zeros,
)
from tapegrad.numpy.padding import (
    pad,
)
from tapegrad.numpy.joining import (
    append, array_split, block, column_stack, concat, concatenate, delete, dsplit, dstack,
    hsplit, hstack, insert, meshgrid, row_stack, split, stack, unstack, vsplit, vstack,
)
from tapegrad.numpy.indexing import (
    apply_along_axis, apply_over_axes, choose_from as choose, compress, copyto, extract,
    fill_diagonal, piecewise, place, put, put_along_axis, putmask, ravel_multi_index, select,
    take, take_along_axis, unravel_index,
)
from tapegrad.numpy.grids import (
    c_, index_exp, indices, iterable, ix_, mgrid, ndenumerate, ndim, ndindex, ogrid, r_, s_,
    shape, size,
)
from tapegrad.numpy.products import (
    cross, diagonal, dot, einsum, einsum_path, inner, kron, matmul, matvec, outer, tensordot,
    trace, vdot, vecdot, vecmat,
)
from tapegrad.numpy.searching import (
    argpartition, argsort, argwhere, digitize, flatnonzero, lexsort, nonzero, partition,
    searchsorted, sort, sort_complex,
)
from tapegrad.numpy.sets import (
    in1d, intersect1d, isin, setdiff1d, setxor1d, union1d, unique, unique_all, unique_counts,
    unique_inverse, unique_values,
)
from tapegrad.numpy.differences import (
    convolve, correlate, diff, ediff1d, gradient, interp, trapezoid, unwrap,
)
from tapegrad.numpy.histograms import (
    bincount, histogram, histogram2d, histogram_bin_edges, histogramdd,
)
from tapegrad.numpy.polynomials import (
    poly, polyfit,
)
from tapegrad.numpy.poly1d import (
    poly1d as poly1d, polyadd, polyder, polydiv, polyint, polymul, polysub, polyval, roots,
)
from tapegrad.numpy.windows import (
    bartlett, blackman, hamming, hanning, kaiser,
)
from tapegrad.numpy.extras import (
    False_, True_, base_repr, binary_repr, mask_indices, may_share_memory,
    packbits, require, shares_memory, unpackbits,
)
from tapegrad.numpy.vectorized import vectorize
from tapegrad.numpy.plain import (
    broadcast as broadcast, format_float_positional, format_float_scientific, frompyfunc,
    get_include, getbufsize, geterrcall, isfortran, mintypecode, setbufsize, seterrcall,
    typecodes as typecodes, typename,
)
from tapegrad.numpy.printing import (
    array2string, array_repr, array_str, errstate as errstate, fromfile, genfromtxt,
    get_printoptions, geterr, load, loadtxt, printoptions as printoptions, save, savetxt, savez,
    savez_compressed, set_printoptions, seterr,
)
from tapegrad.numpy.info import (
    __array_namespace_info__,
)
# isort: on
# fmt: on

__array_api_version__ = "2025.12"
__version__ = "2.4.0"  # the NumPy release whose names these are


def checked(api_version: Any) -> Any:
    """Return this module if it follows the given version of the standard."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ArgumentError(
            f"tapegrad.numpy follows the Array API up to 2025.12. Got version {api_version!r}."
        )
    return sys.modules[__name__]


__all__ = [
    "__array_namespace_info__", "abs", "absolute", "acos", "acosh", "add", "all", "allclose",
    "amax", "amin", "angle", "any", "append", "apply_along_axis", "apply_over_axes", "arange",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argpartition", "argsort", "argwhere", "around", "array", "array2string",
    "array_equal", "array_equiv", "array_repr", "array_split", "array_str", "asanyarray",
    "asarray", "asarray_chkfinite", "ascontiguousarray", "asin", "asinh", "astype", "atan",
    "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett",
    "base_repr", "binary_repr", "bincount", "bitwise_and", "bitwise_count", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "blackman", "block", "bool", "bool_", "broadcast", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "byte", "c_", "can_cast", "cbrt", "cdouble", "ceil", "choose", "clip",
    "column_stack", "common_type", "complex128", "complex64", "compress", "concat",
    "concatenate", "conj", "conjugate", "convolve", "copy", "copysign", "copyto", "corrcoef",
    "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "csingle", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete", "diag", "diag_indices",
    "diag_indices_from", "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot",
    "double", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum", "einsum_path", "emath",
    "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims", "expm1",
    "extract", "eye", "fabs", "False_", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero",
    "flip", "fliplr", "flipud", "float16", "float32", "float64", "float_power", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "format_float_positional",
    "format_float_scientific", "frexp", "from_dlpack", "frombuffer", "fromfile", "fromfunction",
    "fromiter", "frompyfunc", "full", "full_like", "gcd", "genfromtxt", "geomspace",
    "get_include", "get_printoptions", "getbufsize", "geterr", "geterrcall", "gradient",
    "greater", "greater_equal", "half", "hamming", "hanning", "heaviside", "histogram",
    "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot", "i0",
    "identity", "iinfo", "imag", "in1d", "index_exp", "indices", "inf", "inner", "insert",
    "int16", "int32", "int64", "int8", "int_", "intc", "interp", "intersect1d", "intp",
    "invert", "isclose", "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isfortran",
    "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar",
    "issubdtype", "iterable", "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less",
    "less_equal", "lexsort", "lib", "linalg", "linspace", "little_endian", "load", "loadtxt",
    "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logspace", "long", "longlong", "mask_indices", "matmul",
    "matrix_transpose", "matvec", "max", "maximum", "may_share_memory", "mean", "median",
    "meshgrid", "mgrid", "min", "min_scalar_type", "minimum", "mintypecode", "mod", "modf",
    "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod",
    "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "ndarray", "ndenumerate", "ndim", "ndindex",
    "negative", "newaxis", "nextafter", "nonzero", "not_equal", "ogrid", "ones", "ones_like",
    "outer", "packbits", "pad", "partition", "percentile", "permute_dims", "pi", "piecewise",
    "place", "poly", "poly1d", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul",
    "polynomial", "polysub", "polyval", "positive", "pow", "power", "prod", "promote_types",
    "ptp", "put", "put_along_axis", "putmask", "quantile", "r_", "rad2deg", "radians", "random",
    "ravel", "ravel_multi_index", "real", "real_if_close", "reciprocal", "remainder", "repeat",
    "require", "reshape", "resize", "result_type", "right_shift", "rint", "roll", "rollaxis",
    "roots", "rot90", "round", "row_stack", "s_", "save", "savetxt", "savez",
    "savez_compressed", "searchsorted", "select", "set_printoptions", "setbufsize", "setdiff1d",
    "seterr", "seterrcall", "setxor1d", "shape", "shares_memory", "short", "sign", "signbit",
    "sin", "sinc", "single", "sinh", "size", "sort", "sort_complex", "spacing", "special",
    "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose", "trapezoid",
    "tri", "tril", "tril_indices", "tril_indices_from", "trim_zeros", "triu", "triu_indices",
    "triu_indices_from", "True_", "true_divide", "trunc", "typecodes", "typename", "ubyte",
    "uint", "uint16", "uint32", "uint64", "uint8", "uintc", "uintp", "ulong", "ulonglong",
    "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unpackbits", "unravel_index", "unstack", "unwrap", "ushort", "vander", "var", "vdot",
    "vecdot", "vecmat", "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip

_check_calls(globals(), __all__)
_shorten_calls()
