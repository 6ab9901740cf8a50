"""Take slices, rolls and paddings before the arithmetic instead of after it.

Loops read an array at other positions, but a value that is read at other positions has to be an
array. If only slices of `a + b` are read, sums of slices of `a` and `b` need no such array. The
gradient of a stencil pads and shifts several products of one array: as products of shifted reads
they need that array alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.backend.capabilities import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import (
    Call,
    Graph,
    Value,
    without_dead_calls,
    without_repeated_calls,
)
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.passes.moved_windows import has_unit_steps, moved_window, placed_part
from tapegrad.program.passes.new_calls import NewCalls

WINDOWS = frozenset({"flip", "roll", "slice", "take_runs", "unslice"})

MOST_WEIGHT = 12
"""The largest weight of what is computed again for each window that reads it."""

MOST_WEIGHT_ONCE = 64
"""The same for slices that hardly overlap: each element is computed once."""

MOST_WINDOWS = 8
"""How many windows of one value are taken early."""

OVERLAP = 1.25
"""The size of all slices of a value over its own, up to which they hardly overlap."""

LARGE = 1 << 15
"""The elements of a loop on the CPU that take longer than to call another loop."""

THIN = 8
"""The size of an array over that of a part which is much smaller."""

MOST_ROUNDS = 6
"""How often windows are moved. The gradient of a padding along each axis is a slice of the next."""

SMALLER = 8
"""The size of a value over that of an array whose reads do not count."""


def with_early_windows(graph: Graph, loops: LoopCompiler) -> Graph:
    """Move windows before cheap elementwise calls where that moves fewer bytes."""
    names = WINDOWS & {*loops.windows, "slice"}
    for _ in range(MOST_ROUNDS):
        if not any(call.primitive.name in names for call in graph.calls):
            return graph
        cones = _Uses(graph, names, loops).worthwhile_cones()
        if not cones:
            return graph
        graph = without_dead_calls(without_repeated_calls(_Rewriting(graph, cones).graph()))
    return graph


@dataclass
class _Cone:
    """A value that only windows read, the calls that make it from arrays, and these arrays."""

    call: Call
    windows: list[Call]
    is_read_whole: bool
    """Whether loops read the value itself, too."""
    calls: dict[int, Call] = field(default_factory=dict)
    """By the numbers of their results."""
    leaves: dict[int, Value] = field(default_factory=dict)
    keeps_zeros: bool = False
    """Whether the value is zero where all leaves are."""

    @property
    def value(self) -> Value:
        return self.call.results[0]

    @property
    def is_computed_once(self) -> bool:
        if self.is_read_whole:
            return False
        if any(window.primitive.name != "slice" for window in self.windows):
            return len(self.windows) == 1
        sizes = sum(window.results[0].size for window in self.windows)
        return sizes <= OVERLAP * self.value.size


class _Anchor(NamedTuple):
    """The value from which another one is computed, None if only from arrays, and the weight."""

    value: int | None
    weight: int


class _Uses:
    """Who makes and reads the values of a graph."""

    def __init__(self, graph: Graph, names: Collection[str], loops: LoopCompiler) -> None:
        self._names, self._loops = names, loops
        self._calls = graph.calls
        self._makers = {v.number: call for call in graph.calls for v in call.results}
        self._places = {v.number: k for k, call in enumerate(graph.calls) for v in call.results}
        self._readers: dict[int, list[Call]] = defaultdict(list)
        for call in graph.calls:
            for number in {value.number for value in call.reads}:
                self._readers[number].append(call)
        self._results = {value.number for value in graph.results}
        self._weights: dict[int, int | None] = {}
        self._fixed: dict[int, bool] = {}
        self._known: dict[np.dtype[Any], bool] = {}

    def worthwhile_cones(self) -> dict[int, _Cone]:
        """Return the cones to compute behind windows, by the numbers of their values."""
        shown = dict.fromkeys(c.reads[0].number for c in self._calls if self._is_window(c))
        makers = [self._makers[number] for number in shown if number in self._makers]
        cones = [cone for call in makers if (cone := self._cone(call)) is not None]
        chosen = {cone.value.number for cone in cones}
        found: dict[int, _Cone] = {}
        for group in self._sharing(cones, chosen):
            if self._saves_bytes(group, chosen):
                found.update({cone.value.number: cone for cone in group})
        return found

    def _weight(self, call: Call) -> int | None:
        """The weight of a call that loops compute from operands alone; None for others."""
        number = call.results[0].number if call.results else -1
        if number not in self._weights:
            self._weights[number] = weight_of(call) if self._is_in_loops(call) else None
        return self._weights[number]

    def _is_in_loops(self, call: Call) -> bool:
        """Whether loops know the dtypes of a call, and its params are the same for its parts."""
        if len(call.results) != 1 or call.region or not call.reads or "shape" in call.params:
            return False
        dtypes = {value.dtype for value in (*call.reads, *call.results)}
        return all([self._is_known(dtype) for dtype in dtypes])

    def _is_known(self, dtype: np.dtype[Any]) -> bool:
        found = self._known.get(dtype)
        if found is None:  # NumPy builds the name of a dtype on each access, which is slow
            names = self._loops.dtypes
            found = dtype.kind != "c" and (names is None or dtype.name in names)
            self._known[dtype] = found
        return found

    def _cone(self, call: Call) -> _Cone | None:
        if self._weight(call) is None or call.results[0].number in self._results:
            return None
        readers = self._readers[call.results[0].number]
        windows = [reader for reader in readers if self._is_window(reader)]
        others = [reader for reader in readers if not self._is_window(reader)]
        if not 0 < len(windows) <= MOST_WINDOWS or any(map(self._needs_array, others)):
            return None
        cone = _Cone(call, windows, is_read_whole=bool(others))
        self._fill(cone)
        if not self._is_light(cone) or all(map(self._is_filled, cone.leaves)):
            return None
        pads = any(window.primitive.name == "unslice" for window in windows)
        is_filled = any(map(self._is_filled, cone.leaves))  # zeros around a number need an array
        cone.keeps_zeros = not is_filled and _keeps_zeros(cone, self._places)
        if pads and not (cone.keeps_zeros and self._is_worth_padding(cone)):
            return None
        return cone

    def _is_worth_padding(self, cone: _Cone) -> bool:
        """Whether each leaf is padded instead of the value.

        A small part of a large array is read by few elements, but all of them look whether they do.
        That costs less than a launch on devices, and more than a loop on the CPU.
        """
        is_thin = any(w.results[0].size > THIN * cone.value.size for w in cone.windows)
        return not is_thin or len(cone.leaves) == 1 or self._loops.joins

    def _is_light(self, cone: _Cone) -> bool:
        """Whether to compute the value behind each window takes less time than to store it."""
        weight = sum(self._weight(call) or 0 for call in cone.calls.values())
        if cone.is_computed_once:
            is_worth_loops = self._loops.joins or cone.value.size >= LARGE * len(cone.windows)
            is_alone = len(cone.windows) == 1
            return weight <= MOST_WEIGHT_ONCE and (is_alone or is_worth_loops)
        if any(self._is_shown(leaf) for leaf in cone.leaves):
            return False  # a stencil of a stencil would read each element many times
        saved = 2 * cone.value.dtype.itemsize
        return weight <= MOST_WEIGHT and self._loops.recomputes(weight * len(cone.windows), saved)

    def _is_filled(self, number: int) -> bool:
        maker = self._makers.get(number)
        return maker is not None and maker.primitive.name == "full_like"

    def _is_shown(self, number: int) -> bool:
        maker = self._makers.get(number)
        return maker is not None and self._is_window(maker)

    def _is_window(self, call: Call) -> bool:
        if call.primitive.name not in self._names or call.region:
            return False
        kinds = (slice, int) if call.primitive.name == "slice" else slice
        return all(isinstance(part, kinds) for part in call.params.get("index", ()))

    def _fill(self, cone: _Cone) -> None:
        """Add calls and what they read, back to arrays and to values of several unstored ones.

        Values that others read as well are computed again.
        """
        waiting = [cone.call]
        while waiting:
            call = waiting.pop()
            cone.calls[call.results[0].number] = call
            for value in call.reads:
                maker = self._makers.get(value.number)
                if value.number in cone.calls:
                    continue
                if maker is not None and self._is_expanded(value, maker, cone):
                    waiting.append(maker)
                else:
                    cone.leaves[value.number] = value
        for number in cone.calls:
            cone.leaves.pop(number, None)

    def _is_expanded(self, value: Value, maker: Call, cone: _Cone) -> bool:
        """Whether a cone computes an operand itself."""
        if self._weight(maker) is None or value.shape != cone.value.shape:
            return False
        if self._is_fixed(value.number):
            return False
        readers = self._readers[value.number]
        if all(reader.results[0].number in cone.calls for reader in readers if reader.results):
            return True
        return self._anchors[value.number].value != value.number

    @cached_property
    def _anchors(self) -> dict[int, _Anchor]:
        """What each value of an elementwise call is computed from besides arrays.

        A value that is computed from more than one such value, or by too much work, is one itself.
        """
        found: dict[int, _Anchor] = {}
        for call in self._calls:
            weight = self._weight(call)
            if weight is None:
                continue
            number = call.results[0].number
            unstored = [v.number for v in call.reads if not self._is_fixed(v.number)]
            own = [found.get(n, _Anchor(n, 0)) for n in unstored]
            behind = {anchor.value for anchor in own} - {None}
            weight += sum(anchor.weight for anchor in own)
            if len(behind) > 1 or weight > MOST_WEIGHT:
                found[number] = _Anchor(number, 0)
            else:
                found[number] = _Anchor(next(iter(behind), None), weight)
        return found

    def _sharing(self, cones: Iterable[_Cone], chosen: Collection[int]) -> list[list[_Cone]]:
        """Group the cones that have a leaf in common which would be stored for them alone."""
        groups: dict[int, list[_Cone]] = {}
        of_leaf: dict[int, list[_Cone]] = {}
        for cone in cones:
            group = [cone]
            for number in cone.leaves:
                other = of_leaf.get(number)
                if other is not None and other is not group and not self._is_array(number, chosen):
                    group = _united(group, other, of_leaf)
            of_leaf.update(dict.fromkeys(cone.leaves, group))
        for group in of_leaf.values():
            groups[id(group)] = group
        return [*groups.values()]

    def _saves_bytes(self, group: Iterable[_Cone], chosen: Collection[int]) -> bool:
        """Whether to read the leaves costs less than to write and read the values.

        Leaves that nobody else reads are read only there instead of where the values were made.
        """
        cones = [*group]
        largest = max(cone.value.size for cone in cones)
        leaves = {n: value for cone in cones for n, value in cone.leaves.items()}
        inside = {n for cone in cones for n in cone.calls}
        cost, is_array = 0, True
        for number, value in leaves.items():
            if not self._is_array(number, chosen):
                cost, is_array = cost + 2 * value.nbytes, False
            elif value.size * SMALLER > largest and self._has_other_readers(number, inside):
                cost += value.nbytes
        saved = sum(2 * cone.value.nbytes for cone in cones) - cost
        return saved > 0 or (saved == 0 and is_array)  # at least one loop less

    def _has_other_readers(self, number: int, inside: Collection[int]) -> bool:
        readers = self._readers[number]
        return any(not call.results or call.results[0].number not in inside for call in readers)

    def _is_fixed(self, number: int) -> bool:
        """Whether a value is an array whatever windows do."""
        if number not in self._fixed:
            self._fixed[number] = self._is_made_or_read_as_array(number)
        return self._fixed[number]

    def _is_made_or_read_as_array(self, number: int) -> bool:
        maker = self._makers.get(number)
        if maker is None or number in self._results:
            return True
        if self._weight(maker) is None and not is_combining(maker):
            return True
        others = [reader for reader in self._readers[number] if not self._is_window(reader)]
        return any(map(self._needs_array, others))

    def _is_array(self, number: int, chosen: Collection[int]) -> bool:
        """Whether a value is stored even if the values in `chosen` are not."""
        if self._is_fixed(number):
            return True
        return number not in chosen and any(map(self._is_window, self._readers[number]))

    def _needs_array(self, reader: Call) -> bool:
        """Whether a call reads operands from memory."""
        is_fused = self._weight(reader) is not None or is_combining(reader) or is_view(reader)
        return not is_fused or ("shape" in reader.params and not is_view(reader))


def _united(group: list[_Cone], other: list[_Cone], of_leaf: dict[int, list[_Cone]]) -> list[_Cone]:
    """Join two groups; the larger one stays."""
    kept, gone = (group, other) if len(group) > len(other) else (other, group)
    kept.extend(gone)
    for cone in gone:
        of_leaf.update({n: kept for n in cone.leaves if of_leaf.get(n) is gone})
    return kept


def _keeps_zeros(cone: _Cone, places: Mapping[int, int]) -> bool:
    """Whether zeros around the leaves give zeros around the value: it is computed from zeros."""
    if any(leaf.shape != cone.value.shape for leaf in cone.leaves.values()):
        return False  # what is multiplied by an infinite number must not be padded before
    known: dict[int, Any] = {n: np.zeros((), leaf.dtype) for n, leaf in cone.leaves.items()}
    with np.errstate(all="ignore"):
        for number in sorted(cone.calls, key=places.__getitem__):
            call = cone.calls[number]
            operands = [known[x.number] if isinstance(x, Value) else x for x in call.operands]
            known[number] = call.primitive.kernel(np.ndarray)(*operands, **call.params)
    return bool(np.all(known[cone.value.number] == 0))


_STAYS_ZERO = WINDOWS | {"reshape", "broadcast_to", "negative", "keep"}
"""Primitives that return zeros if the first operand is zero."""


class _Rewriting:
    """Replaces windows of cones by cones of windows. Terms that are zero are left out."""

    def __init__(self, graph: Graph, cones: dict[int, _Cone]) -> None:
        self._graph, self._cones = graph, cones
        self._numbers = unused_numbers(graph)
        self._places = {v.number: k for k, call in enumerate(graph.calls) for v in call.results}
        self._results = {value.number for value in graph.results}
        self._makers: dict[int, Call] = {}
        self._zeros: set[int] = set()
        self._same: dict[int, Value] = {}
        """Values that are equal to others because the other terms are zero."""

    def graph(self) -> Graph:
        calls: list[Call] = []
        for call in self._graph.calls:
            cone = self._cones.get(call.reads[0].number) if call.reads else None
            is_moved = cone is not None and any(call is window for window in cone.windows)
            for new in self._behind(call, cone) if cone and is_moved else (call,):
                kept = self._without_zeros(new)
                if kept is not None:
                    calls.append(kept)
        return replace(self._graph, calls=tuple(calls))

    def _without_zeros(self, call: Call) -> Call | None:
        """Return a call with the operands that are left; None if it returns one of them."""
        operands = [
            self._same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands
        ]
        if operands != [*call.operands]:
            call = call.with_values(tuple(operands))
        if self._is_zero(call):
            self._zeros.add(call.results[0].number)
        other = self._other_term(call)
        if other is not None:
            self._same[call.results[0].number] = other
            return None
        self._makers.update({value.number: call for value in call.results})
        return call

    def _is_zero(self, call: Call) -> bool:
        """Whether a call returns zeros whatever its other operands are, infinite ones included."""
        if _is_zeros(call):
            return True
        zeros = [isinstance(x, Value) and x.number in self._zeros for x in call.operands]
        if call.primitive.name == "multiply":
            return any(zeros) and any(isinstance(x, float | int) for x in call.operands)
        if call.primitive.name == "zero_with":
            return any(zeros)
        return call.primitive.name in _STAYS_ZERO and zeros[0]

    def _other_term(self, call: Call) -> Value | None:
        """Return the term to which a sum adds zeros only."""
        if call.primitive.name != "add" or call.results[0].number in self._results:
            return None
        one, other = call.operands
        if not (isinstance(one, Value) and isinstance(other, Value)):
            return None
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return None
        return other if one.number in self._zeros else one if other.number in self._zeros else None

    def _behind(self, window: Call, cone: _Cone) -> Iterator[Call]:
        """Yield the calls that make what a window shows of a cone."""
        shown = window.results[0]
        new: dict[int, Value] = {}
        calls: list[Call] = []
        for number, leaf in cone.leaves.items():
            new[number], moved = self._shown(window, self._same.get(number, leaf), cone.value)
            calls += moved
        if all(map(_is_zeros, calls)) and len(calls) == len(new) and cone.keeps_zeros:
            yield replace(calls[0], results=(shown,))
            return
        yield from calls
        for number in sorted(cone.calls, key=self._places.__getitem__):
            call, result = cone.calls[number], shown
            if number != cone.value.number:
                made = call.results[0]
                result = replace(made, number=next(self._numbers), shape=shown.shape)
            new[number] = result
            operands = [new[x.number] if isinstance(x, Value) else x for x in call.operands]
            yield replace(call, operands=tuple(operands), results=(result,))

    def _shown(self, window: Call, leaf: Value, value: Value) -> tuple[Value, list[Call]]:
        """Return what a window of a value shows of a leaf, and the calls that make it."""
        maker = self._makers.get(leaf.number)
        if maker is not None and _is_same_in(window, maker) and leaf.shape == value.shape:
            return self._filled(window, leaf, maker.params["value"])
        if maker is None or not _shows_part_among_zeros(window, maker) or leaf.shape != value.shape:
            moved = moved_window(window, leaf, value.shape, next(self._numbers))
            return (leaf, []) if moved is None else (moved.results[0], [moved])
        making = self._making(window, leaf)
        shape, found = window.results[0].shape, placed_part(window, maker)
        if found is None:
            return self._filled(window, leaf, 0)
        part = making.part(maker.reads[0], found[0])
        return making.placed(part, found[1], shape), making.calls

    def _making(self, window: Call, leaf: Value) -> NewCalls:
        return NewCalls(replace(window, results=(leaf,)), self._numbers)

    def _filled(self, window: Call, leaf: Value, number: Any) -> tuple[Value, list[Call]]:
        """Return a number in the shape of what a window shows, and the call that makes it."""
        making, shape = self._making(window, leaf), window.results[0].shape
        params = {"shape": shape, "value": number, "dtype": leaf.dtype}
        return making.add("full_like", (self._origin(leaf),), params, shape), making.calls

    def _origin(self, value: Value) -> Value:
        """Return an input that a value depends on: loops do not store what is only named."""
        while (maker := self._makers.get(value.number)) is not None and maker.reads:
            value = maker.reads[0]
        return value


def _is_same_in(window: Call, maker: Call) -> bool:
    """Whether a window shows nothing but the number that an array is filled with."""
    is_filled = maker.primitive.name == "full_like"
    return is_filled and (window.primitive.name != "unslice" or _is_zeros(maker))


def _is_zeros(call: Call) -> bool:
    """Whether a call makes an array of zeros."""
    is_full = call.primitive.name == "full_like"
    return is_full and call.params["value"] == 0 and call.results[0].dtype.kind == "f"


def _shows_part_among_zeros(window: Call, maker: Call) -> bool:
    names = window.primitive.name, maker.primitive.name
    return names == ("slice", "unslice") and has_unit_steps(window) and has_unit_steps(maker)
