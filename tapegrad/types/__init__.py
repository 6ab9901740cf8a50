"""TensorFlow's `tf.types`: names for annotations and for checks by isinstance."""

from typing import Any

from tapegrad.absent import absence
from tapegrad.types import experimental

__all__ = ["experimental"]


def __getattr__(name: str) -> Any:
    raise absence("types", name)
