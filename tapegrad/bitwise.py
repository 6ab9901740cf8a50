"""TensorFlow's `tf.bitwise` names."""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.elementwise.bits import (
    bitwise_and,
    bitwise_invert as invert,
    bitwise_left_shift as left_shift,
    bitwise_or,
    bitwise_right_shift as right_shift,
    bitwise_xor,
)

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]

_check_calls(globals(), __all__)


def __getattr__(name: str) -> _Any:
    raise _absence("bitwise", name)
