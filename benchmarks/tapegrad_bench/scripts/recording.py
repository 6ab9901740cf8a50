"""Record a function that a script has called: its graph, and the gradients that it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tapegrad.autodiff.batching import current_frame
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.program.forward_backward import recording_call
from tapegrad.program.function import Function
from tapegrad.program.graph.graph import Graph, Value
from tapegrad.program.passes.pipeline import tidied
from tapegrad.program.record.arguments import Args, Kwargs, flatten_call, take_shared
from tapegrad.program.record.recording import Recorded, current_recording
from tapegrad.program.record.signature import fitted_to
from tapegrad.program.result_structure import arrays_of, plain_leaf
from tapegrad_bench.scripts.captured import Gradient, results_of

Call = tuple[Args, Kwargs]


@dataclass(frozen=True)
class Recording:
    """The graph of a whole call, that of its gradients, and the variables by number."""

    step: Graph
    gradient: Graph | None
    gradients: tuple[Gradient, ...]
    variables: dict[int, Variable]


def arguments_of(function: Function, call: Call) -> Call:
    """Return the arguments of a call as its program gets them, without the object of a method."""
    args, kwargs = call
    args = args[1:] if function._is_method else args
    if kwargs:
        args, kwargs = function._parameters.by_position(args, kwargs)
    return (args if function._specs is None else fitted_to(function._specs, args)), kwargs


def tensors_of(call: Call) -> list[Tensor]:
    """Return the tensors among the arguments, in the order of the inputs of a graph."""
    leaves = flatten_call(*call)
    take_shared(leaves)
    return [leaf for leaf in leaves if type(leaf) is Tensor]


def output_arrays(result: Any) -> list[Any]:
    """Return the arrays of a result, in the order of the outputs of a graph."""
    leaves = [plain_leaf(leaf) for leaf in nest.flatten(result)]
    return [array for leaf in leaves for array in arrays_of(leaf)]


def record(function: Function, call: Call) -> Recording:
    """Run the Python code of a function once more and record it. Variables do not change."""
    leaves = flatten_call(*call)
    take_shared(leaves)
    with recording_call(leaves) as (recording, inside), _noting_gradients() as noted:
        args, kwargs = nest.pack_sequence_as(call, inside)
        outputs = output_arrays(function.python_function(*args, **kwargs))
    read, written = recording.finish()
    if recording.obstacle:
        raise ArgumentError(recording.obstacle)
    step = tidied(recording.graph(outputs, read, written))
    varying = next((c.primitive.name for c in step.calls if c.primitive.shapes_vary), None)
    if varying is not None:
        raise ArgumentError(f"The length of a result of {varying} depends on values.")
    variables = dict(recording.variables)
    notes = [note for note in noted if _is_whole(note, recording.inputs, read)]
    flat = [recorded for note in notes for part in note for recorded in part]
    graph = tidied(recording.graph(flat, read, {})) if notes else None
    recording.let_go()
    if graph is None:
        return Recording(step, None, (), variables)
    values = iter(graph.outputs)
    gradients = [Gradient(*[tuple(next(values) for _ in part) for part in note]) for note in notes]
    last = _without_inner(graph, gradients)
    alone = Graph(graph.inputs, graph.variables, graph.constants, graph.calls, results_of(last))
    return Recording(step, alone, tuple(last), variables)


Note = tuple[list[Recorded], list[Recorded], list[Recorded]]
"""The targets, sources and gradients of one call of `GradientTape.gradient`."""


@contextmanager
def _noting_gradients() -> Iterator[list[Note]]:
    """Note the gradients that the block computes while it is recorded."""
    noted: list[Note] = []
    plain: Callable[..., Any] = GradientTape.gradient

    def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(tape, target, sources, *args, **kwargs)
        seeds = args[0] if args else kwargs.get("output_gradients")
        note = _note(target, sources, result) if seeds is None else None
        if note is not None:
            noted.append(note)
        return result

    with mock.patch.object(GradientTape, "gradient", gradient):
        yield noted


def _note(target: Any, sources: Any, result: Any) -> Note | None:
    """Return the recorded arrays of a gradient; None if one of them is not recorded.

    Inside vmap they stand for many examples.
    """
    if current_frame() is not None:
        return None
    pairs = list(zip(nest.flatten(sources), nest.flatten(result), strict=True))
    pairs = [(source, grad) for source, grad in pairs if grad is not None]
    groups = (nest.flatten(target), *map(list, zip(*pairs, strict=True)))
    if len(groups) != 3:
        return None
    found = [[_recorded(value) for value in group] for group in groups]
    if any(array is None for group in found for array in group):
        return None
    targets, inputs, grads = ([a for a in group if a is not None] for group in found)
    return targets, inputs, grads


def _recorded(value: Any) -> Recorded | None:
    recording = current_recording()
    if recording is None:
        return None
    if isinstance(value, Variable):
        array = recording.array_of(value)
    else:  # a sparse gradient becomes a dense one
        array = (value if type(value) is Tensor else to_tensor(value)).array
    # A copy, because in-place operations give the array another value.
    return Recorded(array.array, array.value, recording) if type(array) is Recorded else None


def _is_whole(note: Note, inputs: list[Value], variables: dict[int, Value]) -> bool:
    """Whether the sources are inputs and variables, not values that the program computes."""
    given = {value.number for value in (*inputs, *variables.values())}
    return all(source.value.number in given for source in note[1])


def _without_inner(graph: Graph, gradients: list[Gradient]) -> list[Gradient]:
    """Leave out gradients that another one differentiates."""
    makers = {value.number: call for call in graph.calls for value in call.results}

    def ancestors(values: tuple[Value, ...]) -> set[int]:
        seen: set[int] = set()
        waiting = [value.number for value in values]
        while waiting:
            number = waiting.pop()
            if number not in seen:
                seen.add(number)
                call = makers.get(number)
                waiting += [] if call is None else [value.number for value in call.reads]
        return seen

    needed = [ancestors(gradient.targets) for gradient in gradients]
    return [
        gradient
        for place, gradient in enumerate(gradients)
        if not any(
            other != place and {v.number for v in gradient.gradients} & numbers
            for other, numbers in enumerate(needed)
        )
    ]


def copied(value: Any) -> Any:
    """Return an argument in new memory, and anything but tensors and arrays as it is."""
    if type(value) is Tensor:
        return wrap(value.array.copy())
    return value.copy() if hasattr(value, "dtype") and hasattr(value, "copy") else value
