"""Fusion groups: merge calls without creating dependence cycles.

Two groups may be merged unless a call outside of them must run between their members. For each
group, the groups that must run before and after it are known. Sets are integers with one bit per
call, so that tests cost a few operations. One call of a group stands for the group; bits of its
other calls may be left in a set and mean nothing more. A merge changes only groups that depend on
one of the two and not on the other, and only if that adds something to what they depend on. Such
groups are few, since calls are merged with those that made their operands. The merged group keeps
the representative that requires fewer updates in other groups.
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
        self._own = [1 << position for position in range(len(calls))]
        self._mark = [1 << position for position in range(len(calls))]
        """The bit of the call that stands for a group."""
        self._marks = (1 << len(calls)) - 1
        self._needs = direct_needs(calls)
        self._before = [0] * len(calls)
        self._after = [0] * len(calls)
        self._apart = [0] * len(calls)
        for position, others in enumerate(self._needs):
            for other in others:
                self._before[position] |= self._before[other] | 1 << other
        for position in range(len(calls) - 1, -1, -1):
            for other in self._needs[position]:
                self._after[other] |= self._after[position] | 1 << position

    def group_of(self, position: int) -> int:
        """Return the group of a call."""
        return self._group[position]

    def keep_apart(self, first: int, second: int) -> None:
        """Forbid merging the groups of two calls."""
        self._apart[self._group[first]] |= 1 << second
        self._apart[self._group[second]] |= 1 << first

    def can_merge(self, first: int, second: int) -> bool:
        """Whether two groups can be merged."""
        before = self._before[first] | self._before[second]
        after = self._after[first] | self._after[second]
        between = before & after & ~(self._own[first] | self._own[second])
        return not between and not self._apart[first] & self._own[second]

    def are_independent(self, first: int, second: int) -> bool:
        """Whether neither of two groups depends on the other."""
        return not (
            self._before[first] & self._own[second] or self._before[second] & self._own[first]
        )

    def merge(self, first: int, second: int) -> int:
        """Merge two groups for which `can_merge` is true, and return the new group."""
        kept, gone = min(first, second), max(first, second)
        own = self._own[kept] | self._own[gone]
        others = self._marks & ~own
        is_kept = self._unaware(kept, gone, others) <= self._unaware(gone, kept, others)
        mark, lost = self._mark[kept], self._mark[gone]
        if not is_kept:
            mark, lost = lost, mark
        for before, after in ((self._before, self._after), (self._after, self._before)):
            self._join(before, after, kept, gone, 0 if is_kept else mark, others)
            self._join(before, after, gone, kept, mark if is_kept else 0, others)
        self._mark[kept] = mark
        self._marks &= ~lost
        for sets in (self._before, self._after):
            sets[kept] = (sets[kept] | sets[gone]) & ~own
            sets[gone] = 0
        self._own[kept], self._own[gone] = own, 0
        self._apart[kept] |= self._apart[gone]
        for position in self.members[gone]:
            self._group[position] = kept
        self.members[kept] = sorted([*self.members[kept], *self.members[gone]])  # two runs
        self.members[gone] = []
        return kept

    def _unaware(self, group: int, other: int, others: int) -> int:
        """The number of groups before or after another group, and not before or after this one."""
        after = self._after[other] & ~self._after[group] & others
        before = self._before[other] & ~self._before[group] & others
        return after.bit_count() + before.bit_count()

    def _join(
        self, before: list[int], after: list[int], one: int, other: int, mark: int, others: int
    ) -> None:
        """Let the groups after one and not after the other run after all that is before the other.

        They learn of the bit `mark` too. The other direction is the same with `before` and `after`
        exchanged.
        """
        added = before[other] & ~before[one] & others | mark
        if added:
            for position in _bits(after[one] & ~after[other] & others):
                before[self._group[position]] |= added

    def in_order(self) -> list[int]:
        """Return all groups in topological order, ties in the order of their last calls."""
        groups = [group for group, members in enumerate(self.members) if members]
        needed = {group: self._direct_needs(group) for group in groups}
        readers: dict[int, list[int]] = {group: [] for group in groups}
        for group, others in needed.items():
            for other in others:
                readers[other].append(group)
        ready = [(self.members[group][-1], group) for group in groups if not needed[group]]
        heapq.heapify(ready)
        found = []
        while ready:
            _, group = heapq.heappop(ready)
            found.append(group)
            for reader in readers[group]:
                needed[reader].remove(group)
                if not needed[reader]:
                    heapq.heappush(ready, (self.members[reader][-1], reader))
        assert len(found) == len(groups)
        return found

    def _direct_needs(self, group: int) -> set[int]:
        """Return the other groups on whose calls a group depends directly."""
        calls = (other for position in self.members[group] for other in self._needs[position])
        return {self._group[other] for other in calls} - {group}


def _bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
