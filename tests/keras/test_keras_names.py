"""Names of Keras: abbreviations, Variable, serialize, InputSpec, Wrapper, absent names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.keras import layers, losses, metrics

SHORT = {
    "bce": "binary_crossentropy",
    "kld": "kl_divergence",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mse": "mean_squared_error",
    "msle": "mean_squared_logarithmic_error",
}


@pytest.mark.parametrize("name", SHORT)
def test_abbreviations_are_the_functions(name):
    wanted = getattr(losses, SHORT[name])

    for face in (losses, metrics):
        assert getattr(face, name) is getattr(face, name.upper()) is wanted
    assert losses.get(name) is losses.get(name.upper()) is wanted
    assert losses.get("logcosh") is losses.logcosh is losses.log_cosh
    assert losses.get("kullback_leibler_divergence") is losses.kl_divergence


def test_a_model_takes_an_abbreviation_as_loss_and_metric(tmp_path):
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    model.compile("sgd", losses.mse, metrics=[metrics.mae])
    history = model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0).history

    assert {"loss", "mean_absolute_error"} <= history.keys()
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").loss is losses.mse


# Variable


def test_variables_from_values_and_initializers():
    drawn = keras.Variable(keras.initializers.Constant(2.0), shape=(2, 3), dtype="float64")
    ints = keras.Variable(np.array([1, 2]), trainable=False, name="ints")

    assert (drawn.numpy().tolist(), drawn.dtype.name) == ([[2.0] * 3] * 2, "float64")
    assert (ints.dtype.name, ints.trainable) == ("int64", False)
    assert keras.Variable(1.5).dtype == keras.Variable("zeros", shape=3).dtype == "float32"
    assert isinstance(ints, keras.Variable)
    assert isinstance(layers.Dense(1)(np.ones((1, 1))), tf.Tensor)
    assert not isinstance(np.ones(1), keras.Variable)
    with pytest.raises(ArgumentError, match="needs a shape"):
        keras.Variable("zeros")


class Counting(layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = keras.Variable([2.0], name="scale")
        self.calls = keras.Variable(0, trainable=False)

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1)
        return inputs * self.scale


def test_a_layer_tracks_them_and_training_changes_them():
    layer = Counting()
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(np.ones((4, 1)), np.zeros((4, 1)), batch_size=1, shuffle=False, verbose=0)

    assert layer.trainable_variables == [layer.scale]
    assert layer.non_trainable_variables == [layer.calls]
    # Each step multiplies the scale by 1 - 0.1 * 2.
    assert float(layer.scale[0]) == pytest.approx(2 * 0.8**4, rel=1e-6)
    assert int(layer.calls) >= 4


# Configurations


def test_layers_are_serialized_and_created_again():
    layer = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both")

    again = layers.deserialize(layers.serialize(layer))

    assert (again.name, again.forward_layer.units, again.return_sequences) == ("both", 3, True)
    short = layers.deserialize({"class_name": "Dense", "config": {"units": 3}})
    assert (type(short), short.units) == (layers.Dense, 3)
    own = layers.deserialize(layers.serialize(Counting(name="own")), {"Counting": Counting})
    assert (type(own), own.name) == (Counting, "own")


def test_what_is_no_layer_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"serialize\(\) takes a layer"):
        layers.serialize(3)
    with pytest.raises(ArgumentError, match="'class_name' and 'config'"):
        layers.deserialize({"units": 3})
    with pytest.raises(ArgumentError, match="'L2' is not a layer, but L2"):
        layers.deserialize({"module": "keras.regularizers", "class_name": "L2", "config": {}})


def test_custom_objects_may_be_added_by_name():
    keras.utils.get_custom_objects()["Counting"] = Counting
    try:
        config = {"class_name": "Counting", "config": {"name": "c"}}
        assert type(layers.deserialize(config)) is Counting
        with keras.utils.CustomObjectScope({"twice": lambda x: 2 * x}):
            assert keras.activations.get("twice")(2) == 4
    finally:
        del keras.saving.get_custom_objects()["Counting"]


# Wrapper and InputSpec


class Doubled(layers.Wrapper):
    def call(self, inputs: Any) -> Any:
        return 2.0 * self.layer(inputs)


def test_a_wrapper_builds_tracks_and_saves_its_layer(tmp_path):
    x = np.ones((2, 3), "float32")
    layer = Doubled(layers.Dense(4))
    model = keras.Sequential([keras.Input((3,)), layer])

    np.testing.assert_allclose(model(x).numpy(), 2 * layer.layer(x).numpy(), rtol=1e-6)
    assert len(model.trainable_variables) == 2
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", {"Doubled": Doubled})
    np.testing.assert_array_equal(loaded(x).numpy(), model(x).numpy())
    with pytest.raises(ArgumentTypeError, match="Doubled wraps a layer"):
        Doubled(3)


class Checked(layers.Layer):
    def __init__(self, spec: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_spec = spec

    def call(self, inputs: Any) -> Any:
        return inputs


@pytest.mark.parametrize(
    ("spec", "good", "bad", "sentence"),
    [
        ({"ndim": 2}, (1, 2), (1, 2, 3), "inputs of 2 dimensions"),
        ({"min_ndim": 2}, (1, 2, 3), (1,), "inputs of at least 2 dimensions"),
        ({"max_ndim": 2}, (1,), (1, 2, 3), "inputs of at most 2 dimensions"),
        ({"axes": {-1: 3}}, (2, 3), (2, 4), "3 elements along axis -1"),
        ({"shape": (None, 3)}, (9, 3), (9, 4), r"inputs of shape \(None, 3\)"),
        (
            {"shape": (None, 1), "allow_last_axis_squeeze": True},
            (4,),
            (4, 2, 2),
            "inputs of 2 dimensions",
        ),
    ],
)
def test_calls_check_the_spec_of_the_input(spec, good, bad, sentence):
    layer = Checked(layers.InputSpec(**spec))

    assert layer(tf.ones(good)).shape == good
    with pytest.raises(ShapeError, match=sentence):
        layer(tf.ones(bad))
    with pytest.raises(ShapeError, match=sentence):
        layer(keras.KerasTensor(bad, "float32"))


def test_specs_of_several_inputs_and_of_dtypes():
    spec = keras.InputSpec
    layer = Checked([spec(ndim=1), spec(ndim=2)])
    x, y = tf.ones(2), tf.ones((2, 2))

    assert len(layer([x, y])) == 2
    with pytest.raises(ShapeError, match=r"takes 2 inputs\. Got 1"):
        layer(x)
    with pytest.raises(ShapeError, match="inputs of 1 dimensions"):
        layer([y, x])
    with pytest.raises(DTypeError, match=r"takes inputs of int32\. Got float32"):
        Checked(spec(dtype="int32"))(x)
    with pytest.raises(ArgumentError, match="axes of an InputSpec must be below ndim=2"):
        spec(ndim=2, axes={2: 3})
    again = spec.from_config(spec(min_ndim=2, axes={-1: 3}).get_config())
    assert repr(again) == "InputSpec(min_ndim=2, axes={-1: 3})"


# Versions and absent names


def test_the_version_is_one_of_keras_3():
    assert keras.version() == keras.__version__
    assert keras.__version__.startswith("3.")


@pytest.mark.parametrize(
    ("face", "name"),
    [
        (keras, "applications"),
        (keras, "quantizers"),
        (keras.utils, "FeatureSpace"),
        (keras.Sequential([layers.Dense(1)]), "quantize"),
    ],
)
def test_heavy_names_are_those_of_real_keras(face, name):
    with pytest.raises(AttributeError, match=rf"has no '{name}'\..*Real Keras offers it"):
        getattr(face, name)


def test_a_misspelled_name_gets_a_suggestion():
    for face, name, meant in [
        (keras, "Sequental", "Sequential"),
        (layers, "ConvLSTM", "ConvLSTM3D"),
        (keras.utils, "loadimg", "load_img"),
    ]:
        with pytest.raises(AttributeError, match=rf"has no '{name}'\. Did you mean '{meant}'"):
            getattr(face, name)
    assert not hasattr(keras, "absent_thing")


# Operation, Progbar and data formats


class Scaled(keras.Operation):
    def __init__(self, factor: float, name: str | None = None) -> None:
        super().__init__(name=name)
        self.factor = factor

    def call(self, x: Any, offset: float = 0.0) -> Any:
        return x * self.factor + offset


def test_an_operation_computes_at_once_or_in_a_model():
    operation = Scaled(3.0)
    x = np.ones((2, 4), "float32")

    inputs = keras.Input((4,))
    model = keras.Model(inputs, operation(inputs, offset=1.0))

    assert operation(2.0) == 6.0
    assert operation.get_config() == {"factor": 3.0, "name": None}
    np.testing.assert_array_equal(model(x).numpy(), 3 * x + 1)
    with pytest.raises(NotImplementedError, match="Operation must define call"):
        keras.Operation()(1)


def test_a_progress_bar_shows_averages_at_its_end(capsys):
    bar = keras.utils.Progbar(4, verbose=2, stateful_metrics=["rate"])
    bar.update(1, [("loss", 4.0), ("rate", 0.5)])
    bar.add(3, [("loss", 0.0), ("rate", 0.25)])

    assert capsys.readouterr().out == "4/4 - loss: 1.0000 - rate: 0.2500\n"
    live = keras.utils.Progbar(None, width=4)
    live.update(3, [("loss", 1.0)], finalize=True)
    assert capsys.readouterr().out.startswith("3 - 0s ")
    keras.utils.Progbar(1, verbose=0).add(1)
    assert capsys.readouterr().out == ""


def test_layers_take_the_default_data_format():
    keras.backend.set_image_data_format("channels_first")
    try:
        assert keras.config.image_data_format() == "channels_first"
        layer = keras.layers.Conv2D(4, 3)
        assert layer(np.ones((2, 3, 8, 9), "float32")).shape == (2, 4, 6, 7)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert keras.layers.MaxPooling2D()(np.ones((2, 8, 8, 3), "float32")).shape == (2, 4, 4, 3)


def test_blocks_for_devices_and_names():
    with keras.device("cpu:0"), keras.name_scope("part") as name:
        assert (name, keras.ops.ones(2).device) == ("part", "cpu")
    with pytest.raises(ArgumentError, match="nonempty string without a slash"):
        keras.name_scope("a/b").__enter__()
    assert keras.utils.standardize_dtype("int32") == "int32"
