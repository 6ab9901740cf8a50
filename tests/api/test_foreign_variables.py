"""Variables that objects of other libraries hold: `__tapegrad_variable__`, as Keras' have it."""

from __future__ import annotations

import pytest

import tapegrad as tf
from tapegrad.keras import ops


class Weight:
    def __init__(self, value: object) -> None:
        self.variable = tf.Variable(value)

    def __tapegrad_variable__(self) -> tf.Variable:
        return self.variable


def test_a_tape_returns_the_gradient_of_the_variable_that_a_source_holds():
    w, v = Weight([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        z = tf.reduce_sum(w.variable * w.variable) * v

    of_w, of_v = tape.gradient(z, [w, v])

    assert of_w.tolist() == [6.0, 12.0]
    assert float(of_v) == 5.0


def test_watch_takes_an_object_that_holds_a_variable():
    w = Weight([1.0, 2.0])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(w)
        z = tf.reduce_sum(w.variable * w.variable)

    assert tape.gradient(z, w.variable).tolist() == [2.0, 4.0]


def test_other_objects_are_still_refused():
    with tf.GradientTape() as tape:
        z = tf.Variable(1.0) * 2.0

    with pytest.raises(TypeError, match="sources must hold tensors or variables"):
        tape.gradient(z, object())


def test_repr_of_a_tensor_that_is_being_recorded_names_its_shape_and_dtype():
    seen = []

    @tf.function
    def doubled(x):
        seen.append(repr(x * 2.0))
        return x * 2.0

    doubled(tf.constant([1.0, 2.0]))

    assert any("shape=(2,), dtype=float32, recorded" in text for text in seen)


@pytest.mark.parametrize(("name", "empty"), [("max", float("-inf")), ("min", float("inf"))])
def test_empty_segments_are_infinite_for_floats_as_in_keras(name, empty):
    reduce = getattr(ops, f"segment_{name}")

    found = reduce(tf.constant([[1.0, 2.0], [3.0, 0.0]]), [0, 0], 2)

    assert found.tolist()[1] == [empty, empty]
    assert reduce(tf.constant([4, 5]), [1, 1], 2).dtype == tf.int32


def test_average_of_bfloat16_is_bfloat16():
    pytest.importorskip("ml_dtypes")
    x = tf.cast(tf.constant([1.0, 3.0]), "bfloat16")

    found = tf.numpy.average(x, weights=x)

    assert (found.dtype.name, float(found)) == ("bfloat16", 2.5)
