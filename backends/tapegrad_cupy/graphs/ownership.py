"""The arrays of variables that a program overwrites.

An array is written in place only if its variable alone holds it; otherwise it is copied first.
tapegrad/core/ownership.py explains the rule, runtime/array_references.py what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from tapegrad.core.ownership import Owners, reference_counts
from tapegrad_cupy.kernels.copying.multi_copies import copies_of, copy_many
from tapegrad_cupy.launch.multi_tensors import on_device
from tapegrad_cupy.runtime.array_references import expected_counts, owns_memory, watched

Array = Any

_owners = Owners()


class OwnedArrays:
    """The arrays of the variables at some positions, which only these variables hold.

    Methods take a list of the arrays of all variables. The variables and this list hold the arrays.
    A variable that is copied gets its new array in the list.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = list(positions)
        self.arrays: list[Array] = []
        self._watched: list[Any] = []
        self._expected: list[int] = []
        self._changes = -1
        self._ids: list[int] = []
        _owners.register(self, self._ids)

    def enter(self, variables: list[Array]) -> bool:
        """Give the variables the arrays of the last run; return False if the arrays are new."""
        if self._is_unchanged(variables) or self._restore(variables):
            return True
        self._take(variables)
        return False

    def own(self, variables: list[Array]) -> None:
        """Give the variables arrays that may be overwritten, at any address."""
        if not self._is_unchanged(variables):
            self._take(variables)

    def leave(self) -> Sequence[Array]:
        """Return the arrays that the variables hold after a run."""
        return self.arrays

    def _is_unchanged(self, variables: list[Array]) -> bool:
        """Return whether the variables, and nothing else, hold the arrays of the last run."""
        chosen = [variables[at] for at in self._positions]
        if len(chosen) != len(self.arrays):
            return False
        if self._changes != _owners.changes:
            # Held by the variable, the list of all variables, `chosen` and `arrays`.
            self._expected = expected_counts(self.arrays, [4] * len(chosen), self._others())
            self._changes = _owners.changes
        is_same = all(map(is_, chosen, self.arrays))
        return is_same and reference_counts(self._watched) == self._expected

    def _others(self) -> list[int]:
        return [count - 1 for count in _owners.counts(self.arrays)]

    def _restore(self, variables: list[Array]) -> bool:
        """Copy newly assigned values to the arrays of the last run, if nothing else holds those."""
        chosen = [variables[at] for at in self._positions]
        if len(chosen) != len(self.arrays):
            return False
        here = [*map(is_, chosen, self.arrays)]
        holders = [4 if is_here else 1 for is_here in here]
        if reference_counts(self._watched) != expected_counts(self.arrays, holders, self._others()):
            return False
        away = [at for at, is_here in enumerate(here) if not is_here]
        new, old = [chosen[at] for at in away], [self.arrays[at] for at in away]
        # Arrays that another program owns stay there; otherwise both would copy back and forth.
        if any(_owners.counts(new)) or not all(map(_alike, new, old)):
            return False
        copy_many(old, new)
        for at, array in zip(away, old, strict=True):
            variables[self._positions[at]] = array
        return True

    def _take(self, variables: list[Array]) -> None:
        """Own the arrays of the variables, and copies of those that others hold."""
        self.forget()
        chosen = [variables[at] for at in self._positions]
        owners = _owners.counts(chosen)
        wanted = expected_counts(chosen, [3] * len(chosen), owners)
        counts = reference_counts(watched(chosen))
        length = len(chosen)
        for at, position in enumerate(self._positions):
            if counts[at::length] != wanted[at::length] or not owns_memory(chosen[at]):
                with on_device(chosen[at].data.device_id):
                    variables[position] = chosen[at].copy(order="C")
        self.arrays = [variables[at] for at in self._positions]
        self._watched = watched(self.arrays)
        _owners.take(self._ids, self.arrays)

    def forget(self) -> None:
        """Let go of the arrays."""
        _owners.remove(self._ids)
        self.arrays, self._watched = [], []


class PrivateCopies:
    """Private arrays for the variables at some positions; the variables get copies of them.

    Every run copies, and the addresses of the arrays never change.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = list(positions)
        self.arrays: list[Array] = []
        self._given: list[Array] = []

    def enter(self, variables: list[Array]) -> bool:
        """Replace the variables by the private arrays; return False if these are new."""
        chosen = [variables[at] for at in self._positions]
        fits = len(self.arrays) == len(chosen) and all(map(_alike, chosen, self.arrays))
        if not fits:
            self.arrays, self._given = copies_of(chosen), []
        elif len(self._given) < len(chosen):  # the last run was not completed
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
