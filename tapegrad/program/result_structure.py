"""Entries: a program with the structure of its function's result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Any

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.values import nest
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.sizes import plain_sizes
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.program.argument_writes import WithWrites
from tapegrad.program.building import Building, Runnable, latest
from tapegrad.program.graph.graph import Graph
from tapegrad.program.program import Program
from tapegrad.program.record.guards import Guards

Build = Callable[[Sequence[Any]], Any]
"""Builds a result from its arrays."""


class Entry:
    """One program of a function; `run` maps the arrays of the arguments to the result."""

    run: Callable[[list[Any]], Any]

    def __init__(
        self,
        building: Building,
        result: Any,
        flat: list[Any],
        variables: dict[int, Variable],
        guards: Guards,
        numbers: Sequence[Any] = (),
    ) -> None:
        self.building = building
        self._numbers = numbers
        """Inputs of the program that are no arguments, but Python numbers of this recording."""
        self._program: Runnable = building
        self.guards = guards
        recorded = building.recorded
        self.variables = [variables[number] for number in recorded.variables]
        self.written = [variables[number] for number in recorded.written]
        self.is_plain = not any(isinstance(leaf, IndexedSlices) for leaf in flat)
        """Whether the result has no sparse gradients, so that each array is one tensor."""
        self._copied = outputs_of_constants(recorded)
        """The positions of outputs that are copied, so that callers cannot change constants."""
        self._leaves = [without_arrays(leaf) for leaf in flat]
        self._structure = nest.pack_sequence_as(result, [None] * len(flat))
        self._is_one = type(result) is Tensor
        self.written_arguments = tuple(result.written) if type(result) is WithWrites else ()
        """The positions of the arguments that the function writes to."""
        self._build = built_at_once(self._structure, self._leaves, self._copied)
        self.run = self._run_any if numbers else self._run_meanwhile

    @property
    def program(self) -> Program:
        """The compiled program, for which this waits."""
        return self.building.program()

    def _run_meanwhile(self, arrays: list[Any]) -> Any:
        """Run unfused, or replace this method by a shorter one if the program is ready."""
        program = self._program = latest(self._program)
        if isinstance(program, Building):
            return self._run_any(arrays)
        if self._build is None:
            self.run = self._run_any
        else:
            self.run = _shortest_run(program, self._build) or self._run_at_once
        return self.run(arrays)

    def run_all(self, arrays: list[Any]) -> tuple[Any, list[Any]]:
        """Run; return the result and the saved arrays that the program returns after it."""
        outputs = self._outputs(arrays)
        if self._is_one:
            return wrap(outputs[0]), list(outputs[1:])
        made = iter(outputs)
        leaves = [rebuilt(leaf, made) for leaf in self._leaves]
        return nest.pack_sequence_as(self._structure, leaves), list(made)

    def _outputs(self, arrays: list[Any]) -> Sequence[Any]:
        self._program = latest(self._program)
        outputs = self._program([*arrays, *self._numbers] if self._numbers else arrays)
        if not self._copied:
            return outputs
        return [copy_of(a) if place in self._copied else a for place, a in enumerate(outputs)]

    def _run_at_once(self, arrays: list[Any]) -> Any:
        assert self._build is not None
        return self._build(self._program(arrays))

    def _run_any(self, arrays: list[Any]) -> Any:
        made = iter(self._outputs(arrays))
        return nest.pack_sequence_as(
            self._structure, [rebuilt(leaf, made) for leaf in self._leaves]
        )


def _shortest_run(program: Runnable, build: Build) -> Callable[[list[Any]], Any] | None:
    """Return one function that runs the program and builds the result, if it has no variables."""
    run = program.plain_run if isinstance(program, Program) else None
    if run is None:
        return None
    assert isinstance(program, Program)

    def shortest(arrays: list[Any]) -> Any:
        try:
            return build(run(arrays, ())[0])
        except Exception as error:
            raise program.explained(error, arrays) from None

    return shortest


def outputs_of_constants(graph: Graph) -> set[int]:
    """Return the positions of outputs that share memory with a constant of the program."""
    constant = set(graph.constants)
    for call in graph.calls:
        if call.aliases and any(value.number in constant for value in call.reads):
            constant.update(value.number for value in call.results)
    return {place for place, value in enumerate(graph.outputs) if value.number in constant}


def copy_of(array: Any) -> Any:
    """Return a copy of an array."""
    return backend_of(array).xp.asarray(array, copy=True)


def built_at_once(structure: Any, leaves: list[Any], copied: Collection[int] = ()) -> Build | None:
    """Return a generated function that builds the result, for tuples, lists and dicts.

    Traversing a structure at run time would take longer than a small program.
    """
    left, places = iter(leaves), count()
    constants: dict[str, Any] = {"wrap": wrap, "copy": copy_of}

    def text(part: Any) -> str:
        if type(part) in (tuple, list):
            inner = "".join(f"{text(child)}, " for child in part)
            return f"({inner})" if type(part) is tuple else f"[{inner}]"
        if type(part) is dict:
            # Leaves are in the order of sorted keys; the result keeps the order of the dictionary.
            texts = dict(zip(sorted(part), map(text, nest.children(part))))
            return "{" + "".join(f"{constant(key)}: {texts[key]}, " for key in part) + "}"
        if nest.is_nested(part):
            raise ValueError
        leaf = next(left)
        if leaf is Tensor:
            place = next(places)
            return f"wrap(copy(a[{place}]))" if place in copied else f"wrap(a[{place}])"
        if type(leaf) is tuple:  # IndexedSlices
            raise ValueError
        return constant(leaf)

    def constant(value: Any) -> str:
        constants[f"c{len(constants)}"] = value
        return f"c{len(constants) - 1}"

    try:
        source = f"lambda a: {text(structure)}"
    except ValueError:
        return None
    made: Build = eval(source, constants)
    return made


def plain_leaf(leaf: Any) -> Any:
    """Return a leaf of the result as a plain tensor if it is one of another kind.

    A slice of a variable is such a tensor.
    """
    is_other = isinstance(leaf, Tensor) and type(leaf) is not Tensor
    return wrap(leaf.array, leaf.node) if is_other else plain_sizes(leaf)


def arrays_of(leaf: Any) -> Sequence[Any]:
    """Return the arrays in a leaf of the result."""
    if type(leaf) is Tensor:
        return (leaf.array,)
    if isinstance(leaf, IndexedSlices):
        return (leaf.values.array, leaf.indices.array)
    return ()


def without_arrays(leaf: Any) -> Any:
    """Return a leaf without its arrays, from which `rebuilt` makes new ones."""
    if type(leaf) is Tensor:
        return Tensor
    if isinstance(leaf, IndexedSlices):
        return IndexedSlices, leaf.dense_shape
    return leaf


def rebuilt(leaf: Any, arrays: Iterator[Any]) -> Any:
    """Return a leaf with new arrays; leaves without arrays are returned as they are."""
    if leaf is Tensor or type(leaf) is Tensor:
        return wrap(next(arrays))
    if isinstance(leaf, IndexedSlices):
        return IndexedSlices(wrap(next(arrays)), wrap(next(arrays)), leaf.dense_shape)
    if type(leaf) is tuple and leaf and leaf[0] is IndexedSlices:
        return IndexedSlices(wrap(next(arrays)), wrap(next(arrays)), leaf[1])
    return leaf
