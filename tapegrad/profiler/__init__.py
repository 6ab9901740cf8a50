"""TensorFlow's `tf.profiler`: profiles of the Python code of a program."""

from typing import Any

from tapegrad.absent import absence
from tapegrad.profiler import experimental

__all__ = ["experimental"]


def __getattr__(name: str) -> Any:
    raise absence("profiler", name)
