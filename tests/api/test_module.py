"""Module: the variables that it finds, and their order."""

from __future__ import annotations

import copy

import pytest

import tapegrad as tf


class Dense(tf.Module):
    def __init__(self, inputs, outputs, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.ones([inputs, outputs]), name="w")
        self.b = tf.Variable(tf.zeros([outputs]), name="b")

    def __call__(self, x):
        return tf.nn.relu(x @ self.w + self.b)


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(2, 3), Dense(3, 1)]
        self.extra = {"scale": tf.Variable(2.0, name="scale"), "shape": (2, 3)}
        self.steps = tf.Variable(0, trainable=False, name="steps")


def names(variables):
    return [variable.name for variable in variables]


def test_variables_are_found_by_attribute_name_then_inside_inner_modules():
    network = Network()

    expected = ["scale:0", "steps:0", "b:0", "w:0", "b:0", "w:0"]
    assert names(network.variables) == expected
    assert network.variables[3] is network.layers[0].w


def test_trainable_and_other_variables_are_told_apart():
    network = Network()

    assert names(network.trainable_variables) == ["scale:0", "b:0", "w:0", "b:0", "w:0"]
    assert names(network.non_trainable_variables) == ["steps:0"]


def test_a_shared_variable_or_module_counts_once():
    network = Network()
    network.again = network.layers[0]
    network.tied = network.layers[1].w
    network.myself = network

    assert len(network.variables) == 6
    assert network.submodules == (network.layers[0], network.layers[1])


def test_attributes_that_come_later_are_seen():
    network = Network()
    network.late = tf.Variable(1.0)
    del network.layers

    assert len(network.trainable_variables) == 2


def test_a_module_without_super_init_works():
    class Bare(tf.Module):
        def __init__(self):
            self.v = tf.Variable(1.0)

    assert len(Bare().variables) == 1
    assert Bare().name == "bare"


def test_names_come_from_the_class_or_the_user():
    class HTTPModel(tf.Module):
        pass

    assert (Dense(1, 1).name, Dense(1, 1, name="first").name) == ("dense", "first")
    assert HTTPModel().name == "httpmodel"
    with pytest.raises(ValueError, match=r"must be a Python identifier\. Got 'two words'"):
        Dense(1, 1, name="two words")


def test_methods_may_be_decorated_with_a_name_scope():
    class Scaled(tf.Module):
        @tf.Module.with_name_scope
        def __call__(self, x):
            return x * 2.0

    assert float(Scaled()(3.0)) == 6.0


def test_a_tape_gives_gradients_in_the_order_of_the_variables():
    layer = Dense(2, 3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([[1.0, 2.0]])))

    gradients = tape.gradient(loss, layer.trainable_variables)

    assert isinstance(gradients, tuple)
    assert [tuple(g.shape) for g in gradients] == [(3,), (2, 3)]


def test_a_deep_copy_has_variables_of_its_own():
    layer = Dense(1, 1)
    twin = copy.deepcopy(layer)

    twin.w.assign([[5.0]])

    assert (float(layer.w[0, 0]), float(twin.w[0, 0])) == (1.0, 5.0)


def test_repr_counts_the_variables():
    assert repr(Dense(1, 1)) == "<Dense 'dense': 2 variables>"


def test_subclasses_collect_their_own_kinds_of_values():
    class Parameter(tf.Module):
        def __init__(self, value):
            super().__init__()
            self.raw = tf.Variable(value)

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.second = {"b": Parameter(2.0), "a": [3.0]}
            self.first = Parameter(1.0)
            self.twice = self.first
            self.cache = Parameter(9.0)

        _TF_MODULE_IGNORED_PROPERTIES = tf.Module._TF_MODULE_IGNORED_PROPERTIES.union({"cache"})

    model = Model()
    parameters = [*model._flatten(predicate=lambda value: isinstance(value, Parameter))]
    paths = [
        path
        for path, value in model._flatten(
            predicate=lambda value: isinstance(value, tf.Variable), with_path=True
        )
    ]
    shallow = [*model._flatten(recursive=False, predicate=lambda value: isinstance(value, float))]

    assert parameters == [model.first, model.second["b"]]
    assert paths == [("first", "raw"), ("second", "b", "raw"), ("twice", "raw")]
    assert shallow == [3.0]
    assert [variable.numpy() for variable in model.variables] == [1.0, 2.0]
