"""A function of a script as data: its recorded graphs, the arrays that they read and the results.

Graphs travel between processes. Primitives travel by name, because their rules are functions.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.loops.body import Body

Arrays = list[np.ndarray]

WIDE = {
    "float16": np.dtype("float64"),
    "bfloat16": np.dtype("float64"),
    "float32": np.dtype("float64"),
    "complex64": np.dtype("complex128"),
}
"""The dtypes in which a program is computed to judge its rounding errors."""


@dataclass(frozen=True)
class Gradient:
    """The values of one call of `GradientTape.gradient`."""

    targets: tuple[Value, ...]
    sources: tuple[Value, ...]
    gradients: tuple[Value, ...]


@dataclass(frozen=True)
class Part:
    """A graph that is compared and timed.

    With `gradients`, a peer computes the targets by the graph and the gradients by itself.
    """

    graph: Graph
    variables: Arrays
    """The values of the graph's variables, in its order."""
    expected: Arrays
    """The outputs and the new values of variables for the first set of inputs."""
    gradients: tuple[Gradient, ...] = ()


@dataclass(frozen=True)
class Captured:
    """A function that a script has called."""

    name: str
    inputs: tuple[Arrays, ...]
    """The arrays of the arguments of its last calls; the last call comes first."""
    parts: dict[str, Part]


def forward_graph(graph: Graph, gradient: Gradient) -> Graph:
    """Return the part of a graph that computes the targets of a gradient."""
    return without_dead_calls(replace(graph, outputs=gradient.targets, written={}))


def all_calls(graph: Graph) -> Iterator[Call]:
    """Yield the calls of a graph and of the bodies of its loops."""
    for call in graph.calls:
        yield call
        for value in call.params.values():
            if isinstance(value, Body):
                yield from all_calls(value.recorded)


def elements(graph: Graph) -> int:
    """Return the number of elements of all results of a graph's calls."""
    return sum(value.size for call in graph.calls for value in call.results)


def widened(part: Part) -> Part:
    """Return a part that computes in double precision; its arrays are the same."""
    gradients = tuple(
        Gradient(
            *[tuple(map(_wide_value, values)) for values in (g.targets, g.sources, g.gradients)]
        )
        for g in part.gradients
    )
    return replace(
        part,
        graph=_wide_graph(part.graph),
        variables=[wide_array(array) for array in part.variables],
        gradients=gradients,
    )


def wide_array(array: np.ndarray) -> np.ndarray:
    """Return an array in double precision if it has floating-point numbers."""
    return array.astype(WIDE.get(array.dtype.name, array.dtype))


def _wide_graph(graph: Graph) -> Graph:
    return Graph(
        tuple(map(_wide_value, graph.inputs)),
        {number: _wide_value(value) for number, value in graph.variables.items()},
        {number: wide_array(np.asarray(array)) for number, array in graph.constants.items()},
        tuple(map(_wide_call, graph.calls)),
        tuple(map(_wide_value, graph.outputs)),
        {number: _wide_value(value) for number, value in graph.written.items()},
    )


def _wide_value(value: Value) -> Value:
    return replace(value, dtype=WIDE.get(value.dtype.name, value.dtype))


def _wide_call(call: Call) -> Call:
    operands = tuple(_wide_value(o) if isinstance(o, Value) else o for o in call.operands)
    params = call.params
    # A draw has other numbers in another dtype: it keeps its own, and its result is cast.
    if not call.primitive.name.startswith("random_"):
        params = {name: _wide_param(value) for name, value in params.items()}
    return replace(
        call, operands=operands, params=params, results=tuple(map(_wide_value, call.results))
    )


def _wide_param(value: Any) -> Any:
    if isinstance(value, Body):
        return Body(_wide_graph(value.recorded), value.layout)
    return WIDE.get(value.name, value) if isinstance(value, np.dtype) else value


def portable(graph: Graph, to_host: Any) -> Graph:
    """Return a graph whose constants are arrays of NumPy, whatever device it was recorded on."""
    return replace(
        graph,
        constants={number: to_host(array) for number, array in graph.constants.items()},
        calls=tuple(_portable_call(call, to_host) for call in graph.calls),
    )


def _portable_call(call: Call, to_host: Any) -> Call:
    params = {
        name: Body(portable(value.recorded, to_host), value.layout)
        if isinstance(value, Body)
        else value
        for name, value in call.params.items()
    }
    return replace(call, array_type=np.ndarray, params=params)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Primitive):
            return _primitive, (value.name,)
        if isinstance(value, Body):  # without its compiled form
            return Body, (value.recorded, value.layout)
        return NotImplemented


def _primitive(name: str) -> Primitive:
    if name not in PRIMITIVES:
        raise ArgumentError(f"There is no translation of {name}, which the script declares.")
    return PRIMITIVES[name]


def pack(captured: Captured) -> bytes:
    """Return a function as bytes."""
    for part in captured.parts.values():
        for call in all_calls(part.graph):
            if call.effects:  # its params are functions of the script
                raise ArgumentError(f"There is no translation of {call.primitive.name}.")
    stream = io.BytesIO()
    _Pickler(stream).dump(captured)
    return stream.getvalue()


def unpack(packed: bytes) -> Captured:
    """Return the function that `pack` has packed."""
    # Declares every primitive, those of modules that are loaded at the first use included.
    import tapegrad.testing.samples as samples

    samples.all_samples()
    found: Captured = pickle.loads(packed)
    return found


def names_of(part: Part) -> list[str]:
    """Return words for the results of a part, in the order of `expected`."""
    if not part.gradients:
        outputs = [f"output {number}" for number in range(1, len(part.graph.outputs) + 1)]
        new = [f"variable {number}" for number in range(1, len(part.graph.written) + 1)]
        return [*outputs, *new]
    found: list[str] = []
    for gradient in part.gradients:
        found += [f"target {number}" for number in range(1, len(gradient.targets) + 1)]
        found += [f"gradient {number}" for number in range(1, len(gradient.gradients) + 1)]
    return found


def results_of(gradients: Sequence[Gradient]) -> tuple[Value, ...]:
    """Return the targets and gradients, in the order of `expected`."""
    return tuple(v for g in gradients for v in (*g.targets, *g.gradients))
