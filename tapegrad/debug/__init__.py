"""Finding out what a program does: copies from a device to the host, and memory."""

from tapegrad.debug.memory import memory_info, reset_peak_memory
from tapegrad.debug.transfers import Transfers, transfers

__all__ = ["Transfers", "memory_info", "reset_peak_memory", "transfers"]
