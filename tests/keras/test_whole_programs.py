"""Programs written for Keras: nested models, custom steps, submodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras import Input, Model, Sequential, layers, metrics, models, utils

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).astype("float32")
Y = RNG.normal(size=(12, 2)).astype("float32")


def branched() -> Model:
    x = Input((3,), name="start")
    hidden = layers.Dense(3, "tanh", name="hidden")(x)
    return Model(x, layers.Dense(2, name="end")(layers.add([x, hidden]) * 2.0))


# Parts of models


def test_a_part_of_a_model_is_cut_out_at_the_output_of_a_layer() -> None:
    model = branched()
    hidden = model.get_layer("hidden")

    part = Model(model.input, [hidden.output, model.output])
    found, end = part(X)

    np.testing.assert_allclose(found.numpy(), np.tanh(X @ hidden.kernel.numpy()), rtol=1e-5)
    np.testing.assert_array_equal(end.numpy(), model(X).numpy())
    assert hidden.input is model.input
    assert part.count_params() == model.count_params()


def test_a_stack_has_ends_too_once_it_is_built() -> None:
    stack = Sequential([layers.Dense(4), layers.Dense(2)])
    with pytest.raises(AttributeError, match=r"Sequential has no attribute 'output'. Weights are"):
        _ = stack.output

    stack(X)

    part = Model(stack.input, stack.layers[0].output)
    np.testing.assert_array_equal(part(X).numpy(), stack.layers[0](X).numpy())
    assert stack.output.shape == (None, 2)


def test_the_output_of_a_shared_layer_is_that_of_its_first_call() -> None:
    a, b = Input((3,)), Input((3,))
    shared = layers.Dense(2)
    first, second = shared(a), shared(b)

    assert shared.input is a
    assert shared.output is first is not second


def test_a_subclass_that_is_made_from_ends_has_them() -> None:
    class Named(Model):
        pass

    model = branched()
    named = Named(model.input, model.output)

    assert named.input is model.input
    assert named.outputs == model.outputs


# Layers of several tensors


class Mixed(layers.Layer):
    """Says nothing of its shapes, and is called on two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.project = layers.Dense(5)

    def call(self, inputs: Any, context: Any, training: Any = None) -> Any:
        return self.project(inputs) + tf.reduce_mean(context, axis=1, keepdims=True)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_layer_of_ones_own_takes_several_tensors(by_name: bool) -> None:
    a, b = Input((None, 3)), Input((7, 5))
    mixed = Mixed()
    model = Model([a, b], mixed(a, context=b) if by_name else mixed(a, b))
    x, context = np.ones((2, 4, 3), "float32"), np.ones((2, 7, 5), "float32")

    assert model.output_shape == (None, None, 5)
    np.testing.assert_array_equal(model([x, context]).numpy(), mixed(x, context).numpy())


def test_a_function_of_several_tensors_may_say_its_shape() -> None:
    a, b = Input((3,)), Input((3,))
    distance = layers.Lambda(
        lambda pair: tf.norm(pair[0] - pair[1], axis=1, keepdims=True), output_shape=(1,)
    )
    model = Model([a, b], distance([a, b]))

    assert model.output_shape == (None, 1)
    expected = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(model([X, np.zeros_like(X)]).numpy(), expected, rtol=1e-5)


# Copies


def test_a_clone_has_the_layers_and_other_weights() -> None:
    model = branched()

    clone = models.clone_model(model)

    assert [layer.name for layer in clone.layers] == [layer.name for layer in model.layers]
    assert not np.array_equal(clone.get_weights()[-2], model.get_weights()[-2])
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(X).numpy(), model(X).numpy())


def test_a_clone_keeps_shared_layers_inner_models_and_structures() -> None:
    inner = Sequential([Input((3,)), layers.Dense(2, "relu"), layers.Dense(2)])
    a, b = Input((3,)), Input((3,))
    model = Model({"a": a, "b": b}, {"sum": layers.add([inner(a), inner(b)])})

    clone = models.clone_model(model)

    assert len(clone.weights) == 4
    clone.set_weights(model.get_weights())
    batch = {"a": X, "b": 2 * X}
    np.testing.assert_array_equal(clone(batch)["sum"].numpy(), model(batch)["sum"].numpy())


def test_layers_of_a_clone_may_be_changed() -> None:
    def halved(layer: Any) -> Any:
        return layers.Dense(layer.units // 2, name=layer.name)

    clone = models.clone_model(
        Sequential([layers.Dense(8), layers.Dense(4)]), clone_function=halved
    )

    assert clone(X).shape == (12, 2)
    assert [layer.units for layer in clone.layers] == [4, 2]


def test_a_subclass_is_not_cloned() -> None:
    class Own(Model):
        def call(self, inputs: Any) -> Any:
            return inputs

    with pytest.raises(ArgumentTypeError, match=r"Sequential or a functional model. Got Own: call"):
        models.clone_model(Own())


# Steps of one's own


class Compressor(Model):
    """Two models, neither of which is called by a `call` of this one."""

    def __init__(self, is_built: bool) -> None:
        super().__init__()
        start = [Input((3,))] if is_built else []
        self.encoder = Sequential([*start, layers.Dense(2)])
        self.decoder = Sequential([layers.Dense(3)])
        self.mean = metrics.Mean(name="distance")
        self.shapes: list[Any] = []

    @property
    def metrics(self) -> list[Any]:
        return [self.mean]

    def train_step(self, data: Any) -> Any:
        self.shapes.append(data.shape)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.decoder(self.encoder(data)) - data) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.mean.update_state(loss)
        return {"distance": self.mean.result()}


@pytest.mark.parametrize("is_built", [False, True])
def test_a_model_without_a_call_trains_by_its_own_step(is_built: bool) -> None:
    model = Compressor(is_built)
    model.compile("sgd")

    history = model.fit(X, epochs=30, batch_size=4, verbose=0)

    assert set(model.shapes) == {(4, 3)}
    assert history.history["distance"][-1] < history.history["distance"][0]
    with pytest.raises(NotImplementedError, match="Compressor must define call"):
        model.predict(X)


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_a_step_of_ones_own_goes_over_all_metrics(run_eagerly: bool) -> None:
    class Own(Sequential):
        def train_step(self, data: Any) -> Any:
            x, y, weight = utils.unpack_x_y_sample_weight(data)
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, weight)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred, sample_weight=weight)
            return {metric.name: metric.result() for metric in self.metrics}

    stack = [Input((3,)), layers.Dense(2)]
    given: Any = {"metrics": ["mae"], "weighted_metrics": ["mae", "mse"]}
    own, usual = Own(stack), Sequential(stack)
    own.compile("sgd", "mse", run_eagerly=run_eagerly, **given)
    usual.compile("sgd", "mse", **given)
    weight = np.linspace(0.1, 1.0, 12)

    found = own.fit(X, Y, batch_size=4, sample_weight=weight, epochs=2, verbose=0, shuffle=False)

    expected = usual.evaluate(X, Y, sample_weight=weight, batch_size=4, return_dict=True, verbose=0)
    assert list(found.history) == ["loss", "mae", "weighted_mae", "mse"] == own.metrics_names
    for name, value in expected.items():
        np.testing.assert_allclose(found.history[name], [value] * 2, rtol=1e-5, err_msg=name)


# Batches by number


class Parts(utils.PyDataset):
    def __init__(self) -> None:
        super().__init__(workers=2)
        self.asked: list[int] = []
        self.ended = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return X[index * 4 : index * 4 + 4], Y[index * 4 : index * 4 + 4]

    def on_epoch_end(self) -> None:
        self.ended += 1


def test_batches_are_asked_for_by_their_numbers() -> None:
    model, parts = Sequential([layers.Dense(2)]), Parts()
    model.compile("sgd", "mse")

    history = model.fit(parts, epochs=20, verbose=0)

    assert history.params["steps"] == parts.num_batches == 3
    assert parts.ended == 20
    epochs = [tuple(parts.asked[k : k + 3]) for k in range(0, 60, 3)]
    assert {frozenset(epoch) for epoch in epochs} == {frozenset(range(3))}
    assert len(set(epochs)) > 1  # their order is shuffled
    assert model.evaluate(parts, verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0))
    assert parts.asked[60:] == [0, 1, 2]
    np.testing.assert_allclose(model.predict(parts, verbose=0), model(X).numpy(), rtol=1e-6)


def test_a_class_that_gives_no_batches_is_told_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match="PyDataset must define __len__"):
        list(utils.PyDataset())
    with pytest.raises(NotImplementedError, match="PyDataset must define __getitem__"):
        utils.Sequence()[0]
