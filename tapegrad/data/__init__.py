"""Input pipelines with the names of TensorFlow's `tf.data`."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.data import experimental
from tapegrad.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.dataset import Dataset
from tapegrad.data.iterator import DatasetIterator as Iterator
from tapegrad.data.options import Options
from tapegrad.data.readers import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("data", name)


_check_calls(globals(), __all__)
