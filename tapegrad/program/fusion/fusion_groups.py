"""Fusion groups: merge calls without creating dependence cycles.

Two groups may be merged unless a call outside of them must run between their members. Sets of
groups are integers with one bit per group, so that a merge costs a few operations.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad.program.graph.dependence import direct_needs


class Grouping:
    """Groups of calls, each identified by the position of its first call."""

    def __init__(self, calls: Sequence[Any]) -> None:
        """Start with one group per call; a call is anything with `reads` and `results`."""
        self._group = list(range(len(calls)))
        self.members: list[list[int]] = [[position] for position in range(len(calls))]
        needs = direct_needs(calls)
        self._before = [0] * len(calls)
        self._after = [0] * len(calls)
        self._apart = [0] * len(calls)
        for position, others in enumerate(needs):
            for other in others:
                self._before[position] |= self._before[other] | 1 << other
        for position in range(len(calls) - 1, -1, -1):
            for other in needs[position]:
                self._after[other] |= self._after[position] | 1 << position

    def group_of(self, position: int) -> int:
        """Return the group of a call."""
        return self._group[position]

    def keep_apart(self, first: int, second: int) -> None:
        """Forbid merging the groups of two calls."""
        one, other = self._group[first], self._group[second]
        self._apart[one] |= 1 << other
        self._apart[other] |= 1 << one

    def can_merge(self, first: int, second: int) -> bool:
        """Whether two groups can be merged."""
        both = 1 << first | 1 << second
        before = (self._before[first] | self._before[second]) & ~both
        after = (self._after[first] | self._after[second]) & ~both
        return not before & after and not self._apart[first] >> second & 1

    def are_independent(self, first: int, second: int) -> bool:
        """Whether neither of two groups depends on the other."""
        return not (self._before[first] >> second | self._before[second] >> first) & 1

    def merge(self, first: int, second: int) -> int:
        """Merge two groups for which `can_merge` is true, and return the new group."""
        kept, gone = min(first, second), max(first, second)
        both = 1 << kept | 1 << gone
        before = (self._before[kept] | self._before[gone]) & ~both
        after = (self._after[kept] | self._after[gone]) & ~both
        self._before[kept], self._after[kept] = before, after
        self._before[gone] = self._after[gone] = 0
        for other in _bits(after):
            self._before[other] = (self._before[other] | before | 1 << kept) & ~(1 << gone)
        for other in _bits(before):
            self._after[other] = (self._after[other] | after | 1 << kept) & ~(1 << gone)
        for other in _bits(self._apart[gone]):
            self._apart[other] |= 1 << kept
        self._apart[kept] |= self._apart[gone]
        for position in self.members[gone]:
            self._group[position] = kept
        self.members[kept] = sorted(self.members[kept] + self.members[gone])
        self.members[gone] = []
        return kept

    def in_order(self) -> list[int]:
        """Return all groups in topological order, ties in the order of their last calls."""
        groups = [group for group, members in enumerate(self.members) if members]
        waits = {group: self._before[group].bit_count() for group in groups}
        ready = [(self.members[group][-1], group) for group in groups if not waits[group]]
        heapq.heapify(ready)
        found = []
        while ready:
            _, group = heapq.heappop(ready)
            found.append(group)
            for other in _bits(self._after[group]):
                waits[other] -= 1
                if not waits[other]:
                    heapq.heappush(ready, (self.members[other][-1], other))
        assert len(found) == len(groups)
        return found


def _bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
