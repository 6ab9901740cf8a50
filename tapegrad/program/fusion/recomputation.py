"""Choose the values that a loop recomputes instead of reading them.

A value that another loop makes is written once and read once. Computing it again reads the arrays
that it is made of, some of which are read or stored anyway. Loops recompute a value if this moves
fewer bytes, unless the operations take longer than the saved traffic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from tapegrad.core.background import with_checkpoints
from tapegrad.program.fusion.outer_combinations import Again, Recomputes, outer_combinations
from tapegrad.program.fusion.row_groups import Seen
from tapegrad.program.graph.formulas import HEAVY
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.windows import Windowed

CHEAP = 8
"""The largest weight of a value that takes less time to compute than to read, on any device."""

DEAR = 32
"""The largest weight of a value that is computed again on devices that are fast at it."""

MOST_READ = 2
"""The most arrays of about its size that are read to compute a cheap value again."""

MOST_OF_ANY = 4
"""The most arrays of about its size that are read to save bytes."""

MOST_SMALL = 6
"""The most much smaller arrays that are read to compute a value again."""

SMALLER = 8
"""The size of a value over that of a much smaller array, which stays in a cache."""

NEGLIGIBLE = 256
"""The size of a value over that of an array that takes no time to read beside it."""


class Cost(NamedTuple):
    """The weight of computing a value from stored ones, by which calls, and what is read for it."""

    weight: int
    places: frozenset[int]
    read: frozenset[Any]
    """Numbers of values, with how they are seen if that is by a window."""


class Calls(Protocol):
    """What is known of the calls of a graph, by their positions."""

    calls: tuple[Call, ...]
    places: dict[int, int]
    weights: list[int | None]
    spaces: list[Shape]

    def reads_of(self, place: int) -> list[tuple[Value, Seen]]: ...


class Recomputation:
    """The costs of all values of a graph."""

    def __init__(
        self, calls: Calls, stored: Collection[int], cheap: int, recomputes: Recomputes
    ) -> None:
        """Take the numbers of the values that are stored in any case."""
        self._calls = calls
        self._stored = {*stored}
        self._recomputes = recomputes
        self._is_strict = cheap == CHEAP
        self._most = cheap
        if self._is_strict and recomputes(DEAR, 8):
            self._most = DEAR
        self.again: dict[int, Again] = outer_combinations(calls, recomputes)
        self.costs: dict[int, Cost] = {}
        self._together: Counter[frozenset[Any]] = Counter()
        """How many values that other loops read are made of the same large arrays.

        A loop that computes several of them again reads these once.
        """
        self.settle(())

    def settle(self, crossing: Collection[int]) -> None:
        """Find the costs of all values, given those that other loops read than make them.

        Of these, values that are not worth to be computed again are stored, and others may be
        computed from them.
        """
        values = [self._values[number] for number in crossing if number in self.costs]
        self._together = Counter(map(self._large, values))
        if self._is_strict and crossing:
            self._stored |= self._shared_sources(crossing)
        self._find_costs(crossing)

    def _find_costs(self, crossing: Collection[int]) -> None:
        self.costs.clear()
        for place, call in with_checkpoints(enumerate(self._calls.calls)):
            cost = self._cost(place)
            if cost is not None:
                self.costs.update({value.number: cost for value in call.results})
            for value in call.results if self._is_strict else ():
                if value.number in crossing and not self.is_cheap(value, ()):
                    self._stored.add(value.number)

    def _shared_sources(self, crossing: Collection[int]) -> set[int]:
        """The values to store because several values that other loops read are made of them.

        To store one of them for a single value would not move fewer bytes.
        """
        dear = [self._values[n] for n in crossing if n in self.costs and n not in self.again]
        dear = [value for value in dear if not self.is_cheap(value, ())]
        counts = Counter(key for value in dear for key in self.costs[value.number].read)
        shared = {n for n, count in counts.items() if count > 1 and type(n) is int}
        shared = {n for n in shared if not self._is_stored(n, ())}
        if not shared:
            return shared
        before, self._stored = self._stored, self._stored | shared
        self._find_costs(())
        saved: Counter[int] = Counter()
        for value in dear:
            cost = self.costs.get(value.number)
            used = shared & cost.read if cost is not None and self.is_cheap(value, ()) else set()
            for number in used if len(used) == 1 else ():
                assert cost is not None
                saved[number] += 2 * value.nbytes - self._bytes_of(cost.read - used, value.size)
        self._stored = before
        return {n for n, nbytes in saved.items() if nbytes > 2 * self._values[n].nbytes}

    def is_cheap(
        self,
        value: Value,
        needed: Collection[int],
        read: Collection[int] = (),
        size: int | None = None,
    ) -> bool:
        """Whether to compute a value again in a loop instead of reading it.

        Later steps read the values in `needed`. The loop reads those in `read` in any case, and has
        `size` elements, by default those of the value.
        """
        is_stored = value.number in needed
        is_smaller = size is not None and size > value.size
        if value.number in self.again and not is_stored and not is_smaller:
            return True
        cost = self.costs.get(value.number)
        if cost is None or not cost.read:
            return cost is not None
        if not self._is_strict:
            return not is_stored and cost.weight <= self._most and len(cost.read) <= MOST_READ
        small = sum(self._value(key).size * SMALLER <= value.size for key in cost.read)
        large = len(cost.read) - small
        if small > MOST_SMALL or large > MOST_OF_ANY:
            return False
        counted = value.size if self._together[self._large(value)] > 1 else 0
        bytes_read = self._bytes_of(cost.read, counted, needed, read)
        saved = value.nbytes * (1 if is_stored else 2) - bytes_read
        is_light = cost.weight <= CHEAP and not self._is_heavy(cost.places)
        if is_light and large <= MOST_READ and not is_stored:
            # What is stored anyway is read rather than that another array takes memory.
            return saved >= 0 or all(
                self._is_stored(self._value(key).number, needed) for key in cost.read
            )
        # A loop computes a smaller value once for each of its own elements.
        return saved > 0 and not is_smaller and self._recomputes(cost.weight, saved // value.size)

    def _large(self, value: Value) -> frozenset[Any]:
        """What is read to compute a value again, without small arrays."""
        cost = self.costs.get(value.number)
        read = () if cost is None else cost.read
        return frozenset(key for key in read if self._value(key).size * SMALLER > value.size)

    def sources_of(self, value: Value) -> list[int]:
        """The arrays of about its size that are read to compute a value again."""
        cost = self.costs.get(value.number)
        read = () if cost is None or value.number in self.again else cost.read
        return [n for n in read if type(n) is int and self._value(n).size >= value.size]

    def _bytes_of(
        self,
        keys: Collection[Any],
        size: int,
        needed: Collection[int] = (),
        read: Collection[int] = (),
    ) -> int:
        """The bytes that are moved to have these values at hand for one with `size` elements."""
        total = 0
        for key in keys:
            value = self._value(key)
            if value.size * NEGLIGIBLE <= size:
                continue
            times = 0 if key in read else 1
            if not self._is_stored(value.number, needed):
                times += 1
            total += times * value.nbytes
        return total

    def _is_stored(self, number: int, needed: Collection[int]) -> bool:
        """Whether a value is an array in any case."""
        place = self._calls.places.get(number)
        if place is None or self._calls.weights[place] is None:
            return True
        return number in self._stored or number in needed

    def _cost(self, place: int) -> Cost | None:
        """The cost of a call's results; None if it must not be computed again.

        The costs of earlier calls are known.
        """
        weight = self._calls.weights[place]
        most = HEAVY - 1 if self._most == CHEAP else self._most
        if weight is None or weight > most:
            return None
        places, read = {place}, set[Any]()
        size = self._calls.calls[place].results[0].size
        for operand, seen in self._calls.reads_of(place):
            if isinstance(seen, Windowed):
                read.add((operand.number, seen))
                continue
            inner = self.costs.get(operand.number)
            if inner is None or not self._is_expanded(operand, places, inner, size):
                read.add(operand.number)
            else:
                places |= inner.places
                read |= inner.read
        if not read:  # A constant is evaluated at compile time.
            return Cost(0, frozenset(), frozenset())
        return Cost(self._weight(places), frozenset(places), frozenset(read))

    def _is_heavy(self, places: Collection[int]) -> bool:
        weights = self._calls.weights
        return any([(weights[place] or 0) >= HEAVY for place in places])

    def _weight(self, places: Collection[int]) -> int:
        weights = self._calls.weights
        return sum([weights[place] or 0 for place in places])

    def _is_expanded(self, operand: Value, places: set[int], inner: Cost, size: int) -> bool:
        """Whether an operand of a value with `size` elements is computed again with the value."""
        if not inner.read:
            return True
        if self._is_heavy(inner.places) and operand.size < size:  # once for each element
            return False
        if operand.number in self._stored or self._weight(places | inner.places) > self._most:
            return False
        return not self._is_strict or self._bytes_of(inner.read, operand.size) <= 2 * operand.nbytes

    def _value(self, key: Any) -> Value:
        return self._values[key if type(key) is int else key[0]]

    @cached_property
    def _values(self) -> dict[int, Value]:
        calls = self._calls.calls
        return {v.number: v for call in calls for v in (*call.reads, *call.results)}
