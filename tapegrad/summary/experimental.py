"""TensorFlow's `tf.summary.experimental`: the step of summaries."""

from typing import Any

from tapegrad.absent import absence
from tapegrad.summary.writers import get_step, set_step

__all__ = ["get_step", "set_step"]


def __getattr__(name: str) -> Any:
    raise absence("summary.experimental", name)
