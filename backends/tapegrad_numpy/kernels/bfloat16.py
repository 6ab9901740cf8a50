"""Python numbers as operands of bfloat16, a dtype that ml_dtypes adds to NumPy.

NumPy treats a Python float next to bfloat16 as float16, and promotes both to float32. When the
first bfloat16 is used, elementwise kernels are replaced by ones that cast such a number to
bfloat16. Programs without bfloat16 use NumPy's functions directly.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES

Kernel = Callable[..., Any]

_BINARY = (
    *("add", "subtract", "multiply", "divide", "pow", "floor_divide", "remainder", "fmod"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("maximum", "minimum", "fmax", "fmin", "hypot", "atan2", "copysign", "nextafter"),
    *("logaddexp", "logaddexp2", "heaviside", "truncatediv", "squared_difference"),
    *("divide_no_nan", "multiply_no_nan", "xdivy", "xlogy", "xlog1py"),
)
"""Primitives with two operands, one of which may be a Python number."""


def numbers_like(x: Any, *numbers: Any) -> tuple[Any, ...]:
    """Return numbers as bfloat16 if `x` has that dtype, else unchanged."""
    if x.dtype.kind != "V":
        return numbers
    return tuple([x.dtype.type(number) for number in numbers])


def adapt_kernels(kernels: MutableMapping[str, Kernel]) -> None:
    """Replace kernels by ones that cast Python numbers to bfloat16."""
    adapted = {name: _adapting(kernels.get(name) or getattr(np, name)) for name in _BINARY}
    adapted |= {"isclose": _isclose, "masked_scale": _masked_scale, "where": _where}
    kernels.update(adapted)
    for name in adapted:
        # Primitives have cached the kernels that they used before.
        found = PRIMITIVES[name].kernels if name in PRIMITIVES else {}
        for array_type in [t for t in found if issubclass(t, np.ndarray | np.generic)]:
            del found[array_type]


def _adapting(kernel: Kernel) -> Kernel:
    # Specialised for two operands, because other dtypes use these kernels too.
    def adapting(x: Any, y: Any) -> Any:
        if type(y) is float:
            if x.dtype.kind == "V":
                y = x.dtype.type(y)
        elif type(x) is float and y.dtype.kind == "V":
            x = y.dtype.type(x)
        return kernel(x, y)

    return adapting


def _isclose(x: Any, y: Any, **params: Any) -> Any:
    if type(y) is float:
        (y,) = numbers_like(x, y)
    elif type(x) is float:
        (x,) = numbers_like(y, x)
    return np.isclose(x, y, **params)


def _masked_scale(x: Any, mask: Any, *, scale: float) -> Any:
    (scale,) = numbers_like(x, scale)
    return np.where(mask, x * scale, np.zeros_like(x))


def _where(condition: Any, x: Any, y: Any) -> Any:
    if type(y) is float and hasattr(x, "dtype"):
        (y,) = numbers_like(x, y)
    elif type(x) is float and hasattr(y, "dtype"):
        (x,) = numbers_like(y, x)
    return np.where(condition, x, y)
