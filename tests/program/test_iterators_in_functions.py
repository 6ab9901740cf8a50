"""Functions that take iterators of datasets: recorded programs with the values of Python code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, OutOfRangeError

ROWS = np.arange(240, dtype="float32").reshape(80, 3) / 100.0


def data(rows: int = 80, batch: int = 4) -> Any:
    return tf.data.Dataset.from_tensor_slices((ROWS[:rows], ROWS[:rows, :1])).batch(batch)


class Model:
    """A linear model; each function below gets a new one."""

    def __init__(self) -> None:
        self.w = tf.Variable(np.ones((3, 1), "float32"))

    def step(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ self.w - y))
        self.w.assign_sub(0.1 * tape.gradient(loss, self.w))
        return loss


def one(model: Model) -> Callable[..., Any]:
    return lambda it: model.step(*next(it))


def two(model: Model) -> Callable[..., Any]:
    return lambda it: model.step(*it.get_next()) + 2.0 * model.step(*it.get_next())


def python_range(model: Model) -> Callable[..., Any]:
    def steps(it: Any) -> Any:
        total = 0.0
        for _ in range(3):
            total += model.step(*next(it))
        return total

    return steps


def tensor_range(model: Model) -> Callable[..., Any]:
    def steps(it: Any) -> Any:
        total = 0.0
        for _ in tf.range(tf.constant(3)):
            total += model.step(*next(it))
        return total

    return steps


def nested_ranges(model: Model) -> Callable[..., Any]:
    def steps(it: Any) -> Any:
        total = 0.0
        for k in range(2):
            for _ in tf.range(tf.constant(2)):
                total += (k + 1) * model.step(*next(it))
        return total

    return steps


def with_jumps(model: Model) -> Callable[..., Any]:
    def steps(it: Any) -> Any:
        total = 0.0
        for _ in tf.range(tf.constant(4)):
            x, y = next(it)
            if tf.reduce_sum(x) < 0.5:
                continue
            if tf.reduce_sum(x) > 20.0:
                break
            total += model.step(x, y)
        return total

    return steps


def in_a_branch(model: Model) -> Callable[..., Any]:
    def step(it: Any) -> Any:
        loss = model.step(*next(it))
        if tf.reduce_sum(model.w) > 1.0:
            loss += model.step(*next(it))
        return loss

    return step


def outcomes(function: Callable[..., Any], iterator: Any, calls: int) -> list[Any]:
    """The results of some calls, with the kinds of errors among them."""
    found: list[Any] = []
    for _ in range(calls):
        try:
            found.append(float(function(iterator)))
        except (StopIteration, OutOfRangeError):
            found.append(-1.0)
    return found


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("rows", [80, 26], ids=["enough", "exhausted"])
@pytest.mark.parametrize(
    "make", [one, two, python_range, tensor_range, nested_ranges, with_jumps, in_a_branch]
)
def test_calls_have_the_values_of_python_code(make: Any, rows: int) -> None:
    expected = outcomes(make(Model()), iter(data(rows)), 8)

    found = outcomes(tf.function(make(Model())), iter(data(rows)), 8)

    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_step_is_recorded_once_for_all_iterators() -> None:
    step = tf.function(one(Model()), wait=True)
    python_calls: list[int] = []

    @tf.function(wait=True)
    def counted(it: Any) -> Any:
        python_calls.append(1)
        return step(it)

    for iterator in (iter(data()), iter(data())):
        for _ in range(6):
            counted(iterator)

    assert len(python_calls) == 2  # eagerly, and recorded
    assert counted.explain().loops[0].recordings[0].calls > 5


def test_rounds_of_a_loop_of_unknown_length_are_recorded() -> None:
    model, plain = Model(), Model()

    @tf.function(wait=True)
    def train(it: Any, count: Any) -> Any:
        total = 0.0
        for _ in tf.range(count):
            total += model.step(*next(it))
        return total

    iterator, given, counts = iter(data().repeat()), iter(data().repeat()), (3, 7, 20, 5)
    expected = [sum(float(plain.step(*next(given))) for _ in range(count)) for count in counts]

    found = [float(train(iterator, tf.constant(count))) for count in counts]

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    of_rounds = train.explain().loops[0].loops[0].loops[0]
    assert len(of_rounds.recordings) == 1


def test_two_iterators_and_one_that_is_given_twice() -> None:
    def mixed(a: Any, b: Any, scale: float = 1.0) -> Any:
        first, second, third = next(a)[0], next(b)[0], next(a)[0]
        return tf.reduce_sum(first) + 10 * tf.reduce_sum(second) + scale * tf.reduce_sum(third)

    recorded = tf.function(mixed)
    for same in (False, True):
        results = []
        for function in (mixed, recorded):
            a = iter(data())
            b = a if same else iter(data(40, 2))
            results.append([float(function(a, b=b, scale=3.0)) for _ in range(4)])
        np.testing.assert_allclose(*results, rtol=1e-6)


def test_a_tape_around_a_call_gives_the_gradient() -> None:
    v = tf.Variable(2.0)
    scaled = tf.function(lambda it: tf.reduce_sum(next(it)[0]) * v * v)
    iterator, sums = iter(data()), [batch[0].numpy().sum() for batch in data()]

    for k in range(3):
        with tf.GradientTape() as tape:
            y = scaled(iterator)
        np.testing.assert_allclose(tape.gradient(y, v), 4.0 * sums[k], rtol=1e-5)


def test_an_iterator_goes_on_after_the_elements_of_a_call() -> None:
    function = tf.function(two(Model()))
    iterator, other = iter(data()), iter(data())
    for _ in range(3):
        function(iterator)
    for _ in range(6):
        next(other)

    assert iterator.state() == other.state()
    np.testing.assert_array_equal(next(iterator)[0], next(other)[0])


def test_elements_that_are_not_used_are_given_back() -> None:
    function = tf.function(two(Model()))
    iterator = iter(data(20))  # five elements
    function(iterator)
    function(iterator)
    with pytest.raises(OutOfRangeError):
        function(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_no_state_is_returned_while_elements_are_given_back() -> None:
    iterator = iter(data())
    iterator.give_back(next(iterator))

    with pytest.raises(ArgumentError, match="read elements of this iterator ahead"):
        iterator.state()
    np.testing.assert_array_equal(next(iterator)[0], ROWS[:4])
    assert iterator.state() != iter(data()).state()


def test_a_generator_may_read_another_iterator() -> None:
    def rows() -> Any:
        for x, _ in data(40):
            yield x

    spec = tf.TensorSpec([None, 3])
    iterator = iter(tf.data.Dataset.from_generator(rows, output_signature=spec))
    total = tf.function(lambda it: tf.reduce_sum(next(it)))

    found = [float(total(iterator)) for _ in range(4)]

    np.testing.assert_allclose(found, ROWS[:16].reshape(4, 12).sum(1), rtol=1e-6)
    assert total.explain().loops[0].recordings
