"""Raise the errors of kernels again in words that name the primitive and its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.real_operands import is_complex_dtype, refuse_complex
from tapegrad.core.primitive.shape_words import UnfitShapesError, reason
from tapegrad.core.values.convert import NUMBERS, refuse_mixed_devices
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfRangeError,
    ShapeError,
    TapegradError,
)

_DTYPE_COMPLAINTS = (
    *("not supported for the input types", "No loop matching", "Cannot cast ufunc", "Wrong type ("),
    *("real arrays", "not 'complex'", "did not contain a loop with signature"),
)
"""Words of NumPy's and CuPy's errors about a dtype that a function does not support."""

_REMEDIES = {
    "Singular matrix": " Use pinv or lstsq for matrices without an inverse.",
    "Matrix is not positive definite": (
        " A symmetric matrix is so if all results of eigvalsh are positive; add a small multiple "
        "of the identity to one that nearly is."
    ),
}
"""What to do, by NumPy's error about a matrix."""

EXPLAINED = (ValueError, TypeError, OverflowError, RuntimeError)
"""Errors of kernels that `explain_failure` raises again with the operands' types."""


def explain_failure(name: str, operands: Sequence[Any], error: Exception) -> NoReturn:
    """Raise a kernel's error again, with the name of the primitive and the operands' types."""
    error.__suppress_context__ = True  # of the lookup of a kernel that was used for the first time
    about_dtypes = any(words in str(error) for words in _DTYPE_COMPLAINTS)
    if isinstance(error, TapegradError):
        raise error
    if isinstance(error, RuntimeError) and not _is_about_dimensions(error):
        raise error
    arrays = [operand for operand in operands if type(operand) not in NUMBERS]
    refuse_mixed_devices(name, arrays)
    if about_dtypes and isinstance(error, TypeError):
        for array in arrays:
            dtype = backend_of(array).dtype_of(array)
            if is_complex_dtype(dtype):
                refuse_complex(name, dtype)
    came = _types_of(arrays)
    if isinstance(error, np.linalg.LinAlgError):
        remedy = _REMEDIES.get(str(error), "")
        raise type(error)(f"{name} cannot take {came}: {error}.{remedy}") from None
    kind: type[Exception] = ArgumentTypeError
    if isinstance(error, OverflowError):
        kind = OutOfRangeError
    elif isinstance(error, RuntimeError):
        kind = ShapeError
    elif isinstance(error, ValueError):
        about_shapes = any(
            word in str(error) for word in ("shape", "size", "broadcast", "dimension")
        )
        kind = ShapeError if about_shapes else ArgumentError
    prefix = f"{name} cannot take {came}: "
    words = str(error) if isinstance(error, UnfitShapesError) else None
    if words is None and kind is ShapeError:
        words = reason(str(error), [tuple(a.shape) for a in arrays])
    if words is not None:  # the library's error has nothing to add
        raise ShapeError(prefix + words) from None
    raise kind(f"{prefix}{error}") from error


def _types_of(arrays: Sequence[Any]) -> str:
    return ", ".join(f"{as_dtype(backend_of(a).dtype_of(a))}{list(a.shape)}" for a in arrays)


def _is_about_dimensions(error: RuntimeError) -> bool:
    """Whether it is NumPy's error for more dimensions than its iterators support."""
    return type(error) is RuntimeError and "dimensions" in str(error)
