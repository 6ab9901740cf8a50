"""Python numbers beside bfloat16, a dtype that ml_dtypes adds to NumPy.

NumPy takes a Python float beside it for a float16, and the next dtype that holds both is float32.
So from the first bfloat16 on, elementwise kernels are handed such a number as bfloat16. Before
that they are NumPy's functions as they are: programs without bfloat16 pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

from tapegrad.core.primitive import PRIMITIVES

Kernel = Callable[..., Any]

_BINARY = (
    *("add", "subtract", "multiply", "divide", "pow", "floor_divide", "remainder", "fmod"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("maximum", "minimum", "fmax", "fmin", "hypot", "atan2", "copysign", "nextafter"),
    *("logaddexp", "logaddexp2", "heaviside", "truncatediv", "squared_difference"),
    *("divide_no_nan", "multiply_no_nan", "xdivy", "xlogy", "xlog1py"),
)
"""Primitives of two operands, of which one may be a Python number."""


def numbers_like(x: Any, *numbers: Any) -> tuple[Any, ...]:
    """Return numbers in the dtype of `x` if that is bfloat16, else as they are."""
    if x.dtype.kind != "V":
        return numbers
    return tuple([x.dtype.type(number) for number in numbers])


def adapt_kernels(kernels: MutableMapping[str, Kernel]) -> None:
    """Put kernels that adapt Python numbers to bfloat16 in the place of those that do not."""
    adapted = {name: _adapting(kernels.get(name) or getattr(np, name)) for name in _BINARY}
    adapted |= {"isclose": _isclose, "masked_scale": _masked_scale, "where": _where}
    kernels.update(adapted)
    for name in adapted:
        # Primitives remember the kernels that they found before.
        found = PRIMITIVES[name].kernels if name in PRIMITIVES else {}
        for kind in [kind for kind in found if issubclass(kind, np.ndarray | np.generic)]:
            del found[kind]


def _adapting(kernel: Kernel) -> Kernel:
    # Spelled out for two operands because other dtypes come this way too.
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
