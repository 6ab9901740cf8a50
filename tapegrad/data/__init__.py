"""Input pipelines with the names of TensorFlow's `tf.data`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.dataset import Dataset

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset"]

_check_calls(globals(), __all__)
