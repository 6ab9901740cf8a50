"""TensorFlow's `tf.experimental.numpy`, which is `tapegrad.numpy`."""

from __future__ import annotations

from typing import Any

from tapegrad import numpy as _numpy

__all__ = ["experimental_enable_numpy_behavior"]
__all__ += _numpy.__all__


def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Accept TensorFlow's switch and change nothing.

    Tensors always have the methods of NumPy's arrays and its indexing. The functions of this module
    promote dtypes as NumPy does; operators on tensors promote as docs/dtypes.md says.

    >>> import tapegrad
    >>> experimental_enable_numpy_behavior()
    >>> tapegrad.constant([[1.0, 2.0]]).T.shape
    (2, 1)
    """


def __getattr__(name: str) -> Any:
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return __all__
