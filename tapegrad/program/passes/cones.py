"""Which values to compute behind the windows that read them, instead of storing them.

Such a value and the elementwise calls that make it from arrays are a cone. Several cones may need
an array that nothing else stores, so they are judged together, by the bytes that are moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.trace.expression import kind_of_dtype
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import is_view

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

SMALLER = 8
"""The size of a value over that of an array whose reads do not count."""


@dataclass
class Cone:
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


class Uses:
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

    def worthwhile_cones(self) -> dict[int, Cone]:
        """Return the cones to compute behind windows, by the numbers of their values."""
        shown = dict.fromkeys(c.reads[0].number for c in self._calls if self._is_window(c))
        makers = [self._makers[number] for number in shown if number in self._makers]
        cones = [cone for call in makers if (cone := self._cone(call)) is not None]
        chosen = {cone.value.number for cone in cones}
        found: dict[int, Cone] = {}
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

    def _cone(self, call: Call) -> Cone | None:
        if self._weight(call) is None or call.results[0].number in self._results:
            return None
        readers = self._readers[call.results[0].number]
        windows = [reader for reader in readers if self._is_window(reader)]
        others = [reader for reader in readers if not self._is_window(reader)]
        if not 0 < len(windows) <= MOST_WINDOWS or any(map(self._needs_array, others)):
            return None
        cone = Cone(call, windows, is_read_whole=bool(others))
        if (
            not self._fill(cone)
            or not self._is_light(cone)
            or all(map(self._is_filled, cone.leaves))
        ):
            return None
        pads = any(window.primitive.name == "unslice" for window in windows)
        is_filled = any(map(self._is_filled, cone.leaves))  # zeros around a number need an array
        cone.keeps_zeros = not is_filled and _keeps_zeros(cone, self._places)
        if pads and not (cone.keeps_zeros and self._is_worth_padding(cone)):
            return None
        return cone

    def _is_worth_padding(self, cone: Cone) -> bool:
        """Whether each leaf is padded instead of the value.

        A small part of a large array is read by few elements, but all of them look whether they do.
        That costs less than a launch on devices, and more than a loop on the CPU.
        """
        is_thin = any(w.results[0].size > THIN * cone.value.size for w in cone.windows)
        return not is_thin or len(cone.leaves) == 1 or self._loops.joins

    def _is_light(self, cone: Cone) -> bool:
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

    def _fill(self, cone: Cone) -> bool:
        """Add calls and what they read, back to arrays and to values of several unstored ones.

        Values that others read as well are computed again. Return whether the work is not too much:
        in a long chain of steps everything before a value would be part of its cone.
        """
        waiting, weight = [cone.call], 0
        most = MOST_WEIGHT_ONCE if cone.is_computed_once else MOST_WEIGHT
        while waiting:
            call = waiting.pop()
            if call.results[0].number not in cone.calls:
                weight += self._weight(call) or 0
                if weight > most:
                    return False
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
        return True

    def _is_expanded(self, value: Value, maker: Call, cone: Cone) -> bool:
        """Whether a cone computes an operand itself."""
        if self._weight(maker) is None or value.shape != cone.value.shape:
            return False
        if self._is_fixed(value.number):
            return False
        readers = self._readers[value.number]
        is_alone = all(r.results[0].number in cone.calls for r in readers if r.results)
        if value.number in self._stencils:  # to compute it again would read many elements again
            return is_alone and cone.is_computed_once
        return is_alone or self._anchors[value.number].value != value.number

    @cached_property
    def _stencils(self) -> set[int]:
        """The values that elementwise calls compute from windows."""
        found: set[int] = set()
        for call in self._calls:
            if self._weight(call) is not None and any(
                value.number in found or self._is_shown(value.number) for value in call.reads
            ):
                found.add(call.results[0].number)
        return found

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

    def _sharing(self, cones: Iterable[Cone], chosen: Collection[int]) -> list[list[Cone]]:
        """Group the cones that have a leaf in common which would be stored for them alone."""
        groups: dict[int, list[Cone]] = {}
        of_leaf: dict[int, list[Cone]] = {}
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

    def _saves_bytes(self, group: Iterable[Cone], chosen: Collection[int]) -> bool:
        """Whether to read the leaves costs less than to write and read the values.

        Leaves with no other reader are read only there instead of where the values were made.
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


def _united(group: list[Cone], other: list[Cone], of_leaf: dict[int, list[Cone]]) -> list[Cone]:
    """Join two groups; the larger one stays."""
    kept, gone = (group, other) if len(group) > len(other) else (other, group)
    kept.extend(gone)
    for cone in gone:
        of_leaf.update({n: kept for n in cone.leaves if of_leaf.get(n) is gone})
    return kept


def _keeps_zeros(cone: Cone, places: Mapping[int, int]) -> bool:
    """Whether zeros around the leaves give zeros around the value, which is computed from zeros.

    Leaves that are broadcast have any values there, such as infinite ones and NaN.
    """
    broadcast = {n for n, leaf in cone.leaves.items() if leaf.shape != cone.value.shape}
    if any(kind_of_dtype(cone.leaves[n].dtype) != "f" for n in broadcast):
        return False
    known: dict[int, Any] = {
        n: np.full((), np.nan if n in broadcast else 0).astype(leaf.dtype)
        for n, leaf in cone.leaves.items()
    }
    with np.errstate(all="ignore"):
        for number in sorted(cone.calls, key=places.__getitem__):
            call = cone.calls[number]
            operands = [known[x.number] if isinstance(x, Value) else x for x in call.operands]
            known[number] = call.primitive.kernel(np.ndarray)(*operands, **call.params)
    return bool(np.all(known[cone.value.number] == 0))
