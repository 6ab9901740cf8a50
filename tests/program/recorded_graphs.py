"""Recorded graphs before any pass, and functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.tensor import wrap
from tapegrad.program.emit.lowering import to_python
from tapegrad.program.graph.graph import Graph, without_dead_calls, without_repeated_calls
from tapegrad.program.record.isolation import recorded_by
from tapegrad.program.record.recording import Recording

Arrays = Sequence[Any]


def recorded(function: Callable[..., Any], arrays: Arrays, variables: Sequence[Any] = ()) -> Graph:
    """The graph of a function that returns a tuple of tensors, called with arrays."""
    recording = Recording()
    inputs = [wrap(recording.take_input(array)) for array in arrays]
    with recorded_by(recording):
        for variable in variables:
            _ = variable.array  # the graph has its variables in the order of their first reads
        results = function(*inputs)
    read, written = recording.finish()
    graph = recording.graph([result.array for result in results], read, written)
    return without_dead_calls(without_repeated_calls(graph))


def run(graph: Graph, arrays: Arrays, held: Arrays = ()) -> list[Any]:
    """Return the results of a graph for inputs and values of its variables."""
    outputs, written = to_python(graph, graph.calls)(list(arrays), list(held))
    return [*outputs, *written]


def assert_same_results(before: Graph, after: Graph, arrays: Arrays, held: Arrays = ()) -> None:
    """Check the results of two graphs, and that each value is made before it is read."""
    given = [*after.inputs, *after.variables.values()]
    made = {value.number for value in given} | set(after.constants)
    for call in after.calls:
        assert {value.number for value in call.reads} <= made
        made |= {value.number for value in call.results}
    ours, theirs = run(after, arrays, held), run(before, arrays, held)
    for one, other, value in zip(ours, theirs, after.results, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def count(graph: Graph, *names: str) -> int:
    """Count the calls of these primitives."""
    return sum(call.primitive.name in names for call in graph.calls)
