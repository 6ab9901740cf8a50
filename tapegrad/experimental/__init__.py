"""TensorFlow's `tf.experimental` names."""

from tapegrad.experimental import dlpack

__all__ = ["dlpack"]
