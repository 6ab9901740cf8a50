"""Arrays of variables that a program overwrites: who else holds them, and where they lie.

Values read from a variable never change. So an array is written to only if it owns its memory and
nobody but the variable holds it: neither a tensor that was read, nor a tape that saved it, nor a
view. Python's reference counts of the array, of its pointer and of its memory say so. Several
programs may have the same arrays; each of them counts what the others hold.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from operator import is_
from sys import getrefcount
from typing import Any

import cupy

from tapegrad_cupy.multi_copies import copies_of, copy_many
from tapegrad_cupy.updates.multi_tensors import on_device

Array = Any


# Reference counts


def watched(arrays: Sequence[Array]) -> list[Any]:
    """Return the arrays, their pointers and their memory: who sees values holds one of them."""
    pointers = [array.data for array in arrays]
    return [*arrays, *pointers, *[pointer.mem for pointer in pointers]]


def references(watched: list[Any]) -> list[int]:
    """Return how often each of them is referred to."""
    return [*map(getrefcount, watched)]


@functools.cache
def alone() -> tuple[int, int, int]:
    """Return the counts of an array, its pointer and its memory for one in a list and watched.

    Python's versions count differently, so it is tried out. Whoever else holds the array adds one.
    """
    arrays = [cupy.ndarray((1,), cupy.uint8)]
    array, pointer, memory = references(watched(arrays))
    return array, pointer, memory


def expected(arrays: Sequence[Array], holders: Sequence[int], owners: Sequence[int]) -> list[int]:
    """Return the counts of watched arrays that so many lists, variables and owners hold."""
    array, pointer, memory = alone()
    return [
        *[array + held - 1 + 2 * own for held, own in zip(holders, owners, strict=True)],
        *[pointer + own for own in owners],
        *[memory + own for own in owners],
    ]


# Who writes to which arrays


class _Owners:
    """How many owners hold which arrays, by the arrays' ids; `changes` counts what happened."""

    def __init__(self) -> None:
        self.changes = 0
        self._of: dict[int, int] = {}

    def count(self, arrays: Sequence[Array]) -> list[int]:
        return [self._of.get(id(array), 0) for array in arrays]

    def add(self, ids: Sequence[int]) -> None:
        self.changes += 1
        for number in ids:
            self._of[number] = self._of.get(number, 0) + 1

    def remove(self, ids: list[int]) -> None:
        """Take away one owner each; the list is emptied, so that it cannot happen twice."""
        self.changes += 1
        while ids:
            number = ids.pop()
            left = self._of[number] - 1
            if left:
                self._of[number] = left
            else:
                del self._of[number]


_owners = _Owners()


class Owner:
    """Arrays that some variables of a program, by their positions, have for themselves.

    A list of the arrays of all variables comes in; the variables and that list hold them, and what
    is written to gets its array there.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = list(positions)
        self.arrays: list[Array] = []
        self._watched: list[Any] = []
        self._expected: list[int] = []
        self._changes = -1
        self._ids: list[int] = []
        weakref.finalize(self, _owners.remove, self._ids).atexit = False

    def enter(self, variables: list[Array]) -> bool:
        """Let the variables have the arrays of the last time; False if others had to be taken."""
        if self._is_home(variables) or self._bring_home(variables):
            return True
        self._take(variables)
        return False

    def own(self, variables: list[Array]) -> None:
        """Let the variables have arrays that may be written to, wherever they lie."""
        if not self._is_home(variables):
            self._take(variables)

    def leave(self) -> Sequence[Array]:
        """Return the arrays that the variables hold after a run."""
        return self.arrays

    def _is_home(self, variables: list[Array]) -> bool:
        """Whether the variables have the arrays of the last time, and nobody else has."""
        chosen = [variables[at] for at in self._positions]
        if len(chosen) != len(self.arrays):
            return False
        if self._changes != _owners.changes:
            # Held by the variable, by the list that comes in, by those chosen, and by `arrays`.
            self._expected = expected(self.arrays, [4] * len(chosen), self._others())
            self._changes = _owners.changes
        return all(map(is_, chosen, self.arrays)) and references(self._watched) == self._expected

    def _others(self) -> list[int]:
        return [count - 1 for count in _owners.count(self.arrays)]

    def _bring_home(self, variables: list[Array]) -> bool:
        """Copy what was assigned meanwhile to where it was before, if nobody looks at that."""
        chosen = [variables[at] for at in self._positions]
        if len(chosen) != len(self.arrays):
            return False
        here = [*map(is_, chosen, self.arrays)]
        holders = [4 if is_here else 1 for is_here in here]
        if references(self._watched) != expected(self.arrays, holders, self._others()):
            return False
        away = [at for at, is_here in enumerate(here) if not is_here]
        new, old = [chosen[at] for at in away], [self.arrays[at] for at in away]
        # What another program writes to stays with it, or both would copy to and fro.
        if any(_owners.count(new)) or not all(map(_alike, new, old)):
            return False
        copy_many(old, new)
        for at, array in zip(away, old, strict=True):
            variables[self._positions[at]] = array
        return True

    def _take(self, variables: list[Array]) -> None:
        """Take the variables' arrays, and copies of those that may not be written to."""
        self.forget()
        chosen = [variables[at] for at in self._positions]
        counts, owners = references(watched(chosen)), _owners.count(chosen)
        wanted = expected(chosen, [3] * len(chosen), owners)
        length = len(chosen)
        for at, position in enumerate(self._positions):
            if counts[at::length] != wanted[at::length] or not _owns_memory(chosen[at]):
                with on_device(chosen[at].data.device_id):
                    variables[position] = chosen[at].copy(order="C")
        self.arrays = [variables[at] for at in self._positions]
        self._watched = watched(self.arrays)
        self._ids.extend(map(id, self.arrays))
        _owners.add(self._ids)

    def forget(self) -> None:
        """Let go of the arrays."""
        _owners.remove(self._ids)
        self.arrays, self._watched = [], []


class Apart:
    """Arrays behind some variables, which nobody else sees: the variables get copies of them.

    It takes a copy each time, and the arrays never move.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = list(positions)
        self.arrays: list[Array] = []
        self._given: list[Array] = []

    def enter(self, variables: list[Array]) -> bool:
        """Put the arrays in the variables' places, with their values; False if they are new."""
        chosen = [variables[at] for at in self._positions]
        fits = len(self.arrays) == len(chosen) and all(map(_alike, chosen, self.arrays))
        if not fits:
            self.arrays, self._given = copies_of(chosen), []
        elif len(self._given) < len(chosen):  # the last run did not come to its end
            copy_many(self.arrays, chosen)
        else:
            away = [at for at, array in enumerate(chosen) if array is not self._given[at]]
            copy_many([self.arrays[at] for at in away], [chosen[at] for at in away])
        for at, array in zip(self._positions, self.arrays, strict=True):
            variables[at] = array
        return fits

    def leave(self) -> Sequence[Array]:
        """Return the arrays that the variables hold after a run."""
        self._given = copies_of(self.arrays)
        return self._given

    def forget(self) -> None:
        """Let go of the arrays."""
        self.arrays, self._given = [], []


def _alike(a: Array, b: Array) -> bool:
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.data.device_id == b.data.device_id)


@functools.cache
def _own_memory() -> type:
    """The type of memory that CuPy's allocator gives, as opposed to what other libraries lend."""
    return type(cupy.ndarray((1,), cupy.uint8).data.mem)


def _owns_memory(array: Array) -> bool:
    """Whether an array is no view, fills its memory in order, and got it from the allocator."""
    pointer = array.data
    return bool(
        array.base is None
        and array._c_contiguous
        and not pointer.ptr & 15
        and type(pointer.mem) is _own_memory()
    )
