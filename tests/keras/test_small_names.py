"""SwapEMAWeights, limits of fit, dtype policies as dicts, binomial draws, sources, remat."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras import callbacks, config, dtype_policies, layers

X, Y = np.ones((8, 1), "float32"), np.full((8, 1), 3.0, "float32")


def model_of(**options):
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, kernel_initializer="ones")])
    optimizer = keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.5, **options)
    model.compile(optimizer, "mse")
    return model


class Seen(callbacks.Callback):
    """The weights of the model at some moments."""

    def __init__(self):
        super().__init__()
        self.moments = []

    def note(self, name):
        self.moments.append((name, *[float(v.numpy().item()) for v in self.model.weights]))

    def on_train_batch_end(self, batch, logs=None):
        self.note("batch")

    def on_test_batch_end(self, batch, logs=None):
        self.note("test")

    def on_epoch_end(self, epoch, logs=None):
        self.note("epoch")


def by_hand(steps):
    """The weights and their averages after each step of gradient descent."""
    w, b, pairs = 1.0, 0.0, []
    averages = None  # begin with the weights after the first step
    for _ in range(steps):
        slope = 2 * (w + b - 3.0)
        w, b = w - 0.05 * slope, b - 0.05 * slope
        now = np.array([w, b])
        averages = now if averages is None else 0.5 * averages + 0.5 * now
        pairs.append(([w, b], averages))
    return pairs


@pytest.mark.parametrize("swap_on_epoch", [False, True])
def test_evaluations_see_the_averages_and_training_goes_on_with_the_weights(swap_on_epoch):
    model, seen = model_of(), Seen()

    model.fit(
        X, Y, 4, 2, verbose=0, shuffle=False, validation_data=(X[:1], Y[:1]),
        callbacks=[callbacks.SwapEMAWeights(swap_on_epoch), seen],
    )  # fmt: skip

    steps = by_hand(4)
    for name, places in (("batch", (0, 1, 2, 3)), ("test", (1, 3)), ("epoch", (1, 3))):
        found = [weights for moment, *weights in seen.moments if moment == name]
        is_average = name == "test" or (name == "epoch" and swap_on_epoch)
        expected = [steps[place][1 if is_average else 0] for place in places]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    found = [v.numpy().item() for v in model.weights]
    np.testing.assert_allclose(found, steps[-1][1], rtol=1e-5)


def test_predictions_see_the_averages_only_while_they_run():
    model = model_of()
    for _ in range(3):
        model.train_on_batch(X, Y)
    weights, averages = by_hand(3)[-1]

    found = model.predict(X[:1], callbacks=[callbacks.SwapEMAWeights()])

    np.testing.assert_allclose(found.item(), np.sum(averages), rtol=1e-5)
    np.testing.assert_allclose([v.numpy().item() for v in model.weights], weights, rtol=1e-5)


def test_averages_are_needed_to_swap_them():
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ArgumentError, match="compile the model with use_ema=True"):
        model.evaluate(X, Y, callbacks=[callbacks.SwapEMAWeights()])


@pytest.fixture
def limits():
    yield
    config.set_max_epochs(None)
    config.set_max_steps_per_epoch(None)


def test_limits_shorten_fit_evaluate_and_predict(limits):
    model, seen = model_of(), Seen()
    config.set_max_epochs(2)
    config.set_max_steps_per_epoch(3)

    history = model.fit(X, Y, 1, 9, verbose=0, callbacks=[seen])
    model.evaluate(X, Y, 2, verbose=0, callbacks=[seen])

    assert len(history.history["loss"]) == config.max_epochs() == 2
    assert [name for name, *_ in seen.moments].count("batch") == 6
    assert [name for name, *_ in seen.moments].count("test") == config.max_steps_per_epoch() == 3
    assert model.predict(X, 2).shape == (6, 1)
    assert model.predict(X, 4).shape == (8, 1)
    with pytest.raises(ArgumentError, match="max_epochs"):
        config.set_max_epochs(0)


def test_dtype_policies_as_dicts():
    policy = keras.DTypePolicy("mixed_bfloat16")

    assert dtype_policies.deserialize(dtype_policies.serialize(policy)) == policy
    assert dtype_policies.deserialize("float16").compute_dtype == "float16"
    assert keras.FloatDTypePolicy is keras.DTypePolicy
    with pytest.raises(ArgumentError, match="There is no dtype policy 'Int8'"):
        dtype_policies.deserialize({"class_name": "Int8", "config": {}})
    with pytest.raises(ArgumentTypeError, match="serialize takes a DTypePolicy"):
        dtype_policies.serialize("float32")


def test_binomial_draws_have_their_mean_and_variance():
    counts, shares = np.array([5.0, 20.0]), np.array([0.2, 0.7])

    found = keras.random.binomial((4000, 2), counts, shares, seed=1).numpy()
    again = keras.random.binomial((4000, 2), counts, shares, dtype="int32", seed=1)

    assert found.min() >= 0
    assert (found <= counts).all()
    np.testing.assert_array_equal(found, again)
    np.testing.assert_allclose(found.mean(0), counts * shares, rtol=0.03)
    np.testing.assert_allclose(found.var(0), counts * shares * (1 - shares), rtol=0.1)


def test_sources_of_symbolic_tensors():
    a, b, c = (keras.Input((2,), name=name) for name in "abc")
    y = layers.Dense(1)(layers.Add()([layers.Dense(2)(b), a, b]))

    assert {id(x) for x in keras.utils.get_source_inputs(y)} == {id(a), id(b)}
    assert keras.utils.get_source_inputs(c) == [c]
    with pytest.raises(ArgumentTypeError, match=r"takes a symbolic tensor. Got int"):
        keras.utils.get_source_inputs(1)


def test_remat_runs_the_function_again_for_the_gradient():
    calls = []

    @keras.remat
    def cube(x):
        calls.append(x)
        return x * x * x

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = cube(x)

    assert len(calls) == 1
    assert float(tape.gradient(y, x)) == 12.0
    assert len(calls) == 2
