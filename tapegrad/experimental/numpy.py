"""TensorFlow's `tf.experimental.numpy`, which is `tapegrad.numpy`."""

from __future__ import annotations

from typing import Any

from tapegrad import numpy as _numpy
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.variable import CONVERSIONS

__all__ = ["experimental_enable_numpy_behavior"]
__all__ += _numpy.__all__


def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Accept TensorFlow's switch, and choose whether assignments to variables convert dtypes.

    Tensors always have the methods of NumPy's arrays and its indexing. The functions of this module
    promote dtypes as NumPy does; operators on tensors promote as docs/dtypes.md says. With the mode
    "safe" or "all", `assign`, `assign_add` and `assign_sub` accept tensors of a dtype whose values
    the variable can hold; with "legacy" and "off", the dtypes have to be equal.

    >>> import tapegrad
    >>> experimental_enable_numpy_behavior()
    >>> tapegrad.constant([[1.0, 2.0]]).T.shape
    (2, 1)
    """
    check_choice("dtype_conversion_mode", dtype_conversion_mode, ("off", "legacy", "safe", "all"))
    CONVERSIONS["safe"] = dtype_conversion_mode in ("safe", "all")


def __getattr__(name: str) -> Any:
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return __all__
