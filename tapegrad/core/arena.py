"""Static memory planning: offsets in one block for values with known lifetimes.

Values whose lifetimes do not overlap may share memory. Nothing is allocated here: a plan gives the
offset of each value and the size of the block.
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
"""All offsets are multiples of this number of bytes, which suits every device."""


class Request(NamedTuple):
    """A value of `size` bytes that is live from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """The offset of each value, the size of the block, and the peak of live bytes."""

    offsets: tuple[int, ...]
    size: int
    lower_bound: int


def plan(requests: Sequence[Request]) -> Plan:
    """Return offsets such that values that are live at the same time do not overlap.

    Two heuristics are tried, by time and by size, and the smaller block is returned. It is at
    least as large as the lower bound, and seldom much larger.

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
    """Raise ArgumentError if two live values overlap or one lies outside the block.

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
    """Place values in order of first use, each in the smallest hole that is large enough."""
    offsets = [0] * len(requests)
    holes = _Holes()
    # Values that become live in the same step: large ones first, since they fit fewer holes.
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
    """The free list: holes sorted by offset, and the end of the used block."""

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
            offset = self._holes.pop()[0]  # extend the last hole
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
    """Place the largest values first, each in the smallest gap between the values it overlaps."""
    offsets = [0] * len(requests)
    count = len(requests)
    # The values placed so far, sorted by offset.
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
    """The offset of the smallest gap of at least `size` bytes, or the end of all values."""
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
