"""Input pipelines with the names of TensorFlow's `tf.data`."""

from tapegrad.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.dataset import Dataset

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset"]
