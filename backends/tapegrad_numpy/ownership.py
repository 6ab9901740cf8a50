"""Programs that overwrite the arrays of variables, on NumPy.

An array is overwritten only if its variable alone holds it, by its reference count; otherwise it is
copied first. tapegrad/core/ownership.py explains the rule.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from operator import is_, itemgetter, ne
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import Deferred
from tapegrad.core.ownership import (
    UNKNOWN,
    Owners,
    count_for,
    distrust,
    reference_counts,
    why_not_used,
)
from tapegrad.core.update_lock import other_threads

Array = Any
Run = Callable[[Sequence[Any], list[Any]], Any]


_LINE = 64
"""Bytes of a line of the cache."""

_HOLDERS = 3
"""Holders of an array that may be written: the variable, the list of arrays, the chosen ones."""

_owners = Owners()


def capture(run: Run, written: Sequence[int], in_place: Sequence[int]) -> Run:
    """Return a run that gives `run` arrays to itself where it overwrites them.

    `run` takes the arrays of inputs and variables and returns outputs and what the variables at
    the positions `written` hold then. The arrays of those at `in_place`, which are some of them,
    it overwrites. Each array must be held by its variable and by the list that is passed; what
    another object holds is copied first.
    """
    return Owned(run, in_place) if in_place else run


class Owned:
    """See `capture`. Keeps the arrays of the last call; calls from several threads take turns.

    With `prepare` it is a `DeferredRun`.
    """

    def __init__(self, run: Run, in_place: Sequence[int]) -> None:
        check_views()
        self._run = run
        self._positions = list(in_place)
        self._choose = _chooser(self._positions)
        self._mine: list[Array] = []
        self._alone = [0]
        self._changes = _owners.changes
        self._ids: list[int] = []
        self._copied: list[bool] = []
        self._further: list[int] | None = None
        # A signal handler may call the program that it interrupts.
        self._lock = threading.RLock()
        _owners.register(self, self._ids)

    def __call__(self, inputs: Sequence[Array], variables: list[Array]) -> Any:
        with self._lock:
            return self._run(inputs, self._own(variables, False))

    def prepare(self, inputs: Sequence[Array], variables: list[Array], anew: bool) -> Deferred:
        """Run without the writes; see `DeferredRun`."""
        if other_threads():
            with self._lock:
                owned = self._own(variables, anew)
        else:
            owned = self._own(variables, anew)
        return self._run(inputs, owned), owned is not variables

    def watch(self, *returned: Any) -> Iterable[bool]:
        """See `DeferredRun`; `variables` must be kept until then, since it counts as a holder."""
        if why_not_used():  # all arrays are copies
            return ()
        held, writes, checks = returned
        return map(ne, map(sys.getrefcount, self._mine), self._expected([held, *writes, *checks]))

    def _own(self, variables: list[Array], anew: bool) -> list[Array]:
        """Return a list of arrays that may be overwritten: the given one if possible."""
        chosen = self._choose(variables)
        mine = self._mine
        if self._changes != _owners.changes:
            self._expect()
        if anew or not all(map(is_, chosen, mine)) or reference_counts(mine) != self._alone:
            del mine
            return self._adopt(variables, chosen, anew)
        if self._copied:
            self._copied = []
        return variables

    def _expected(self, holders: Sequence[Sequence[Array]]) -> list[int]:
        """The counts of the arrays when the calls that write are made, if nothing else has them.

        `holders` are what the run has returned.
        """
        if self._further is None:
            self._further = [sum(a is one for h in holders for a in h) - 1 for one in self._mine]
        if self._changes != _owners.changes:
            self._expect()
        found = [alone + further for alone, further in zip(self._alone, self._further)]
        # Neither the variable nor the list of the caller holds a copy.
        return [n - 2 * c for n, c in zip(found, self._copied)] if self._copied else found

    def _expect(self) -> None:
        """Cache the counts of arrays that a variable, the lists and all owners hold."""
        alone = count_for(_HOLDERS)
        self._alone = [alone + owners for owners in _owners.counts(self._mine)] or [0]
        self._changes = _owners.changes

    def _adopt(self, variables: list[Array], chosen: tuple[Array, ...], anew: bool) -> list[Array]:
        """Return a list with copies of arrays that may not be written to, and remember all."""
        is_first = not self._ids
        _owners.remove(self._ids)
        self._mine = []
        counts, alone = reference_counts(chosen), count_for(_HOLDERS)
        owned, copied = [*variables], []
        owners = _owners.counts(chosen)
        for position, array, count, others in zip(
            self._positions, chosen, counts, owners, strict=True
        ):
            is_alone = count == alone + others and not anew
            # What is assigned to again and again must not be copied each time.
            keeps = is_alone and _owns_memory(array) and (_begins_a_line(array) or not is_first)
            copied.append(not keeps)
            if not keeps:
                owned[position] = _copy_of(array)
        self._copied = copied
        self._mine = [owned[position] for position in self._positions]
        _owners.take(self._ids, self._mine)
        return owned


@functools.cache
def check_views() -> None:
    """Stop using reference counts if views of an array do not count as its holders."""
    array: Any = np.zeros((2, 2))
    watched = [array]
    views = [array[:1], array.T, memoryview(array), array[:1][:1]]
    if reference_counts(watched) not in ([count_for(2 + len(views))], [UNKNOWN]):
        distrust("this NumPy does not count a view as a holder of its array")


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


def _owns_memory(array: Array) -> bool:
    """Whether an array owns its memory and fills it in C order."""
    if type(array) is not np.ndarray:
        return False
    flags, base = array.flags, array.base
    is_own = (flags.owndata and base is None) or isinstance(base, _Room)
    is_whole = flags.c_contiguous and flags.writeable and not array.ctypes.data & 15
    return bool(is_own and is_whole)


def _begins_a_line(array: Array) -> bool:
    return not array.ctypes.data % _LINE


class OwnedArrays:
    """Runs programs that overwrite variables on arrays that no other object holds."""

    launches_graphs = False
    capture = staticmethod(capture)
    defer = staticmethod(Owned)
