"""TensorFlow's `tf.types`: names for annotations and for checks by isinstance."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.types import experimental

__all__ = ["experimental"]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("types", name)
