"""`explain` says why a function was recorded, and why calls ran eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.explanation import MOST_REASONS, MOST_RECORDINGS, History
from tests.program.held_builds import drawing_body


def reasons(function: Any) -> list[str]:
    return [recording.reason for recording in function.explain().recordings]


def test_arguments() -> None:
    f = tf.function(lambda x, n: x * n)

    f(tf.ones([64, 10]), 2)
    f(tf.ones([32, 10]), 2)
    f(tf.ones([32, 10]), 3)
    f(tf.ones([32, 10]), 2)

    assert reasons(f) == [
        "first call",
        "argument 'x' was float32[64, 10] and is now float32[32, 10]",
        "argument 'n' was 2 and is now 3",
    ]


def test_attributes_and_variables() -> None:
    layer = tf.keras.layers.Dropout(0.5)
    dense = tf.keras.layers.Dense(2)
    dense.build([None, 3])
    f = tf.function(lambda x: layer(dense(x), training=True))

    f(tf.ones([4, 3]))
    layer.rate = 0.25
    f(tf.ones([4, 3]))
    dense.kernel.trainable = False
    f(tf.ones([4, 3]))

    first, second, third = reasons(f)
    assert first == "first call"
    assert second == "attribute rate of Dropout changed"
    assert third == f"trainable of the variable {dense.kernel.name!r} changed"


def test_tensors_from_outside() -> None:
    held = [tf.constant(2.0)]
    f = tf.function(lambda x: x * held[0])

    f(tf.constant(1.0))
    held[0] = tf.constant(3.0)
    f(tf.constant(1.0))

    assert reasons(f) == ["first call", "a tensor from outside changed"]


def test_initial_values() -> None:
    made: list[Any] = []

    def body() -> Any:
        if not made:
            made.append(tf.Variable(tf.zeros([2])))
            made[0].assign(tf.random.normal([2]))
        return made[0].value()

    f = tf.function(body)
    for _ in range(3):
        f()

    assert reasons(f) == [
        "first call",
        "recorded again because the first call drew initial values",
    ]


def test_tapes() -> None:
    f = tf.function(lambda x, y: x * y)
    a, b = tf.constant(2.0), tf.constant(3.0)

    f(a, b)
    for watched in ([a], [a, b]):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            f(a, b)

    assert reasons(f) == ["first call", *["a tape tracks other arguments"] * 2]


def test_eager_calls() -> None:
    f = tf.function(lambda x: x * 2.0)
    never = tf.function(lambda x: x, jit=False)
    outer = tf.function(lambda x: f(x) + 1.0)

    outer(tf.constant(1.0))
    outer(tf.constant(1.0))
    tf.vectorized_map(f, tf.ones([3]))
    never(1)
    never(1)
    with pytest.warns(UserWarning, match="runs eagerly"):
        tf.function(lambda x: 1)({1, 2})

    assert f.explain().eager_calls == {
        "it became part of another recording": 1,
        "vmap or a forward mode was active": 1,
    }
    assert never.explain().eager_calls == {"it was made with jit=False": 2}
    assert f.explain().recordings == ()


def test_the_table() -> None:
    def scale(x: Any) -> Any:
        return tf.sort(x) * 2.0

    f = tf.function(scale)
    f(tf.ones([3]))
    tf.vectorized_map(f, tf.ones([3, 2]))
    (recording,) = f.explain().recordings
    title, head, row, eager, why = repr(f.explain()).splitlines()

    assert title == "function 'scale'"
    assert head.split("  ")[0] == "recording"
    assert row.startswith("1          first call")
    assert (recording.calls, recording.steps, recording.state) == (2, 2, "compiled")
    assert row.endswith("2      2")
    assert f"{recording.seconds:.3f} s" in row
    assert f"{recording.build_seconds:.3f} s" in row
    assert eager == "eager calls  because"
    assert why == "1            vmap or a forward mode was active"
    assert repr(tf.function(scale).explain()) == "function 'scale'\nnot recorded yet"


def test_a_program_that_is_dropped_is_forgotten() -> None:
    f = tf.function(lambda x: x * 2.0)
    f(tf.ones([3]))
    f._entries.clear()

    (recording,) = f.explain().recordings
    assert (recording.state, recording.calls, recording.steps) == ("forgotten", None, None)


def test_a_function_remembers_its_latest_recordings() -> None:
    history = History()
    for number in range(MOST_RECORDINGS + 5):
        history.note_recording({"argument 'n'": str(number)}, None, False, False)
        history.note_eager(f"reason {number}")

    found = history.explanation("f")
    assert [found.recordings[0].number, found.recordings[-1].number] == [6, MOST_RECORDINGS + 5]
    assert len(found.eager_calls) == MOST_REASONS


def test_compile_records_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    count, runs = tf.Variable(0), []

    def body(x: Any) -> Any:
        runs.append(1)
        tf.print("called", output_stream=None)
        x[0] = 5.0
        count.assign_add(1)
        return x * 2.0

    f = tf.function(body)
    x = tf.constant([1.0, 2.0])
    program = f.compile(x)

    assert (int(count), x.numpy().tolist(), capsys.readouterr().err) == (0, [1.0, 2.0], "")
    assert f.compile(x) is f.program(x) is program
    assert f(x).numpy().tolist() == [10.0, 4.0]
    assert (int(count), x.numpy().tolist(), capsys.readouterr().err) == (1, [5.0, 2.0], "called\n")
    assert len(runs) == 1
    assert reasons(f) == ["first call"]


def test_compile_draws_initial_values_once() -> None:
    tf.random.set_seed(5)
    eager = drawing_body()
    expected = [eager().numpy() for _ in range(3)]
    tf.random.set_seed(5)
    f = tf.function(drawing_body())
    f.compile()
    found = [f().numpy() for _ in range(3)]

    np.testing.assert_array_equal(found, expected)


def test_compile_records_twice_if_the_first_call_draws_otherwise() -> None:
    made: list[Any] = []
    runs: list[int] = []

    def body() -> Any:
        runs.append(1)
        if not made:
            made.append(tf.Variable(tf.random.normal([2])))
            tf.random.normal([2])  # a draw that later calls do not make
        return made[0] + tf.random.normal([2])

    f = tf.function(body)
    f.compile()
    tf.random.set_seed(5)
    found = [f().numpy() for _ in range(2)]
    tf.random.set_seed(5)
    expected = [(made[0] + tf.random.normal([2])).numpy() for _ in range(2)]

    np.testing.assert_array_equal(found, expected)
    assert len(runs) == 2


def test_compile_under_a_tape_records_nothing_there() -> None:
    v = tf.Variable(2.0)
    f = tf.function(lambda x: x * v)
    with tf.GradientTape() as tape:
        f.compile(tf.constant(3.0))
        y = v * v

    assert float(tape.gradient(y, v)) == 4.0


def test_compile_refuses_what_runs_eagerly() -> None:
    with pytest.raises(tf.errors.ArgumentError, match="cannot be compiled: it was made with jit"):
        tf.function(lambda x: x, jit=False).compile(tf.constant(1.0))
    with pytest.raises(tf.errors.ArgumentTypeError, match="no program for these arguments"):
        tf.function(lambda x: 1).compile({1, 2})


def test_compile_of_a_method() -> None:
    class Scale:
        @tf.function
        def scaled(self, x: Any) -> Any:
            return x * 2.0

    scale = Scale()
    program = scale.scaled.compile(tf.constant(3.0))

    assert float(scale.scaled(tf.constant(3.0))) == 6.0
    assert scale.scaled.program(tf.constant(3.0)) is program
