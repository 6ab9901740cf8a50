"""Recording: side effects, constants, variables, and what a recording refuses."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import RecordingError
from tapegrad.ops.random import generator as random_generator
from tapegrad.program.eager_mode import run_functions_eagerly
from tapegrad.program.explanation import MANY_PROGRAMS


def test_python_code_runs_once_per_signature() -> None:
    seen: list[Any] = []

    @tf.function
    def double(x: Any) -> Any:
        seen.append(x.shape)
        return x * 2.0

    for size in (1, 1, 2, 2, 1):
        double(tf.constant(np.ones(size)))
    double(tf.constant(np.ones(1, "float32")))

    assert seen == [(1,), (2,), (1,)]


def test_python_values_are_part_of_the_signature() -> None:
    power = tf.function(lambda x, n: x**n)
    x = tf.constant(2.0)

    assert [float(power(x, n)) for n in (2, 3, 2, 3)] == [4.0, 8.0, 4.0, 8.0]
    assert float(power(x, n=3)) == 8.0


def test_structures_come_back_as_they_were() -> None:
    @tf.function
    def split(batch: dict[str, Any]) -> Any:
        return {"sum": batch["a"] + batch["b"][0], "rest": (batch["a"], None, "text")}

    for k in (1.0, 2.0):
        a, b = tf.constant(k), tf.constant(10 * k)
        result = split({"a": a, "b": [b]})
        assert float(result["sum"]) == 11 * k
        assert float(result["rest"][0]) == k
        assert result["rest"][1:] == (None, "text")
        assert list(result) == ["sum", "rest"]


def test_numpy_arrays_become_tensors() -> None:
    total = tf.function(lambda x: tf.reduce_sum(x))

    assert [float(total(np.full(3, k))) for k in (1.0, 2.0)] == [3.0, 6.0]


def test_variables_are_read_and_written_by_reference() -> None:
    count = tf.Variable(0.0)

    @tf.function
    def step(x: Any) -> Any:
        count.assign_add(x)
        return count * 10.0

    assert [float(step(tf.constant(1.0))) for _ in range(3)] == [10.0, 20.0, 30.0]
    count.assign(100.0)
    assert float(step(tf.constant(1.0))) == 1010.0
    assert float(count) == 101.0


def test_what_variables_held_before_a_recording_is_freed_at_its_end() -> None:
    w, other = tf.Variable(np.ones(1000)), tf.Variable(np.ones(10))
    before = weakref.ref(w.array)
    gc.disable()
    try:
        tf.function(lambda: w.assign_add(np.ones(1000)))()
        with contextlib.suppress(RecordingError):
            tf.function(lambda: float(other.assign_add(np.ones(10))[0]))()

        assert before() is None or before() is w.array  # which the program writes to
        freed = weakref.ref(other.array)
        other.assign(np.zeros(10))
        assert freed() is None
    finally:
        gc.enable()


def test_the_call_that_records_returns_and_assigns_what_later_calls_would() -> None:
    def make() -> Any:
        w = tf.Variable(np.linspace(-1, 1, 300, dtype="float32").reshape(30, 10))
        made: list[Any] = []

        @tf.function
        def step(x: Any) -> Any:
            if not made:
                made.append(tf.Variable(tf.ones((10,)) * 0.3))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.tanh(tf.nn.softmax(x @ w) * made[0]) ** 3)
            w.assign_sub(tape.gradient(loss, w) * 7.7)
            made[0].assign(made[0] * 0.9 + tf.reduce_mean(w, axis=0))
            return loss, tf.random.uniform((2,))

        return w, made, step

    def state(w: Any, made: Any, results: Any) -> list[bytes]:
        return [value.numpy().tobytes() for value in (w, *made, *results)]

    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(20, 30)).astype("float32") for _ in range(6)]
    tf.random.set_seed(5)
    w, made, step = make()
    once = [state(w, made, step(x)) for x in batches]
    tf.random.set_seed(5)
    w, made, step = make()
    again = []
    for x in batches:
        again.append(state(w, made, step(x)))
        step._entries.clear()

    assert again == once


def test_what_a_function_prints_and_checks_happens_once_in_the_call_that_records(capsys) -> None:
    @tf.function
    def noisy(x: Any) -> Any:
        tf.print("seen", x)
        return x + 1

    noisy(tf.constant(1.0))
    noisy(tf.constant(2.0))

    assert capsys.readouterr().err.splitlines() == ["seen 1.0", "seen 2.0"]


def test_variables_made_inside_keep_their_values() -> None:
    w = tf.Variable([1.0, 2.0])
    optimizer = tf.optimizers.Adam(0.1)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])

    eager = tf.Variable([1.0, 2.0])
    other = tf.optimizers.Adam(0.1)
    for _ in range(4):
        step()
        other.apply_gradients([(2.0 * eager, eager)])

    np.testing.assert_allclose(w.numpy(), eager.numpy(), rtol=1e-6)
    assert int(optimizer.iterations) == 4


def test_random_numbers_differ_from_call_to_call_and_equal_eager_ones() -> None:
    draw = tf.function(lambda: tf.random.normal([3]))

    tf.random.set_seed(7)
    found = [draw().numpy() for _ in range(3)]
    tf.random.set_seed(7)
    expected = [tf.random.normal([3]).numpy() for _ in range(3)]

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_seed_counts_for_what_was_recorded_before(seed: Any) -> None:
    draw = tf.function(lambda: tf.random.normal([3], seed=seed))
    draw()

    for start in (7, 8, 7):
        tf.random.set_seed(start)
        found = [draw().numpy() for _ in range(2)]
        tf.random.set_seed(start)
        expected = [tf.random.normal([3], seed=seed).numpy() for _ in range(2)]
        np.testing.assert_array_equal(found, expected)
    assert len(draw.explain().recordings) == 1


def test_a_seed_counts_for_what_was_recorded_before_any_seed(monkeypatch) -> None:
    monkeypatch.setattr(random_generator, "_globals", random_generator._Globals())
    draw = tf.function(lambda: tf.random.normal([3]))
    draw()

    tf.random.set_seed(7)
    found = draw().numpy()
    tf.random.set_seed(7)

    np.testing.assert_array_equal(found, tf.random.normal([3]).numpy())


def test_a_seed_starts_a_stream_on_the_current_device() -> None:
    register_backend(strict.StrictBackend())
    try:
        with tf.device("cpu"):
            tf.random.set_seed(7)
            tf.random.normal([], seed=3)
        with tf.device("strict:0"):
            tf.random.set_seed(7)
            found = [tf.random.get_global_generator(), random_generator.source_for(3)]
            assert [one.state.device for one in found] == ["strict:0", "strict:0"]
    finally:
        tf.random.set_seed(7)  # back on the default device
        unregister_backend("strict")


def test_a_seed_leaves_a_generator_of_ones_own_alone() -> None:
    own = tf.random.Generator.from_seed(3)
    tf.random.set_global_generator(own)
    tf.random.normal([])

    tf.random.set_seed(7)

    assert own.state.numpy().tolist() == [3, 1]
    assert tf.random.get_global_generator().state.numpy().tolist() == [7, 0]


@pytest.mark.parametrize(
    "read",
    [float, lambda x: x.numpy(), lambda x: f"{x:.1f}"],
)
def test_reading_a_value_says_where_and_what_to_do(read: Any) -> None:
    with pytest.raises(RecordingError, match=r"test_recording\.py:\d+.*tapegrad\.cond"):
        tf.function(lambda x: read(x * 2.0))(tf.constant(1.0))


def test_a_failed_recording_leaves_variables_as_they_were() -> None:
    w = tf.Variable(1.0)

    @tf.function
    def step() -> None:
        w.assign_add(1.0)
        float(w)

    with pytest.raises(RecordingError):
        step()

    assert float(w) == 1.0
    assert float(w * 3.0) == 3.0


def test_a_tensor_kept_on_the_side_is_refused_with_a_sentence() -> None:
    kept: list[Any] = []
    tf.function(lambda x: kept.append(x * 2.0))(tf.constant(1.0))

    with pytest.raises(RecordingError, match="is used after the recording"):
        _ = kept[0] + 1.0


def test_nested_functions_are_part_of_the_outer_one() -> None:
    inner = tf.function(lambda x: x * x)
    outer = tf.function(lambda x: inner(x) + 1.0)

    assert [float(outer(tf.constant(k))) for k in (2.0, 3.0)] == [5.0, 10.0]


def test_a_tape_outside_differentiates_it_to_second_order() -> None:
    cube = tf.function(lambda x: x * x * x)
    x = tf.constant(2.0)
    cube(x)

    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = cube(x)
        first = inner.gradient(y, x)

    assert float(first) == 12.0
    assert float(outer.gradient(first, x)) == 12.0


def test_a_method_is_recorded_per_object() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tf.function
        def __call__(self, x: Any) -> Any:
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    x = tf.constant(1.0)

    assert [float(f(x)) for f in (two, three, two, three)] == [2.0, 3.0, 2.0, 3.0]


def test_sparse_gradients_are_returned_as_such() -> None:
    table = tf.Variable(np.arange(6.0).reshape(3, 2))

    @tf.function
    def gradient(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, ids))
        return tape.gradient(loss, table)

    for ids in ([0, 2], [1, 1]):
        result = gradient(tf.constant(ids))
        assert isinstance(result, tf.IndexedSlices)
        assert result.indices.numpy().tolist() == ids


def test_what_cannot_be_told_apart_runs_eagerly_with_a_warning() -> None:
    first = tf.function(lambda x, options: x + len(options))

    with pytest.warns(UserWarning, match="Argument 1 is of type set, which is not hashable"):
        assert float(first(tf.constant(1.0), {1, 2})) == 3.0


def test_arguments_that_keep_changing_are_named_in_a_warning() -> None:
    add = tf.function(lambda x, n: x + n)

    for n in range(1, MANY_PROGRAMS):
        add(tf.constant(1.0), n)
    with pytest.warns(UserWarning, match="Python numbers are part of a program"):
        add(tf.constant(1.0), 0)


def test_functions_can_run_eagerly_for_debugging() -> None:
    seen: list[float] = []

    def note(x: Any) -> Any:
        seen.append(float(x))
        return x

    run_functions_eagerly(True)
    try:
        tf.function(note)(tf.constant(1.0))
    finally:
        run_functions_eagerly(False)
    tf.function(note, jit=False)(tf.constant(2.0))
    tf.function(jit=False)(note)(tf.constant(3.0))

    assert seen == [1.0, 2.0, 3.0]


def test_dead_and_repeated_calls_are_left_out() -> None:
    @tf.function
    def f(x: Any) -> Any:
        _ = tf.exp(x)
        return tf.sin(x) * tf.sin(x)

    x = tf.constant([1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)

    assert [call.primitive.name for call in f.program(x).graph.calls] == ["sin", "multiply"]


def test_a_program_that_does_not_exist_yet() -> None:
    with pytest.raises(ValueError, match="Call the function with them first"):
        tf.function(lambda x: x).program(tf.constant(1.0))


def test_constants_from_outside_are_kept() -> None:
    data = tf.constant([1.0, 2.0, 3.0])
    dot = tf.function(lambda x: tf.reduce_sum(data * x))

    assert [float(dot(tf.constant([k, 0.0, 0.0]))) for k in (1.0, 5.0)] == [1.0, 5.0]


@pytest.mark.parametrize(
    "structure",
    [
        lambda x: [x * 2.0, x + 1.0],
        lambda x: (x * 2.0, x + 1.0),
        lambda x: (x * 2.0, [x + 1.0, (x - 1.0,)], None, 3, "name"),
        lambda x: {"b": x * 2.0, "a": [x + 1.0]},
        lambda x: [],
        lambda x: ((), [x * 2.0]),
    ],
)
def test_a_replay_returns_the_same_containers_as_the_code(structure: Any) -> None:
    x = tf.constant([1.0, 2.0])
    recorded = tf.function(structure)

    def described(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: described(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value), [described(part) for part in value]
        return value.numpy().tolist() if isinstance(value, tf.Tensor) else value

    for _ in range(3):
        assert described(recorded(x)) == described(structure(x))
