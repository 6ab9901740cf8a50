"""keras.preprocessing.sequence: pad sequences to one length, and pairs of near words."""

from tapegrad.keras.preprocessing.skipgrams import make_sampling_table, skipgrams
from tapegrad.keras.utils.arrays import pad_sequences

__all__ = ["make_sampling_table", "pad_sequences", "skipgrams"]
