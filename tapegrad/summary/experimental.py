"""TensorFlow's `tf.summary.experimental`: the step of summaries."""

from tapegrad.summary.writers import get_step, set_step

__all__ = ["get_step", "set_step"]
