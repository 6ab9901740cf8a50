"""keras.preprocessing.sequence: pad sequences to one length."""

from tapegrad.keras.utils.arrays import pad_sequences

__all__ = ["pad_sequences"]
