"""What programs written for Keras and TensorFlow expect beside the functions themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import layers, ops

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")


@pytest.mark.parametrize(
    "function",
    [
        tf.exp,
        tf.nn.relu,
        keras.activations.gelu,
        lambda x: tf.add(x, 1.0),
        lambda x: tf.concat([x, 2 * x], axis=-1),
        lambda x: tf.matmul(x, tf.ones([3, 2])),
        lambda x: tf.where(x > 0, x, 0.0),
        lambda x: tf.reduce_sum(x, axis=-1, keepdims=True),
        lambda x: tf.expand_dims(x, 1)[:, :, :2],
    ],
)
def test_functions_of_tensors_are_parts_of_functional_models(function: Any) -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, function(inputs))

    expected = function(tf.constant(X)).numpy()

    np.testing.assert_allclose(model(X).numpy(), expected)
    assert model.output_shape == (None, *expected.shape[1:])


def test_a_model_of_functions_trains() -> None:
    inputs = keras.Input((3,))
    hidden = tf.nn.tanh(layers.Dense(4)(inputs))
    model = keras.Model(inputs, layers.Dense(1)(tf.concat([hidden, tf.square(hidden)], -1)))
    model.compile("adam", "mse")

    losses = model.fit(X, X[:, :1], epochs=20, verbose=0).history["loss"]

    assert losses[-1] < losses[0]


def test_ranges_take_their_ends_by_name() -> None:
    assert ops.arange(start=1, stop=7, step=2).tolist() == [1, 3, 5]
    assert ops.arange(stop=3).tolist() == [0, 1, 2]


def test_layers_take_names_from_before_keras_3() -> None:
    model = keras.Sequential([layers.InputLayer(input_shape=(3,)), layers.LeakyReLU(alpha=0.5)])

    np.testing.assert_allclose(model(X).numpy(), np.where(X > 0, X, X / 2))


def test_a_model_is_created_with_classes_by_name() -> None:
    class Doubled(layers.Layer):
        def call(self, x: Any) -> Any:
            return 2 * x

    models = [keras.Sequential([keras.Input((3,)), Doubled()])]
    models.append(keras.Model(models[0].input, models[0].output))
    for model in models:
        made = type(model).from_config(model.get_config(), custom_objects={"Doubled": Doubled})
        np.testing.assert_allclose(made(X).numpy(), 2 * X)


def test_build_gets_the_shapes_of_all_arguments() -> None:
    class Pair(layers.Layer):
        def build(self, first: Any, second: Any) -> None:
            self.shapes = first, second

        def call(self, a: Any, b: Any) -> Any:
            return a

    layer = Pair()
    layer(X, X[:, :2])

    assert layer.shapes == ((20, 3), (20, 2))


def test_labels_may_be_floats() -> None:
    assert ops.one_hot(np.array([0.0, 2.0]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_weights_are_read_from_the_file_of_a_model(tmp_path: Path) -> None:
    model, other = (keras.Sequential([keras.Input((3,)), layers.Dense(2)]) for _ in range(2))
    model.save(tmp_path / "model.keras")

    other.load_weights(tmp_path / "model.keras")

    np.testing.assert_array_equal(other(X), model(X))


def test_the_last_batch_may_be_smaller() -> None:
    inputs = keras.Input((3,), batch_size=16)
    model = keras.Model(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse")

    model.fit(X, X[:, :1], batch_size=16, verbose=0)

    assert model.predict(X, batch_size=16, verbose=0).shape == (20, 1)
    with pytest.raises(ShapeError, match=r"of shape \(16, 3\)\. Got \(20, 2\)"):
        model(X[:, :2])


def test_a_layer_may_need_a_batch_that_is_not_small() -> None:
    class Rows(layers.Layer):
        def call(self, x: Any) -> Any:
            return ops.reshape(x, (32, -1))

    assert Rows()(keras.Input((4,))).shape == (32, None)


def test_attention_broadcasts_a_batch_of_one() -> None:
    query, value = X[None, :2], np.stack([X, 2 * X])

    alone = [layers.Attention()([query, one[None]])[0] for one in value]

    np.testing.assert_allclose(layers.Attention()([query, value]), np.stack(alone), rtol=1e-6)


def test_layers_without_a_name_are_cloned() -> None:
    class Scaled(layers.Layer):
        def __init__(self, factor: float = 1.0) -> None:
            super().__init__()
            self.factor = factor

        def call(self, x: Any) -> Any:
            return self.factor * x

    model = keras.Sequential([keras.Input((3,)), Scaled(3.0)])
    made = keras.models.clone_model(model)

    np.testing.assert_allclose(made(X).numpy(), 3 * X, rtol=1e-6)
    assert made.layers[0].name == model.layers[0].name


def test_a_checkpoint_may_hold_another(tmp_path: Path) -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    outer = tf.train.Checkpoint(inner=tf.train.Checkpoint(v=v), w=w)
    path = outer.save(tmp_path / "both")
    v.assign(0.0)
    w.assign(0.0)

    outer.restore(path).assert_consumed()

    assert (float(v), float(w)) == (1.0, 2.0)


def test_set_shape_checks_the_shape() -> None:
    x = tf.ones([2, 3])
    x.set_shape((None, 3))
    with pytest.raises(ShapeError, match=r"set_shape\(\(3, 2\)\) does not fit.*\(2, 3\)"):
        x.set_shape((3, 2))


def test_slices_get_the_shape_of_their_variable() -> None:
    v = tf.Variable(np.zeros((3, 2)))
    rows = tf.IndexedSlices(values=tf.ones([1, 2], "float64"), indices=tf.constant([1]))

    keras.optimizers.SGD(1.0).apply_gradients([(rows, v)])

    assert v.numpy().tolist() == [[0, 0], [-1, -1], [0, 0]]
    with pytest.raises(ArgumentError, match="without a dense_shape"):
        rows.numpy()


def test_a_convolution_may_be_overridden() -> None:
    class Standardized(layers.Conv2D):
        def convolution_op(self, inputs: Any, kernel: Any) -> Any:
            return super().convolution_op(inputs, kernel - ops.mean(kernel))

    x = np.ones((1, 4, 4, 1), "float32")

    np.testing.assert_allclose(Standardized(1, 4, use_bias=False)(x), 0, atol=1e-6)


def test_a_layer_is_built_for_the_shape_of_one_example() -> None:
    layer = layers.Dense(3)
    layer.build((10,))

    assert layer.kernel.shape == (10, 3)


def test_a_stack_takes_a_tuple_of_one_tensor() -> None:
    model = keras.Sequential([layers.Dense(2)])

    np.testing.assert_array_equal(model((X,)), model(X))


def test_the_metrics_of_a_compiled_model_are_listed() -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(X, X[:, :1], verbose=0)

    assert [metric.name for metric in model.metrics[1].metrics] == ["mae"]


def test_a_layer_takes_a_list_of_numbers() -> None:
    layer = layers.Dense(2, kernel_initializer="ones")

    assert layer([[1.0, 2.0], [3.0, 4.0]]).tolist() == [[3, 3], [7, 7]]


def test_a_model_with_simple_arguments_is_saved(tmp_path: Path) -> None:
    class Scaled(keras.Model):
        def __init__(
            self, units: int, factors: tuple[float, ...] = (2.0,), name: Any = None
        ) -> None:
            super().__init__(name=name)
            self.dense, self.factors = layers.Dense(units), factors

        def call(self, x: Any) -> Any:
            return self.dense(x) * self.factors[0]

    model = Scaled(2, (3.0, 1.0))
    expected = model(X)
    model.save(tmp_path / "scaled.keras")

    made = keras.models.load_model(tmp_path / "scaled.keras", custom_objects={"Scaled": Scaled})

    np.testing.assert_array_equal(made(X), expected)


def test_layers_of_images_take_lists_of_images() -> None:
    images = [np.full((4, 6, 3), k, "uint8") for k in (2, 4)]

    cropped = layers.CenterCrop(2, 3)(images)
    scaled = layers.Rescaling(0.5)(images)

    assert cropped.shape == (2, 2, 3, 3)
    np.testing.assert_array_equal(scaled.numpy()[:, 0, 0, 0], [1, 2])


def test_a_config_of_ones_own_gets_the_arguments_of_the_base_class() -> None:
    class Scaled(layers.Layer):
        def __init__(self, units: int = 4, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.units = units

        def get_config(self) -> dict[str, Any]:
            return dict(units=self.units, **super().get_config())

    config = Scaled(3, name="one").get_config()

    assert config["units"] == 3
    assert Scaled.from_config(config).name == "one"


def test_positional_arguments_are_kept_by_the_names_of_the_base_class() -> None:
    class Named(layers.Dense):
        def __init__(self, word: str = "", *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.word = word

    config = Named("a", 5, "relu").get_config()

    assert (config["word"], config["units"], config["activation"]) == ("a", 5, "relu")
    assert Named.from_config(config).units == 5
    assert "args" not in Named(units=2).get_config()


def test_build_takes_more_than_shapes() -> None:
    class Started(layers.Layer):
        def build(self, input_shape: Any, start: str) -> None:
            self.w = self.add_weight(shape=(input_shape[-1],), initializer=start)

        def call(self, x: Any) -> Any:
            return x * self.w

    layer = Started()
    layer.build((3,), start="ones")
    model = keras.Sequential([layer, layers.Dense(1)])

    assert layer.built
    assert model(X).shape == (20, 1)


def test_inner_layers_may_already_be_layers_in_from_config() -> None:
    layer = layers.Dense(2)

    assert layers.deserialize(layer) is layer


def test_generators_of_numpy_arrays_match_smaller_dtypes() -> None:
    numbers = tf.data.Dataset.from_generator(
        lambda: [(np.float64(1.5), np.arange(2))],
        output_types=(tf.float32, tf.int32),
        output_shapes=((), (None,)),
    )

    ((x, y),) = numbers

    assert (x.dtype, y.dtype, float(x)) == (tf.float32, tf.int32, 1.5)


def test_zeros_of_text_are_empty_texts() -> None:
    assert tf.zeros([0, 1], tf.string).shape == (0, 1)
    assert tf.zeros([2], dtype=tf.string).tolist() == [b"", b""]


def test_a_loss_of_compile_has_its_old_name() -> None:
    class Own(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(y, self(x), regularization_losses=self.losses)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    inputs = keras.Input((3,))
    model = Own(inputs, layers.Dense(1, kernel_initializer="zeros")(inputs))
    model.compile("sgd", "mse")

    loss = model.fit(X, X[:, :1], batch_size=20, verbose=0).history["loss"][0]

    np.testing.assert_allclose(loss, np.mean(X[:, 0] ** 2), rtol=1e-5)


class Column:
    """What a column of a pandas table has: `iloc`, `to_numpy` and `__array__`."""

    iloc = None
    shape = (20,)

    def to_numpy(self) -> np.ndarray:
        return X[:, 0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return X[:, 0]


def test_columns_of_tables_have_one_feature() -> None:
    inputs = {"a": keras.Input((1,)), "b": keras.Input((1,))}
    joined = layers.Concatenate()(list(inputs.values()))
    model = keras.Model(inputs, layers.Dense(1, kernel_initializer="ones")(joined))

    found = model.predict({"a": Column(), "b": Column()}, verbose=0)

    np.testing.assert_allclose(found, 2 * X[:, :1], rtol=1e-5)


def test_normalization_without_axes_takes_any_shape() -> None:
    layer = layers.Normalization(axis=None)
    layer.adapt(np.array([1.0, 3.0]))

    np.testing.assert_allclose(layer(np.array([[1.0], [5.0]])).numpy(), [[-1.0], [3.0]])


def test_normalization_of_the_last_axis_takes_more_axes() -> None:
    layer = layers.Normalization()
    layer.adapt(np.array([[0.0, 2.0], [2.0, 6.0]]))

    np.testing.assert_allclose(layer(np.array([[[3.0, 8.0]]])).numpy(), [[[2.0, 2.0]]])
    with pytest.raises(ShapeError, match=r"with sizes \(2,\) along axis"):
        layer(np.ones((2, 3)))


def test_a_layer_may_allow_one_batch_size_only() -> None:
    class Tokens(layers.Layer):
        def call(self, x: Any) -> Any:
            rows = ops.reshape(x, (100, 3))  # 50 sequences of 2 tokens
            return ops.reshape(rows * 2, (-1, 2, 3))

    inputs = keras.Input((2, 3))
    model = keras.Model(inputs, layers.GlobalAveragePooling1D()(Tokens()(inputs)))

    assert model.output_shape == (None, 3)
    assert model(np.ones((50, 2, 3))).shape == (50, 3)


def test_lookups_take_the_old_names_of_modes() -> None:
    lookup = layers.IntegerLookup(vocabulary=[5, 7], output_mode="binary")

    assert lookup.output_mode == "multi_hot"
    assert lookup(np.array([[7]])).tolist() == [[0.0, 0.0, 1.0]]


def test_evaluate_takes_a_loss_of_ones_own_without_training() -> None:
    class Own(keras.Model):
        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None
        ) -> Any:
            return tf.reduce_sum(y_pred) * 0 + 3.0

    inputs = keras.Input((3,))
    model = Own(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse")

    assert model.evaluate(X, X[:, :1], verbose=0) == pytest.approx(3.0)


def test_tensors_are_converted_to_another_float_dtype() -> None:
    x = np.eye(2) @ np.linspace(0, 1, 2) * tf.constant(2.0, tf.float64)

    assert tf.convert_to_tensor(x, dtype=tf.float32).dtype == tf.float32
    assert tf.constant(tf.constant([1, 2]), tf.float32).tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError, match="Use cast to convert it"):
        tf.convert_to_tensor(tf.constant([1.5]), tf.int32)


def test_models_name_their_inputs() -> None:
    model = keras.Sequential([keras.Input((3,), name="features"), layers.Dense(1)])

    assert model.input_names == ["features"]
    assert keras.Model(model.inputs, model.outputs).input_names == ["features"]


def test_a_model_of_named_inputs_ignores_other_features() -> None:
    inputs = {"a": keras.Input((1,)), "b": keras.Input((1,))}
    model = keras.Model(inputs, inputs["a"] + 2.0 * inputs["b"])
    one = np.ones((2, 1), "float32")

    found = model({"a": one, "unused": 7 * one, "b": 3 * one})

    assert found.tolist() == [[7.0], [7.0]]


def test_patches_take_steps_for_all_axes() -> None:
    images = np.arange(32.0).reshape(1, 4, 4, 2)

    found = ops.image.extract_patches(images, (2, 2), strides=[1, 2, 2, 1])

    np.testing.assert_array_equal(found, ops.image.extract_patches(images, 2))


def test_a_layer_may_stand_several_times_in_a_sequential_model() -> None:
    block = layers.Dense(3, kernel_initializer="ones", use_bias=False)
    model = keras.Sequential([block, block, layers.Dense(1)])

    assert model(X).shape == (20, 1)
    assert (model.count_params(), len(model.layers)) == (9 + 4, 3)

    with pytest.raises(ValueError, match="already has a layer named"):
        keras.Sequential([layers.Dense(2, name="a"), layers.Dense(2, name="a")])


def test_the_name_of_a_weight_may_come_first() -> None:
    class Scaled(layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.kernel = self.add_weight("kernel", shape=[int(input_shape[-1]), 2])
            self.bias = self.add_weight("bias", [2], initializer="zeros")

        def call(self, inputs: Any) -> Any:
            return tf.matmul(inputs, self.kernel) + self.bias

    layer = Scaled()

    assert layer(X).shape == (20, 2)
    assert [tuple(one.shape) for one in layer.weights] == [(3, 2), (2,)]
    assert [one.name.split(":")[0] for one in layer.weights] == ["kernel", "bias"]
