"""TensorFlow's `tf.profiler`: profiles of the Python code of a program."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.profiler import experimental

__all__ = ["experimental"]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("profiler", name)
