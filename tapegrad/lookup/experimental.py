"""TensorFlow's `tf.lookup.experimental`: tables that change."""

from typing import Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.lookup.tables import DenseHashTable, MutableHashTable

__all__ = ["DenseHashTable", "MutableHashTable"]


def __getattr__(name: str) -> Any:
    raise absence("lookup.experimental", name)


_check_calls(globals(), __all__)
