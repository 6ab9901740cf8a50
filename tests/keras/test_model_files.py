"""Model files: a loaded model computes, trains and is named like the saved one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras import Input, Model, Sequential, layers
from tapegrad.keras.models import load_model, model_from_json, save_model
from tapegrad.keras.saving import kept_functions

rng = np.random.default_rng(3)
X = rng.normal(size=(12, 4)).astype("float32")
Y = rng.normal(size=(12, 2)).astype("float32")
WORDS = rng.integers(0, 7, size=(5, 6))
IMAGES = rng.normal(size=(3, 8, 8, 2)).astype("float32")


def again(model: Any, folder: Path, **options: Any) -> Any:
    """The model after a trip to the disk and back, while names go on counting."""
    save_model(model, folder / "model.keras")
    return load_model(folder / "model.keras", **options)


def same(one: Any, other: Any) -> None:
    ones, others = tapegrad.nest.flatten(one), tapegrad.nest.flatten(other)
    assert len(ones) == len(others)
    for a, b in zip(ones, others):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    yield
    keras.config.set_dtype_policy("float32")


# Models of every kind


def stacked() -> Any:
    return Sequential(
        [
            Input((4,)),
            layers.Dense(
                8,
                activation=keras.activations.gelu,
                kernel_initializer=keras.initializers.HeNormal(seed=3),
                kernel_regularizer=keras.regularizers.L2(0.01),
                bias_constraint=keras.constraints.MaxNorm(2.0),
            ),
            layers.BatchNormalization(),
            layers.Dropout(0.5, seed=7),
            layers.Dense(2, "tanh", kernel_regularizer="l1", name="last"),
        ],
        name="stacked",
    )


def branched() -> Any:
    a, b = Input((4,), name="a"), Input((4,), name="b")
    shared = layers.Dense(3, "relu")
    inner = Model(a, layers.Dense(3)(a), name="inner")
    joined = layers.Concatenate()([shared(a), shared(b), inner(b)])
    sliced = joined[:, 1:4] * 2.0 - 1.0 / (1.0 + abs(-joined[:, ::3]))
    attended = layers.MultiHeadAttention(2, 3)(
        query=layers.Reshape((3, 3))(joined), value=layers.Reshape((9, 1))(joined)
    )
    out = layers.Dropout(0.5)(layers.Flatten()(attended), training=False)
    return Model({"a": a, "b": b}, [sliced, {"y": layers.Dense(2)(out)}])


def one_layer_in_two_models() -> Any:
    table = layers.Dense(4, name="table")
    x = Input((4,))
    first = Model(x, layers.Dense(4)(table(x)))
    second = Sequential([Input((4,)), table, layers.Dense(2)])
    return Model(x, second(first(x)))


def sentences() -> Any:
    return Sequential(
        [
            layers.Embedding(7, 3, mask_zero=True),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
            layers.RNN([layers.GRUCell(3), layers.SimpleRNNCell(2)], return_sequences=True),
            layers.TimeDistributed(layers.Dense(2, dtype="float32")),
            layers.GlobalAveragePooling1D(),
        ]
    )


def pictures() -> Any:
    x = Input(batch_shape=(None, 8, 8, 2))
    y = layers.Rescaling(np.float32(0.5), offset=np.array([1.0, 2.0]))(x)
    y = layers.Conv2D(3, (3, 3), strides=np.int64(2), padding="same", activation="relu")(y)
    y = layers.add([layers.Conv2D(3, 1)(y), y])
    return Model(x, layers.Dense(1)(layers.GlobalMaxPooling2D()(y)))


KINDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "stacked": (stacked, X),
    "branched": (branched, {"a": X, "b": X[::-1]}),
    "one layer in two models": (one_layer_in_two_models, X),
    "sentences": (sentences, WORDS),
    "pictures": (pictures, IMAGES),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_predicts_the_same_bits(kind: str, tmp_path: Path) -> None:
    make, data = KINDS[kind]
    model = make()
    expected = model.predict(data, verbose=0)

    loaded = again(model, tmp_path)

    assert type(loaded) is type(model)
    same(loaded.predict(data, verbose=0), expected)
    assert [one.name for one in loaded.layers] == [one.name for one in model.layers]
    assert list(loaded.named_variables()) == list(model.named_variables())
    assert len(loaded.weights) == len(model.weights)
    assert loaded.get_config() == model.get_config()


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_in_json_makes_a_model_of_the_same_kind(kind: str) -> None:
    make, data = KINDS[kind]
    model = make()
    expected = model.predict(data, verbose=0)

    other = model_from_json(model.to_json(indent=1))

    other.set_weights(model.get_weights())
    same(other.predict(data, verbose=0), expected)
    assert not other.compiled
    copied = type(model).from_config(json.loads(json.dumps(model.get_config())))
    copied.set_weights(model.get_weights())
    same(copied.predict(data, verbose=0), expected)


def test_a_layer_in_two_inner_models_is_one_layer_again(tmp_path: Path) -> None:
    loaded = again(one_layer_in_two_models(), tmp_path)

    inner = [one for one in loaded.layers if isinstance(one, Model)]

    assert inner[0].get_layer("table") is inner[1].get_layer("table")


def test_a_graph_may_begin_at_one_of_two_outputs_of_a_layer(tmp_path: Path) -> None:
    x = Input((3, 4))
    whole, state = layers.GRU(4, return_state=True)(x)
    model = Model([x, state], layers.Dense(2)(whole + 1.0))
    data = [X.reshape(4, 3, 4), X[:4]]

    loaded = again(model, tmp_path)

    same(loaded.predict(data, verbose=0), model.predict(data, verbose=0))


def test_layers_that_are_cloned_while_a_model_is_made_are_others(tmp_path: Path) -> None:
    class Twice(layers.Layer):
        def __init__(self, inner: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.inner, self.other = inner, type(inner).from_config(inner.get_config())

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs) + self.other(inputs)

    inner = [Sequential([layers.Dense(units), layers.Dense(3)]) for units in (4, 5)]
    model = Sequential([Input((4,)), *(Twice(one) for one in inner)])

    loaded = again(model, tmp_path, custom_objects={"Twice": Twice})

    same(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    assert len(loaded.weights) == 16


def test_weights_in_the_file_are_those_of_save_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapegrad.keras.saving.model_file.has_h5py", lambda: False)
    model = Sequential([Input((4,)), layers.Dense(3), layers.Dense(2)])
    loaded = again(model, tmp_path)

    loaded.save_weights(tmp_path / "again.safetensors")

    model.save_weights(tmp_path / "first.safetensors")
    first = (tmp_path / "first.safetensors").read_bytes()
    assert (tmp_path / "again.safetensors").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert archive.read("model.weights.safetensors") == first
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        about = json.loads(archive.read("metadata.json"))
    assert about["tapegrad_version"] == tapegrad.__version__


def test_a_model_that_is_not_built_is_built_later(tmp_path: Path) -> None:
    model = Sequential([layers.Dense(3, name="one"), layers.Dense(2)])

    loaded = again(model, tmp_path)

    assert not loaded.built
    assert loaded.predict(X, verbose=0).shape == (12, 2)
    assert again(Sequential(), tmp_path).layers == []


def test_what_is_frozen_stays_frozen(tmp_path: Path) -> None:
    model = Sequential([Input((4,)), stacked(), layers.Dense(2)])
    model.layers[0].layers[0].trainable = False
    model.layers[0].layers[1].trainable = False

    loaded = again(model, tmp_path)

    def names(one: Any) -> list[str]:
        known = {v.number: name for name, v in one.named_variables().items()}
        return [known[v.number] for v in one.trainable_variables]

    assert names(loaded) == names(model)
    loaded.layers[0].trainable = True
    model.layers[0].trainable = True
    assert names(loaded) == names(model)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64", "mixed_float16"])
def test_dtypes_are_kept_whatever_is_global_now(policy: str, tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    plain = stacked()
    keras.config.set_dtype_policy(policy)
    half = Sequential([Input((4,)), layers.Dense(3), layers.Dense(2, dtype="float32")])
    half.compile("sgd", "mse")
    expected = half.predict(X, verbose=0)
    loaded_plain = again(plain, tmp_path)
    keras.config.set_dtype_policy("float32")

    loaded = again(half, tmp_path)

    assert [one.dtype_policy.name for one in loaded.layers] == [policy, "float32"]
    assert {one.dtype_policy.name for one in loaded_plain.layers} == {"float32"}
    assert loaded.dtype_policy.name == policy
    assert type(loaded.optimizer) is type(half.optimizer)
    assert keras.config.dtype_policy().name == "float32"
    same(loaded.predict(X, verbose=0), expected)


# Training that goes on

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam by name": lambda: "adam",
    "sgd with momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adamw with a schedule, averages and clipping": lambda: keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.5),
        use_ema=True,
        ema_overwrite_frequency=3,
        global_clipnorm=0.5,
    ),
    "summed gradients": lambda: keras.optimizers.RMSprop(0.01, gradient_accumulation_steps=3),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "of tapegrad": lambda: tapegrad.optimizers.SGD(0.05, momentum=0.5),
    "with a scaled loss": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
}


def trained(model: Any, epochs: int, seed: int = 5) -> Any:
    keras.utils.set_random_seed(seed)
    return model.fit(X, Y, batch_size=5, epochs=epochs, verbose=0).history


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_as_if_never_saved(name: str, tmp_path: Path) -> None:
    model = stacked()
    model.compile(OPTIMIZERS[name](), keras.losses.Huber(0.5), metrics=["mae"])
    trained(model, 2)

    loaded = again(model, tmp_path)

    assert trained(loaded, 2) == trained(model, 2)
    same(loaded.get_weights(), model.get_weights())
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)


ELSEWHERE = """
import sys
import numpy as np
from tapegrad import keras
x, y = np.load(sys.argv[2]).values()
model = keras.models.load_model(sys.argv[1])
keras.utils.set_random_seed(5)
model.fit(x, y, batch_size=5, epochs=2, verbose=0)
np.savez(sys.argv[2], *model.get_weights())
"""


def test_training_goes_on_in_another_process(tmp_path: Path) -> None:
    model = stacked()
    model.compile(keras.optimizers.Adam(0.01, amsgrad=True), "mse")
    trained(model, 2)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "arrays.npz", X, Y)

    command = [sys.executable, "-c", ELSEWHERE, "model.keras", "arrays.npz"]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, cwd=tmp_path, env=place, check=True)

    trained(model, 2)
    with np.load(tmp_path / "arrays.npz") as arrays:
        same(list(arrays.values()), model.get_weights())


def test_training_in_half_precision_goes_on(tmp_path: Path) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    model = stacked()
    model.compile("adam", "mse")
    with np.errstate(all="ignore"):
        trained(model, 2)
        loaded = again(model, tmp_path)
        found, expected = trained(loaded, 2), trained(model, 2)
    # Its first step is eager, which rounds half precision elsewhere.
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-6)
    for one, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_losses_and_metrics_of_several_outputs_are_kept(tmp_path: Path) -> None:
    model = branched()
    names = model.output_names
    model.compile(
        "sgd",
        loss=["mse", keras.losses.MeanAbsoluteError()],
        loss_weights=(1.0, 0.5),
        metrics=[[keras.metrics.RootMeanSquaredError(), "mae"], [keras.metrics.mean_squared_error]],
        weighted_metrics=[["mse"], []],
        steps_per_execution=2,
    )
    data, targets = {"a": X, "b": X}, [Y[:, [0, 1, 1]], {"y": Y}]
    model.fit(data, targets, epochs=1, batch_size=4, verbose=0, shuffle=False)

    loaded = again(model, tmp_path)

    assert loaded.output_names == names
    more = {"epochs": 2, "batch_size": 4, "verbose": 0, "shuffle": False}
    assert loaded.fit(data, targets, **more).history == model.fit(data, targets, **more).history
    assert loaded.steps_per_execution == 2


def test_loading_draws_nothing_and_may_leave_out_the_optimizer(tmp_path: Path) -> None:
    model = stacked()
    model.compile("adam", "mse")
    trained(model, 1)
    model.save(tmp_path / "model.keras")
    keras.utils.set_random_seed(1)
    expected = tapegrad.random.uniform([3]).numpy()
    keras.utils.set_random_seed(1)

    loaded = load_model(str(tmp_path / "model.keras"), compile=False)

    same(tapegrad.random.uniform([3]).numpy(), expected)
    assert not loaded.compiled
    same(loaded.get_weights(), model.get_weights())


def test_a_model_that_was_compiled_and_not_trained_begins_as_new(tmp_path: Path) -> None:
    model = stacked()
    model.compile("adam", "mse")

    loaded = again(model, tmp_path)

    assert trained(loaded, 2) == trained(model, 2)


# Classes and functions of users


@keras.saving.register_keras_serializable("Tests")
class Scaled(layers.Layer):
    def __init__(self, inner: Any, factor: float = 2.0) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs) * self.factor


@keras.utils.register_keras_serializable("Tests", name="bent")
def bend(x: Any) -> Any:
    return x * x


class Pair(Model):
    def __init__(self, units: int, head: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first, self.head = layers.Dense(units, "relu"), head

    def call(self, inputs: Any, offset: Any = None) -> Any:
        x = self.first(inputs["x"])
        return self.head(x if offset is None else x + offset)

    def get_config(self) -> dict[str, Any]:
        head = keras.saving.serialize_keras_object(self.head)
        return {"units": self.first.units, "head": head, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        head = keras.saving.deserialize_keras_object(config.pop("head"))
        return cls(head=head, **config)


class Trained(Model):
    def train_step(self, data: Any) -> Any:
        return {**super().train_step(data), "extra": 1.0}


def test_registered_classes_and_functions_are_found(tmp_path: Path) -> None:
    model = Sequential([Input((4,)), Scaled(layers.Dense(3, bend)), layers.Lambda(bend)])

    loaded = again(model, tmp_path)

    same(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    assert [one.name for one in loaded.layers] == [one.name for one in model.layers]
    assert loaded.layers[0].inner.activation is bend
    assert keras.saving.get_registered_name(bend) == "Tests>bent"
    with pytest.raises(ArgumentTypeError, match="takes a class or a function"):
        keras.saving.get_registered_name(layers.Dense(1))


def test_a_subclass_is_made_by_its_get_config_and_built(tmp_path: Path) -> None:
    model = Pair(3, Sequential([layers.Dense(2)]), name="pair")
    model.first.trainable = False
    model.compile("adam", "mse")
    model.fit({"x": X}, Y, verbose=0)
    given = {"custom_objects": {"Pair": Pair}}

    loaded = again(model, tmp_path, **given)

    same(loaded.predict({"x": X}, verbose=0), model.predict({"x": X}, verbose=0))
    assert [one.name for one in loaded.layers] == [one.name for one in model.layers]
    assert len(loaded.trainable_variables) == 2
    for one in (model, loaded):
        keras.utils.set_random_seed(2)
        one.fit({"x": X}, Y, epochs=2, verbose=0)
    same(loaded.get_weights(), model.get_weights())
    same(again(loaded, tmp_path, **given).get_weights(), model.get_weights())


def test_a_subclass_made_of_tensors_needs_no_get_config(tmp_path: Path) -> None:
    x = Input((4,))
    model = Trained(x, layers.Dense(2)(x), name="own")
    model.compile("sgd", "mse")

    loaded = again(model, tmp_path, custom_objects={"Trained": Trained})

    assert type(loaded) is Trained
    assert loaded.name == "own"
    assert loaded.fit(X, Y, verbose=0).history == model.fit(X, Y, verbose=0).history


class Gan(Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.line = layers.Dense(2)

    def compile(self, line_optimizer: Any) -> None:  # type: ignore[override]
        super().compile()
        self.line_optimizer = line_optimizer

    def call(self, inputs: Any) -> Any:
        return self.line(inputs)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tapegrad.GradientTape() as tape:
            loss = tapegrad.reduce_mean((self(x, training=True) - y) ** 2)
        weights = self.trainable_variables
        self.line_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"loss": loss}

    def get_config(self) -> dict[str, Any]:
        return super().get_config()


class ToldGan(Gan):
    def get_compile_config(self) -> dict[str, Any]:
        return {"line_optimizer": keras.saving.serialize_keras_object(self.line_optimizer)}

    def compile_from_config(self, config: Any) -> None:
        self.compile(**config)


def test_a_compile_of_ones_own_is_called_where_it_is_described(tmp_path: Path) -> None:
    model = ToldGan()
    model.compile(keras.optimizers.Adam(0.01))
    trained(model, 2)

    loaded = again(model, tmp_path, custom_objects={"ToldGan": ToldGan})

    assert trained(loaded, 2) == trained(model, 2)
    same(loaded.get_weights(), model.get_weights())


def test_a_compile_of_ones_own_that_is_not_described_is_left_to_the_user(tmp_path: Path) -> None:
    model = Gan()
    model.compile(keras.optimizers.Adam(0.01))
    trained(model, 1)

    with pytest.warns(UserWarning, match=r"Gan overrides compile but not"):
        loaded = again(model, tmp_path, custom_objects={"Gan": Gan})

    assert not loaded.compiled
    same(loaded.get_weights(), model.get_weights())


def test_names_stand_for_objects_within_a_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bump(x: Any) -> Any:
        return x + 1.0

    with keras.utils.custom_object_scope({"bump": bump}):
        model = Sequential([Input((4,)), layers.Dense(2, activation="bump")])
        model.compile("sgd", loss=lambda_free)
        loaded = again(model, tmp_path, custom_objects={"lambda_free": lambda_free})

    same(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    assert loaded.loss is lambda_free
    with pytest.raises(ArgumentError, match=r"There is no activation 'bump'"):
        layers.Dense(2, activation="bump")
    monkeypatch.setattr(kept_functions, "_PROCESS", "another")
    with pytest.raises(ArgumentError, match=r"'lambda_free'.*custom_objects"), \
            keras.saving.custom_object_scope({"bump": bump}):  # fmt: skip
        load_model(tmp_path / "model.keras")


def lambda_free(y_true: Any, y_pred: Any) -> Any:
    return abs(y_true - y_pred)


# While training


def test_checkpoints_that_end_in_keras_are_whole_models(tmp_path: Path) -> None:
    model = stacked()
    model.compile("adam", "mse")
    saver = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")

    model.fit(X, Y, epochs=2, verbose=0, callbacks=[saver])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.keras", "2.keras"]
    loaded = load_model(tmp_path / "2.keras")
    assert trained(loaded, 1) == trained(model, 1)


def test_what_a_checkpoint_holds_can_be_said(tmp_path: Path) -> None:
    make = keras.callbacks.ModelCheckpoint
    model = stacked()
    model.compile("adam", "mse")
    savers = [
        make(tmp_path / "weights.keras", save_weights_only=True),
        make(tmp_path / "whole.keras", save_weights_only=False),
    ]

    model.fit(X, Y, verbose=0, callbacks=savers)

    model.load_weights(tmp_path / "weights.keras")
    same(load_model(tmp_path / "whole.keras").get_weights(), model.get_weights())
    with pytest.raises(ArgumentError, match=r"must end in '\.keras'"):
        make("model.h5", save_weights_only=False)


def test_loaded_arrays_have_the_usual_dtype_objects(tmp_path: Path) -> None:
    # Compiled loops take no other objects, however equal: training would round differently.
    model = stacked()
    model.compile(keras.optimizers.Adam(), "mse")
    trained(model, 1)

    loaded = again(model, tmp_path)

    for variable in (*loaded.variables, *loaded.optimizer.variables):
        assert variable.array.dtype is np.dtype(variable.array.dtype.type)


def test_arrays_of_another_dtype_object_become_usual_ones() -> None:
    unusual = np.ones(2, np.dtype("float32").newbyteorder("=").newbyteorder("<"))
    assert unusual.dtype == np.float32

    for made in (tapegrad.constant(unusual), tapegrad.convert_to_tensor(unusual)):
        assert made.array.dtype is np.dtype(np.float32)
    assert tapegrad.Variable(unusual).array.dtype is np.dtype(np.float32)
