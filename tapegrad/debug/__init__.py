"""Debugging tools: copies from a device to the host, memory use, indices out of range."""

from tapegrad.debug.indices import check_indices
from tapegrad.debug.memory import memory_info, reset_peak_memory
from tapegrad.debug.transfers import Transfers, transfers

__all__ = ["Transfers", "check_indices", "memory_info", "reset_peak_memory", "transfers"]
