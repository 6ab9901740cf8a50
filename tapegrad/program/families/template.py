"""Templates: a recorded graph whose shapes and parameters are formulas of the sizes.

`template_of` compares recordings call by call. For other sizes, a template repeats the recorded
calls inside a new recording, without the Python code. All kernels run, and each result must have
the shape that its formula gives, so a formula that does not hold is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.gc_pause import gc_paused
from tapegrad.core.values import nest
from tapegrad.core.values.device import backend_for
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.sizes import Noted
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.program.families.formulas import Sizes, Solver, Unfit, Unlike
from tapegrad.program.families.parts import Parts, Slot, same_bits
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.record.arguments import structure_of
from tapegrad.program.record.guards import Guards
from tapegrad.program.record.recording import Recording, current_recording

SMALLEST = 2
"""The least size that varies: axes of length 1 are broadcast, and empty ones have no mean."""


class Member(NamedTuple):
    """One recorded call of a function."""

    lengths: tuple[int, ...]
    """The lengths of all axes of all tensors among the arguments."""
    graph: Graph
    """The recorded calls that are needed."""
    variables: Mapping[int, Variable]
    structure: Any
    """The structure of the result, with None for the leaves."""
    leaves: Sequence[Any]
    """The leaves of the result without their arrays."""
    operations: Sequence[Noted]
    """What the user's code did with sizes."""
    reads_sizes: bool
    guards: Guards
    rest: Any = None
    """What else must be equal."""


class Symbols(NamedTuple):
    """Which lengths vary; those that are equal in all calls are one symbol."""

    places: tuple[tuple[int, ...], ...]
    """The positions in `Member.lengths`, by symbol."""
    fixed: Mapping[int, int]
    """The other lengths by position."""

    def sizes(self, lengths: tuple[int, ...]) -> Sizes:
        """Return the sizes of a call, or raise `Unfit` if it is none of the family."""
        if any(lengths[place] != length for place, length in self.fixed.items()):
            raise Unfit
        found = [{lengths[place] for place in places} for places in self.places]
        if any(len(values) > 1 or min(values) < SMALLEST for values in found):
            raise Unfit
        return tuple([values.pop() for values in found])


def symbols_of(members: Sequence[Member]) -> Symbols:
    """Return which lengths vary between the recorded calls."""
    columns = list(zip(*[member.lengths for member in members]))
    by_values: dict[tuple[int, ...], list[int]] = {}
    for place, column in enumerate(columns):
        if len(set(column)) > 1:
            by_values.setdefault(column, []).append(place)
    fixed = {place: column[0] for place, column in enumerate(columns) if len(set(column)) == 1}
    return Symbols(tuple([tuple(places) for places in by_values.values()]), fixed)


class _Step(NamedTuple):
    """One call of a template. Operands and params are values, constants or slots."""

    call: Call
    operands: tuple[Any, ...]
    params: Any
    shapes: tuple[Any, ...]


class Template:
    """What the recordings of a function for several sizes have in common."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.symbols = symbols_of(members)
        self.sizes = [self.symbols.sizes(member.lengths) for member in members]
        """The sizes of the recorded calls."""
        self.guards = members[-1].guards
        self.structure, self.rest = members[0].structure, members[0].rest
        self._member = members[0]
        self._parts = Parts(Solver(self.sizes))
        self._operations = _joined_operations(members, self._parts)
        self._leaves = self._parts.part([list(member.leaves) for member in members])
        graphs = [member.graph for member in members]
        numbers = _Numbers(len(graphs))
        self._inputs = _joined_values([g.inputs for g in graphs], numbers, self._parts)
        self._constants = _joined_constants(graphs, self._parts, numbers)
        _join_variables(graphs, numbers)
        self._steps = [
            _joined_call(calls, numbers, self._parts)
            for calls in _parallel([g.calls for g in graphs])
        ]
        _joined_values([g.outputs for g in graphs], numbers, self._parts)
        _join_written(graphs, numbers)

    def instance(self, lengths: tuple[int, ...]) -> Instance:
        """Return the recorded calls for other lengths, or raise `Unfit`."""
        sizes = self.symbols.sizes(lengths)
        try:
            values = self._parts.values(sizes)
            for function, operands, result in self._operations:
                if function(*_filled(operands, values)) != _filled(result, values):
                    raise Unfit
        except (ArithmeticError, ValueError) as error:
            raise Unfit from error
        return Instance(self, sizes, values)

    def seeds(self, count: int, values: Sequence[Any]) -> list[Any]:
        """Return ones for the inputs after the first ones: the cotangents of results."""
        inputs, shapes = self._member.graph.inputs[count:], self._inputs[count:]
        return [
            backend_for(value.device).from_host(
                np.ones(_filled(shape, values), value.dtype), value.device
            )
            for value, shape in zip(inputs, shapes)
        ]

    def repeat(self, arrays: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Make the recorded calls in the active recording and return the leaves of the result."""
        recording = current_recording()
        assert recording is not None
        member, graph = self._member, self._member.graph
        known = {value.number: array for value, array in zip(graph.inputs, arrays)}
        known.update((n, _filled(array, values)) for n, array in self._constants.items())
        for number, value in graph.variables.items():
            array = known[value.number] = member.variables[number].array
            if tuple(array.shape) != value.shape:
                raise Unfit
        with gc_paused:  # most of what is made is kept
            for step in self._steps:
                _repeat_call(recording, step, known, values)
        for number, value in graph.written.items():
            member.variables[number].array = known[value.number]
        made = iter([known[value.number] for value in graph.outputs])
        return [_leaf(leaf, made) for leaf in _filled(self._leaves, values)]


class Instance:
    """A template with the values of its slots; it is called like the function."""

    def __init__(self, template: Template, sizes: Sizes, values: list[Any]) -> None:
        self.template = template
        self.sizes = sizes
        self.values = values

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = nest.flatten((args, kwargs))
        arrays = [leaf.array for leaf in leaves if type(leaf) is Tensor]
        return self.packed(self.template.repeat(arrays, self.values))

    def packed(self, leaves: Sequence[Any]) -> Any:
        """Return the result with these leaves."""
        return nest.pack_sequence_as(self.template.structure, leaves)


def _filled(part: Any, values: Sequence[Any]) -> Any:
    return values[part.number] if type(part) is Slot else part


def _leaf(leaf: Any, arrays: Any) -> Any:
    """Return a leaf of the result with its arrays."""
    if leaf is Tensor:
        return wrap(next(arrays))
    if type(leaf) is tuple and leaf and leaf[0] is IndexedSlices:
        return IndexedSlices(wrap(next(arrays)), wrap(next(arrays)), leaf[1])
    return leaf


def _repeat_call(
    recording: Recording, step: _Step, known: dict[int, Any], values: Sequence[Any]
) -> None:
    call = step.call
    operands = [
        known[part.number] if type(part) is Value else _filled(part, values)
        for part in step.operands
    ]
    shapes = [_filled(shape, values) for shape in step.shapes]
    made = recording.repeat(call, operands, _filled(step.params, values), shapes)
    if made is None:
        raise Unfit
    for value, result in zip(call.results, made):
        known[value.number] = result


class _Numbers:
    """The numbers of values in other recordings, by their numbers in the first one."""

    def __init__(self, count: int) -> None:
        self._known: list[dict[int, int]] = [{} for _ in range(count - 1)]

    def join(self, values: Sequence[Value]) -> None:
        """Note that these values, one of each recording, are the same."""
        for known, other in zip(self._known, values[1:]):
            if known.setdefault(values[0].number, other.number) != other.number:
                raise Unlike

    def check(self, values: Sequence[Any]) -> None:
        """Raise unless these values are the same."""
        for known, other in zip(self._known, values[1:]):
            if type(other) is not Value or known.get(values[0].number) != other.number:
                raise Unlike


def _parallel(found: Sequence[Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    if any(len(other) != len(found[0]) for other in found):
        raise Unlike
    return zip(*found)


def _joined_operations(
    members: Sequence[Member], parts: Parts
) -> list[tuple[Callable[..., Any], Any, Any]]:
    """Return the operations on sizes, which must give their formulas' results for other sizes."""
    found = []
    for noted in _parallel([member.operations for member in members]):
        function = noted[0].function
        if any(other.function is not function for other in noted):
            raise Unlike
        operands = parts.part([other.operands for other in noted])
        if function is None and type(operands) is Slot:
            raise Unlike
        if function is not None and type(operands) is Slot:
            found.append((function, operands, parts.part([other.result for other in noted])))
    return found


def _joined_values(
    found: Sequence[Sequence[Value]], numbers: _Numbers, parts: Parts
) -> tuple[Any, ...]:
    """Return the shapes of corresponding values."""
    for values in _parallel(found):
        numbers.join(values)
        first = values[0]
        if any(v.dtype != first.dtype or v.device != first.device for v in values):
            raise Unlike
    return tuple([parts.shape(tuple([v.shape for v in values])) for values in zip(*found)])


def _joined_constants(graphs: Sequence[Graph], parts: Parts, numbers: _Numbers) -> dict[int, Any]:
    """Return the constants, which are paired in the order of their first use."""
    joined: dict[int, Any] = {}
    for found in _parallel([_constants_in_order(graph) for graph in graphs]):
        numbers.join(found)
        arrays = [graph.constants[value.number] for graph, value in zip(graphs, found)]
        if all(value.shape == () for value in found):
            joined[found[0].number] = parts.part(arrays)
        elif all(same_bits(arrays[0], array) for array in arrays):
            joined[found[0].number] = arrays[0]
        else:
            raise Unlike
    return joined


def _constants_in_order(graph: Graph) -> list[Value]:
    reads = [value for call in graph.calls for value in call.reads]
    found = {v.number: v for v in (*reads, *graph.results) if v.number in graph.constants}
    return list(found.values())


def _join_variables(graphs: Sequence[Graph], numbers: _Numbers) -> None:
    first = graphs[0].variables
    if any(graph.variables.keys() != first.keys() for graph in graphs):
        raise Unlike
    for number, value in first.items():
        values = [graph.variables[number] for graph in graphs]
        if any(v.shape != value.shape or v.dtype != value.dtype for v in values):
            raise Unlike
        numbers.join(values)


def _join_written(graphs: Sequence[Graph], numbers: _Numbers) -> None:
    first = graphs[0].written
    if any(graph.written.keys() != first.keys() for graph in graphs):
        raise Unlike
    for number in first:
        numbers.check([graph.written[number] for graph in graphs])


def _joined_call(calls: Sequence[Call], numbers: _Numbers, parts: Parts) -> _Step:
    first = calls[0]
    if first.effects:
        raise Unlike
    for call in calls:
        if call.primitive is not first.primitive or call.array_type is not first.array_type:
            raise Unlike
        if call.region != first.region or len(call.operands) != len(first.operands):
            raise Unlike
    operands = []
    for found in zip(*[call.operands for call in calls]):
        if type(found[0]) is Value:
            numbers.check(found)
            operands.append(found[0])
        else:
            operands.append(parts.part(found))
    params = parts.part([call.params for call in calls])
    shapes = _joined_values([call.results for call in calls], numbers, parts)
    return _Step(first, tuple(operands), params, shapes)


def template_of(members: Sequence[Member]) -> Template | None:
    """Return the template of some recordings, None if they differ in more than their sizes."""
    first = members[0]
    key = structure_of(first.structure)
    if any(structure_of(m.structure) != key or m.rest != first.rest for m in members):
        return None
    try:
        return Template(members)
    except (Unlike, Unfit):
        return None
