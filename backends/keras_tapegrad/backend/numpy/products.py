"""Products of vectors, matrices and tensors with Keras' dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.numpy.elementwise import wide_dtype
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.signatures import declared
from keras_tapegrad.backend.tensors import axes_of, common, convert_to_tensor

Function = Callable[..., Any]


def _product(function: Function) -> Function:
    def run(x1: Any, x2: Any, **options: Any) -> Any:
        return function(*common(convert_to_tensor(x1), convert_to_tensor(x2)), **options)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return declared(run, "x1", "x2")


dot = _product(np.dot)
inner = _product(np.inner)
kron = _product(np.kron)
outer = _product(np.outer)
vdot = _product(np.vdot)
_cross = _product(np.cross)
_tensordot = _product(np.tensordot)


def cross(
    x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """Return the cross product."""
    return _cross(x1, x2, axisa=axisa, axisb=axisb, axisc=axisc, axis=axis)


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Any:
    """Sum products over axes."""
    axes = axes if isinstance(axes, int) else tuple([axes_of(one) for one in axes])
    return _tensordot(x1, x2, axes=axes)


def _is_int8(*xs: Any) -> bool:
    return all([x.dtype.name == "int8" for x in xs])


def matmul(x1: Any, x2: Any) -> Any:
    """Multiply matrices; products of int8 are int32."""
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if _is_int8(x1, x2):
        return np.matmul(tg.cast(x1, "int32"), tg.cast(x2, "int32"))
    return np.matmul(*common(x1, x2))


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
    """Sum products by Einstein's convention; sums of int8 are int32."""
    xs = [convert_to_tensor(x) for x in operands]
    dtype = "int32" if _is_int8(*xs) else result_type(*[x.dtype for x in xs])
    kwargs.pop("preferred_element_type", None)
    return np.einsum(subscripts, *[tg.cast(x, dtype) for x in xs], **kwargs)


def correlate(x1: Any, x2: Any, mode: str = "valid") -> Any:
    """Return the correlation of two sequences."""
    x1, x2 = common(x1, x2)
    dtype = wide_dtype(x1.dtype.name)
    return np.correlate(tg.cast(x1, dtype), tg.cast(x2, dtype), mode)


def slogdet(x: Any) -> Any:
    """Return the sign and the logarithm of the determinant."""
    return tuple(np.linalg.slogdet(convert_to_tensor(x)))
