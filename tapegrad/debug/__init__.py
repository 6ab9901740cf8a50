"""Debugging tools: NaN, exits from the tape, copies to the host, memory, indices, reports."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.debug.exits import tape_exits
from tapegrad.debug.indices import check_indices
from tapegrad.debug.memory_lines import MemoryReport, memory, trace_memory
from tapegrad.debug.memory_use import memory_info, reset_peak_memory
from tapegrad.debug.numbers import nan_sentinel
from tapegrad.debug.reports.report import report
from tapegrad.debug.transfers import Transfers, transfers

__all__ = [
    "MemoryReport",
    "Transfers",
    "check_indices",
    "memory",
    "memory_info",
    "nan_sentinel",
    "report",
    "reset_peak_memory",
    "tape_exits",
    "trace_memory",
    "transfers",
]

_check_calls(globals(), __all__)
