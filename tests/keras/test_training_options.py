"""Options of compile, fit and evaluate, with numbers computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import Input, Model, Sequential
from tapegrad.keras.callbacks import Callback
from tapegrad.keras.layers import Dense, Dropout, Embedding
from tapegrad.keras.optimizers import SGD, Adam, LossScaleOptimizer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3)).astype("float32")
Y = (X @ np.array([[1.0], [-2.0], [0.5]], "float32")).astype("float32")
LABELS = (X[:, 0] > 0).astype("int64") + (X[:, 1] > 0)
SUMS = X.sum(1, keepdims=True)
"""What a layer of ones makes of X."""


def ones(name: str | None = None) -> Any:
    return Dense(1, kernel_initializer="ones", name=name)


def line(loss: Any = "mse", **options: Any) -> Any:
    model = Sequential([Input((3,)), ones("line")])
    model.compile(SGD(0.05), loss, **options)
    return model


def pair(as_dict: bool = False, **options: Any) -> Any:
    """A model with outputs p, the sums, and q, zeros."""
    x = Input((3,))
    p, q = ones("p")(x), Dense(1, kernel_initializer="zeros", name="q")(x)
    model = Model(x, {"p": p, "q": q} if as_dict else [p, q])
    model.compile("sgd", **options)
    return model


class Events(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("end", batch, float(logs["loss"])))

    def on_test_begin(self, logs: Any = None) -> None:
        self.seen.append("test")

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("tested", batch))


# Several steps at once


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_several_steps_per_execution_give_what_single_ones_give(run_eagerly: bool) -> None:
    def run(steps: int) -> Any:
        tf.random.set_seed(3)
        model = Sequential([Input((3,)), Dense(8, "tanh"), Dropout(0.3), Dense(3)])
        model.compile(
            Adam(0.01),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps,
            run_eagerly=run_eagerly,
        )
        options: Any = {"batch_size": 7, "epochs": 2, "verbose": 0, "validation_split": 0.2}
        history = model.fit(X, LABELS, **options).history
        return history, model.get_weights(), model.predict(X, batch_size=6)

    single, several = run(1), run(3)

    assert single[0].keys() == several[0].keys()
    for name, values in single[0].items():
        np.testing.assert_allclose(values, several[0][name], rtol=1e-6)
    for one, other in zip((*single[1], single[2]), (*several[1], several[2])):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_callbacks_hear_of_an_execution_once() -> None:
    events = Events()

    line(steps_per_execution=3).fit(X, Y, batch_size=10, verbose=0, callbacks=[events])

    assert [event[:2] for event in events.seen] == [
        ("begin", 0),
        ("end", 2),
        ("begin", 3),
        ("end", 4),
    ]


def test_an_epoch_of_some_steps_ends_after_them() -> None:
    model, events = line(steps_per_execution=3), Events()

    model.fit(X, Y, batch_size=5, epochs=2, steps_per_epoch=4, verbose=0, callbacks=[events])

    assert [event[1] for event in events.seen if event[0] == "end"] == [2, 3, 2, 3]
    assert int(model.optimizer.iterations) == 8


@pytest.mark.parametrize("is_dataset", [False, True])
def test_data_that_ends_with_an_epoch_of_some_steps_begins_anew(is_dataset: bool) -> None:
    model = line()
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(25)
    given: Any = (data,) if is_dataset else (X, Y, 25)

    history = model.fit(*given, epochs=5, steps_per_epoch=1, shuffle=False, verbose=0)

    assert history.epoch == [0, 1, 2, 3, 4]
    assert int(model.optimizer.iterations) == 5


def test_a_training_leaves_the_averages_that_the_optimizer_keeps_behind() -> None:
    model = Sequential([Input((1,)), Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")

    model.fit(np.ones((2, 1)), np.zeros((2, 1)), batch_size=1, epochs=2, verbose=0)

    # Each step takes a fifth of the weight; the average begins with what the first one leaves.
    w = 0.8 ** np.arange(1, 5)
    average = w[0]
    for one in w[1:]:
        average = 0.5 * average + 0.5 * one
    np.testing.assert_allclose(model.get_weights()[0], [[average]], rtol=1e-6)


# Several outputs


def test_metrics_have_the_names_of_their_results() -> None:
    both = pair(loss=["mse", "mae"], metrics=[["mae"], []], weighted_metrics=[["mae"], ["mse"]])
    one = line(metrics=["mae"], weighted_metrics=["mae"])

    for model, y in ((both, [Y, Y]), (one, Y)):
        results = model.evaluate(X, y, verbose=0, return_dict=True)
        assert model.metrics_names == list(results)
    assert one.metrics_names == ["loss", "mae", "weighted_mae"]


def test_the_losses_of_several_outputs_are_reported_beside_their_sum() -> None:
    model = pair(loss=["mse", "mae"], loss_weights=[2.0, 0.5], metrics=[["mae"], []])

    found = model.evaluate(X, [Y, Y], verbose=0, return_dict=True)

    p, q = ((SUMS - Y) ** 2).mean(), np.abs(Y).mean()
    expected = {"loss": 2 * p + q / 2, "p_loss": p, "q_loss": q, "p_mae": np.abs(SUMS - Y).mean()}
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("as_dict", "order"), [(True, ["q", "p"]), (False, ["p", "q"])])
def test_losses_of_a_dictionary_are_reported_as_they_were_given(
    as_dict: bool, order: list[str]
) -> None:
    model = pair(as_dict, loss={"q": "mae", "p": "mse"})

    found = model.evaluate(X, {"p": Y, "q": Y}, verbose=0, return_dict=True)

    assert list(found) == ["loss", *[f"{name}_loss" for name in order]]


@pytest.mark.parametrize("y", [[Y, 2 * Y], {"q": 2 * Y, "p": Y}], ids=["list", "dictionary"])
@pytest.mark.parametrize("as_dict", [False, True])
def test_losses_targets_and_metrics_are_given_by_name(as_dict: bool, y: Any) -> None:
    model = pair(as_dict, loss={"q": "mae", "p": "mse"}, metrics={"q": "mse"})

    found = model.evaluate(X, y, verbose=0, return_dict=True)

    assert found["p_loss"] == pytest.approx(((SUMS - Y) ** 2).mean(), rel=1e-5)
    assert found["q_loss"] == pytest.approx(np.abs(2 * Y).mean(), rel=1e-5)
    assert found["q_mse"] == pytest.approx((4 * Y**2).mean(), rel=1e-5)


def test_an_output_without_a_loss_needs_no_target() -> None:
    found = pair(loss=[None, "mse"]).evaluate(X, Y, verbose=0, return_dict=True)

    assert found == pytest.approx({"loss": (Y**2).mean()}, rel=1e-5)


def test_each_output_has_sample_weights_of_its_own() -> None:
    weights = np.linspace(0, 2, 50).astype("float32")
    model = pair(loss="mse", weighted_metrics=[["mae"], ["mae"]])

    found = model.evaluate(
        X, [Y, Y], sample_weight=[weights, np.ones(50)], verbose=0, return_dict=True
    )

    error = np.abs(SUMS - Y)[:, 0]
    assert found["p_loss"] == pytest.approx((weights * error**2).mean(), rel=1e-5)
    assert found["q_loss"] == pytest.approx((Y**2).mean(), rel=1e-5)
    assert found["p_mae"] == pytest.approx((weights * error).sum() / weights.sum(), rel=1e-5)


# Weights and masks


def test_a_metric_that_is_weighted_too_is_reported_under_both_names() -> None:
    weights = np.linspace(0, 2, 50).astype("float32")
    model = line(metrics=["mae"], weighted_metrics=["mae", "mse"])

    found = model.evaluate(X, Y, sample_weight=weights, verbose=0, return_dict=True)

    error = np.abs(SUMS - Y)[:, 0]
    assert list(found) == ["loss", "mae", "weighted_mae", "mse"]
    assert found["mae"] == pytest.approx(error.mean(), rel=1e-5)
    assert found["weighted_mae"] == pytest.approx((weights * error).sum() / 50, rel=1e-5)


@pytest.mark.parametrize("is_one_hot", [False, True])
@pytest.mark.parametrize("source", ["arrays", "tensors", "dataset", "batch"])
def test_classes_weigh_the_loss_wherever_labels_come_from(source: str, is_one_hot: bool) -> None:
    kind = keras.losses.CategoricalCrossentropy if is_one_hot else (
        keras.losses.SparseCategoricalCrossentropy
    )  # fmt: skip
    labels: Any = np.eye(3, dtype="float32")[LABELS] if is_one_hot else LABELS
    model = Sequential([Input((3,)), Dense(3, kernel_initializer="zeros")])
    model.compile(SGD(0.0), kind(from_logits=True))
    weight = {0: 3.0, 2: 0.5}

    if source == "batch":
        loss = model.train_on_batch(X, labels, class_weight=weight)
    elif source == "dataset":
        data = tf.data.Dataset.from_tensor_slices((X, labels)).batch(25)
        loss = model.fit(data, class_weight=weight, verbose=0).history["loss"][0]
    else:
        given = tf.constant(labels) if source == "tensors" else labels
        loss = model.fit(X, given, class_weight=weight, verbose=0).history["loss"][0]

    expected = np.array([3.0, 1.0, 0.5])[LABELS].mean() * np.log(3.0)
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["stack", "graph", "subclass of a graph"])
def test_masked_steps_count_neither_in_the_loss_nor_in_metrics(kind: str) -> None:
    class Named(Model):
        pass

    parts = [Embedding(5, 2, mask_zero=True, embeddings_initializer="ones"), ones()]
    x = Input((3,), dtype="int32")
    ends = x, parts[1](parts[0](x))
    made = {"stack": Sequential, "graph": Model, "subclass of a graph": Named}[kind]
    model: Any = made(parts) if kind == "stack" else made(*ends)
    model.compile("sgd", "mse", metrics=["mae"])
    tokens, y = np.array([[1, 2, 0], [3, 0, 0]]), np.arange(6.0).reshape(2, 3, 1)

    found = model.evaluate(tokens, y, verbose=0, return_dict=True)

    errors = 2 - y[tokens > 0]
    assert found == pytest.approx({"loss": (errors**2).mean(), "mae": np.abs(errors).mean()})


# Metrics, and when they begin anew


def test_single_batches_are_reported_by_themselves() -> None:
    model = line(metrics=["mae"])

    for start in (0, 10):
        rows = slice(start, start + 10)
        _, mae = model.test_on_batch(X[rows], Y[rows])
        assert mae == pytest.approx(np.abs(SUMS - Y)[rows].mean(), rel=1e-5)


def test_metrics_that_come_later_are_found() -> None:
    model = line(run_eagerly=True)
    model.more = []
    model.fit(X, Y, verbose=0)

    model.more.append(keras.metrics.Mean(name="listed"))
    model.layers[0].own = keras.metrics.Mean(name="inner")

    assert model.metrics_names == ["loss", "listed", "inner"]
    del model.layers[0].own
    assert list(model.evaluate(X, Y, verbose=0, return_dict=True)) == ["loss", "listed"]


def test_metrics_that_are_attributes_are_reported_and_begin_anew() -> None:
    class Counting(Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.seen = ones(), keras.metrics.Sum(name="seen")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def train_step(self, data: Any) -> Any:
            self.seen.update_state(tf.ones(data[0].shape[0]))
            return super().train_step(data)

    model = Counting()
    model.compile("sgd", "mse")

    history = model.fit(X, Y, epochs=3, verbose=0).history

    assert history["seen"] == [50.0, 50.0, 50.0]
    assert [metric.name for metric in model.metrics] == ["loss", "seen"]


def test_callbacks_hear_of_validation() -> None:
    events = Events()

    line().fit(X, Y, batch_size=50, verbose=0, validation_data=[X, Y], callbacks=[events])

    assert [e if e == "test" else e[:2] for e in events.seen] == [
        ("begin", 0),
        ("end", 0),
        "test",
        ("tested", 0),
    ]


@pytest.mark.parametrize(("frequency", "epochs"), [(2, [1, 3]), ([1, 4], [0, 3])])
def test_validation_takes_place_after_chosen_epochs(frequency: Any, epochs: list[int]) -> None:
    validated: list[int] = []

    class Look(Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if "val_loss" in logs:
                validated.append(epoch)

    options: Any = {"validation_data": (X, Y), "validation_freq": frequency, "verbose": 0}
    line().fit(X, Y, epochs=4, callbacks=[Look()], **options)

    assert validated == epochs


def test_functions_for_the_beginning_of_training_get_logs() -> None:
    seen: list[Any] = []
    callback = keras.callbacks.LambdaCallback(on_train_begin=seen.append, on_train_end=seen.append)

    line().fit(X, Y, verbose=0, callbacks=[callback])

    assert seen[0] == {}
    assert list(seen[1]) == ["loss"]


# Configurations and precision


def test_a_model_is_compiled_again_from_its_configuration() -> None:
    model = line(keras.losses.Huber(2.0), metrics=["mae"], loss_weights=[2.0])
    other = Sequential([Input((3,)), ones("line")])

    config = model.get_compile_config()
    other.compile_from_config(config)

    assert config["metrics"] == ["mae"]
    assert config["optimizer"]["class_name"] == "SGD"
    assert other.evaluate(X, Y, verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0))
    assert float(other.optimizer.learning_rate) == pytest.approx(0.05)
    assert Sequential([ones()]).get_compile_config() == {}


@pytest.mark.parametrize("scales", [True, False])
def test_losses_are_scaled_in_half_precision(scales: bool) -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = Sequential([Input((3,)), Dense(1)])
        model.compile(SGD(0.05), "mse", auto_scale_loss=scales)
        with np.errstate(over="ignore", invalid="ignore"):  # by which the scale finds its size
            history = model.fit(X, Y, epochs=5, verbose=0).history["loss"]
    finally:
        keras.mixed_precision.set_global_policy("float32")

    assert isinstance(model.optimizer, LossScaleOptimizer) is scales
    assert history[-1] < history[0]
    assert keras.mixed_precision.global_policy().name == "float32"


def test_what_holds_for_all_layers_can_be_asked_for() -> None:
    config = keras.config

    assert (config.floatx(), config.epsilon()) == ("float32", 1e-7)
    assert (config.backend(), config.image_data_format()) == ("tapegrad", "channels_last")


def test_metrics_are_the_same_whether_somebody_looks_after_each_step() -> None:
    def trained(**options: Any) -> Any:
        model = line(metrics=["mae"], run_eagerly=True)
        return model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0, **options).history

    looked = Events()

    assert trained(callbacks=[looked]) == trained()
    assert len([event for event in looked.seen if event[0] == "end"]) == 14


def test_what_a_model_says_of_its_metrics_is_asked_for_after_each_step() -> None:
    class Asked(Sequential):
        count = 0

        def get_metrics_result(self) -> Any:
            self.__dict__["count"] = self.count + 1
            return {**super().get_metrics_result(), "count": float(self.count)}

    model = Asked([Input((3,)), ones()])
    model.compile("sgd", "mse", run_eagerly=True)

    history = model.fit(X, Y, batch_size=10, verbose=0).history

    assert history["count"] == [5.0]


@pytest.mark.parametrize(("steps", "batches"), [(None, 3), (2, 2), (9, 3)])
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_a_generator_validates_each_epoch_on_the_same_batches(steps, batches, steps_per_execution):
    read = []

    def generator():
        for start in (0, 10, 20):
            read.append(start)
            yield X[start : start + 10], Y[start : start + 10]

    model = line(steps_per_execution=steps_per_execution)
    model.optimizer.learning_rate = 0.0
    options = {"validation_data": generator(), "validation_steps": steps}
    history = model.fit(X, Y, epochs=3, verbose=0, **options).history

    until = 10 * batches
    wanted = np.mean((SUMS[:until] - Y[:until]) ** 2)
    np.testing.assert_allclose(history["val_loss"], [wanted] * 3, rtol=1e-5)
    assert read == [0, 10, 20][:batches]


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_what_layers_add_to_the_loss_ends_with_the_step(run_eagerly):
    model = Sequential([Input((3,)), Dense(1, kernel_regularizer="l2", activity_regularizer="l2")])
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    model(X)
    assert len(model.losses) == 2

    model.fit(X, Y, verbose=0)
    (cost,) = model.losses

    np.testing.assert_allclose(float(cost), 0.01 * np.sum(model.get_weights()[0] ** 2), rtol=1e-5)
