"""Complex tensors and their real and imaginary parts. `conj` is in arithmetic.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import Function, binary, unary
from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.trigonometric import atan2
from tapegrad.ops.kinds import as_arrays, is_complex


def _join(xp: Any, real_part: Any, imaginary_part: Any) -> Any:
    real_part, imaginary_part = as_arrays(xp, real_part, imaginary_part)
    parts = str(real_part.dtype), str(imaginary_part.dtype)
    dtype = xp.complex128 if any("float64" in part for part in parts) else xp.complex64
    return xp.astype(real_part, dtype) + xp.astype(imaginary_part, dtype) * 1j


join: Function = binary(
    "complex",
    lambda t: real(t),
    lambda t: imag(t),
    forward=_join,
    jvps=(lambda t: join(t, zeros_like(t)), lambda t: join(zeros_like(t), t)),
    conjugates=False,
    real_only=True,
)


def complex(real: Any, imag: Any, name: str | None = None) -> Any:  # TF's name
    """Return a complex tensor from its real and imaginary parts, which broadcast.

    >>> complex([1.0], [2.0]).tolist()
    [(1+2j)]
    """
    return join(*common_operands(real, imag))


_real: Function = unary(
    "real", lambda t: join(t, zeros_like(t)), jvp=lambda t: _real(t), conjugates=False
)
_imag: Function = unary(
    "imag", lambda t: join(zeros_like(t), t), jvp=lambda t: _imag(t), conjugates=False
)


def real(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the real part; a real tensor is returned unchanged.

    >>> real([1 + 2j]).tolist()
    [1.0]
    """
    x = as_operand(input)
    return _real(x) if is_complex(x) else x


def imag(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the imaginary part, which is zero for a real tensor.

    >>> imag([1 + 2j]).tolist()
    [2.0]
    """
    x = as_operand(input)
    return _imag(x) if is_complex(x) else zeros_like(x)


def angle(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the argument of each number, in radians.

    >>> angle([-1.0, 1.0]).tolist()
    [3.1415927410125732, 0.0]
    """
    x = as_operand(input)
    return atan2(imag(x), real(x))


def real_if_close(x: Any, tol: float = 100) -> Any:
    """Return the real part if every imaginary part is smaller than `tol` machine epsilons.

    >>> real_if_close([1 + 1e-15j]).dtype
    <dtype: 'float64'>
    """
    x = as_operand(x)
    if not is_complex(x):
        return x
    limit = tol if tol <= 1 else tol * float(np.finfo(x.dtype.dtype).eps)
    values = imag(stop_gradient(x)).numpy()  # a branch on values has no derivative
    return real(x) if bool((np.abs(values) < limit).all()) else x
