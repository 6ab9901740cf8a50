"""TensorFlow's `tf.lookup.experimental`: tables that change."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.lookup.tables import DenseHashTable, MutableHashTable

__all__ = ["DenseHashTable", "MutableHashTable"]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("lookup.experimental", name)


_check_calls(globals(), __all__)
