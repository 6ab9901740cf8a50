"""compile, fit, evaluate and predict against loops written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers import Dense, Input, Layer
from tapegrad.keras.losses import MeanSquaredError, SparseCategoricalCrossentropy
from tapegrad.keras.models import Model, Sequential
from tapegrad.keras.optimizers import SGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3)).astype("float32")
Y = (X @ np.array([[1.0], [-2.0], [0.5]], "float32")).astype("float32")
LABELS = (X[:, 0] > 0).astype("int64") + (X[:, 1] > 0)


def line(**options: Any) -> Sequential:
    model = Sequential([Input((3,)), Dense(1, kernel_initializer="zeros")])
    model.compile(SGD(0.1), "mse", **options)
    return model


def by_hand(rows: list[Any], rate: float = 0.1) -> tuple[Any, Any, list[float]]:
    """Steps of gradient descent on the mean square error, in float64."""
    w, b, losses = np.zeros((3, 1)), np.zeros(1), []
    for chosen in rows:
        x, error = X[chosen], X[chosen] @ w + b - Y[chosen]
        losses.append(float((error**2).mean()))
        w, b = w - rate * 2 * x.T @ error / len(x), b - rate * 2 * error.mean(0)
    return w, b, losses


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_fit_makes_the_steps_of_gradient_descent(run_eagerly: bool) -> None:
    model = line(run_eagerly=run_eagerly)
    rows = [slice(k, k + 16) for k in range(0, 50, 16)] * 2

    history = model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)

    w, b, losses = by_hand(rows)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-4)
    np.testing.assert_allclose(model.get_weights()[1], b, rtol=1e-4)
    sizes = np.array([16, 16, 16, 2])
    expected = [(sizes * losses[:4]).sum() / 50, (sizes * losses[4:]).sum() / 50]
    np.testing.assert_allclose(history.history["loss"], expected, rtol=1e-4)


def test_a_shuffled_epoch_sees_every_example_once_and_follows_the_seed() -> None:
    class Seen(Layer):
        rows: list[Any]

        def call(self, inputs: Any) -> Any:
            self.rows.append(inputs.numpy()[:, 0])
            return inputs

    def epoch() -> Any:
        tf.random.set_seed(3)
        seen = Seen()
        seen.rows = []
        model = Sequential([seen, Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(X, Y, batch_size=7, verbose=0)
        return np.concatenate(seen.rows[-8:])

    first, second = epoch(), epoch()

    np.testing.assert_array_equal(np.sort(first), np.sort(X[:, 0]))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, X[:, 0])


def test_a_classifier_learns_and_reports_its_accuracy() -> None:
    tf.random.set_seed(1)
    model = Sequential([Dense(32, "tanh"), Dense(3)])
    model.compile("adam", SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.learning_rate = 0.02

    history = model.fit(X, LABELS, epochs=80, verbose=0)

    assert history.history["accuracy"][-1] > 0.95
    loss, accuracy = model.evaluate(X, LABELS, verbose=0)
    logits = model.predict(X)
    assert accuracy == pytest.approx((logits.argmax(1) == LABELS).mean())
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert loss == pytest.approx(-logs[np.arange(50), LABELS].mean(), rel=1e-4)


def test_validation_is_reported_beside_training() -> None:
    model = line()

    history = model.fit(X, Y, epochs=3, validation_split=0.2, verbose=0).history

    assert sorted(history) == ["loss", "val_loss"]
    assert model.evaluate(X[40:], Y[40:], verbose=0) == pytest.approx(history["val_loss"][-1])


def test_sample_and_class_weights_weigh_the_loss() -> None:
    weights = np.linspace(0.0, 2.0, 50).astype("float32")
    model = line()
    expected = (weights * (Y[:, 0] ** 2)).mean()
    assert model.evaluate(X, Y, sample_weight=weights, batch_size=50, verbose=0) == pytest.approx(
        expected, rel=1e-5
    )

    model = Sequential([Input((3,)), Dense(3, kernel_initializer="zeros")])
    model.compile(SGD(0.0), SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(X, LABELS, class_weight={0: 3.0, 2: 0.0}, batch_size=50, verbose=0)
    table = np.array([3.0, 1.0, 0.0])
    assert history.history["loss"][0] == pytest.approx(table[LABELS].mean() * np.log(3.0), rel=1e-5)


def test_several_outputs_have_losses_and_weights_of_their_own() -> None:
    x = Input((3,))
    a, b = Dense(1, kernel_initializer="zeros")(x), Dense(1, kernel_initializer="zeros")(x)
    model = Model(x, {"a": a, "b": b})
    model.compile("sgd", {"a": "mse", "b": "mae"}, {"a": 2.0, "b": 0.5}, metrics={"a": ["mae"]})

    found = model.evaluate(X, {"a": Y, "b": Y}, batch_size=50, verbose=0, return_dict=True)

    expected = 2 * (Y**2).mean() + 0.5 * np.abs(Y).mean()
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["a_mae"] == pytest.approx(np.abs(Y).mean(), rel=1e-5)


def test_a_train_step_of_ones_own_is_used() -> None:
    class Counting(Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.abs(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"mine": loss}

    model = Counting([Dense(1)])
    model.compile("sgd")

    history = model.fit(X, Y, epochs=2, verbose=0)

    assert list(history.history) == ["mine"]


def test_generators_and_iterables_of_batches() -> None:
    def batches() -> Iterator[Any]:
        for start in range(0, 48, 16):
            yield X[start : start + 16], Y[start : start + 16]

    class Again:
        def __iter__(self) -> Iterator[Any]:
            return batches()

    model = line()
    model.fit(batches(), verbose=0)
    other = line()
    other.fit(Again(), verbose=0)

    w, _, _ = by_hand([slice(k, k + 16) for k in (0, 16, 32)])
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-4)
    np.testing.assert_allclose(other.get_weights()[0], w, rtol=1e-4)


def test_steps_per_epoch_go_on_where_the_last_epoch_ended() -> None:
    def endless() -> Iterator[Any]:
        while True:
            for start in range(0, 48, 16):
                yield X[start : start + 16], Y[start : start + 16]

    model = line()
    model.fit(endless(), epochs=2, steps_per_epoch=2, verbose=0)

    w, _, _ = by_hand([slice(k, k + 16) for k in (0, 16, 32, 0)])
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-4)


def test_tensors_on_the_device_are_cut_there() -> None:
    model = line()

    model.fit(tf.constant(X), tf.constant(Y), batch_size=50, verbose=0)

    np.testing.assert_allclose(model.get_weights()[0], by_hand([slice(0, 50)])[0], rtol=1e-4)


def test_single_batches() -> None:
    model = line()

    loss = model.train_on_batch(X, Y)
    again = model.test_on_batch(X, Y, return_dict=True)

    assert loss == pytest.approx((Y**2).mean(), rel=1e-5)
    assert list(again) == ["loss"]
    assert model.predict_on_batch(X).shape == (50, 1)


def test_the_last_smaller_batch_is_part_of_a_prediction() -> None:
    model = line()
    model.fit(X, Y, verbose=0)
    kernel, bias = model.get_weights()

    np.testing.assert_allclose(model.predict(X, batch_size=16), X @ kernel + bias, rtol=1e-4)


def test_losses_of_layers_are_added() -> None:
    model = Sequential([Input((3,)), Dense(1, kernel_regularizer="l2", kernel_initializer="ones")])
    model.compile(SGD(0.0), MeanSquaredError())

    loss = model.evaluate(X, Y, batch_size=50, verbose=0)

    error = X.sum(1, keepdims=True) - Y
    assert loss == pytest.approx((error**2).mean() + 0.01 * 3, rel=1e-5)


def test_mistakes_are_explained() -> None:
    bare = Sequential([Dense(1)])
    with pytest.raises(ArgumentError, match=r"model.compile\(.*before model.fit"):
        bare.fit(X, Y)
    bare.compile("sgd")
    with pytest.raises(ArgumentError, match="no loss to minimize"):
        bare.fit(X, Y, verbose=0)
    with pytest.raises(ArgumentError, match=r"'crossentropi'.*Known: "):
        bare.compile("sgd", "crossentropi")
    with pytest.raises(ArgumentError, match=r"same number of examples.*\(50, 3\), \(49, 1\)"):
        line().fit(X, Y[:49], verbose=0)
    with pytest.raises(ArgumentError, match="leaves no examples"):
        line().fit(X, Y, validation_split=0.999, verbose=0)
    with pytest.raises(ArgumentError, match="do not pass y"):
        line().fit(iter([(X, Y)]), Y, verbose=0)
