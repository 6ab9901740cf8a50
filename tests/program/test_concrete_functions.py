"""get_concrete_function: a function for tensors of one signature."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError


@tf.function
def scaled(x: Any, times: Any = 2, plus: Any = None) -> Any:
    found = times * x
    return found if plus is None else found + plus["a"]


def test_python_arguments_are_fixed() -> None:
    triple = scaled.get_concrete_function(tf.TensorSpec([None], tf.float32), 3)

    assert triple(tf.constant([1.0, 2.0])).tolist() == [3, 6]
    assert triple(x=tf.constant([5.0])).tolist() == [15]
    assert triple.structured_input_signature[0][1] == 3
    with pytest.raises(ArgumentTypeError, match=r"takes the tensors x\. Got 0 by position, times"):
        triple(times=4)


def test_structures_and_defaults() -> None:
    spec = tf.TensorSpec([], tf.float32)
    both = scaled.get_concrete_function(spec, plus={"a": spec})

    assert float(both(tf.constant(1.0), plus={"a": tf.constant(0.5)})) == 2.5
    assert repr(both).startswith("<ConcreteFunction scaled(x: TensorSpec(shape=(), dtype=float32)")


def test_calls_must_match_the_signature() -> None:
    double = scaled.get_concrete_function(tf.constant([1.0, 2.0]))

    with pytest.raises(ShapeError, match=r"requires shape \(2,\). Got \(3,\)"):
        double(tf.constant([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError, match=r"requires float32\. Got int32"):
        double(tf.constant([1, 2]))


def test_the_input_signature_is_the_default() -> None:
    double = tf.function(lambda x: 2 * x, input_signature=[tf.TensorSpec([None], tf.float32)])

    assert double.get_concrete_function()(tf.constant([4.0])).tolist() == [8]


def test_defaults_fill_the_input_signature() -> None:
    number = tf.TensorSpec([], tf.int32)

    class Tiles(tf.Module):
        @tf.function(input_signature=(tf.TensorSpec([None], tf.float32), number, number))
        def __call__(self, x: Any, times: Any, size: Any = 4) -> Any:
            assert isinstance(size, tf.Tensor)
            return x * tf.cast(times * size, tf.float32)

    tiles, x = Tiles(), tf.constant([1.0, 2.0])

    assert tiles(x, 3).tolist() == [12, 24]
    assert tiles(x, tf.constant(3)).tolist() == [12, 24]
    assert tiles(x, times=3, size=4).tolist() == [12, 24]
    assert tiles(x, 3, 5).tolist() == [15, 30]
    with pytest.raises(ArgumentError, match=r"has 3 entries\. Got 1 arguments"):
        tiles(x)


def test_gradients_pass_through() -> None:
    double = scaled.get_concrete_function(tf.TensorSpec([], tf.float32))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = double(x) ** 2

    assert float(tape.gradient(y, x)) == 24.0
    with pytest.raises(AttributeError, match="ConcreteFunction has no attribute 'session'"):
        double.session  # noqa: B018


def test_results_and_variables_are_described() -> None:
    weight, shift = tf.Variable(2.0), tf.Variable(1.0, trainable=False)

    @tf.function
    def step(x: Any, times: Any = 2) -> Any:
        return {"a": times * weight * x + shift, "b": [tf.reduce_sum(x), None]}

    known = step.get_concrete_function(tf.TensorSpec([None, 3]), times=4)

    a, total = tf.TensorSpec([None, 3]), tf.TensorSpec([])
    assert known.structured_outputs == {"a": a, "b": [total, None]}
    assert known.output_shapes == {"a": (None, 3), "b": [(), None]}
    assert known.output_dtypes == {"a": tf.float32, "b": [tf.float32, None]}
    assert (known.inputs, known.outputs) == ([a], [a, total])
    assert known.captured_inputs[0] is weight
    assert known.captured_inputs[1] is shift
    assert len(known.variables) == 2
    assert len(known.trainable_variables) == 1
    assert known.name == "step"
    assert str(known.function_type).partition(" ->")[0] == f"(x: {a}, times: 4)"
    assert known.function_type.return_annotation == known.structured_outputs


def test_text_and_numbers_are_distinguished() -> None:
    double = tf.function(lambda x: x + x).get_concrete_function(tf.constant("a"))

    assert double(tf.constant("b")).numpy() == b"bb"
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"requires string\. Got int32"):
        double(tf.constant(1))
