"""TensorFlow's `tf.bitwise` names."""

from tapegrad.ops.bits import bitwise_and, bitwise_or, bitwise_xor
from tapegrad.ops.bits import bitwise_invert as invert
from tapegrad.ops.bits import bitwise_left_shift as left_shift
from tapegrad.ops.bits import bitwise_right_shift as right_shift

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]
