"""Debugging tools: NaN, values that leave the tape, copies to the host, memory, bad indices."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.debug.exits import tape_exits
from tapegrad.debug.indices import check_indices
from tapegrad.debug.memory import memory_info, reset_peak_memory
from tapegrad.debug.numbers import nan_sentinel
from tapegrad.debug.transfers import Transfers, transfers

__all__ = [
    "Transfers",
    "check_indices",
    "memory_info",
    "nan_sentinel",
    "reset_peak_memory",
    "tape_exits",
    "transfers",
]

_check_calls(globals(), __all__)
