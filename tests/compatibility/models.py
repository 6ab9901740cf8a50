"""Whole models in `.keras` files, of every kind that the format distinguishes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import Input, Model, Sequential, layers, optimizers
from tests.compatibility.cases import Case, Outcome

_rng = np.random.default_rng(8)
X = _rng.normal(size=(6, 3)).astype("float32")
Y = _rng.normal(size=(6, 2)).astype("float32")
LABELS = np.array([0, 1, 1, 0, 1, 0])
WORDS = np.array([[1, 2, 3, 0], [4, 1, 0, 0], [2, 2, 4, 1]])
IMAGES = _rng.normal(size=(3, 6, 6, 2)).astype("float32")

registered = keras.saving.register_keras_serializable("Compatibility")


@registered
class Scale(layers.Layer):
    """A registered layer with a weight and an argument."""

    def __init__(self, factor: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape: Any) -> None:
        self.gain = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="gain")

    def call(self, inputs: Any) -> Any:
        return inputs * self.gain * self.factor


class Shift(layers.Layer):
    """A layer that readers pass in `custom_objects`."""

    def __init__(self, by: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.by = by

    def call(self, inputs: Any) -> Any:
        return inputs + self.by


@registered
class TwoBranches(Model):
    """A subclassed model with layers in a list and in a dictionary."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.branches = [layers.Dense(units, "tanh"), layers.Dense(units, "sigmoid")]
        self.ends = {"scale": Scale(0.5), "last": layers.Dense(2)}

    def call(self, inputs: Any, training: bool = False) -> Any:
        first, second = (branch(inputs) for branch in self.branches)
        return self.ends["last"](self.ends["scale"](first * second))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@registered
class SignMomentum(optimizers.Optimizer):
    """An optimizer that a user wrote, as on the page about models and training."""

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.momentums = self.add_optimizer_variables(variables, "momentum")
        self.applied = self.add_variable((), name="applied")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        momentum = self.momentums[self._get_variable_index(variable)]
        self.assign(momentum, 0.75 * momentum + gradient)
        self.assign_sub(variable, learning_rate * tf.sign(momentum))
        self.assign_add(self.applied, 1.0)


@registered
def cubed_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of cubed absolute errors, as a function that files refer to by name."""
    return tf.reduce_mean(tf.abs(y_true - y_pred) ** 3, axis=-1)


# Models


def sequential() -> Any:
    model = Sequential(
        [
            Input((3,)),
            layers.Dense(
                4,
                activation="relu",
                kernel_initializer=keras.initializers.HeNormal(seed=3),
                kernel_regularizer=keras.regularizers.L2(0.01),
                bias_constraint=keras.constraints.MaxNorm(2.0),
            ),
            layers.Dropout(0.25, seed=7),
            layers.Dense(2, name="last"),
        ],
        name="stacked",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizers.Adam(0.01, amsgrad=True), loss, metrics=["accuracy"])
    return model


def functional() -> Any:
    a, b = Input((3,), name="a"), Input((3,), name="b")
    shared = layers.Dense(2, "elu")
    joined = layers.Concatenate()([shared(a), shared(b)])
    sliced = joined[:, 1:3] * 2.0 - 1.0 / (1.0 + abs(-joined[:, ::2]))
    first = layers.Dense(2, name="first")(keras.ops.softmax(sliced, axis=-1))
    second = Model(a, layers.Dense(2, use_bias=False)(a), name="inner")(b)
    model = Model({"a": a, "b": b}, {"first": first, "second": second}, name="branched")
    schedule = optimizers.schedules.ExponentialDecay(0.05, 2, 0.5, staircase=True)
    model.compile(
        optimizers.SGD(schedule, momentum=0.9, nesterov=True),
        {"first": "mse", "second": keras.losses.Huber(0.5)},
        loss_weights={"first": 1.0, "second": 0.25},
        metrics={"first": ["mae"]},
    )
    return model


def subclass() -> Any:
    model = TwoBranches(3)
    model.compile(
        optimizers.AdamW(0.01, use_ema=True, ema_overwrite_frequency=2, global_clipnorm=0.5),
        cubed_error,
        metrics=[keras.metrics.CosineSimilarity(name="direction")],
    )
    return model


def custom_object() -> Any:
    model = Sequential([Input((3,)), Shift(0.5), layers.Dense(2, "tanh")])
    model.compile(SignMomentum(0.01), "mse")
    return model


def recurrent() -> Any:
    model = Sequential(
        [
            layers.Embedding(5, 2, mask_zero=True),
            layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
            layers.GRU(2, return_sequences=True, recurrent_initializer="orthogonal"),
            layers.RNN([layers.SimpleRNNCell(2), layers.GRUCell(2)], return_sequences=True),
            layers.TimeDistributed(layers.Dense(2)),
            layers.GlobalAveragePooling1D(),
        ]
    )
    model.compile(optimizers.RMSprop(0.01), "mse", run_eagerly=True)  # compiling takes seconds
    return model


def convolutional() -> Any:
    x = Input((6, 6, 2))
    y = layers.Conv2D(3, 3, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization(momentum=0.75)(y))
    y = layers.add([layers.DepthwiseConv2D(3, padding="same")(y), y])
    y = layers.MaxPooling2D()(y)
    frozen = layers.Dense(2, trainable=False)
    model = Model(x, frozen(layers.GlobalAveragePooling2D()(y)))
    model.compile(optimizers.Nadam(0.01), "mse", run_eagerly=True)
    return model


def attention() -> Any:
    x = Input((4,), dtype="int64")
    y = layers.Embedding(5, 2)(x)
    y = y + layers.MultiHeadAttention(2, 2)(y, y, use_causal_mask=True)
    y = layers.GlobalMaxPooling1D()(layers.LayerNormalization()(y))
    model = Model(x, layers.Dense(2)(y))
    model.compile(optimizers.Adafactor(0.01), "mse", run_eagerly=True)
    return model


def _under(policy: str, optimizer: Callable[[], Any]) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layer = layers.Dense(2, dtype="float32")
        model = Sequential([Input((3,)), layers.Dense(4, "tanh"), layer])
        model.compile(optimizer(), "mse")
    finally:
        keras.config.set_dtype_policy(before)
    return model


def mixed_float16() -> Any:
    return _under("mixed_float16", lambda: optimizers.SGD(0.05, momentum=0.5))


def mixed_bfloat16() -> Any:
    return _under("mixed_bfloat16", lambda: optimizers.Lion(0.01, gradient_accumulation_steps=2))


def plain_optimizer() -> Any:
    model = Sequential([Input((3,)), layers.Dense(2)])
    model.compile(tf.optimizers.Adam(0.01, weight_decay=0.1), "mse")
    return model


MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "sequential": (sequential, X, LABELS),
    "functional": (functional, {"a": X, "b": X[::-1]}, {"first": Y, "second": Y[::-1]}),
    "subclass": (subclass, X, Y),
    "custom_object": (custom_object, X, Y),
    "recurrent": (recurrent, WORDS, Y[:3]),
    "convolutional": (convolutional, IMAGES, Y[:3]),
    "attention": (attention, WORDS, Y[:3]),
    "mixed_float16": (mixed_float16, X, Y),
    "mixed_bfloat16": (mixed_bfloat16, X, Y),
    "plain_optimizer": (plain_optimizer, X, Y),
}


# Saving and loading


def _train(model: Any, x: Any, y: Any, epochs: int) -> dict[str, Any]:
    keras.utils.set_random_seed(5)
    size = len(tf.nest.flatten(x)[0])
    history = model.fit(x, y, batch_size=size, epochs=epochs, verbose=0, shuffle=False).history
    return {name: values[-1] for name, values in history.items()}


def observe(model: Any, x: Any, y: Any) -> Outcome:
    """Return the state of a model, its predictions, and those after two more steps of training."""
    named = {name: value.numpy() for name, value in model.named_variables().items()}
    stored = {
        "class": type(model).__name__,
        "layers": [layer.name for layer in model.layers],
        "policies": [layer.dtype_policy.name for layer in model.layers],
        "trainable": [list(v.shape) for v in model.trainable_variables],
        "weights": named,
        "optimizer": [v.numpy() for v in model.optimizer.variables],
    }
    computed = {
        "predictions": model.predict(x, verbose=0),
        "losses": _train(model, x, y, 2),
        "predictions after two steps": model.predict(x, verbose=0),
    }
    return Outcome(stored, computed)


def _model_case(make: Callable[[], Any], x: Any, y: Any) -> Case:
    def write(folder: Path) -> Outcome:
        keras.utils.set_random_seed(1)
        model = make()
        _train(model, x, y, 2)
        model.save(folder / "model.keras")
        return observe(model, x, y)

    def read(folder: Path) -> Outcome:
        model = keras.models.load_model(folder / "model.keras", custom_objects={"Shift": Shift})
        return observe(model, x, y)

    return Case(write, read)


def _write_description(folder: Path) -> Outcome:
    keras.utils.set_random_seed(2)
    model = functional()
    (folder / "model.json").write_text(model.to_json(), encoding="utf-8")
    model.save_weights(folder / "model.weights.safetensors")
    return _observe_description(model)


def _read_description(folder: Path) -> Outcome:
    model = keras.models.model_from_json((folder / "model.json").read_text(encoding="utf-8"))
    model.load_weights(folder / "model.weights.safetensors")
    return _observe_description(model)


def _observe_description(model: Any) -> Outcome:
    x = MODELS["functional"][1]
    weights = {name: value.numpy() for name, value in model.named_variables().items()}
    names = [layer.name for layer in model.layers]
    stored = {"weights": weights, "layers": names}
    return Outcome(stored, {"predictions": model.predict(x, verbose=0)})


CASES = {f"model-{name}": _model_case(*row) for name, row in MODELS.items()}
CASES["model-description"] = Case(_write_description, _read_description)
