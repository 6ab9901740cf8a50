"""Loops over datasets inside recorded functions: each round is a recorded call."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

ROWS = np.random.default_rng(0).normal(size=(23, 4)).astype("float32")
SUMS = ROWS.sum(-1, keepdims=True)

Made = tuple[Callable[[], Any], list[Any]]
"""A function without arguments, and the variables that it assigns."""


@pytest.fixture(autouse=True)
def without_warnings():
    """Let a warning, such as one of a function that runs eagerly, be an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def batches() -> Any:
    return tf.data.Dataset.from_tensor_slices((ROWS, SUMS)).batch(5)


def training(wrap: Any) -> Made:
    data, w = batches(), tf.Variable(np.zeros((4, 1), "float32"))
    optimizer = tf.optimizers.Adam(0.1)

    @wrap
    def epoch() -> Any:
        total, count = 0.0, 0
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w - y) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            total += loss
            count += 1
        return total, count, loss

    return epoch, [w]


def epochs(wrap: Any) -> Made:
    data, w = batches().shuffle(5, seed=3), tf.Variable(np.zeros((4, 1), "float32"))
    optimizer = tf.optimizers.SGD(0.05, momentum=0.9)

    @wrap
    def fit() -> Any:
        history = tf.TensorArray("float32", size=3)
        for epoch in tf.range(3):
            total = 0.0
            for x, y in data:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((x @ w - y) ** 2)
                grads = tape.gradient(loss, [w])
                optimizer.apply_gradients(zip(grads, [w], strict=True))
                total += loss
            history = history.write(epoch, total)
        return history.stack()

    return fit, [w]


def jumps(wrap: Any) -> Made:
    data, seen = batches(), tf.Variable(0.0)

    @wrap
    def until() -> Any:
        total = tf.constant(0.0)
        for x, y in data:
            if tf.reduce_sum(x) < 0.0:
                continue
            seen.assign_add(tf.reduce_sum(y))
            total += tf.reduce_max(x)
            if total > 3.0:
                break
        return total

    return until, [seen]


def returned(wrap: Any) -> Made:
    data = batches()

    @wrap
    def first_large() -> Any:
        for x, _ in data:
            if tf.reduce_max(x) > 1.9:
                return x[0]
        return tf.zeros([4])

    return first_large, []


def counted(wrap: Any) -> Made:
    data, sums = batches(), tf.Variable(np.zeros(5, "float32"))

    @wrap
    def numbered() -> Any:
        total = tf.constant(0, "int64")
        for k, (x, _) in data.enumerate():
            sums.scatter_nd_add([[k]], [tf.reduce_sum(x)])
        for k, _ in enumerate(data):
            total += k
        for k, _ in zip(tf.data.Dataset.range(3), data):  # the first one is shorter
            total += 10 * k
        return total

    return numbered, [sums]


def local_function(wrap: Any) -> Made:
    data, w, scales = batches(), tf.Variable(np.zeros((4, 1), "float32")), iter([1.0, 2.0, 0.5])

    @wrap
    def descend(scale: Any) -> Any:
        rate = 0.1 * scale

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w - y) ** 2)
            w.assign_sub(rate * tape.gradient(loss, w))
            return loss

        for x, y in data:
            loss = step(x, y)
        return loss

    return lambda: descend(tf.constant(next(scales))), [w]


def random_draws(wrap: Any) -> Made:
    data, total = batches(), tf.Variable(0.0)

    @wrap
    def noisy() -> Any:
        for x, _ in data:
            total.assign_add(tf.reduce_sum(x * tf.random.normal(tf.shape(x))))
        return total.value()

    return noisy, [total]


def outer_tape(wrap: Any) -> Made:
    data, w = batches(), tf.Variable(np.ones((4, 1), "float32"))

    @wrap
    def gradient() -> Any:
        total = 0.0
        with tf.GradientTape() as tape:
            for x, y in data:
                total += tf.reduce_sum((x @ w - 2.0 * y) ** 2)
        return tape.gradient(total, w)

    return gradient, [w]


def inner_dataset(wrap: Any) -> Made:
    data, total = batches(), tf.Variable(0.0)

    @wrap
    def pairs() -> Any:
        for x, _ in data:
            for k in tf.data.Dataset.range(3):
                total.assign_add(tf.reduce_sum(x) * tf.cast(k, "float32"))
        return total.value()

    return pairs, [total]


PROGRAMS = [training, epochs, jumps, returned, counted, local_function, random_draws, outer_tape]


def results(make: Callable[[Any], Made], wrap: Any) -> tuple[Any, Any]:
    """Call a function three times; return the function, and all values."""
    kept: list[Any] = []

    def keep(function: Any) -> Any:
        kept.append(wrap(function))
        return kept[0]

    tf.random.set_seed(1)
    call, variables = make(keep)
    found = [tf.nest.flatten(call()) for _ in range(3)]
    values = [np.asarray(leaf) for leaves in found for leaf in leaves]
    return kept[0], [*values, *[variable.numpy() for variable in variables]]


@pytest.mark.parametrize("make", [*PROGRAMS, inner_dataset], ids=lambda make: make.__name__)
def test_values_are_those_of_eager_mode(make):
    _, eager = results(make, lambda function: function)

    _, recorded = results(make, tf.function)

    for one, other in zip(eager, recorded, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_rounds_are_recorded_once_for_each_shape(make):
    function, _ = results(make, tf.function)

    explained = function.explain()
    assert explained.loops
    # Two lengths of batches, and the first round of a loop over numbers that become tensors.
    assert all(0 < len(loop.recordings) <= 4 for loop in explained.loops)
    assert all("rounds of its loop are recorded" in reason for reason in explained.eager_calls)


def test_other_datasets_need_no_other_recording():
    total = tf.Variable(0.0)

    @tf.function
    def add(data):
        for x in data:
            total.assign_add(tf.reduce_sum(x))

    for k in range(10):
        add(tf.data.Dataset.from_tensor_slices(ROWS[:8] + k).batch(4))

    assert len(add.explain().loops[0].recordings) == 1
    expected = sum([float((ROWS[:8] + k).sum()) for k in range(10)])
    assert float(total) == pytest.approx(expected, rel=1e-4)


def test_batches_of_many_lengths_are_recorded_a_few_times():
    lengths = [3, 4, 7, 5, 9, 8, 6, 2, 10, 11]
    data = tf.data.Dataset.from_generator(
        lambda: (np.ones(n, "float32") for n in lengths),
        output_signature=tf.TensorSpec([None], "float32"),
    )

    @tf.function
    def total():
        found = 0.0
        for x in data:
            found += tf.reduce_sum(tf.sin(x))
        return found

    assert float(total()) == pytest.approx(sum(lengths) * np.sin(1.0), rel=1e-5)
    assert len(total.explain().loops[0].recordings) <= 5


def test_text_is_printed_once_per_round():
    stream = io.StringIO()

    @tf.function
    def show():
        for k in tf.data.Dataset.range(4):
            tf.print(k, output_stream=stream)

    show()
    show()

    assert stream.getvalue().split() == ["0", "1", "2", "3"] * 2


def test_a_dataset_without_elements_leaves_variables_as_they_are():
    @tf.function
    def last(data):
        found = tf.constant(-1, "int64")
        for k in data:
            found = k
        return found

    assert int(last(tf.data.Dataset.range(0))) == -1
    assert int(last(tf.data.Dataset.range(5))) == 4


def test_metrics_and_attributes_of_objects_are_updated():
    class Trainer:
        def __init__(self):
            self.mean = tf.keras.metrics.Mean()
            self.seen = tf.constant(0)

        @tf.function
        def epoch(self, data):
            self.mean.reset_state()
            for x, _ in data:
                self.mean.update_state(x)
                self.seen += tf.shape(x)[0]
            return self.mean.result()

    trainer = Trainer()
    means = [float(trainer.epoch(batches())) for _ in range(3)]

    np.testing.assert_allclose(means, ROWS.mean(), rtol=1e-4)
    assert int(trainer.seen) == 3 * 23


def appended(data):
    found = []
    for x, _ in data:
        found.append(tf.reduce_sum(x))
    return tf.stack(found)


def grown(data):
    found = ()
    for x, _ in data:
        found = (*found, tf.reduce_sum(x))
    return tf.stack(found)


def read_on_the_host(data):
    found = 0.0
    for x, _ in data:
        found += float(tf.reduce_sum(x))
    return tf.constant(found)


@pytest.mark.parametrize("python", [appended, grown, read_on_the_host], ids=lambda f: f.__name__)
def test_rounds_that_cannot_be_recorded_run_eagerly_with_a_warning(python):
    function = tf.function(python)

    with pytest.warns(UserWarning, match="the rounds of a loop over a dataset run eagerly"):
        found = function(batches())

    for values in (found, function(batches())):
        np.testing.assert_allclose(values.numpy(), python(batches()).numpy(), rtol=1e-5)


def test_a_failed_recording_counts_no_pass_of_a_shuffle():
    def order(wrap):
        data = tf.data.Dataset.range(20).shuffle(20, seed=1)

        @wrap
        def digits():
            total = tf.constant(0.0, "float64")
            for k in data:
                total = 0.9 * total + tf.cast(k, "float64")
            return total

        return [float(digits()) for _ in range(3)]

    np.testing.assert_allclose(order(tf.function), order(lambda f: f), rtol=1e-12)


def test_a_scalar_that_an_operation_made_is_no_other_argument():
    double = tf.function(lambda x: 2.0 * x)

    double(tf.constant(1.0))
    found = double(tf.reduce_sum(tf.constant([1.0, 2.0])))

    assert float(found) == 6.0
    assert len(double.explain().recordings) == 1
