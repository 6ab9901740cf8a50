"""Kernels that eager code calls while a switch of `eager_hooks` is on.

They raise where an operation makes NaN, and note the lines that make arrays and the time it took.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.eager_hooks import is_any_hooked, is_hooked
from tapegrad.core.event_log import LOGS
from tapegrad.core.memory_trace import note_array
from tapegrad.core.number_checks import (
    backward_node,
    is_checking_numbers,
    largest,
    note_operation,
    share_of,
)
from tapegrad.core.origin import origin_of_call
from tapegrad.errors import NonFiniteError

MOVES = frozenset({
    *("band_part", "broadcast_to", "cast", "concat", "flip", "full_like", "gather", "gather_rows"),
    *("identity", "keep", "live_with", "one_hot", "pad", "permute_dims", "positive", "repeat"),
    *("reshape", "reverse", "roll", "scatter", "slice", "slice_set", "split", "stack"),
    *("stop_gradient", "take", "take_last", "take_set", "tile", "to_device", "unslice", "unstack"),
    *("where", "zero_with"),
})  # fmt: skip
"""Primitives that only move values: a NaN in their result was there before."""


class CheckedKernel:
    """A kernel that notes the user's line, and raises if its result has NaN and that is checked."""

    __slots__ = ("kernel", "name")

    def __init__(self, name: str, kernel: Callable[..., Any]) -> None:
        self.name = name
        self.kernel = kernel

    def __call__(self, *operands: Any, **params: Any) -> Any:
        start = perf_counter_ns()
        result = self.kernel(*operands, **params)
        end = perf_counter_ns()
        # Rules may compute NaN and leave it out afterwards, so the sweep checks their results.
        checks = is_checking_numbers() and backward_node() is None
        site, function = origin_of_call()
        if is_hooked("memory"):
            for part in result if isinstance(result, tuple | list) else (result,):
                note_array(part, site)
        if LOGS:
            log = LOGS[-1]
            log.add("kernel", self.name, site, start, end)
            for note in log.on_arrays:
                note(operands, result, site)
        if not checks:
            return result
        note_operation(site, function)
        if self.name not in MOVES and not _is_meant(function, operands):
            for part in result if isinstance(result, tuple | list) else (result,):
                if math.isnan(largest(part)):
                    self._refuse(site, function, operands, part)
        return result

    def _refuse(self, site: str, function: str, operands: tuple[Any, ...], made: Any) -> None:
        raise NonFiniteError(
            f"{function or self.name} at {site} made NaN in the forward pass: {share_of(made)}. "
            f"{state_of_operands([largest(operand) for operand in operands])}"
        )


def _is_meant(function: str, operands: tuple[Any, ...]) -> bool:
    """Whether NaN is meant: a number is not finite, or the function is for arrays with NaN."""
    has_number = any(type(x) is float and not math.isfinite(x) for x in operands)
    return has_number or function.startswith("nan")


def state_of_operands(sizes: list[float]) -> str:
    """Say which operands were NaN or infinite; the sizes are those of `largest`."""
    nans = [str(k) for k, size in enumerate(sizes) if math.isnan(size)]
    infinite = [str(k) for k, size in enumerate(sizes) if math.isinf(size)]
    if nans:
        return f"NaN was there before, in {_operands(nans)}."
    if infinite:
        verb = "was" if len(infinite) == 1 else "were"
        return f"Before that, {_operands(infinite)} {verb} infinite in places."
    return "Its operands were finite."


def _operands(places: list[str]) -> str:
    return f"operand{'s' if len(places) > 1 else ''} {' and '.join(places)}"


def eager_kernel(name: str, array_type: type, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return what eager code calls for a kernel: itself, or a checked one if a switch is on."""
    if not is_any_hooked() or capabilities_of(array_type).adoption is not None:
        return kernel
    return CheckedKernel(name, kernel)
