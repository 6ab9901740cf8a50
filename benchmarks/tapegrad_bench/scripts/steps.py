"""The parts of a captured function as steps of a peer, which get sets of inputs in turn.

A step returns the results in the order of `Part.expected`. It keeps the new values of variables for
the next step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tapegrad.program.graph.graph import Graph, Value
from tapegrad_bench.scripts.captured import Gradient, Part, all_calls, forward_graph
from tapegrad_bench.translation import Peer, translated
from tapegrad_bench.translation_loops import CONDITIONAL

Array = Any
Arrays = Sequence[Array]
Pure = Callable[[Arrays, Arrays], list[Array]]
"""Maps inputs and variables to the results."""


class Step(Protocol):
    """A compiled step."""

    def __call__(self, inputs: Arrays) -> list[Array]:
        """Run on a set of inputs; return arrays of the library."""

    def synchronize(self, results: list[Array]) -> None:
        """Wait for the results."""


def make_step(peer: Peer, part: Part) -> Step:
    """Return a part as a step of a library, compiled as the library compiles."""
    # A graph of operations has no loop whose number of rounds depends on values.
    names = {call.primitive.name for call in all_calls(part.graph)}
    if peer.name == "numpy" or (peer.name == "torch" and names & CONDITIONAL):
        return _Plain(peer, part)
    return _Jax(peer, part) if peer.name == "jax" else _Torch(peer, part)


def reference_step(peer: Peer, part: Part) -> Step:
    """Return a part as a step that runs once: torch takes longer to compile it than to run it."""
    return _Jax(peer, part) if peer.name == "jax" else _Plain(peer, part)


def _pure(peer: Peer, part: Part) -> Pure:
    """Return a part as a function, whose gradients are those of the library."""
    if part.gradients:
        pieces = [_with_gradient(peer, part.graph, gradient) for gradient in part.gradients]
        return lambda inputs, variables: [y for piece in pieces for y in piece(inputs, variables)]
    run = translated(part.graph, peer)

    def results(inputs: Arrays, variables: Arrays) -> list[Array]:
        outputs, written = run(inputs, variables)
        return [*outputs, *written]

    return results


def _with_gradient(peer: Peer, graph: Graph, gradient: Gradient) -> Pure:
    """Return the function of the targets and of their gradients, by the library's own rules."""
    run = translated(forward_graph(graph, gradient), peer)
    read = [*graph.inputs, *graph.variables.values()]
    places = [_place(source, read) for source in gradient.sources]
    count = len(graph.inputs)

    def targets(sources: Arrays, arrays: Arrays) -> tuple[Array, list[Array]]:
        mixed = list(arrays)
        for place, source in zip(places, sources, strict=True):
            mixed[place] = source
        outputs, _ = run(mixed[:count], mixed[count:])
        return sum(y.sum().real for y in outputs), outputs

    def in_jax(inputs: Arrays, variables: Arrays) -> list[Array]:
        jax: Any = importlib.import_module("jax")
        arrays = [*inputs, *variables]
        sources = [arrays[place] for place in places]
        (_, outputs), found = jax.value_and_grad(targets, has_aux=True)(sources, arrays)
        return [*outputs, *[g.conj() for g in found]]  # JAX has the conjugates of other libraries

    def in_torch(inputs: Arrays, variables: Arrays) -> list[Array]:
        torch: Any = importlib.import_module("torch")
        with torch.enable_grad():
            arrays = [*inputs, *variables]
            sources = [arrays[place].detach().requires_grad_() for place in places]
            total, outputs = targets(sources, arrays)
            found = torch.autograd.grad(total, sources, materialize_grads=True)
        return [*[y.detach() for y in outputs], *found]

    return in_jax if peer.name == "jax" else in_torch


def _place(source: Value, read: Sequence[Value]) -> int:
    return next(place for place, value in enumerate(read) if value.number == source.number)


class _Variables:
    """The variables of a part, and which of them a step changes."""

    def __init__(self, peer: Peer, part: Part) -> None:
        self.arrays = [peer.array(array) for array in part.variables]
        numbers = [*part.graph.variables]
        written = [] if part.gradients else [*part.graph.written]
        self.written = [numbers.index(number) for number in written]


class _Plain:
    """A step that calls one operation after the other."""

    def __init__(self, peer: Peer, part: Part) -> None:
        self._run, self._variables = _pure(peer, part), _Variables(peer, part)
        self._wait = _waiting(peer)

    def __call__(self, inputs: Arrays) -> list[Array]:
        state = self._variables
        results = self._run(inputs, state.arrays)
        new = results[len(results) - len(state.written) :]
        for place, array in zip(state.written, new, strict=True):
            state.arrays[place] = array
        return results

    def synchronize(self, results: list[Array]) -> None:
        self._wait()


def _waiting(peer: Peer) -> Callable[[], None]:
    """Return what waits for the device of a library that calls one operation after the other."""
    if peer.name == "torch" and peer.device == "cuda":
        torch: Any = importlib.import_module("torch")
        return lambda: torch.cuda.synchronize()
    return lambda: None


class _Jax:
    """A step under jax.jit, to which the variables that it changes are donated."""

    def __init__(self, peer: Peer, part: Part) -> None:
        self._jax: Any = importlib.import_module("jax")
        run, self._state = _pure(peer, part), _Variables(peer, part)
        written = self._state.written

        def step(changed: Arrays, others: Arrays, inputs: Arrays) -> list[Array]:
            variables, new = list(others), iter(changed)
            for place in written:
                variables[place] = next(new)
            return run(inputs, variables)

        self._step = self._jax.jit(step, donate_argnums=0)

    def __call__(self, inputs: Arrays) -> list[Array]:
        arrays, written = self._state.arrays, self._state.written
        others = [None if place in written else a for place, a in enumerate(arrays)]
        results: list[Array] = self._step([arrays[place] for place in written], others, inputs)
        for place, array in zip(written, results[len(results) - len(written) :], strict=True):
            arrays[place] = array
        return results

    def synchronize(self, results: list[Array]) -> None:
        self._jax.block_until_ready(results)


class _Torch:
    """A step under torch.compile, on CUDA as one graph with the inputs copied in.

    It is first traced to a flat graph of operations, backward pass included, so that the compiler
    sees no Python code of the translation.
    """

    def __init__(self, peer: Peer, part: Part) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._pure, self._state = _pure(peer, part), _Variables(peer, part)
        self._device = peer.device
        self._run: Callable[[Arrays], list[Array]] | None = None

    def __call__(self, inputs: Arrays) -> list[Array]:
        with self._torch.no_grad():
            if self._run is None:
                compiled = self._compiled(inputs)
                is_captured = self._device == "cuda"
                self._run = self._captured(compiled, inputs) if is_captured else compiled
            return self._run(inputs)

    def _compiled(self, inputs: Arrays) -> Callable[[Arrays], list[Array]]:
        tracing: Any = importlib.import_module("torch.fx.experimental.proxy_tensor")
        count, state = len(inputs), self._state

        def flat(*arrays: Array) -> list[Array]:
            return self._pure(arrays[:count], arrays[count:])

        traced = tracing.make_fx(flat)(*inputs, *state.arrays)
        step = self._torch.compile(traced, dynamic=False)

        def run(inputs: Arrays) -> list[Array]:
            results = list(step(*inputs, *state.arrays))
            for place, array in zip(state.written, self._new(results), strict=True):
                state.arrays[place] = array
            return results

        return run

    def _new(self, results: list[Array]) -> list[Array]:
        """Return the new values of variables among the results."""
        return results[len(results) - len(self._state.written) :]

    def _captured(
        self, run: Callable[[Arrays], list[Array]], inputs: Arrays
    ) -> Callable[[Arrays], list[Array]]:
        """Return a step that replays one CUDA graph."""
        cuda, state = self._torch.cuda, self._state
        start = list(state.arrays)
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):  # a capture must not meet anything that happens once
            for _ in range(3):
                run(inputs)
        cuda.current_stream().wait_stream(side)
        kept = [array.clone() for array in start]
        given = [array.clone() for array in inputs]
        state.arrays[:] = kept
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            results = run(given)
            for place, array in zip(state.written, self._new(results), strict=True):
                kept[place].copy_(array)

        def replay(inputs: Arrays) -> list[Array]:
            for place, array in zip(given, inputs, strict=True):
                place.copy_(array)
            graph.replay()
            return results

        return replay

    def synchronize(self, results: list[Array]) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()
