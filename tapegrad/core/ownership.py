"""Ownership by reference counts: overwrite an array only if no other object can see it.

Values read from a variable never change. An array may therefore be written in place only if it owns
its memory and only its variable and the code that writes hold it. Any other holder, such as a
tensor that was read, a tape that saved it, or a view, adds to a reference count. CPython counts
references exactly, so a backend compares the counts with the number of holders that it knows, and
copies an array that has more.

Several programs may write to the same arrays. Each of them holds the arrays between calls, so they
are registered in an `Owners` table and counted as known holders.

Reference counts are an implementation detail of CPython. The assumptions are checked at import. If
one does not hold, or if TAPEGRAD_REFERENCE_COUNTS is 0, `reference_counts` returns counts that
match no expectation, so that every array is copied before it is written. On the CPU the functions
of the benchmark then take up to 2.7 (elementwise) and 1.9 times (mlp_small) as long.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

UNKNOWN = -1
"""The count of every object where reference counts are not used."""


def reference_counts(objects: Sequence[object]) -> list[int]:
    """Return the reference count of each object, or UNKNOWN where counts are not used.

    `map` passes the objects on without the interpreter's stack. Versions of CPython differ in
    whether an argument or a name on that stack counts.

    >>> thing = object()
    >>> reference_counts([thing]) == [count_for(2)]  # the name and the list
    True
    """
    if _reasons:
        return [UNKNOWN] * len(objects)
    return [*map(sys.getrefcount, objects)]


def count_for(holders: int) -> int:
    """Return the reference count of an object with this number of holders.

    The sequence that is passed to `reference_counts` is one of the holders.
    """
    return _COUNT_FOR_ONE + holders - 1


def why_not_used() -> str:
    """Return why reference counts are not used, or "" where they are."""
    return _reasons[0] if _reasons else ""


def info_rows() -> list[tuple[str, str]]:
    """Return a line for `tapegrad info` where reference counts are not used."""
    why = why_not_used()
    text = f"off: arrays are copied before they are written, because {why}"
    return [("in-place writes", text)] if why else []


def distrust(reason: str) -> None:
    """Stop using reference counts: copy every array before it is written.

    A backend calls this if views of its arrays do not count as holders.
    """
    _reasons.append(reason)


def is_held_elsewhere(holder: Any) -> bool:
    """Whether anything but `holder` can read the memory of its array, e.g. a tape that saved it.

    Memory that is part of a larger array counts as held.
    """
    if getattr(holder.array, "base", None) is not None:
        return True
    return reference_counts([holder.array]) != [count_for(2)]  # the holder and the list


def is_held_alone(holder: Any) -> bool:
    """Whether nothing but `holder` can read the memory of its array: a fast test for one array.

    >>> import tapegrad
    >>> x = tapegrad.constant([1.0, 2.0])
    >>> is_held_alone(x)
    True
    >>> array = x.array
    >>> is_held_alone(x)
    False
    """
    return _count_of_held(holder) == _COUNT_IF_ALONE and holder.array.base is None and not _reasons


class Owners:
    """How many programs hold each array, by the ids of the arrays.

    A count that is too low is safe: an array is then copied before it is written. One that is too
    high is not, so an interrupt at any instruction must not leave one.
    """

    def __init__(self) -> None:
        self.changes = 0
        """Increases with each change, so that expected counts can be cached."""
        self._holders: dict[int, int] = {}
        self._live: dict[weakref.ref[Any], list[int]] = {}
        self._registered = self._dead = 0
        self._lock = threading.RLock()

    def register(self, owner: object, ids: list[int]) -> None:
        """Let the list that is passed to `add` and `remove` end with its owner."""
        # The callback is a function in C, which no interrupt can prevent.
        reference = weakref.ref(owner, self._live.pop)
        self._live[reference] = ids
        self._registered += 1

    def __len__(self) -> int:
        self._forget_dead()
        return len(self._holders)

    def _forget_dead(self) -> None:
        """Count anew if the owner of a list is gone."""
        if self._registered - len(self._live) != self._dead:
            with self._lock:
                dead = self._registered - len(self._live)
                self._holders = Counter(chain.from_iterable([*self._live.values()]))
                self.changes += 1
                self._dead = dead

    def counts(self, arrays: Sequence[object]) -> list[int]:
        """Return how many programs hold each array."""
        self._forget_dead()
        return [self._holders.get(id(array), 0) for array in arrays]

    def add(self, ids: Sequence[int]) -> None:
        """Register one more holder of the arrays with these ids."""
        self.changes += 1
        for number in ids:
            self._holders[number] = self._holders.get(number, 0) + 1

    def take(self, ids: list[int], arrays: Sequence[object]) -> None:
        """Put the ids of arrays into a registered list, and add it."""
        with self._lock:
            ids.extend(map(id, arrays))
            self.add(ids)

    def remove(self, ids: list[int]) -> None:
        """Remove one holder of each, and empty the list, so that a second call does nothing."""
        with self._lock:
            self.changes += 1
            while ids:
                left = self._holders.get(ids[-1], 0) - 1
                if left > 0:
                    self._holders[ids[-1]] = left
                else:
                    self._holders.pop(ids[-1], None)
                ids.pop()


# Self-check


class _Holder:
    """An object that can hold another one."""

    held: object
    array: object


def _count_of_held(holder: Any) -> int:
    return sys.getrefcount(holder.array) if _COUNT_FOR_ONE else UNKNOWN


def _count_if_alone() -> int:
    """The count of an array that one object holds, as `_count_of_held` finds it."""
    holder = _Holder()
    holder.array = _Holder()
    return _count_of_held(holder)


def _count_for_one() -> int:
    """The count of an object that one list holds; 0 where there is no reference counting."""
    if not hasattr(sys, "getrefcount"):
        return 0
    (count,) = map(sys.getrefcount, [_Holder()])
    return count


_COUNT_FOR_ONE = _count_for_one()
_COUNT_IF_ALONE = _count_if_alone()


def _reason() -> str:
    if os.environ.get("TAPEGRAD_REFERENCE_COUNTS") == "0":
        return "the environment variable TAPEGRAD_REFERENCE_COUNTS turns them off"
    if not hasattr(sys, "getrefcount"):
        return "this Python does not count references"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without a global lock, so counts change while they are read"
    if not _holders_are_counted():
        return "this Python does not count every holder of an object once"
    return ""


def _holders_are_counted() -> bool:
    """Whether a name, a container, an attribute and a loop each add exactly one to the count."""
    thing = _Holder()
    watched = [thing]
    found = [*map(sys.getrefcount, watched)]
    pair = (thing, None)
    found += map(sys.getrefcount, watched)
    table = {"thing": thing}
    found += map(sys.getrefcount, watched)
    holder = _Holder()
    holder.held = thing
    found += map(sys.getrefcount, watched)
    weak = weakref.ref(thing)
    for each in watched:
        found += map(sys.getrefcount, watched)
        del each
    del pair, table, holder
    found += map(sys.getrefcount, watched)
    expected = [count_for(holders) for holders in (2, 3, 4, 5, 6, 2)]
    return found == expected and weak() is thing


_reasons: list[str] = [*filter(None, [_reason()])]
