"""TensorFlow's `tf.lookup.experimental`: tables that change."""

from tapegrad.lookup.tables import MutableHashTable

__all__ = ["MutableHashTable"]
