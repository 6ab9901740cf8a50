"""The switch for TensorFloat-32, as TensorFlow names it."""

from __future__ import annotations

import os

TF32 = {"on": os.environ.get("TAPEGRAD_TF32") == "1"}
"""Whether float32 and complex64 operands of products are rounded to 10 bits.

Programs and plans depend on it, so it is part of their keys.
"""


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Allow or forbid TensorFloat-32 in matrix products and convolutions on a GPU.

    Operands in float32 are then rounded to 10 bits of their fraction, which is several times
    faster. Sums are still added in float32. The default is to keep all 23 bits, unless the
    environment variable `TAPEGRAD_TF32=1` is set. (In TensorFlow the default is to round.)

    >>> import tapegrad
    >>> tapegrad.config.experimental.enable_tensor_float_32_execution(True)
    >>> tapegrad.config.experimental.tensor_float_32_execution_enabled()
    True
    >>> tapegrad.config.experimental.enable_tensor_float_32_execution(False)
    """
    TF32["on"] = bool(enabled)


def tensor_float_32_execution_enabled() -> bool:
    """Return whether products and convolutions on a GPU may use TensorFloat-32.

    >>> tensor_float_32_execution_enabled()
    False
    """
    return TF32["on"]
