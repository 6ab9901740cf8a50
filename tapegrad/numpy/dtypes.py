"""Data types, their limits, and type promotion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.dtypes import (
    DType,
    as_dtype,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    numpy_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.numpy.values import as_array, dtype_of, with_dtype
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.shape.functions import to_device

bool = bool_
half, single, double = float16, float32, float64
csingle, cdouble = complex64, complex128
byte, short, intc, int_, longlong = int8, int16, int32, int64, int64
ubyte, ushort, uintc, uint, ulonglong = uint8, uint16, uint32, uint64, uint64
intp, uintp = int64, uint64
long, ulong = int64, uint64

# The abstract types of `issubdtype`.
generic, number, integer = np.generic, np.number, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""The Array API's dtype kinds, by NumPy's kind letters."""


_EXPONENTS = ("machep", "negep", "minexp", "maxexp", "nexp", "nmant", "iexp")


@dataclass(frozen=True)
class finfo_object:  # noqa: N801 -- the Array API's name
    """The result of `finfo`."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType
    tiny: float
    resolution: float
    precision: int
    smallest_subnormal: float
    epsneg: float
    machep: int
    negep: int
    minexp: int
    maxexp: int
    nexp: int
    nmant: int
    iexp: int


@dataclass(frozen=True)
class iinfo_object:  # noqa: N801 -- the Array API's name
    """The result of `iinfo`."""

    bits: int
    max: int
    min: int
    dtype: DType
    kind: str

    @property
    def key(self) -> str:
        """NumPy's name of the kind and the number of bits, such as i8."""
        return f"{self.kind}{self.bits}"


def finfo(type: Any, /) -> finfo_object:
    """Return the limits of a floating-point dtype, or of an array's.

    >>> finfo(float32).bits, finfo("float64").eps
    (32, 2.220446049250313e-16)
    """
    kind = as_dtype(_dtype_in(type))
    if not kind.is_differentiable:
        raise ArgumentError(f"finfo needs a floating-point dtype. Got {kind}; use iinfo.")
    limits = kind.limits
    small = float(limits.smallest_normal)
    return finfo_object(
        limits.bits,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        small,
        as_dtype(limits.dtype),
        small,
        float(limits.resolution),
        int(limits.precision),
        float(limits.smallest_subnormal),
        float(limits.epsneg),
        *(int(getattr(limits, name)) for name in _EXPONENTS),
    )


def iinfo(type: Any, /) -> iinfo_object:
    """Return the limits of an integer dtype, or of an array's.

    >>> iinfo(int8).max
    127
    """
    kind = _dtype_in(type)
    if kind.kind not in "iu":
        raise ArgumentError(f"iinfo needs an integer dtype. Got {kind}; use finfo.")
    limits = np.iinfo(kind)
    return iinfo_object(limits.bits, int(limits.max), int(limits.min), as_dtype(kind), kind.kind)


def _dtype_in(value: Any) -> np.dtype[Any]:
    """Return the dtype of a value, or the value itself if it is a dtype."""
    # NumPy's dtypes and classes of scalars have a shape as well.
    if isinstance(value, type | np.dtype) or not hasattr(value, "shape"):
        return numpy_dtype(value)
    return numpy_dtype(value.dtype)


def dtype(dtype: Any, align: Any = False, copy: Any = False) -> DType:
    """Return the data type for any dtype specifier.

    >>> dtype("float32") is float32
    True
    """
    return as_dtype(dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Return whether a dtype is of a kind: a dtype, a name such as 'integral', or a tuple.

    >>> isdtype(float32, "real floating"), isdtype(int8, (bool, "numeric"))
    (True, True)
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, each) for each in kind])
    own = as_dtype(dtype)
    if not isinstance(kind, str) or kind not in KINDS:
        if isinstance(kind, str):
            raise ArgumentError(f"kind must be one of {', '.join(KINDS)}. Got {kind!r}.")
        return own == kind
    return own.kind in KINDS[kind]


def issubdtype(arg1: Any, arg2: Any) -> Any:
    """Return whether a dtype is a subtype of another, such as `numpy.floating`.

    >>> issubdtype(float32, floating), issubdtype(int32, floating)
    (True, False)
    """
    first, second = (each.dtype if isinstance(each, DType) else each for each in (arg1, arg2))
    return np.issubdtype(first, second)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> Any:
    """Return whether a dtype (or an array's) can be cast to another.

    >>> can_cast(int32, float64), can_cast(float64, int32)
    (True, False)
    """
    return np.can_cast(_dtype_in(from_), numpy_dtype(to), casting=casting)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that type promotion gives for arrays, dtypes and Python numbers.

    >>> result_type(float32, int8), result_type(int32, 1.0)
    (<dtype: 'float32'>, <dtype: 'float64'>)
    """
    if not arrays_and_dtypes:
        raise ArgumentError("result_type needs at least one array or dtype. Got none.")
    kinds = [x if type(x) in NUMBERS else _kind_in(x) for x in arrays_and_dtypes]
    return as_dtype(np.result_type(*kinds))


def _kind_in(value: Any) -> np.dtype[Any]:
    if isinstance(value, list | tuple):
        return dtype_of(as_array(value))
    return _dtype_in(value)


def promote_types(type1: Any, type2: Any) -> DType:
    """Return the smallest dtype that holds the values of both.

    >>> promote_types("int32", "float32")
    <dtype: 'float64'>
    """
    return as_dtype(np.promote_types(numpy_dtype(type1), numpy_dtype(type2)))


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """Return an array with another dtype; with `copy=False`, itself if it already has that dtype.

    >>> astype([1.5, 2.5], int32).tolist()
    [1, 2]
    """
    x = as_array(x)
    wanted = numpy_dtype(dtype)
    if device is not None:
        x = to_device(x, device)
    if is_complex(x) and wanted.kind != "c":
        x = real(x) if wanted.kind != "b" else x != 0
    changed = with_dtype(x, wanted)
    return identity(changed) if copy and changed is x else changed


def iscomplexobj(x: Any) -> Any:
    """Return whether an array has a complex dtype.

    >>> iscomplexobj([1j]), iscomplexobj([1.0])
    (True, False)
    """
    return is_complex(as_array(x))


def isrealobj(x: Any) -> Any:
    """Return whether an array does not have a complex dtype.

    >>> isrealobj([1.0])
    True
    """
    return not is_complex(as_array(x))


def common_type(*arrays: Any) -> DType:
    """Return the common floating-point dtype of arrays; integers count as float64.

    >>> common_type([1, 2], [1.0])
    <dtype: 'float64'>
    """
    kinds = [dtype_of(as_array(a)) for a in arrays]
    if any([kind.kind == "b" for kind in kinds]):
        raise ArgumentTypeError("common_type takes numbers. Got an array of booleans.")
    kinds = [kind if kind.kind in "fc" else np.dtype("float64") for kind in kinds]
    return as_dtype(np.result_type(*kinds))


def min_scalar_type(a: Any) -> DType:
    """Return the smallest dtype that holds a number.

    >>> min_scalar_type(300)
    <dtype: 'uint16'>
    """
    return as_dtype(np.min_scalar_type(a.numpy() if isinstance(a, Tensor) else a))
