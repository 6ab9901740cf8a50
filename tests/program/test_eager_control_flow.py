"""Control flow that cannot be recorded runs eagerly, with one warning that names the line."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import tapegrad as tf
from tests.program.eager_agreement import warning_of


def test_a_list_that_grows_in_a_loop():
    def function(n):
        found = []
        while n > 0:
            found.append(n)
            n = n - 1
        return found

    found, message = warning_of(function, tf.constant(3))
    assert [int(x) for x in found] == [3, 2, 1]
    assert "changes a list" in message
    assert "test_eager_control_flow.py:" in message


def test_texts_that_depend_on_tensors():
    found, message = warning_of(lambda x: "big" if x > 1.0 else "small", tf.constant(2.0))
    assert found == "big"
    assert "'small' in the other" in message


def test_shapes_that_differ():
    def function(x):
        if tf.reduce_sum(x) > 0.0:
            return x
        return tf.concat([x, x], 0)

    found, message = warning_of(function, tf.constant([-1.0]))
    assert found.shape == (2,)
    assert "the result is float32[2] in one branch and float32[1] in the other" in message


def test_code_without_source():
    space: dict[str, Any] = {}
    exec("def function(x):\n    return x if x > 0 else -x", space)

    found, message = warning_of(space["function"], tf.constant(-1.0))
    assert float(found) == 1.0
    assert "source" in message


def test_a_dataset_in_a_comprehension():
    def total(start):
        return start + sum([tf.cast(x, tf.float32) for x in tf.data.Dataset.range(4)])

    found, _ = warning_of(total, tf.constant(1.0))
    assert float(found) == 7.0


def test_under_a_tape():
    def function(x):
        return (x * 2.0, None) if x > 0.0 else (x, x)

    x = tf.constant(3.0)
    compiled = tf.function(function)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.warns(UserWarning, match="it runs eagerly"):
            y = compiled(x)[0]
    assert float(tape.gradient(y, x)) == 2.0


def test_an_error_of_the_users_code_is_raised():
    def function(x):
        if x > 0.0:
            return undefined_name  # noqa: F821
        return x

    with pytest.raises(NameError, match="undefined_name"):
        tf.function(function)(tf.constant(1.0))


def test_tracebacks_show_the_users_lines():
    def function(x):
        if tf.reduce_sum(x) > 0.0:
            x = x @ x  # this line
        return x

    with pytest.raises(ValueError, match="matmul") as caught:
        tf.function(function)(tf.constant([[1.0, 2.0]]))
    assert "x = x @ x  # this line" in "".join(traceback.format_exception(caught.value))


def test_the_original_code_stays():
    def function(x):
        if x > 0.0:
            return x
        return -x

    before = function.__code__
    compiled = tf.function(function)
    assert float(compiled(tf.constant(-2.0))) == 2.0
    assert function.__code__ is before
    assert not compiled.explain().eager_calls


def test_autograph_can_be_switched_off():
    def function(x):
        return x if x > 0.0 else -x

    with pytest.raises(tf.errors.RecordingError, match="reads the value of a tensor at"):
        tf.function(function, autograph=False)(tf.constant(1.0))
    assert float(tf.function(function)(tf.constant(-1.0))) == 1.0


def test_a_loop_that_is_not_converted_is_unrolled():
    def function(x):
        for i in tf.range(100):
            x = x + tf.cast(i, tf.float32)
        return x

    compiled = tf.function(function, autograph=False)
    assert float(compiled(tf.constant(1.0))) == 4951.0


def test_recorded_tensors_are_printed_by_their_kind(capsys):
    v = tf.Variable([1.0, 2.0], name="v")

    @tf.function
    def function(x):
        print("recording", x, v)  # noqa: T201
        return x + v

    function(tf.constant([3.0, 4.0]))
    function(tf.constant([3.0, 4.0]))
    shown = capsys.readouterr().out
    assert shown.count("recording tapegrad.Tensor(recorded, shape=(2,), dtype=float32)") == 1
    assert "<tapegrad.Variable 'v:0' shape=(2,) dtype=float32, recorded>" in shown


def test_prints_before_a_decision_happen_once(capsys):
    @tf.function
    def function(x):
        tf.print("begin", x)
        if x > 0.0:
            x = x * 2.0
        tf.print("end", x)
        return x

    function(tf.constant(1.0))
    function(tf.constant(-1.0))
    assert capsys.readouterr().err == "begin 1.0\nend 2.0\nbegin -1.0\nend -1.0\n"
