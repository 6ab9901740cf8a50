"""Gathering a few runs of evenly spaced entries along an axis, known when the call is made.

Padding with values of the tensor itself consists of such runs. Unlike a gather by an index array,
a gather of runs says in its params where it reads, so that compiled programs read its operand in
place, and its gradient is a sum of a few slices instead of a scatter.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.primitive import Primitive

Run = tuple[int, int, int]
"""The first position, the step and the number of positions; a step of 0 repeats one entry."""

MOST_RUNS = 8
"""The most runs of a gather; beyond that an index array is faster."""


def runs_of(positions: Any, most: int = MOST_RUNS) -> tuple[Run, ...] | None:
    """Divide positions, which are not negative, into runs; None if there are too many of them.

    An entry that could belong to two neighbouring runs belongs to the longer one.

    >>> runs_of([0, 0, 1, 2, 3, 3])
    ((0, 1, 1), (0, 1, 4), (3, 1, 1))
    >>> runs_of([2, 1, 0, 1, 2, 3])
    ((2, -1, 2), (0, 1, 4))
    """
    places = np.asarray(positions, np.int64)
    steps = np.diff(places)
    changes = np.flatnonzero(np.diff(steps)) + 1
    if len(places) == 0 or len(changes) > 2 * most:
        return None
    # Segment k has the entries edges[k] to edges[k + 1], both included.
    edges = [0, *changes.tolist(), len(steps)]
    lengths = [last - first for first, last in itertools.pairwise(edges)]
    found: list[Run] = []
    begin = 0
    for k, last in enumerate(edges[1:]):
        is_shared = k + 1 < len(lengths) and lengths[k + 1] > lengths[k]
        end = last if is_shared else last + 1
        if end > begin:
            step = int(steps[begin]) if end - begin > 1 else 1
            found.append((int(places[begin]), step, end - begin))
            begin = end
    return tuple(found) if len(found) <= most else None


def part_of(run: Run) -> slice:
    """Return the slice of a run, the first entry alone if it is repeated."""
    first, step, count = run
    if step == 0:
        return slice(first, first + 1)
    end = first + step * count
    return slice(first, None if end < 0 else end, step)


def length_of(runs: tuple[Run, ...]) -> int:
    """Return the number of entries of all runs."""
    return sum(count for _, _, count in runs)


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, part)


def _take_runs(xp: Any, x: Any, *, axis: int, runs: tuple[Run, ...]) -> Any:
    parts = []
    for run in runs:
        part = x[(*_along(axis, part_of(run)), ...)]
        if run[1] == 0:
            part = xp.broadcast_to(part, (*x.shape[:axis], run[2], *x.shape[axis + 1 :]))
        parts.append(part)
    return xp.concat(parts, axis=axis)


def _take_runs_add(xp: Any, t: Any, *, axis: int, runs: tuple[Run, ...], size: int) -> Any:
    total = xp.zeros((*t.shape[:axis], size, *t.shape[axis + 1 :]), dtype=t.dtype, device=t.device)
    begin = 0
    for run in runs:
        part = t[(*_along(axis, slice(begin, begin + run[2])), ...)]
        if run[1] == 0:
            part = xp.sum(part, axis=axis, keepdims=True, dtype=t.dtype)
        place = (*_along(axis, part_of(run)), ...)
        total[place] = total[place] + part
        begin += run[2]
    return total


take_runs_p: Primitive = linear(
    "take_runs",
    _take_runs,
    transpose=lambda t, x_shape, *, axis, runs: take_runs_add_p(
        t, axis=axis, runs=runs, size=x_shape[axis]
    ),
    batch=lambda size, batched, x, *, axis, runs: take_runs_p(x, axis=axis + 1, runs=runs),
)

take_runs_add_p: Primitive = linear(
    "take_runs_add",
    _take_runs_add,
    transpose=lambda t, *, axis, runs, size: take_runs_p(t, axis=axis, runs=runs),
    batch=lambda count, batched, t, *, axis, runs, size: take_runs_add_p(
        t, axis=axis + 1, runs=runs, size=size
    ),
)
"""The transpose of `take_runs`: the sum of what was read of each entry."""
