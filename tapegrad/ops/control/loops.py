"""Loops over tensors: one call inside a recorded function, otherwise round by round.

The program layer registers how a loop is recorded. A loop that it cannot record as one call, such
as one whose carried value grows, is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.ops.shape.joining import stack, unstack

Values = list[Any]
Step = Callable[[Values, Values], tuple[Sequence[Any], Sequence[Any]]]
"""One round: carried values and one entry per stack, to new carried values and new entries."""

_recorders: list[Callable[..., Any]] = []


def register_loops(
    record: Callable[..., Any], record_while: Callable[..., Any], recording: Callable[[], Any]
) -> None:
    """Register the functions that record a loop, or return None if it must be unrolled.

    `recording` returns the recording of the function that is being recorded, or None.
    """
    _recorders[:] = [record, record_while, recording]


def is_recording() -> bool:
    """Whether a function is being recorded, which keeps every round of an unrolled loop."""
    return active_recording() is not None


def active_recording() -> Any:
    """Return the recording of the function that is being recorded, or None."""
    return _recorders[2]() if _recorders else None


def recorded_while(
    condition: Callable[..., Any],
    body: Callable[[Values], Values],
    carried: Values,
    first: Any,
    most: int | None,
) -> Values | None:
    """Record a loop that ends by a condition, whose first value is given.

    Return None outside of recorded functions, and if the loop must be unrolled.
    """
    return _recorders[1](condition, body, carried, first, most) if _recorders else None


def _recorded(
    step: Step, carried: Values, stacks: Values, length: int, backwards: bool
) -> tuple[Values, Values] | None:
    if not _recorders:
        return None
    found: tuple[Values, Values] | None = _recorders[0](step, carried, stacks, length, backwards)
    return found


class Structure:
    """The structure of a function's results, known once it has run."""

    _structure: Any = None

    def flatten(self, result: Any) -> Values:
        """Return the leaves as operands, and keep the structure."""
        self._structure = nest.map_structure(lambda _: None, result)
        return [as_operand(leaf) for leaf in nest.flatten(result)]

    def pack(self, leaves: Values) -> Any:
        """Return leaves in the structure of the last result."""
        return nest.pack_sequence_as(self._structure, leaves)


def as_one_call(
    function: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    stacks: Values,
    entries: Any,
    length: int,
    backwards: bool = False,
) -> tuple[Any, Any] | None:
    """Record `carry, result = function(carry, entry)` in a loop as one call, if that is possible.

    `entries` has the structure of an entry, with the `stacks` as its leaves. Return the last carry
    and the stacked results, None if the results are None.
    """
    if not _recorders or any(leaf is None for leaf in nest.flatten(init)):
        return None
    carry, made = Structure(), Structure()
    has_results: list[bool] = []

    def step(carried: Values, given: Values) -> tuple[Values, Values]:
        entry = nest.pack_sequence_as(entries, given) if stacks else None
        new, result = function(carry.pack(carried), entry)
        has_results[:] = [result is not None]
        return carry.flatten(new), [] if result is None else made.flatten(result)

    found = _recorded(step, carry.flatten(init), [*stacks], length, backwards)
    if found is None:
        return None
    return carry.pack(found[0]), made.pack(found[1]) if has_results == [True] else None


def loop(
    step: Step, carried: Values, stacks: Values, length: int, backwards: bool = False
) -> tuple[Values, Values]:
    """Run a step `length` times; return the last carried values and the stacked new entries.

    >>> import tapegrad
    >>> def step(carried, entries):
    ...     total = carried[0] + entries[0]
    ...     return [total], [total * 10.0]
    >>> x = tapegrad.constant([1.0, 2.0])
    >>> (total,), (made,) = loop(step, [tapegrad.constant(0.0)], [x], 2)
    >>> float(total), made.tolist()
    (3.0, [10.0, 30.0])
    """
    found = _recorded(step, carried, stacks, length, backwards)
    if found is not None:
        return found
    entries = [unstack(as_operand(one)) for one in stacks]
    results: list[Sequence[Any]] = []
    places = range(length)
    for place in reversed(places) if backwards else places:
        new, made = step([*carried], [one[place] for one in entries])
        carried = [*new]
        results.append(made)
    in_order = results[::-1] if backwards else results
    return carried, [stack(list(parts)) for parts in zip(*in_order, strict=True)]
