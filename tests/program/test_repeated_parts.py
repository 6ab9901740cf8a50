"""Repeated parts of programs, fused once: the same results, and work that does not grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.exact_key import exact_key
from tapegrad.program.emit.lowering import to_python
from tapegrad.program.fusion import repeated_parts
from tapegrad.program.fusion.fusion import fused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.fusion.repeated_parts import fused_in_parts
from tapegrad.program.graph import repetition
from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.graph.windows import WINDOWS
from tests.program.recorded_graphs import recorded, run
from tests.program.test_random_programs import Machine, inputs_of
from tests.seeds import program_seeds


@pytest.fixture
def always_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut programs of any length, and into parts of any length."""
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    monkeypatch.setattr(repeated_parts, "SHORTEST", 2)
    monkeypatch.setattr(repetition, "WINDOW", 2)
    monkeypatch.setattr(repetition, "LEAST_ROUNDS", 2)


def is_taken(call: Call) -> bool:
    return True


def recurrent(rounds: int) -> Any:
    """A recurrent network and its gradients by the weights and the state."""

    def function(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            state = x
            for _ in range(rounds):
                gate = tf.sigmoid(state @ w + b)
                state = gate * tf.tanh(state) + (1.0 - gate) * x
            loss = tf.reduce_mean(tf.square(state))
        return (loss, *tape.gradient(loss, [x, w, b]))

    return function


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in [(5, 4), (4, 4), (4,)]]


def graph_of(rounds: int) -> Graph:
    return recorded(recurrent(rounds), arrays())


class Repeating(Machine):
    """Runs its instructions several times over, on what the round before has made."""

    def __call__(self, *inputs: Any) -> list[Any]:
        values = list(inputs)
        for _ in range(5):
            values = super().__call__(*values[-2:])
        return values


@pytest.mark.usefixtures("quick_compiler", "always_cut")
@pytest.mark.parametrize("seed", program_seeds(24, most=500, first=3000))
def test_a_random_program_that_repeats_gives_what_it_gives_eagerly(seed: int) -> None:
    eager, other = Repeating(seed), Repeating(seed)
    in_parts = tf.function(other.__call__)

    for call in range(2):
        inputs = inputs_of(seed, call)
        tf.random.set_seed(seed + call)
        expected = [value.numpy() for value in eager(*inputs)]
        tf.random.set_seed(seed + call)
        found = [value.numpy() for value in in_parts(*inputs)]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    for one, two in zip(eager.variables, other.variables):
        np.testing.assert_allclose(two.numpy(), one.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.usefixtures("quick_compiler")
def test_a_long_program_has_the_results_of_eager_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 200)
    tensors = [tf.constant(array) for array in arrays()]

    found = tf.function(recurrent(60))(*tensors)

    for a, b in zip(found, recurrent(60)(*tensors), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def different_loops(steps: list[Call | Fused]) -> int:
    return len({id(step.loop) for step in steps if isinstance(step, Fused)})


def test_the_loops_of_all_rounds_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)

    short, long = (fused_in_parts(graph_of(rounds), is_taken) for rounds in (30, 60))

    assert different_loops(short) == different_loops(long) < 20
    assert len(long) - len(short) <= 30 * 10


@pytest.mark.parametrize("rounds", [100, 200, 400])
def test_fusion_sees_no_more_calls_the_more_rounds_there_are(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    seen = []

    def counting(graph: Graph, *arguments: Any) -> Any:
        seen.append(len(graph.calls))
        return fused(graph, *arguments)

    monkeypatch.setattr(repeated_parts, "fused", counting)

    fused_in_parts(graph_of(rounds), is_taken)

    assert sum(seen) < 250


def nested(rounds: int) -> Any:
    """A loop in a loop, written in Python, and its gradient."""

    def function(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            state = x
            for _ in range(rounds):
                for _ in range(5):
                    state = tf.tanh(state @ w + b)
                state = state + tf.sin(state)
            loss = tf.reduce_mean(tf.square(state))
        return (loss, *tape.gradient(loss, [x, w, b]))

    return function


@pytest.mark.parametrize("rounds", [30, 60, 120])
def test_fusion_sees_one_round_of_an_outer_loop(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    seen = []

    def counting(graph: Graph, *arguments: Any) -> Any:
        seen.append(len(graph.calls))
        return fused(graph, *arguments)

    monkeypatch.setattr(repeated_parts, "fused", counting)

    fused_in_parts(recorded(nested(rounds), arrays()), is_taken)

    assert sum(seen) < 250


def test_views_constants_and_cheap_values_of_other_parts_are_computed_again() -> None:
    graph = graph_of(60)
    whole, in_parts = fused(graph, is_taken), fused_in_parts_of_any_length(graph)

    def stored(steps: list[Call | Fused]) -> int:
        return sum(value.nbytes for step in steps for value in step.results)

    # 1.05 times as much; 1.21 if a part reads all that other parts make.
    assert stored(in_parts) <= 1.1 * stored(whole)


def fused_in_parts_of_any_length(graph: Graph) -> list[Call | Fused]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated_parts, "LEAST_CALLS", 0)
        return fused_in_parts(graph, is_taken)


def layers(count: int) -> Any:
    """Layers whose slopes are recorded in the backward pass, and their gradients."""

    def function(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            state = x
            for _ in range(count):
                state = state + tf.nn.gelu(state @ w + b)
            loss = tf.reduce_mean(tf.square(state))
        return (loss, *tape.gradient(loss, [x, w, b]))

    return function


def test_a_function_and_its_slope_are_computed_in_one_loop() -> None:
    graph = recorded(layers(12), arrays())

    steps = fused_in_parts_of_any_length(graph)

    slopes = [
        {call.primitive.name for call in step.calls}
        for step in steps
        if isinstance(step, Fused)
        and any(call.primitive.name == "gelu_slope" for call in step.calls)
    ]
    assert slopes
    assert sum("gelu" in names for names in slopes) >= 10


@pytest.mark.usefixtures("quick_compiler", "always_cut")
def test_calls_that_are_moved_have_the_results_of_eager_mode() -> None:
    given = [tf.constant(array) for array in arrays()]

    found = tf.function(layers(12), wait=True)(*given)

    for array, expected in zip(found, layers(12)(*given), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-12)


def test_params_of_calls_that_are_not_fused_may_differ_between_parts() -> None:
    """Each round takes another slice, and each keeps its own."""
    series = np.arange(240.0).reshape(60, 4)

    def function(x: Any) -> Any:
        total = x[0]
        for k in range(1, 60):
            total = tf.tanh(total * 0.5) + tf.sort(x[k]) * 0.1
        return (total,)

    graph = recorded(function, [series])
    steps = fused_in_parts_of_any_length(graph)

    slices = [
        exact_key(step.params["index"])
        for step in steps
        if isinstance(step, Call) and step.primitive.name == "slice"
    ]
    assert len(slices) == len(set(slices)) == 60
    assert different_loops(steps) < 6


def test_a_memory_budget_is_met_by_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    monkeypatch.setattr(repeated_parts, "_ranges", None)  # would fail if it were called

    assert fused_in_parts(graph_of(5), is_taken, cheap=64)


def test_a_long_program_has_few_local_names() -> None:
    """A frame with a name for each value may make every call of a kernel map new memory."""
    graph = graph_of(300)

    function = to_python(graph, graph.calls)

    assert len(graph.calls) > 5000
    assert function.__code__.co_nlocals < 3000
    assert [np.shape(array) for array in run(graph, arrays())] == [(), (5, 4), (4, 4), (4,)]


def test_rounds_that_read_other_parts_are_not_mixed_up(always_cut: None) -> None:
    """The rounds are equal but for a slice and the distance of a roll."""

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            state = x[:, 0]
            for k in range(12):
                state = tf.sin(state * 0.9) + x[:, k] * tf.roll(state, k % 3, 0)
                state = state + tf.pad(state, [[1, 0]])[:-1] * tf.reverse(x[:, k], [0])
            loss = tf.reduce_sum(state**2)
        return loss, state, tape.gradient(loss, x)

    x = tf.constant(np.random.default_rng(5).normal(size=(7, 12)))
    compiled = tf.function(function)
    for _ in range(2):
        for one, other in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def scheduled(rounds: int) -> Any:
    """Rounds that read another slice each, and the gradient by what they slice."""

    def function(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            inputs, state = tf.tile(x, [rounds, 1]) @ w, x[:1]
            for row in [inputs[k : k + 1] for k in range(rounds)]:
                gate = tf.sigmoid(state @ w + row)
                state = gate * tf.tanh(state) + (1.0 - gate) * row
            loss = tf.reduce_mean(tf.square(state))
        return (loss, *tape.gradient(loss, [x, w]))

    return function


def test_rounds_that_differ_by_slices_share_their_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    graphs = [recorded(scheduled(rounds), arrays()) for rounds in (30, 60)]

    short, long = (fused_in_parts(graph, is_taken, windows=WINDOWS) for graph in graphs)

    assert different_loops(long) <= different_loops(short) < 20


@pytest.mark.usefixtures("quick_compiler")
def test_rounds_that_differ_by_slices_have_the_results_of_eager_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 200)
    tensors = [tf.constant(array) for array in arrays()]

    found = tf.function(scheduled(40))(*tensors)

    for a, b in zip(found, scheduled(40)(*tensors), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
