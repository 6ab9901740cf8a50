"""A compiled function and the integers that it reads, for calls from C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad_numpy.loops.layout import Cut
from tapegrad_numpy.loops.libraries import Address
from tapegrad_numpy.loops.source import Kernel


class CompiledParts(NamedTuple):
    """The functions `work` and `close` of a kernel, and what they are called with."""

    work: int
    close: int
    numbers: np.ndarray
    slots: int
    team: int
    arrays: int
    """How many arrays it takes, operands first."""
    elements: int
    """The number of elements that it processes, a measure of its time."""
    library: Any
    reports: bool = False
    """Whether it takes one more array and writes 1 there if an index is out of range."""
    table: np.ndarray | None = None
    """An array of constants that it takes after the others, or None."""
    order: tuple[int, ...] | None = None
    """The arrays, by position among operands and results; None for all of them in order."""


def attach_parts(
    function: Callable[..., Any],
    kernel: Kernel,
    address: Address,
    arrays: int,
    team: int,
    reports: bool = False,
) -> None:
    """Let `parts_of` find the compiled parts of a Python function."""
    attach_calls(function, [compiled_parts(kernel, address, arrays, team, reports)])


def compiled_parts(
    kernel: Kernel, address: Address, arrays: int, team: int, reports: bool = False
) -> CompiledParts:
    """Return the compiled parts of a kernel."""
    elements = kernel.numbers[Cut._fields.index("elements")]
    return CompiledParts(
        address.work, address.close, np.array(kernel.numbers, np.int64), kernel.slots, team,
        arrays, elements, address.library, reports,
    )  # fmt: skip


def attach_calls(function: Callable[..., Any], calls: Sequence[CompiledParts | None]) -> None:
    """Let `parts_of` find the compiled parts of a function that makes several calls."""
    if None not in calls:
        function.__dict__["parts"] = calls


def parts_of(function: Any) -> Sequence[CompiledParts] | None:
    """Return the compiled parts of the calls that a function makes, None if it has none."""
    found: Sequence[CompiledParts] | None = getattr(function, "__dict__", {}).get("parts")
    return found
