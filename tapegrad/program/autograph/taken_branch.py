"""Branches that cost much: only the one that is taken runs.

Selecting between the results of both branches is cheap for short ones: the program stays one piece,
which compilers fuse and CUDA graphs contain. A branch with much work is recorded as a loop of at
most one round instead, for which the host reads the condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.tensor import wrap
from tapegrad.ops.casting import cast
from tapegrad.ops.control.loops import recorded_while
from tapegrad.ops.creation import zeros
from tapegrad.ops.elementwise.comparison import logical_and, logical_not
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import UNDEFINED, Snapshot, State, is_number
from tapegrad.program.autograph.trial import Block, is_trying
from tapegrad.program.graph.graph import Call
from tapegrad.program.inspect.costs import call_flops, is_product
from tapegrad.program.record.recording import Recording, current_recording

LEAST_WORK = 2_000_000
"""The least operations of a branch, on the CPU, that runs only if it is taken."""

LEAST_WORK_ON_DEVICE = 500_000_000
"""Likewise on other devices, which are faster and wait while the host reads the condition."""


class Mark:
    """A place in a recording, to which it can go back."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._count = len(recording.calls)
        self._values = {v.number: v.array for v, _ in recording.known_variables()}
        self._made = len(recording.created)

    @property
    def calls(self) -> list[Call]:
        """The calls since then."""
        return self._recording.calls[self._count :]

    @property
    def has_made_variables(self) -> bool:
        """Whether variables have been created since then."""
        return len(self._recording.created) != self._made

    @contextmanager
    def going_back(self) -> Iterator[None]:
        """Record the block instead of what was recorded since then, unless it raises."""
        recording, calls = self._recording, self.calls
        known = [variable for variable, _ in recording.known_variables()]
        now = [variable.array for variable in known]
        del recording.calls[self._count :]
        for variable, first in recording.known_variables():
            variable.array = self._values.get(variable.number, first)
        try:
            yield
        except BaseException:
            recording.calls[self._count :] = calls
            for variable, array in zip(known, now, strict=True):
                variable.array = array
            raise


def is_worth_it(mark: Mark, condition: Any) -> bool:
    """Whether only the taken branch should run, of those that were recorded since a mark."""
    calls = mark.calls
    if is_trying() or mark.has_made_variables or any(call.effects for call in calls):
        return False
    least = LEAST_WORK if condition.device == "cpu" else LEAST_WORK_ON_DEVICE
    return work_of(calls) >= least


def run_taken(
    mark: Mark,
    truth: Any,
    blocks: tuple[Block, Block],
    state: State,
    before: Snapshot,
    after: tuple[Snapshot, Snapshot],
) -> bool:
    """Record branches of which only one runs; return whether that was possible.

    `after` are the states after both branches, which were recorded since the mark.
    """
    carried = _carried(state, before, *after)
    if carried is None:
        return False
    try:
        with mark.going_back():
            _Taken(state, before, carried).record(truth, *blocks)
    except Exception:  # e.g. a tape in a branch that can be used once
        return False
    return True


def work_of(calls: Sequence[Call]) -> int:
    """Return about how many operations calls make; the rounds of loops of unknown length not."""
    return sum([_work(call) for call in calls])


def _work(call: Call) -> int:
    name = call.primitive.name
    if name == "counted_loop":
        inside = call.params["body"].recorded.calls
        return int(call.params["length"]) * work_of(inside)
    if is_product(name):
        return call_flops(call)
    return 0 if call.aliases else sum([value.size for value in call.results])


def _carried(
    state: State, before: Snapshot, first: Snapshot, second: Snapshot
) -> dict[int, Any] | None:
    """Return the first values of the variables that a branch changes, by position.

    Return None if a variable is no tensor, or not of the same kind in both branches.
    """
    if not (before.same_contents(first) and before.same_contents(second)):
        return None
    found = {}
    for place, (old, *new) in enumerate(
        zip(before.values, first.values, second.values, strict=True)
    ):
        if all(one is old for one in new):
            continue
        if old is UNDEFINED and not state.is_read[place]:
            found[place] = UNDEFINED
            continue
        value = _initial(old, [one for one in new if one is not UNDEFINED])
        if value is None:
            return None
        found[place] = value
    return found


def _initial(old: Any, new: Sequence[Any]) -> Any:
    """Return the first value of a variable as tensors, None if the kinds differ."""
    known = [*new] if old is UNDEFINED else [old, *new]
    if not all(is_number(leaf) for one in known for leaf in nest.flatten(one)):
        return None
    try:
        for one in known[1:]:
            nest.assert_same_structure(known[0], one)
    except (TypeError, ValueError):
        return None
    leaves = []
    for group in zip(*[nest.flatten(one) for one in known], strict=True):
        kind = _common_kind(group)
        if kind is None:
            return None
        leaves.append(zeros(*kind) if old is UNDEFINED else _of_dtype(group[0], kind[1]))
    return nest.pack_sequence_as(known[0], leaves)


def _common_kind(values: Sequence[Any]) -> tuple[tuple[int, ...], Any] | None:
    """Return the shape and dtype that values have, None if they differ."""
    numbers = [as_operand(x) for x in values if type(x) in NUMBERS]
    kinds = {(tuple(x.shape), x.dtype) for x in values if type(x) not in NUMBERS}
    kinds = kinds or {((), x.dtype) for x in numbers}
    if len(kinds) != 1:
        return None
    shape, dtype = next(iter(kinds))
    fits = all(x.dtype == dtype or (not shape and dtype.is_floating) for x in numbers)
    return (shape, dtype) if fits and not (shape and numbers) else None


def _of_dtype(value: Any, dtype: Any) -> Any:
    found = as_operand(value)
    return found if found.dtype == dtype else cast.cast(found, dtype)


class _Taken:
    """The branches of one statement as two loops of at most one round."""

    def __init__(self, state: State, before: Snapshot, carried: dict[int, Any]) -> None:
        self._state, self._before = state, before
        self._places = [place for place, value in carried.items() if value is not UNDEFINED]
        self._values = [carried[place] for place in self._places]

    def record(self, truth: Any, body: Block, orelse: Block) -> None:
        """Record both branches, and set the variables."""
        recording = current_recording()
        assert recording is not None
        leaves = nest.flatten(self._values)
        for condition, block in ((truth, body), (logical_not(truth), orelse)):
            flag = condition
            if recording.condition is not None:
                flag = logical_and(wrap(recording.condition.array), condition)
            leaves = self._once(flag, block, leaves)
        values = [*self._before.values]
        packed = nest.pack_sequence_as(self._values, leaves)
        for place, value in zip(self._places, packed, strict=True):
            values[place] = value
        self._state.write(Snapshot(values, self._before.contents))

    def _once(self, flag: Any, block: Block, leaves: list[Any]) -> list[Any]:
        """Record a block that runs if the flag is true; return the variables after it."""
        dtypes = [leaf.dtype for leaf in leaves]

        def run(before: list[Any]) -> list[Any]:
            packed = nest.pack_sequence_as(self._values, before)
            # Both blocks begin with what was before the statement, Python numbers included.
            self._state.write(self._before)
            block()
            after = self._state.read().values
            new = [
                value if after[place] is UNDEFINED else after[place]
                for place, value in zip(self._places, packed, strict=True)
            ]
            found = zip(nest.flatten(new), dtypes, strict=True)
            return [_of_dtype(leaf, dtype) for leaf, dtype in found]

        found = recorded_while(lambda _: False, run, leaves, flag, 1)
        if found is None:
            raise NotConvertible("a branch with much work cannot be recorded on its own")
        return found
