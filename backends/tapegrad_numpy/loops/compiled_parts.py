"""A compiled function and the integers that it reads, for calls from C."""

from __future__ import annotations

from collections.abc import Callable
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
    threads: int
    arrays: int
    """How many arrays it takes, operands first."""
    elements: int
    """The number of elements that it processes, a measure of its time."""
    library: Any
    reports: bool = False
    """Whether it takes one more array and writes 1 there if an index is out of range."""


def attach_parts(
    function: Callable[..., Any],
    kernel: Kernel,
    address: Address,
    arrays: int,
    threads: int,
    reports: bool = False,
) -> None:
    """Let `parts_of` find the compiled parts of a Python function."""
    if address.work:
        numbers = np.array(kernel.numbers, np.int64)
        elements = kernel.numbers[Cut._fields.index("elements")]
        function.__dict__["parts"] = CompiledParts(
            address.work, address.close, numbers, kernel.slots, threads, arrays, elements,
            address.library, reports,
        )  # fmt: skip


def parts_of(function: Any) -> CompiledParts | None:
    """Return the compiled parts of a function, None if it has none."""
    found: CompiledParts | None = getattr(function, "__dict__", {}).get("parts")
    return found
