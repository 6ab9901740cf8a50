"""keras.preprocessing.sequence: pad sequences to one length, and pairs of near words."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.preprocessing.skipgrams import make_sampling_table, skipgrams
from tapegrad.keras.utils.arrays import pad_sequences

__all__ = ["make_sampling_table", "pad_sequences", "skipgrams"]

_check_calls(globals(), __all__)
