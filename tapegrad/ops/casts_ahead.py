"""Casts of many variables in one launch, before they are asked for.

A step in half precision casts every weight, in the same order each time, and a launch for each
costs more than the cast. So what one tape saw cast after its first cast of a variable is cast
together when the next tape sees that first cast again.

Results are held together with the arrays they were made of: whoever would write to such an array
sees that somebody holds it and makes a new one, so a result that no longer fits is noticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from tapegrad.core.backend import backend_of
from tapegrad.core.recorder import Stack
from tapegrad.core.variable import Variable

Cast = Callable[[Sequence[Any]], list[Any] | None]

_MOST_GROUPS = 16
"""Steps that are remembered, by the variable that each casts first."""

_cast_groups: dict[type, Callable[..., Cast | None] | None] = {}
"""By the type of arrays, what makes the cast of many of them, where a backend has that."""


class _Group:
    """Variables that one tape saw cast, and what casts them all."""

    def __init__(self, members: dict[int, ref[Variable]]) -> None:
        self.members = members
        self.cast: Cast | None = None

    def arrays(self) -> list[Any] | None:
        """The arrays of the variables, None if one of these is gone."""
        found = [member() for member in self.members.values()]
        alive = [one.array for one in found if one is not None]
        return alive if len(alive) == len(found) else None


class _Round(threading.local):
    """The casts under one tape, of one thread."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.dtype: Any = None
        self.leader = 0
        self.members: dict[int, ref[Variable]] = {}
        self.ready: dict[int, tuple[Any, Any]] = {}
        self.others: dict[int, ref[Variable]] = {}
        self.groups: dict[tuple[int, Any], _Group] = {}

    def seen(self) -> dict[int, ref[Variable]]:
        """What was asked for: members of the group whose results were taken, and others."""
        taken = {key: one for key, one in self.members.items() if key not in self.ready}
        return taken | self.others


_round = _Round()


def cast_ahead(variable: Variable, dtype: np.dtype[Any], stack: Stack) -> Any:
    """Return a variable's value in another dtype, or None if it has to be cast alone."""
    now, number = _round, variable.number
    is_begun = now.tokens is stack.tokens and now.dtype is dtype
    made = now.ready.pop(number, None) if is_begun else None
    if made is None:
        if not _has_groups(variable.array):
            return None
        if is_begun:
            if number not in now.members:
                now.others[number] = ref(variable)
            return None
        _begin(now, variable, dtype, stack)
        made = now.ready.pop(number, None)
    return made[1] if made is not None and made[0] is variable.array else None


def _has_groups(array: Any) -> bool:
    kind = type(array)
    if kind not in _cast_groups:
        _cast_groups[kind] = backend_of(array).kernels.get("cast.group")
    return _cast_groups[kind] is not None


def _begin(now: _Round, first: Variable, dtype: np.dtype[Any], stack: Stack) -> None:
    """Keep what the last tape saw, and cast what is likely to be asked for under this one."""
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
        made = None  # one after the other they may find room
    if made is None:
        del now.groups[first.number, dtype]
    else:
        now.members, now.others = group.members, {}
        now.ready = dict(zip(group.members, zip(arrays, made)))


def _remember(now: _Round, seen: dict[int, ref[Variable]]) -> None:
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
        make = _cast_groups.get(type(arrays[0]))
        is_one_kind = all(type(array) is type(arrays[0]) for array in arrays)
        group.cast = make(arrays, dtype) if make is not None and is_one_kind else None
        made = None if group.cast is None else group.cast(arrays)
    return made
