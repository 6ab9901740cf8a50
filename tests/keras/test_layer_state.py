"""Attribute tracking of layers when attributes change, and the losses of a call."""

from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any

import pytest

import tapegrad as tf

keras = tf.keras


class Scale(keras.layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.factor = self.add_weight((input_shape[-1],), "ones", name="factor")

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor


class Chain(keras.layers.Layer):
    """Inner layers in a list, one of them aside; `skip` leaves it out."""

    def __init__(self, *parts: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts, self.aside = list(parts), None

    def call(self, inputs: Any, skip: bool = False) -> Any:
        for part in self.parts:
            inputs = part(inputs)
        return inputs if skip or self.aside is None else self.aside(inputs)


class Adding(keras.layers.Layer):
    """Adds a loss in training."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.add_loss(tf.reduce_sum(inputs))
        return inputs


X = tf.ones([2, 3])


def built(layer: Any) -> Any:
    layer(X)
    return layer


# Variables


def test_layers_that_are_added_to_a_list_later_are_found() -> None:
    chain = built(Chain(Scale()))
    before = len(chain.variables)

    chain.parts.append(built(Scale()))

    assert (before, len(chain.variables)) == (1, 2)


def test_an_attribute_that_is_replaced_or_deleted_is_found_no_more() -> None:
    chain = built(Chain(Scale()))
    first, second = built(Scale()), built(Scale())

    chain.aside = first
    with_first = chain.variables
    chain.aside = second
    with_second = chain.variables
    del chain.aside

    assert with_first[1] is first.factor
    assert with_second[1] is second.factor
    assert chain.variables == [chain.parts[0].factor]


def test_what_an_inner_layer_gets_or_loses_is_noticed() -> None:
    inner = tf.keras.layers.Dense(2)
    model = tf.keras.Sequential([tf.keras.Sequential([inner])])
    model.build((None, 3))
    assert len(model.variables) == 2

    inner.scale = tf.Variable(1.0)
    assert len(model.variables) == len(model.trainable_variables) == 3
    del inner.scale
    assert len(model.variables) == 2


def test_variables_that_stop_being_trainable_come_last() -> None:
    layer = tf.keras.layers.Dense(2)
    model = tf.keras.Sequential([layer])
    model.build((None, 3))
    kernel, bias = model.variables
    kernel.trainable = False
    assert [v.number for v in model.variables] == [bias.number, kernel.number]
    assert [v.number for v in model.trainable_variables] == [bias.number]
    kernel.trainable = True
    assert [v.number for v in model.variables] == [kernel.number, bias.number]


def test_the_list_of_variables_is_the_callers_own() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.build((None, 3))
    model.variables.clear()
    assert len(model.variables) == 2


def test_the_order_of_attributes_is_that_of_variables() -> None:
    outer = keras.layers.Layer()
    outer.last_made_first = built(Scale())
    outer.many = {"a": [built(Scale())], "b": (built(Scale()),)}
    outer.own = outer.add_weight((1,), name="own")

    expected = [
        outer.own,
        outer.last_made_first.factor,
        outer.many["a"][0].factor,
        outer.many["b"][0].factor,
    ]
    assert [v.number for v in outer.variables] == [v.number for v in expected]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_weights_that_are_made_anew_take_the_place_of_the_old_ones(policy: str) -> None:
    layer = built(Scale(dtype=policy))
    old = layer.variables

    layer.build((2, 3))

    assert len(layer.variables) == 1
    assert layer.variables[0] is not old[0]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_weights_keep_their_order_whether_they_are_cast_or_not(policy: str) -> None:
    layer = keras.layers.Layer(dtype=policy)
    layer.kept = layer.add_weight((1,), autocast=False, name="kept")
    layer.cast = layer.add_weight((1,), name="cast")
    layer.last = layer.add_weight((1,), autocast=False, name="last")

    assert [v.name for v in layer.variables] == ["kept:0", "cast:0", "last:0"]
    assert layer.kept is layer.variables[0]

    layer.cast = layer.last = None

    assert [v.name for v in layer.variables] == ["kept:0"]
    assert (layer.cast, layer.last) == (None, None)


@pytest.mark.parametrize("how", ["copy", "pickle"])
def test_a_copy_has_variables_of_its_own(how: str) -> None:
    dense = built(keras.layers.Dense(2))
    assert len(dense.variables) == 2

    other = copy.deepcopy(dense) if how == "copy" else pickle.loads(pickle.dumps(dense))
    other.kernel.assign(tf.zeros([3, 2]))

    assert float(tf.reduce_sum(tf.abs(other(X)))) == 0.0
    assert other.variables[0] is other.kernel
    assert dense.variables[0] is dense.kernel
    assert float(tf.reduce_sum(tf.abs(dense(X)))) > 0.0


# Losses


def test_losses_are_those_of_the_last_call() -> None:
    model = Chain(Adding(), Adding())

    model(X, training=True)
    in_training = [float(loss) for loss in model.losses]
    model(X, training=False)

    assert in_training == [6.0, 6.0]
    assert model.losses == []


def test_a_layer_that_is_called_twice_adds_twice() -> None:
    shared = Adding()
    model = Chain(shared, shared)

    for _ in range(2):
        model(X, training=True)

    assert [float(loss) for loss in model.losses] == [6.0, 6.0]
    assert [float(loss) for loss in shared.losses] == [6.0, 6.0]


def test_the_losses_of_a_layer_that_is_left_out_are_over() -> None:
    model = Chain()
    model.aside = Adding()

    model(X, training=True)
    with_it = len(model.losses)
    model(X, skip=True, training=True)

    assert (with_it, model.losses) == (1, [])


def test_losses_of_a_model_inside_a_model_are_found_from_both() -> None:
    inner = Chain(Adding())
    outer = Chain(inner)

    outer(X, training=True)

    assert [float(loss) for loss in inner.losses] == [6.0]
    assert [float(loss) for loss in outer.losses] == [6.0]


def test_what_comes_and_goes_in_lists_of_lists_is_noticed() -> None:
    class Nested(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.parts: Any = [[tf.Variable(1.0)], {"more": []}]
            self.seen: Any = [tf.constant(2.0)]

    layer = Nested()
    counts = [len(layer.variables)]
    layer.parts[1]["more"].append(tf.Variable(2.0))
    counts.append(len(layer.variables))
    layer.parts[0][0] = tf.Variable(3.0)
    counts.append(float(layer.variables[0]))
    layer.seen[0] = tf.Variable(4.0)
    counts.append(len(layer.variables))
    layer.parts.clear()
    counts.append(len(layer.variables))

    assert counts == [1, 2, 3.0, 3, 1]


def test_what_else_was_in_a_list_does_not_live_on() -> None:
    class Keeping(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.kept: Any = [tf.constant(2.0)]

    layer = Keeping()
    assert layer.variables == []
    last = weakref.ref(layer.kept[0])

    layer.kept.clear()

    assert last() is None
