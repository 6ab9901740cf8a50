"""TensorFlow's `tf.lookup.experimental`: tables that change."""

from typing import Any

from tapegrad.absent import absence
from tapegrad.lookup.tables import MutableHashTable

__all__ = ["MutableHashTable"]


def __getattr__(name: str) -> Any:
    raise absence("lookup.experimental", name)
