"""Places in one block of memory for values that live from one step of a program to another.

Values that never live at once may share their place. Nothing is allocated here: a plan says at
which offset each value lies, and how large the block must be.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError

Array = np.ndarray

ALIGNMENT = 256
"""Offsets are multiples of so many bytes, which suits every device."""


class Request(NamedTuple):
    """A value of `size` bytes that is there from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """Where each value lies, how large the block is, and the most bytes that live at once."""

    offsets: tuple[int, ...]
    size: int
    lower_bound: int


def plan(requests: Sequence[Request]) -> Plan:
    """Return places for values such that no two that live at once overlap.

    The block is at least as large as the lower bound, and seldom much larger: values are placed
    by size and by time, and the smaller of the two blocks is taken.

    >>> plan([Request(1000, 0, 1), Request(500, 1, 2), Request(1000, 2, 3)])
    Plan(offsets=(0, 1024, 0), size=1536, lower_bound=1536)
    """
    for request in requests:
        if request.size < 0 or request.last < request.first:
            raise ArgumentError(
                "A request needs a size of at least 0 and a last step that is not before its "
                f"first. Got {request}."
            )
    sizes = [-(-request.size // ALIGNMENT) * ALIGNMENT for request in requests]
    bound = _most_at_once(requests, sizes)
    best = _by_time(requests, sizes)
    if _extent(best, sizes) > bound:
        best = min(best, _by_size(requests, sizes), key=lambda found: _extent(found, sizes))
    return Plan(tuple(best), _extent(best, sizes), bound)


def check(requests: Sequence[Request], plan: Plan) -> None:
    """Raise if two values that live at once overlap, or one lies outside of the block.

    >>> check([Request(8, 0, 1), Request(8, 1, 1)], Plan((0, 256), 512, 512))
    """
    for number, (request, offset) in enumerate(zip(requests, plan.offsets, strict=True)):
        if offset < 0 or offset % ALIGNMENT or offset + request.size > plan.size:
            raise ArgumentError(
                f"Request {number} {request} cannot lie at {offset} in a block of {plan.size} "
                f"bytes, where offsets are multiples of {ALIGNMENT}."
            )
    begins = np.array(plan.offsets, np.int64)
    ends = begins + np.array([request.size for request in requests], np.int64)
    firsts = np.array([request.first for request in requests], np.int64)
    lasts = np.array([request.last for request in requests], np.int64)
    for k, request in enumerate(requests):
        if not request.size:
            continue
        later = slice(k + 1, None)
        meets = (firsts[later] <= request.last) & (lasts[later] >= request.first)
        meets &= (begins[later] < ends[k]) & (ends[later] > begins[k])
        meets &= ends[later] > begins[later]
        if meets.any():
            other = k + 1 + int(meets.argmax())
            raise ArgumentError(
                f"Requests {k} {request} and {other} {requests[other]} live at once, and lie at "
                f"{plan.offsets[k]} and {plan.offsets[other]}, where they overlap."
            )


def _extent(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def _most_at_once(requests: Sequence[Request], sizes: Sequence[int]) -> int:
    changes: dict[int, int] = {}
    for request, size in zip(requests, sizes, strict=True):
        changes[request.first] = changes.get(request.first, 0) + size
        changes[request.last + 1] = changes.get(request.last + 1, 0) - size
    return max(accumulate((changes[step] for step in sorted(changes)), initial=0))


def _by_time(requests: Sequence[Request], sizes: Sequence[int]) -> list[int]:
    """Place values as they appear, each in the smallest hole that takes it."""
    offsets = [0] * len(requests)
    holes = _Holes()
    # Of those that appear together, the large ones have fewer holes to choose from.
    order = sorted(range(len(requests)), key=lambda k: (requests[k].first, -sizes[k]))
    ending = sorted(range(len(requests)), key=lambda k: requests[k].last)
    gone = 0
    for k in order:
        if not sizes[k]:
            continue
        while requests[ending[gone]].last < requests[k].first:
            if sizes[ending[gone]]:
                holes.free(offsets[ending[gone]], sizes[ending[gone]])
            gone += 1
        offsets[k] = holes.take(sizes[k])
    return offsets


class _Holes:
    """Free places between those in use, in their order, and the end of all."""

    def __init__(self) -> None:
        self._holes: list[tuple[int, int]] = []
        self._end = 0

    def take(self, size: int) -> int:
        fitting = [(hole[1], k) for k, hole in enumerate(self._holes) if hole[1] >= size]
        if fitting:
            _, k = min(fitting)
            offset, room = self._holes[k]
            if room == size:
                del self._holes[k]
            else:
                self._holes[k] = (offset + size, room - size)
            return offset
        offset = self._end
        if self._holes and sum(self._holes[-1]) == self._end:
            offset = self._holes.pop()[0]  # the last hole grows
        self._end = offset + size
        return offset

    def free(self, offset: int, size: int) -> None:
        at = bisect_left(self._holes, (offset, 0))
        if at < len(self._holes) and self._holes[at][0] == offset + size:
            size += self._holes.pop(at)[1]
        if at and sum(self._holes[at - 1]) == offset:
            before = self._holes.pop(at - 1)
            offset, size = before[0], before[1] + size
        insort(self._holes, (offset, size))


def _by_size(requests: Sequence[Request], sizes: Sequence[int]) -> list[int]:
    """Place the largest values first, each in the smallest gap between those it lives with."""
    offsets = [0] * len(requests)
    count = len(requests)
    # What is placed already, in the order of the offsets.
    begins, ends, firsts, lasts = (np.zeros(count, np.int64) for _ in range(4))
    order = sorted(range(count), key=lambda k: (-sizes[k], requests[k].first))
    placed = 0
    for k in order:
        size, first, last = sizes[k], requests[k].first, requests[k].last
        if not size:
            continue
        meets = (firsts[:placed] <= last) & (lasts[:placed] >= first)
        offset = _best_gap(begins[:placed][meets], ends[:placed][meets], size)
        offsets[k] = offset
        at = int(np.searchsorted(begins[:placed], offset))
        for table, value in (
            (begins, offset),
            (ends, offset + size),
            (firsts, first),
            (lasts, last),
        ):
            table[at + 1 : placed + 1] = table[at:placed].copy()
            table[at] = value
        placed += 1
    return offsets


def _best_gap(begins: Array, ends: Array, size: int) -> int:
    """The offset of the smallest gap that takes `size` bytes, or the end of all."""
    if not len(begins):
        return 0
    reached = np.maximum.accumulate(ends)
    gaps = begins.copy()
    gaps[1:] -= reached[:-1]
    fitting = np.flatnonzero(gaps >= size)
    if not len(fitting):
        return int(reached[-1])
    at = int(fitting[gaps[fitting].argmin()])
    return int(reached[at - 1]) if at else 0
