"""Error messages of layers and models for wrong shapes, names and arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import OutOfRangeError, TapegradError
from tapegrad.keras import Model
from tapegrad.keras.layers import Layer

Row = tuple[str, Callable[[], Any], str]

# What is wrong here is wrong for type checkers too.
layers: Any = keras.layers
Input: Any = keras.Input
Sequential: Any = keras.Sequential


def zeros(*shape: int) -> Any:
    return np.zeros(shape, "float32")


def built(layer: Any, *shape: int) -> Any:
    """A layer that was called on an input of a shape."""
    layer(zeros(*shape))
    return layer


def on_cpu(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with new tensors on the CPU, whichever device the tests run on."""

    def run() -> Any:
        with tf.device("cpu"):
            return call()

    return run


def two_outputs() -> Any:
    x = Input((3,), name="point")
    return Model(x, [layers.Dense(1)(x), layers.Dense(1)(x)])


class Own(Model):
    def __init__(self) -> None:
        super().__init__(name="own")
        self.dense = layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)


SHAPES: list[Row] = [
    ("features of a dense layer", lambda: built(layers.Dense(4, name="d"), 2, 3)(zeros(2, 5)),
     "Layer 'd' (Dense) was built for 3 features. Got an input of shape (2, 5)"),
    ("a vector for a dense layer", lambda: layers.Dense(4, name="d")(zeros(3)),
     "Layer 'd' (Dense) takes inputs of at least 2 dimensions"),
    ("rank of a convolution", lambda: layers.Conv2D(4, 3, name="c")(zeros(2, 8, 8)),
     "Layer 'c' (Conv2D) takes inputs of 4 dimensions"),
    ("rank of a convolution in time", lambda: layers.Conv1D(4, 3, name="c")(zeros(2, 8)),
     "Layer 'c' (Conv1D) takes inputs of 3 dimensions"),
    ("rank of a convolution in space", lambda: layers.Conv3D(4, 3, name="c")(zeros(2, 8, 8, 1)),
     "Layer 'c' (Conv3D) takes inputs of 5 dimensions"),
    ("channels of a convolution",
     lambda: built(layers.Conv2D(4, 3, name="c"), 1, 8, 8, 3)(zeros(2, 8, 8, 5)),
     "Layer 'c' (Conv2D) was built for 3 channels. Got an input of shape (2, 8, 8, 5)"),
    ("channels of a transposed convolution",
     lambda: built(layers.Conv2DTranspose(4, 3, name="c"), 1, 8, 8, 3)(zeros(2, 8, 8, 5)),
     "Layer 'c' (Conv2DTranspose) was built for 3 channels"),
    ("channels of a depthwise convolution",
     lambda: built(layers.DepthwiseConv2D(3, name="c"), 1, 8, 8, 3)(zeros(2, 8, 8, 5)),
     "Layer 'c' (DepthwiseConv2D) was built for 3 channels"),
    ("channels of a separable convolution",
     lambda: built(layers.SeparableConv2D(4, 3, name="c"), 1, 8, 8, 3)(zeros(2, 8, 8, 5)),
     "Layer 'c' (SeparableConv2D) was built for 3 channels"),
    ("a window larger than the image", lambda: layers.Conv2D(4, 5, name="c")(zeros(2, 3, 3, 1)),
     "Layer 'c' (Conv2D) has windows of 5 elements along a dimension of size 3"),
    ("rank of a pooling layer", lambda: layers.MaxPooling2D(name="p")(zeros(2, 8, 8)),
     "Layer 'p' (MaxPooling2D) takes inputs of 4 dimensions"),
    ("rank of a global pooling", lambda: layers.GlobalAveragePooling2D(name="p")(zeros(2, 8)),
     "Layer 'p' (GlobalAveragePooling2D) takes inputs of 4 dimensions"),
    ("rank of a recurrent layer", lambda: layers.LSTM(4, name="r")(zeros(2, 3)),
     "Layer 'r' (LSTM) takes sequences of shape (batch, steps, features)"),
    ("features of a recurrent layer",
     lambda: built(layers.GRU(4), 2, 5, 3)(zeros(2, 5, 4)), "was built for 3 features. Got 4"),
    ("rank of a layer per step", lambda: layers.TimeDistributed(layers.Dense(2))(zeros(2)),
     "takes inputs of shape (batch, steps, ...)"),
    ("a number that is no row",
     on_cpu(lambda: layers.Embedding(5, 3, name="e")(np.array([[7]]))),
     "Layer 'e' (Embedding) got inputs of shape (1, 1): gather got index 7"),
    ("features of a normalization",
     lambda: built(layers.BatchNormalization(name="n"), 2, 3)(zeros(2, 4)),
     "Layer 'n' (BatchNormalization) was built for inputs with sizes (3,)"),
    ("axis of a normalization", lambda: layers.LayerNormalization(axis=5, name="n")(zeros(2, 4)),
     "Layer 'n' (LayerNormalization) got axis 5 for a tensor of 2 dimensions"),
    ("groups of channels", lambda: layers.GroupNormalization(3, name="n")(zeros(2, 4)),
     "Layer 'n' (GroupNormalization) takes a number of channels along axis -1 that is"),
    ("shapes to join", lambda: layers.Concatenate(name="j")([zeros(2, 3), zeros(3, 3)]),
     "Layer 'j' (Concatenate) takes tensors whose shapes differ only along axis -1"),
    ("axis to join", lambda: layers.Concatenate(7, name="j")([zeros(2, 3), zeros(2, 3)]),
     "Layer 'j' (Concatenate) got inputs of shape"),
    ("one tensor to join", lambda: layers.Concatenate(name="j")(zeros(2, 3)),
     "Layer 'j' (Concatenate) takes a list of tensors. Got one of shape (2, 3)"),
    ("shapes to add", lambda: layers.Add(name="a")([zeros(2, 3), zeros(2, 4)]),
     "Layer 'a' (Add) got inputs of shape [(2, 3), (2, 4)]"),
    ("shapes to add without values",
     lambda: layers.Add(name="a")([Input((3,)), Input((4,))]),
     "Layer 'a' (Add) cannot combine tensors of shapes (None, 3) and (None, 4)"),
    ("three to subtract", lambda: layers.Subtract(name="a")([zeros(2, 3)] * 3),
     "Layer 'a' (Subtract) takes two tensors. Got 3"),
    ("lengths of vectors", lambda: layers.Dot(axes=1, name="a")([zeros(2, 3), zeros(2, 4)]),
     "Layer 'a' (Dot) got inputs of shape [(2, 3), (2, 4)]"),
    ("elements to arrange", lambda: layers.Reshape((5,), name="s")(zeros(2, 4)),
     "Layer 's' (Reshape) cannot reshape examples of shape (4,) to (5,)"),
    ("axes to exchange", lambda: layers.Permute((2, 1), name="s")(zeros(2, 4)),
     "Layer 's' (Permute) got inputs of shape (2, 4)"),
    ("a matrix to repeat", lambda: layers.RepeatVector(3, name="s")(zeros(2, 4, 4)),
     "Layer 's' (RepeatVector) takes inputs of 2 dimensions"),
    ("sizes that are not known", lambda: layers.Dense(2)(layers.Flatten()(Input((None, 3)))),
     "but weights need known sizes"),
    ("rank of attention", lambda: layers.MultiHeadAttention(2, 3)(zeros(2, 4), zeros(2, 4)),
     "takes query (batch, queries, features)"),
    ("attention without values", lambda: layers.MultiHeadAttention(2, 3)(zeros(2, 4, 5)),
     "must be called with query, value. Got no value"),
    ("inputs of a model", lambda: two_outputs()(zeros(2, 5)),
     "takes 'point' of shape (None, 3). Got (2, 5)"),
    ("inputs of a stack", lambda: Sequential([Input((3,)), layers.Dense(1)], name="m")(
        zeros(2, 5, 3)), "Model 'm' takes inputs of shape (None, 3). Got (2, 5, 3)"),
    ("number of inputs", lambda: two_outputs()([zeros(2, 3), zeros(2, 3)]),
     "takes 1 inputs, ['point']. Got 2"),
    ("names of inputs", lambda: two_outputs()({"line": zeros(2, 3)}), "Missing: ['point']"),
    ("layers that do not fit", lambda: Sequential([Input((3,)), layers.Conv2D(3, 3)]),
     "takes inputs of 4 dimensions"),
]  # fmt: skip

ARGUMENTS: list[Row] = [
    ("negative units", lambda: layers.Dense(-1), "Dense takes a positive number of units. Got -1"),
    ("half a unit", lambda: layers.Dense(2.5), "positive number of units. Got 2.5"),
    ("units as text", lambda: layers.Dense("8"), "positive number of units. Got '8'"),
    ("negative recurrent units", lambda: layers.LSTM(-3), "positive number of units. Got -3"),
    ("rows of a table", lambda: layers.Embedding(0, 4), "Embedding takes a positive number"),
    ("filters", lambda: layers.Conv2D(-1, 3), "Conv2D takes filters as an integer"),
    ("size of a kernel", lambda: layers.Conv2D(4, (3, 3, 3)), "Conv2D takes kernel_size"),
    ("padding", lambda: layers.Conv2D(4, 3, padding="full"), "takes padding 'valid' or 'same'"),
    ("order of axes", lambda: layers.Conv2D(4, 3, data_format="nchw"), "channels_last"),
    ("groups", lambda: layers.Conv2D(4, 3, groups=3), "filters that is divisible by groups"),
    ("rate above 1", lambda: layers.Dropout(1.5), "Dropout takes a rate of at least 0"),
    ("rate as text", lambda: layers.Dropout("half"), "takes a rate of at least 0 up to 1"),
    ("times to repeat", lambda: layers.RepeatVector(0), "a positive n. Got 0"),
    ("two unknown sizes", lambda: layers.Reshape((-1, -1)), "one size of -1 at most"),
    ("an argument of no layer", lambda: layers.Dense(3, unitz=4),
     "Dense does not take the argument 'unitz'"),
    ("a name that is a number", lambda: layers.Dense(3, name=5), "of a layer must be a nonempty"),
    ("a dtype", lambda: layers.Dense(3, dtype="float99"), "Got 'float99'"),
    ("a negative size", lambda: Input((-3,)), "integers of 0 or more, or None"),
    ("a fraction for a shape", lambda: Input(3.5), "A shape is a tuple of sizes, such as (3.5,)"),
    ("no shape", lambda: Input(), "Input takes either the shape of one example"),
    ("a function for a layer", lambda: Sequential([abs]), "Wrap functions in a Lambda layer"),
    ("a layer for a list", lambda: Sequential(layers.Dense(3)), "takes a list of layers"),
    ("a number for a list", lambda: Sequential(5), "Sequential takes a list of layers. Got int"),
    ("a name twice", lambda: Sequential([layers.Dense(3, name="a"), layers.Dense(3, name="a")]),
     "already has a layer named 'a'"),
    ("an input that leads nowhere", lambda: Model(Input((3,)), layers.Dense(2)(Input((3,)))),
     "not among the model's inputs"),
    ("arrays for inputs", lambda: Model(zeros(3), zeros(3)),
     "takes symbolic tensors as inputs and outputs"),
    ("inputs without outputs", lambda: Model(inputs=Input((3,))),
     "takes symbolic tensors as inputs and outputs"),
    ("a layer that is not there", lambda: two_outputs().get_layer("foo"), "no layer 'foo'"),
    ("a layer's number", lambda: two_outputs().get_layer(index=9), "has 3 layers. Got index 9"),
    ("a size to build with", lambda: layers.Dense(3, name="d").build(5),
     "build() of layer 'd' (Dense) takes the shape of the input, such as (None, 3). Got 5"),
    ("a size to build a stack with", lambda: Sequential([layers.Dense(3)]).build(5), "Got 5"),
    ("a size to build a model with", lambda: Own().build(5), "'own' (Own) takes the shape"),
    ("nothing to call on", lambda: layers.Dense(3, name="d")(None), "takes tensors or arrays"),
    ("no argument", lambda: layers.Dense(3, name="d")(), "Layer 'd' must be called with its input"),
    ("text to call on", lambda: layers.Dense(3, name="d")("hello"), "Got str: 'hello'"),
    ("lists to call on", lambda: built(layers.Dense(3), 1, 2)([[None, 2.0]]), "tapegrad.constant"),
    ("text in an array", lambda: layers.Dense(3)(np.array([["a", "b"]])), "not numbers"),
    ("a decision without a value", lambda: bool(Input((3,))), "has no value while the model"),
    ("a function without a value", lambda: np.asarray(Input((3,))), "Lambda layer"),
    ("a stack without layers", lambda: Sequential(name="m")(zeros(2, 3)), "'m' has no layers"),
]  # fmt: skip

NAMES: list[Row] = [
    ("activation", lambda: layers.Dense(3, "rellu"), "'rellu'. Did you mean 'relu'? Known: "),
    ("activation layer", lambda: layers.Activation("tahn"), "Did you mean 'tanh'? Known: "),
    ("activation as a number", lambda: layers.Dense(3, 5), "Got int: 5"),
    ("initializer", lambda: layers.Dense(3, kernel_initializer="glorot"), "Known: constant"),
    ("regularizer", lambda: layers.Dense(3, kernel_regularizer="l3"), "Known: l1, l1_l2, l2"),
    ("constraint", lambda: layers.Dense(3, kernel_constraint="maxi"), "Known: max_norm"),
    ("loss", lambda: keras.losses.get("mze"), "'mze'. Did you mean 'mse'? Known: "),
    ("metric", lambda: keras.metrics.get("acuracy"), "Did you mean 'accuracy'? Known: "),
    ("optimizer", lambda: keras.optimizers.get("adm"), "Did you mean 'adam'? Known: "),
    ("optimizer as a number", lambda: keras.optimizers.get(5), "Got int: 5"),
    ("reduction", lambda: keras.losses.MeanSquaredError("average"), "'sum_over_batch_size'"),
    ("mode of an initializer", lambda: keras.initializers.VarianceScaling(mode="in"), "fan_in"),
    ("mode of a callback", lambda: keras.callbacks.EarlyStopping(mode="up"), "'auto', 'min'"),
    ("policy", lambda: keras.mixed_precision.Policy("mixed_int8"), "mixed_bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "words"),
    [row[1:] for row in (*SHAPES, *ARGUMENTS, *NAMES)],
    ids=[row[0] for row in (*SHAPES, *ARGUMENTS, *NAMES)],
)
def test_what_is_wrong_is_said_in_a_sentence(act: Callable[[], Any], words: str) -> None:
    with pytest.raises(TapegradError) as caught:
        act()

    assert words in str(caught.value)


UNBUILT: list[Row] = [
    ("counting", lambda: Sequential([layers.Dense(3)]).count_params(), "no weights to count yet"),
    ("counting a layer's", lambda: layers.Dense(3).count_params(), "no weights to count yet"),
    (
        "setting",
        lambda: layers.Dense(3).set_weights([zeros(2, 3), zeros(3)]),
        "created on the first",
    ),
    ("reading", lambda: layers.Dense(3).kernel, "has no attribute 'kernel'. Weights are created"),
]


@pytest.mark.parametrize(
    ("act", "words"), [row[1:] for row in UNBUILT], ids=[r[0] for r in UNBUILT]
)
def test_weights_that_are_not_there_yet(act: Callable[[], Any], words: str) -> None:
    with pytest.raises((TapegradError, AttributeError)) as caught:
        act()

    assert words in str(caught.value)
    assert "call the layer on a batch, or call build() with the shape" in str(caught.value)


@pytest.mark.parametrize("make", [Own, lambda: Sequential([layers.Dense(2)])])
def test_a_model_that_is_not_built_is_not_saved(make: Any, tmp_path: Path) -> None:
    with pytest.raises(TapegradError, match="no weights to save yet"):
        make().save_weights(tmp_path / "w.safetensors")
    with pytest.raises(FileNotFoundError, match=r"w\.safetensors"):
        make().load_weights(tmp_path / "w.safetensors")


@pytest.mark.parametrize("make", [Own, lambda: Sequential([layers.Dense(2)])])
def test_the_summary_of_a_model_that_is_not_built_says_so(make: Any) -> None:
    lines: list[str] = []

    make().summary(print_fn=lines.append)

    assert "not built" in lines[0]
    assert "created on the first call" in lines[0]


def test_a_subclass_is_built_by_the_shape_of_its_input() -> None:
    model = Own()

    model.build((None, 3))

    assert [tuple(weight.shape) for weight in model.weights] == [(3, 2), (2,)]


def test_a_constructor_without_super_is_reminded_of_it() -> None:
    class Bare(Layer):
        def __init__(self) -> None:
            self.factor = 2.0

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    with pytest.raises(AttributeError, match=r"Call super\(\).__init__\(\) at the beginning"):
        Bare()(zeros(2, 2))


@pytest.mark.parametrize("shape", [(5,), (5, 1, 1)])
def test_a_last_axis_of_size_1_may_be_missing_or_too_many(shape: tuple[int, ...]) -> None:
    model = Sequential([Input((1,)), layers.Dense(2)])

    assert tuple(model(zeros(*shape)).shape) == (5, 2)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    three = np.int64(3)

    model = Sequential([Input((three, three)), layers.Conv1D(three, three), layers.Dense(three)])

    assert model.output_shape == (None, 1, 3)


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Dense(2),
        lambda: layers.Conv1D(2, 2),
        lambda: layers.GRU(2),
        lambda: layers.AveragePooling1D(2),
        lambda: layers.GlobalAveragePooling1D(),
    ],
    ids=["Dense", "Conv1D", "GRU", "AveragePooling1D", "GlobalAveragePooling1D"],
)
def test_integers_are_computed_with_in_the_dtype_of_the_weights(make: Any, kind: str) -> None:
    layer, x = make(), np.arange(24).reshape(2, 4, 3)

    found = layer(x.astype(kind))

    assert found.dtype == "float32"
    np.testing.assert_allclose(found.numpy(), layer(x.astype("float32")).numpy())


METHODS: dict[str, Callable[[Any], Any]] = {
    "set_weights": lambda bad: small_model().set_weights(bad),
    "load_weights": lambda bad: small_model().load_weights(bad),
    "save": lambda bad: small_model().save(bad),
    "compute_output_shape": lambda bad: small_model().compute_output_shape(bad),
    "compute_output_spec": lambda bad: layers.Dense(2).compute_output_spec(bad),
    "from_config": lambda bad: Sequential.from_config(bad),
    "from_config of a layer": lambda bad: layers.Dense.from_config(bad),
    "summary": lambda bad: small_model().summary(bad),
    "get_layer": lambda bad: small_model().get_layer(bad),
    "predict_on_batch": lambda bad: small_model().predict_on_batch(bad),
    "test_on_batch": lambda bad: small_model().test_on_batch(bad, bad),
    "apply": lambda bad: keras.optimizers.Adam().apply(bad, bad),
    "minimize": lambda bad: keras.optimizers.Adam().minimize(bad, bad),
    "minimize with a tape": lambda bad: keras.optimizers.Adam().minimize(zeros(1), [], tape=bad),
    "optimizers' from_config": lambda bad: keras.optimizers.Adam.from_config(bad),
    "add_variable": lambda bad: keras.optimizers.Adam().add_variable(bad),
    "add_variable_from_reference": (
        lambda bad: keras.optimizers.Adam().add_variable_from_reference(bad)
    ),
    "assign": lambda bad: keras.optimizers.Adam().assign(bad, zeros(1)),
    "ModelCheckpoint": lambda bad: keras.callbacks.ModelCheckpoint(bad),
    "EarlyStopping": lambda bad: keras.callbacks.EarlyStopping(patience=bad),
    "deserialize_keras_object": lambda bad: keras.saving.deserialize_keras_object(bad),
    "epochs": lambda bad: small_model().fit(zeros(8, 4), zeros(8, 2), epochs=bad, verbose=0),
    "batch_size": lambda bad: small_model().fit(
        zeros(8, 4), zeros(8, 2), batch_size=bad, verbose=0
    ),
}
BAD: dict[str, Any] = {
    "1.5": 1.5,
    "2**70": 2**70,
    "object()": object(),
    "a set": {1},
    "a class": tf.Tensor,
    "a module": np,
    "a layer": layers.Dense(1),
}


def small_model() -> Any:
    model = Sequential([Input((4,)), layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("method", METHODS)
def test_methods_refuse_wrong_arguments_in_words(method: str, bad: Any) -> None:
    with contextlib.suppress(TapegradError):  # some take the one or the other
        METHODS[method](bad)


@pytest.mark.parametrize("count", [2**63, 2**70])
def test_a_count_beyond_64_bits_is_refused(count: int) -> None:
    with pytest.raises(OutOfRangeError, match="epochs"):
        small_model().fit(zeros(8, 4), zeros(8, 2), epochs=count, verbose=0)
