"""Fusion: which calls become one loop, recomputation, hoisting, horizontal fusion, buffer reuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.trace.loop import JoinedLoops, Loop
from tapegrad.program.emit.lowering import CompiledLoop
from tapegrad.program.graph.graph import Call
from tests import capabilities
from tests.program.reference_loops import Reference
from tests.program.test_random_programs import check_against_eager
from tests.seeds import program_seeds


class Watching(Reference):
    """Stores the loops that it compiles."""

    def __init__(self) -> None:
        self.loops: list[Loop | JoinedLoops] = []

    def compile(self, loops: Any) -> list[Callable[..., Any] | None]:
        self.loops += loops
        return super().compile(loops)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Run loops in NumPy instead of C, so that these tests need no compiler."""
    found = Watching()
    capabilities.use(monkeypatch, loops=found)
    return found


def steps_of(function: Callable[..., Any], *tensors: Any) -> list[Any]:
    """Return the steps of a function's program, after a comparison with eager mode."""
    recorded = tf.function(function)
    expected = function(*tensors)
    recorded(*tensors)
    found = recorded(*tensors)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
    steps: list[Any] = recorded.program(*tensors).steps
    return steps


def kinds(steps: list[Any]) -> list[str]:
    return [step.primitive.name if isinstance(step, Call) else "loop" for step in steps]


def draw(*shape: int, seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).normal(size=shape))


# Grouping


def test_a_chain_of_elementwise_calls_is_one_loop(target: Watching) -> None:
    steps = steps_of(lambda x: tf.tanh(x * 2.0 + 1.0) - x, draw(5, 3))

    assert kinds(steps) == ["loop"]


def test_a_value_with_its_gradients_is_one_loop(target: Watching) -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            y = tf.reduce_sum(tf.tanh(x * w + b))
        return y, tape.gradient(y, [x, w, b])

    steps = steps_of(function, draw(50), draw(50, seed=1), draw(50, seed=2))

    assert kinds(steps) == ["loop"]
    assert len(steps[0].results) == 4


def test_a_product_in_between_keeps_loops_apart(target: Watching) -> None:
    steps = steps_of(lambda x: tf.tanh(tf.exp(x) @ x) + tf.exp(x), draw(4, 4))

    assert kinds(steps) == ["loop", "matmul", "loop"]


def test_what_reads_a_sum_along_first_axes_does_not_run_with_it(target: Watching) -> None:
    steps = steps_of(lambda x: x - tf.reduce_mean(x, 0), draw(6, 3))

    assert kinds(steps) == ["mean", "loop"]


def test_what_reads_such_a_sum_of_a_loop_does_not_run_with_it(target: Watching) -> None:
    steps = steps_of(lambda x: tf.exp(x) - tf.reduce_mean(tf.exp(x), 0), draw(6, 3))

    assert kinds(steps) == ["loop", "loop"]
    assert [output.combine for output in target.loops[0].outputs] == [None, "add"]  # type: ignore[union-attr]


def test_two_reductions_of_one_array_read_it_once(target: Watching) -> None:
    steps = steps_of(lambda x: (tf.reduce_max(x, 1), tf.reduce_min(x, 1)), draw(6, 4))

    assert kinds(steps) == ["loop"]


def test_reductions_along_different_axes_are_different_loops(target: Watching) -> None:
    steps = steps_of(lambda x: (tf.reduce_sum(x * x, 0), tf.reduce_sum(x * x, 1)), draw(6, 4))

    assert kinds(steps) == ["loop", "loop"]


def test_axes_of_length_one_do_not_stand_between(target: Watching) -> None:
    steps = steps_of(
        lambda x, y: tf.reshape(x * y, [4, 1, 5]) * tf.exp(tf.reshape(x, [4, 1, 5])),
        *[draw(4, 5)] * 2,
    )

    assert kinds(steps) == ["loop"]


def test_what_a_target_cannot_do_stays_a_call_and_the_rest_is_fused(
    target: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutTanh(Watching):
        def compile(self, loops: Any) -> list[Any]:
            made = super().compile(loops)
            names = [
                {node.name for output in loop.outputs for node in all_nodes(output.expression)}
                for loop in loops
            ]
            return [None if "tanh" in used else run for run, used in zip(made, names)]

    capabilities.use(monkeypatch, loops=WithoutTanh())

    steps = steps_of(lambda x, y: (tf.tanh(x * 2.0) @ x, tf.exp(y) - y), draw(4, 4), draw(7))

    assert "tanh" in kinds(steps)
    assert "loop" in kinds(steps)


# Recomputation


def test_a_cheap_value_of_a_smaller_space_is_computed_where_it_is_read(target: Watching) -> None:
    steps = steps_of(lambda x, b: tf.exp(x) + b * 2.0, draw(5, 3), draw(3, seed=1))

    assert kinds(steps) == ["loop"]
    assert [read.seen for read in target.loops[0].inputs] == [(1, 3), (5, 3)]  # type: ignore[union-attr]


def test_a_costly_one_is_not(target: Watching) -> None:
    steps = steps_of(lambda x, b: x + tf.exp(b), draw(5, 3), draw(3, seed=1))

    assert kinds(steps) == ["loop", "loop"]


def test_constants_are_part_of_the_loop(target: Watching) -> None:
    steps = steps_of(lambda x: x + tf.ones_like(x) / 4.0, draw(5, 3))

    assert kinds(steps) == ["loop"]
    assert len(steps[0].arguments) == 1


def test_a_filled_array_that_a_product_reads_is_filled_at_once(target: Watching) -> None:
    steps = steps_of(lambda x: tf.broadcast_to(tf.ones([1, 3]) / 4.0, [2, 3]) @ x, draw(3, 3))

    assert kinds(steps)[-1] == "matmul"
    assert len(steps) <= 2


# Hoisting, horizontal fusion, variables


SHAPES = [(3, 4), (5,), (2, 2)]


def adam(shapes: list[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    variables = [tf.Variable(np.ones(shape)) for shape in shapes]
    optimizer = tf.optimizers.Adam(0.1)

    def step(*gradients: Any) -> None:
        optimizer.apply_gradients(zip(gradients, variables))

    return step, variables


@pytest.mark.parametrize(
    ("part", "is_joined"),
    [
        (lambda x: x[1:3], True),
        (lambda x: x[1], True),
        (lambda x: x[:, 1:3], False),
        (lambda x: x[::2], False),
        (lambda x: tf.transpose(x), False),
    ],
)
def test_loops_are_joined_if_they_read_neighbours(
    target: Watching, part: Callable[[Any], Any], is_joined: bool
) -> None:
    target.windows = target.windows - {"slice"}  # slices are views of arrays then
    first, second = draw(4, 6), draw(5, 7)

    def both(x: Any, y: Any) -> Any:
        return tf.exp(part(x)) + 1.0, tf.exp(part(y)) + 1.0

    found = tf.function(both)(first, second)

    for one, other in zip(found, both(first, second), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert any(isinstance(loop, JoinedLoops) for loop in target.loops) == is_joined


def test_an_optimizer_step_is_one_joined_loop_over_the_variables(target: Watching) -> None:
    step, variables = adam(SHAPES)
    expected, others = adam(SHAPES)
    function, gradients = tf.function(step), [draw(*shape) for shape in SHAPES]

    for _ in range(4):
        function(*gradients)
        expected(*gradients)

    for one, other in zip(variables, others):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    (joined,) = [loop for loop in target.loops if isinstance(loop, JoinedLoops)]
    assert [loop.shape for loop in joined.loops] == SHAPES
    # Its powers of beta are computed once, for all elements of all variables.
    names = {node.name for o in joined.loops[0].outputs for node in all_nodes(o.expression)}
    assert "pow" not in names


def all_nodes(node: Any) -> list[Any]:
    return [node, *[inner for operand in node.operands for inner in all_nodes(operand)]]


def test_variables_are_written_over_where_nothing_reads_them_later(target: Watching) -> None:
    v = tf.Variable(np.ones(4))

    def step(x: Any) -> Any:
        v.assign_sub(0.1 * x)

    function = tf.function(step)
    function(draw(4))

    (loop,) = function.program(draw(4)).steps
    assert isinstance(loop, CompiledLoop)
    assert [value is not None for value in loop.targets] == [True]


def test_not_where_the_old_value_is_returned(target: Watching) -> None:
    v = tf.Variable(np.ones(4))

    @tf.function
    def step(x: Any) -> Any:
        before = v.value()
        v.assign_sub(x)
        return before

    x = draw(4)
    first = step(x)
    second = step(x)

    (loop,) = step.program(x).steps
    assert loop.targets == (None,)
    np.testing.assert_allclose(first.numpy(), np.ones(4))
    np.testing.assert_allclose(second.numpy(), np.ones(4) - x.numpy())


def test_not_where_the_new_value_is_returned(target: Watching) -> None:
    v = tf.Variable(np.ones(4))

    @tf.function
    def step(x: Any) -> Any:
        v.assign_sub(x)
        return v.value()

    x = draw(4)
    results = [step(x) for _ in range(4)]

    for number, result in enumerate(results, start=1):
        np.testing.assert_allclose(result.numpy(), np.ones(4) - number * x.numpy())


def test_not_where_a_view_of_the_old_value_is_read_later(target: Watching) -> None:
    v = tf.Variable(np.arange(6.0))

    @tf.function
    def step(x: Any) -> Any:
        view = tf.reshape(v.value(), [2, 3])
        v.assign_add(x)
        return view @ tf.transpose(view)

    x = draw(6)
    for _ in range(3):
        old = v.numpy().reshape(2, 3)
        np.testing.assert_allclose(step(x).numpy(), old @ old.T)


def test_an_assertion_that_fails_leaves_variables_as_they_were(target: Watching) -> None:
    v = tf.Variable(np.ones(50))

    @tf.function
    def step(x: Any) -> Any:
        v.assign_add(tf.abs(x) * 2.0)
        tf.debugging.assert_less(v, tf.constant(10.0, "float64"))
        return tf.reduce_sum(v)

    small, large = tf.constant(np.full(50, 0.5)), tf.constant(np.full(50, 9.0))
    step(small)
    step(small)
    with pytest.raises(ValueError, match="requires x < y"):
        step(large)

    np.testing.assert_array_equal(v.numpy(), np.full(50, 3.0))


def test_a_value_read_before_a_step_keeps_what_it_was(target: Watching) -> None:
    step, variables = adam([(3,)])
    function, gradient = tf.function(step), draw(3)
    for _ in range(3):
        function(gradient)
    before = variables[0].value()
    kept = before.numpy()

    function(gradient)

    np.testing.assert_array_equal(before.numpy(), kept)
    assert not np.array_equal(variables[0].numpy(), kept)


# Combinations


@pytest.mark.parametrize("seed", program_seeds(300, most=1000, first=1000))
def test_a_random_program_in_loops_gives_what_it_gives_eagerly(seed: int, target: Watching) -> None:
    check_against_eager(seed, calls=3, precision=1e-11)


def test_a_loop_takes_the_memory_of_an_operand_that_is_needed_no_more(target: Watching) -> None:
    steps = steps_of(lambda x: tf.exp(x @ x) @ x, draw(5, 5))

    (loop,) = [step for step in steps if isinstance(step, CompiledLoop)]
    assert [value is not None for value in loop.targets] == [True]


def test_not_of_one_that_is_read_later(target: Watching) -> None:
    def function(x: Any) -> Any:
        y = x @ x
        return tf.exp(y) @ y

    steps = steps_of(function, draw(5, 5))

    (loop,) = [step for step in steps if isinstance(step, CompiledLoop)]
    assert loop.targets == (None,)


def test_loops_of_one_formula_that_wait_for_each_other_are_not_joined(target: Watching) -> None:
    arrays = [draw(5, seed=k) for k in range(100)]

    def function(*arrays: Any) -> Any:
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        return total

    steps = steps_of(function, *arrays)

    assert len(steps) > 3  # one loop cannot read so many arrays
    assert not any(isinstance(loop, JoinedLoops) for loop in target.loops)
