"""Refuse complex operands of functions that are defined for real numbers only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tapegrad.errors import DTypeError

Kernel = Callable[..., Any]


def is_complex_dtype(dtype: Any) -> bool:
    """Return whether a dtype, of NumPy or of a backend, is complex."""
    kind = getattr(dtype, "kind", None)
    return kind == "c" if kind is not None else "complex" in str(dtype)


def refuse_complex(name: str, dtype: Any) -> NoReturn:
    """Raise the error of a function that got a complex argument."""
    raise DTypeError(
        f"{name} accepts real arguments only. Got {getattr(dtype, 'name', dtype)}. "
        "Pass the real part, the imaginary part or the absolute value."
    )


def require_real(name: str, *values: Any) -> None:
    """Raise if an operand has a complex dtype; values without a dtype are ignored."""
    try:  # the fastest way for tensors and variables
        for value in values:
            if value.array.dtype.kind == "c":
                refuse_complex(name, value.dtype)
    except AttributeError:
        _require_any_real(name, values)


def _require_any_real(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        dtype = getattr(value, "dtype", None)
        if dtype is not None:
            if is_complex_dtype(dtype):
                refuse_complex(name, dtype)
        elif type(value) is complex:
            refuse_complex(name, "a complex number")


def real_kernel(name: str, kernel: Kernel) -> Kernel:
    """Return a kernel that refuses complex operands.

    A generic formula that treats complex numbers as real ones returns plausible wrong values.
    """

    def run(*operands: Any, **params: Any) -> Any:
        try:
            for operand in operands:
                if operand.dtype.kind == "c":
                    refuse_complex(name, operand.dtype)
        except AttributeError:  # a Python number, or a dtype that is not NumPy's
            _require_any_real(name, operands)
        return kernel(*operands, **params)

    run.func = getattr(kernel, "func", kernel)  # type: ignore[attr-defined]  # for messages
    return run
