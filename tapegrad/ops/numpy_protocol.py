"""NumPy's functions on tensors: `np.mean(t)` and `np.sin(t)` are recorded like our own.

NumPy asks a value whether it wants to take over a call (`__array_ufunc__`,
`__array_function__`); the tables here say by what. A function that is in neither table is refused
by a sentence, because a silent copy to the host would cut the value off from the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops import (
    along_axis,
    arithmetic,
    bits,
    cast,
    comparison,
    complex_numbers,
    creation,
    cumulative,
    diagonal,
    einsum,
    exponential,
    fft,
    joining,
    magnitude,
    nan_reduction,
    padding,
    picking,
    powers,
    products,
    quantile,
    rearranging,
    reduction,
    rounding,
    selection,
    shape,
    sorting,
    spectra,
    statistics,
    trigonometric,
)
from tapegrad.ops.linalg import decompositions, determinants, eigen, functions, norms, solve, traces

Function = Callable[..., Any]

UFUNCS: dict[Any, Function] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.multiply: arithmetic.multiply,
    np.divide: arithmetic.divide,
    np.negative: arithmetic.negative,
    np.positive: arithmetic.positive,
    np.conjugate: arithmetic.conj,
    np.power: powers.power,
    np.float_power: powers.float_power,
    np.square: powers.square,
    np.sqrt: powers.sqrt,
    np.cbrt: powers.cbrt,
    np.reciprocal: powers.reciprocal,
    np.hypot: powers.hypot,
    np.exp: exponential.exp,
    np.exp2: exponential.exp2,
    np.expm1: exponential.expm1,
    np.log: exponential.log,
    np.log2: exponential.log2,
    np.log10: exponential.log10,
    np.log1p: exponential.log1p,
    np.logaddexp: exponential.logaddexp,
    np.logaddexp2: exponential.logaddexp2,
    np.sin: trigonometric.sin,
    np.cos: trigonometric.cos,
    np.tan: trigonometric.tan,
    np.arcsin: trigonometric.asin,
    np.arccos: trigonometric.acos,
    np.arctan: trigonometric.atan,
    np.arctan2: trigonometric.atan2,
    np.sinh: trigonometric.sinh,
    np.cosh: trigonometric.cosh,
    np.tanh: trigonometric.tanh,
    np.arcsinh: trigonometric.asinh,
    np.arccosh: trigonometric.acosh,
    np.arctanh: trigonometric.atanh,
    np.deg2rad: trigonometric.deg2rad,
    np.radians: trigonometric.deg2rad,
    np.rad2deg: trigonometric.rad2deg,
    np.degrees: trigonometric.rad2deg,
    np.absolute: magnitude.abs,
    np.fabs: magnitude.fabs,
    np.sign: magnitude.sign,
    np.signbit: magnitude.signbit,
    np.copysign: magnitude.copysign,
    np.heaviside: magnitude.heaviside,
    np.floor: rounding.floor,
    np.ceil: rounding.ceil,
    np.trunc: rounding.trunc,
    np.rint: rounding.rint,
    np.floor_divide: rounding.floor_divide,
    np.remainder: rounding.mod,
    np.fmod: rounding.fmod,
    np.modf: rounding.modf,
    np.maximum: selection.maximum,
    np.minimum: selection.minimum,
    np.fmax: selection.fmax,
    np.fmin: selection.fmin,
    np.equal: comparison.equal,
    np.not_equal: comparison.not_equal,
    np.less: comparison.less,
    np.less_equal: comparison.less_equal,
    np.greater: comparison.greater,
    np.greater_equal: comparison.greater_equal,
    np.logical_and: comparison.logical_and,
    np.logical_or: comparison.logical_or,
    np.logical_xor: comparison.logical_xor,
    np.logical_not: comparison.logical_not,
    np.isnan: comparison.isnan,
    np.isinf: comparison.isinf,
    np.isfinite: comparison.isfinite,
    np.bitwise_and: bits.bitwise_and,
    np.bitwise_or: bits.bitwise_or,
    np.bitwise_xor: bits.bitwise_xor,
    np.invert: bits.bitwise_invert,
    np.left_shift: bits.bitwise_left_shift,
    np.right_shift: bits.bitwise_right_shift,
    np.gcd: bits.gcd,
    np.lcm: bits.lcm,
    np.nextafter: bits.nextafter,
    np.ldexp: bits.ldexp,
    np.frexp: bits.frexp,
    np.matmul: products.matmul,
    np.vecdot: products.vecdot,
}


def _reduce(function: Function) -> Function:
    """A reduction with NumPy's parameters; those that tensors have no use for are refused."""

    def call(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        if out is not None:
            raise ArgumentTypeError("out= cannot be a tensor's: tensors are immutable.")
        return function(a if dtype is None else cast.cast(a, dtype), axis=axis, **options)

    return call


def _extreme(function: Function) -> Function:
    def call(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if out is not None:
            raise ArgumentTypeError("out= cannot be a tensor's: tensors are immutable.")
        return function(a, axis=axis, keepdims=keepdims)

    return call


def _on_host(function: Function) -> Function:
    """A question to which the answer is a plain Python value: ask it of copies on the host."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*[_host(arg) for arg in args], **kwargs)

    return call


def _host(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) or hasattr(value, "dense_shape") else value


FUNCTIONS: dict[Any, Function] = {
    np.sum: _reduce(reduction.sum),
    np.mean: _reduce(reduction.mean),
    np.prod: _reduce(reduction.prod),
    np.max: _extreme(reduction.max),
    np.amax: _extreme(reduction.max),
    np.min: _extreme(reduction.min),
    np.amin: _extreme(reduction.min),
    np.any: _extreme(reduction.any),
    np.all: _extreme(reduction.all),
    np.argmax: _extreme(reduction.argmax),
    np.argmin: _extreme(reduction.argmin),
    np.count_nonzero: reduction.count_nonzero,
    np.var: _reduce(statistics.var),
    np.std: _reduce(statistics.std),
    np.average: statistics.average,
    np.ptp: statistics.ptp,
    np.cov: statistics.cov,
    np.corrcoef: statistics.corrcoef,
    np.trapezoid: statistics.trapezoid,
    np.median: quantile.median,
    np.quantile: quantile.quantile,
    np.percentile: quantile.percentile,
    np.nansum: _reduce(nan_reduction.nansum),
    np.nanprod: _reduce(nan_reduction.nanprod),
    np.nanmean: _reduce(nan_reduction.nanmean),
    np.nanvar: _reduce(nan_reduction.nanvar),
    np.nanstd: _reduce(nan_reduction.nanstd),
    np.nanmax: _extreme(nan_reduction.nanmax),
    np.nanmin: _extreme(nan_reduction.nanmin),
    np.cumsum: lambda a, axis=None: _running(cumulative.cumsum, a, axis),
    np.cumprod: lambda a, axis=None: _running(cumulative.cumprod, a, axis),
    np.diff: cumulative.diff,
    np.reshape: lambda a, shape, order="C": shape_in_c_order(a, shape, order),
    np.ravel: lambda a, order="C": shape_in_c_order(a, (-1,), order),
    np.transpose: lambda a, axes=None: shape.permute_dims(a, axes),
    np.swapaxes: shape.swapaxes,
    np.moveaxis: shape.moveaxis,
    np.rollaxis: shape.rollaxis,
    np.expand_dims: shape.expand_dims,
    np.squeeze: shape.squeeze,
    np.broadcast_to: shape.broadcast_to,
    np.broadcast_arrays: shape.broadcast_arrays,
    np.atleast_1d: shape.atleast_1d,
    np.atleast_2d: shape.atleast_2d,
    np.atleast_3d: shape.atleast_3d,
    np.shape: lambda a: tuple(a.shape),
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.concatenate: lambda arrays, axis=0: _concatenate(arrays, axis),
    np.stack: joining.stack,
    np.vstack: joining.vstack,
    np.hstack: joining.hstack,
    np.dstack: joining.dstack,
    np.column_stack: joining.column_stack,
    np.split: joining.array_split,
    np.array_split: joining.array_split,
    np.vsplit: joining.vsplit,
    np.hsplit: joining.hsplit,
    np.dsplit: joining.dsplit,
    np.tile: rearranging.tile,
    np.repeat: rearranging.repeat,
    np.flip: rearranging.flip,
    np.fliplr: rearranging.fliplr,
    np.flipud: rearranging.flipud,
    np.rot90: rearranging.rot90,
    np.roll: rearranging.roll,
    np.meshgrid: rearranging.meshgrid,
    np.pad: lambda array, pad_width, mode="constant", constant_values=0: padding.pad(
        array, pad_width, mode.upper(), constant_values
    ),
    np.diag: diagonal.diag,
    np.diagonal: diagonal.diagonal,
    np.diagflat: diagonal.diagflat,
    np.tril: diagonal.tril,
    np.triu: diagonal.triu,
    np.trace: traces.trace,
    np.dot: products.dot,
    np.vdot: products.vdot,
    np.inner: products.inner,
    np.outer: products.outer,
    np.tensordot: products.tensordot,
    np.kron: products.kron,
    np.cross: traces.cross,
    np.einsum: einsum.einsum,
    np.where: picking.where,
    np.clip: selection.clip,
    np.nan_to_num: selection.nan_to_num,
    np.round: rounding.round,
    np.real: complex_numbers.real,
    np.imag: complex_numbers.imag,
    np.angle: complex_numbers.angle,
    np.sinc: trigonometric.sinc,
    np.sort: sorting.sort,
    np.argsort: sorting.argsort,
    np.searchsorted: sorting.searchsorted,
    np.take: picking.take,
    np.take_along_axis: along_axis.take_along_axis,
    np.nonzero: picking.nonzero,
    np.argwhere: picking.argwhere,
    np.compress: picking.compress,
    np.extract: picking.extract,
    np.zeros_like: creation.zeros_like,
    np.ones_like: creation.ones_like,
    np.full_like: creation.full_like,
    np.copy: arithmetic.positive,
    np.linalg.solve: solve.solve,
    np.linalg.inv: solve.inv,
    np.linalg.pinv: solve.pinv,
    np.linalg.det: determinants.det,
    np.linalg.slogdet: determinants.slogdet,
    np.linalg.cholesky: decompositions.cholesky,
    np.linalg.qr: decompositions.qr,
    np.linalg.svd: eigen.svd,
    np.linalg.eigh: eigen.eigh,
    np.linalg.eigvalsh: eigen.eigvalsh,
    np.linalg.eig: eigen.eig,
    np.linalg.eigvals: eigen.eigvals,
    np.linalg.norm: lambda x, ord=None, axis=None, keepdims=False: norms.norm(
        x, "euclidean" if ord is None else ord, axis, keepdims
    ),
    np.linalg.matrix_power: functions.matrix_power,
    np.linalg.multi_dot: traces.multi_dot,
    np.fft.fft: fft.fft,
    np.fft.ifft: fft.ifft,
    np.fft.rfft: fft.rfft,
    np.fft.irfft: fft.irfft,
    np.fft.fftn: fft.fftn,
    np.fft.ifftn: fft.ifftn,
    np.fft.rfftn: fft.rfftn,
    np.fft.irfftn: fft.irfftn,
    np.fft.fft2: spectra.fft2,
    np.fft.ifft2: spectra.ifft2,
    np.fft.fftshift: spectra.fftshift,
    np.fft.ifftshift: spectra.ifftshift,
    np.allclose: _on_host(np.allclose),
    np.isclose: comparison.isclose,
    np.array_equal: _on_host(np.array_equal),
    np.array2string: _on_host(np.array2string),
    np.array_repr: _on_host(np.array_repr),
    np.array_str: _on_host(np.array_str),
    np.result_type: _on_host(np.result_type),
    np.save: _on_host(np.save),
    np.savetxt: _on_host(np.savetxt),
}


def _running(function: Function, a: Any, axis: int | None) -> Any:
    """NumPy runs over the flattened array when no axis is given."""
    return function(shape.ravel(a), 0) if axis is None else function(a, axis)


def _concatenate(arrays: Any, axis: int | None) -> Any:
    if axis is None:
        return joining.concat([shape.ravel(array) for array in arrays], 0)
    return joining.concat(arrays, axis)


def shape_in_c_order(a: Any, new_shape: Any, order: str) -> Any:
    """Reshape; memory orders other than C have no meaning for tensors."""
    if order != "C":
        raise ArgumentTypeError(f"Tensors have order 'C' only. Got order={order!r}.")
    return shape.reshape(a, new_shape)


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Answer a NumPy ufunc that was called with a tensor."""
    name = f"np.{ufunc.__name__}"
    if method == "reduce" and ufunc in _REDUCTIONS:
        return _REDUCTIONS[ufunc](*inputs, **{"axis": 0, **options})
    if method != "__call__" or ufunc not in UFUNCS:
        how = name if method == "__call__" else f"{name}.{method}"
        raise ArgumentTypeError(f"{how} has no form for tensors. Call it on x.numpy() instead.")
    if any(options.get(key) is not None for key in ("out", "where", "dtype")):
        raise ArgumentTypeError(
            f"{name} on tensors takes no out=, where= or dtype=. Got {', '.join(options)}."
        )
    return UFUNCS[ufunc](*inputs)


_REDUCTIONS = {
    np.add: FUNCTIONS[np.sum],
    np.multiply: FUNCTIONS[np.prod],
    np.maximum: FUNCTIONS[np.max],
    np.minimum: FUNCTIONS[np.min],
}


def call_function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Answer a NumPy function that was called with a tensor."""
    answer = FUNCTIONS.get(function)
    if answer is None:
        module = function.__module__.replace("numpy", "np")
        raise ArgumentTypeError(
            f"{module}.{function.__name__} has no form for tensors. Call it on x.numpy() instead "
            "(its result is then not recorded)."
        )
    return answer(*args, **options)
