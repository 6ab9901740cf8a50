"""Programs that overwrite arrays of variables: only those that nobody else holds.

Values read from a variable never change. So a program may write to an array only if it owns its
memory and nobody but the variable holds it: neither a tensor that was read, nor a tape that saved
it, nor a view. Python's reference counts say so. What somebody holds is copied first. Several
programs may write to the same arrays; each of them counts what the others hold.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from operator import is_, itemgetter
from sys import getrefcount
from typing import Any

import numpy as np

Array = Any
Run = Callable[[Sequence[Any], list[Any]], tuple[Sequence[Any], Sequence[Any]]]


_LINE = 64
"""Bytes of a line of the cache."""


class _Owners:
    """How many programs hold which arrays, by the arrays' ids; `changes` counts what happened."""

    def __init__(self) -> None:
        self.changes = 0
        self.of: dict[int, int] = {}

    def add(self, ids: Sequence[int]) -> None:
        self.changes += 1
        for number in ids:
            self.of[number] = self.of.get(number, 0) + 1

    def remove(self, ids: list[int]) -> None:
        """Take away one owner each; the list is emptied, so that it cannot happen twice."""
        self.changes += 1
        while ids:
            number = ids.pop()
            left = self.of[number] - 1
            if left:
                self.of[number] = left
            else:
                del self.of[number]


_owners = _Owners()


def capture(run: Run, written: Sequence[int], in_place: Sequence[int]) -> Run:
    """Return a run that gives `run` arrays to itself where it overwrites them.

    `run` takes the arrays of inputs and variables and returns outputs and what the variables at
    the positions `written` hold then. The arrays of those at `in_place`, which are some of them,
    it overwrites. Each array must be held by its variable and by the list that is passed, where
    copies take the place of what somebody else holds.
    """
    return Owned(run, in_place) if in_place else run


class Owned:
    """See `capture`; keeps the arrays of the last call. Threads take turns."""

    def __init__(self, run: Run, in_place: Sequence[int]) -> None:
        self._run = run
        self._positions = list(in_place)
        self._choose = _chooser(self._positions)
        self._mine: list[Array] = []
        self._alone = [0]
        self._changes = _owners.changes
        self._ids: list[int] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _owners.remove, self._ids).atexit = False

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        with self._lock:
            chosen = self._choose(variables)
            mine = self._mine
            if self._changes != _owners.changes:
                self._expect()
            if not all(map(is_, chosen, mine)) or [*map(getrefcount, mine)] != self._alone:
                del mine
                self._adopt(variables, chosen)
            del chosen
            return self._run(inputs, variables)

    def _expect(self) -> None:
        """Find the counts of arrays that a variable, the lists and all owners hold."""
        count = _count_of_one_alone()
        self._alone = [count + _owners.of[number] for number in self._ids] or [0]
        self._changes = _owners.changes

    def _adopt(self, variables: list[Array], chosen: tuple[Array, ...]) -> None:
        """Put copies into the list for arrays that may not be written to, and remember all."""
        is_first = not self._ids
        _owners.remove(self._ids)
        self._mine = []
        counts, alone = [*map(getrefcount, chosen)], _count_of_one_alone()
        for position, array, count in zip(self._positions, chosen, counts, strict=True):
            is_alone = count == alone + _owners.of.get(id(array), 0)
            # What is assigned to again and again must not be copied each time.
            if not (is_alone and _owns_memory(array) and (_begins_a_line(array) or not is_first)):
                variables[position] = _copy_of(array)
        self._mine = [variables[position] for position in self._positions]
        self._ids.extend(map(id, self._mine))
        _owners.add(self._ids)


class _Room(bytearray):
    """The memory of one array, which only that array knows.

    It is no array: of an array inside another NumPy makes views that hold the outer one.
    """


def _copy_of(array: Array) -> Array:
    """Return a copy that begins with a line of the cache: loops over others take a fifth longer."""
    # A number, which NumPy makes of arrays without dimensions, becomes an array again.
    array = np.asarray(array)
    room = _Room(array.nbytes + _LINE)
    start = -np.frombuffer(room, np.uint8).ctypes.data % _LINE
    copy = np.ndarray(array.shape, array.dtype, room, start)
    copy[...] = array
    return copy


def _chooser(positions: Sequence[int]) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
    if len(positions) == 1:
        (only,) = positions
        return lambda variables: (variables[only],)
    return itemgetter(*positions)


def _count_of_one_alone() -> int:
    """The reference count of an array that a variable, a list and those chosen of it hold.

    A name stands for the variable. Python's versions count differently, so it is tried out.
    """
    array = np.empty(1)
    variables = [array]
    chosen = tuple(variables)
    (count,) = map(getrefcount, chosen)
    return count


def _owns_memory(array: Array) -> bool:
    """Whether an array is no view, and fills memory of its own in order."""
    if type(array) is not np.ndarray:
        return False
    flags, base = array.flags, array.base
    is_own = (flags.owndata and base is None) or isinstance(base, _Room)
    is_whole = flags.c_contiguous and flags.writeable and not array.ctypes.data & 15
    return bool(is_own and is_whole)


def _begins_a_line(array: Array) -> bool:
    return not array.ctypes.data % _LINE


KERNELS = {"capture": capture}
