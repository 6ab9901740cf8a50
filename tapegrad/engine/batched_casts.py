"""Cast all weights of a step in one launch, ahead of their use.

A training step in half precision casts the same variables at every step, and a launch takes longer
than a cast. The variables that were cast under one tape form a group. When the next tape casts the
first of them, the whole group is cast in one launch, and later casts take their results from it.

A result is kept together with the array that it was made from. Writers copy an array that others
hold, so a changed variable has another array and its outdated result is not used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.recorder import Stack
from tapegrad.core.values.variable import Variable

Cast = Callable[[Sequence[Any]], list[Any] | None]

_MOST_GROUPS = 16
"""Groups that are remembered per thread."""

_preparers: dict[type, Callable[..., Cast | None] | None] = {}
"""By array type `BatchedCasts.prepare` of its backend, or None."""


class _Group:
    """Variables that were cast under one tape, and the function that casts all of them."""

    def __init__(self, members: dict[int, ref[Variable]]) -> None:
        self.members = members
        self.cast: Cast | None = None

    def arrays(self) -> list[Any] | None:
        """Return the arrays of the variables, None if one of the variables was deleted."""
        found = [member() for member in self.members.values()]
        alive = [one.array for one in found if one is not None]
        return alive if len(alive) == len(found) else None


class _TapeCasts(threading.local):
    """The casts of one thread under its current tape.

    `members` are the variables of the group that was cast ahead, `ready` its results that were not
    used yet, and `others` are variables that were cast alone. `leader` is the first variable.
    """

    def __init__(self) -> None:
        self.tokens: Any = None
        self.dtype: Any = None
        self.leader = 0
        self.members: dict[int, ref[Variable]] = {}
        self.ready: dict[int, tuple[Any, Any]] = {}
        self.others: dict[int, ref[Variable]] = {}
        self.groups: dict[tuple[int, Any], _Group] = {}

    def seen(self) -> dict[int, ref[Variable]]:
        """Return the variables that were cast: members whose results were used, and others."""
        taken = {key: one for key, one in self.members.items() if key not in self.ready}
        return taken | self.others


_current = _TapeCasts()


def cast_ahead(variable: Variable, dtype: np.dtype[Any], stack: Stack) -> Any:
    """Return the value of a variable in another dtype, or None if it has to be cast alone."""
    now, number = _current, variable.number
    is_begun = now.tokens is stack.tokens and now.dtype is dtype
    made = now.ready.pop(number, None) if is_begun else None
    if made is None:
        if not _can_batch(variable.array):
            return None
        if is_begun:
            if number not in now.members:
                now.others[number] = ref(variable)
            return None
        _begin(now, variable, dtype, stack)
        made = now.ready.pop(number, None)
    return made[1] if made is not None and made[0] is variable.array else None


def _can_batch(array: Any) -> bool:
    array_type = type(array)
    if array_type not in _preparers:
        casts = capabilities_of(array_type).casts
        _preparers[array_type] = None if casts is None else casts.prepare
    return _preparers[array_type] is not None


def _begin(now: _TapeCasts, first: Variable, dtype: np.dtype[Any], stack: Stack) -> None:
    """Remember the group of the last tape, and cast the group that `first` leads."""
    seen = now.seen()
    if len(seen) > 1:
        _remember(now, seen)
    now.tokens, now.dtype, now.leader = stack.tokens, dtype, first.number
    now.members, now.ready, now.others = {}, {}, {first.number: ref(first)}
    group = now.groups.get((first.number, dtype))
    arrays = None if group is None else group.arrays()
    if group is None or arrays is None:
        return
    try:
        made = _cast_all(group, arrays, dtype)
    except MemoryError:
        made = None  # cast one after the other, they may fit
    if made is None:
        del now.groups[first.number, dtype]
    else:
        now.members, now.others = group.members, {}
        now.ready = dict(zip(group.members, zip(arrays, made)))


def _remember(now: _TapeCasts, seen: dict[int, ref[Variable]]) -> None:
    key = now.leader, now.dtype
    known = now.groups.pop(key, None)
    if known is None or known.members.keys() != seen.keys():
        known = _Group(seen)
    while len(now.groups) >= _MOST_GROUPS:
        del now.groups[next(iter(now.groups))]
    now.groups[key] = known


def _cast_all(group: _Group, arrays: list[Any], dtype: np.dtype[Any]) -> list[Any] | None:
    made = None if group.cast is None else group.cast(arrays)
    if made is None:
        prepare = _preparers.get(type(arrays[0]))
        has_one_type = all(type(array) is type(arrays[0]) for array in arrays)
        group.cast = prepare(arrays, dtype) if prepare is not None and has_one_type else None
        made = None if group.cast is None else group.cast(arrays)
    return made
