"""Sequential, functional and subclassed models."""

from __future__ import annotations

import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras import naming
from tapegrad.keras.layers import (
    Add,
    Concatenate,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Input,
    Lambda,
    Layer,
    Masking,
    MultiHeadAttention,
)
from tapegrad.keras.models import Functional, Model, Sequential


def ones(*shape: int) -> Any:
    return tf.constant(np.ones(shape, "float32"))


def test_a_stack_is_the_composition_of_its_layers() -> None:
    tf.random.set_seed(0)  # with other weights a result may be small, and its rounding large
    first, second = Dense(4, "relu"), Dense(2)
    model = Sequential([first, second])

    y = model(ones(5, 3))

    w1, b1, w2, b2 = (v.numpy() for v in model.variables)
    np.testing.assert_allclose(
        y.numpy(), np.maximum(np.ones((5, 3)) @ w1 + b1, 0) @ w2 + b2, rtol=1e-6
    )


@pytest.mark.parametrize("first", [Input((3,)), Dense(4, input_shape=(3,)), Dense(4, input_dim=3)])
def test_weights_are_there_at_once_if_the_input_is_known(first: Any) -> None:
    model = Sequential([first, Dense(2)])

    assert model.built
    assert model.output_shape == (None, 2)


def test_build_makes_the_weights() -> None:
    model = Sequential([Dense(4), Dense(2)])

    model.build((None, 3))

    assert [tuple(v.shape) for v in model.variables] == [(3, 4), (4,), (4, 2), (2,)]


def test_layers_can_be_taken_off_and_put_on() -> None:
    model = Sequential([Input((3,)), Dense(4), Dense(2)])

    model.pop()
    model.add(Dense(7))

    assert model(ones(1, 3)).shape == (1, 7)
    assert model.output_shape == (None, 7)


def test_what_is_no_layer_and_what_is_called_like_another_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"Sequential takes layers.*Lambda"):
        Sequential([np.tanh])
    with pytest.raises(ArgumentError, match="already has a layer named 'a'"):
        Sequential([Dense(1, name="a"), Dense(1, name="a")])


def residual() -> Functional:
    x = Input((4,), name="x")
    h = Dense(4, "tanh")(x)
    return Model(x, Dense(1)(Add()([x, h])))  # type: ignore[return-value]


def test_a_functional_model_runs_its_layers() -> None:
    model = residual()
    w1, b1, w2, b2 = (v.numpy() for v in model.variables)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")

    y = model(x)

    np.testing.assert_allclose(y.numpy(), (x + np.tanh(x @ w1 + b1)) @ w2 + b2, rtol=1e-5)
    assert isinstance(model, Functional)
    assert (model.input_shape, model.output_shape) == ((None, 4), (None, 1))


def test_several_inputs_and_outputs_keep_their_structure() -> None:
    a, b = Input((2,), name="a"), Input((3,), name="b")
    joined = Concatenate()([a, b])
    model = Model([a, b], {"sum": Lambda(lambda x: tf.reduce_sum(x, -1))(joined), "same": joined})

    by_place = model([ones(4, 2), ones(4, 3)])
    by_name = model({"a": ones(4, 2), "b": ones(4, 3)})

    assert by_place["same"].shape == (4, 5)
    np.testing.assert_array_equal(by_place["sum"].numpy(), by_name["sum"].numpy())
    np.testing.assert_array_equal(by_place["sum"].numpy(), np.full(4, 5.0))


def test_a_call_unpacks_a_list_of_one_output() -> None:
    """As in Keras 3.15, where only the symbolic output stays a list."""
    x = Input((3,))
    model = Model([x], [Dense(2)(x)])

    assert model(ones(4, 3)).shape == (4, 2)
    assert model.predict(np.ones((4, 3)), verbose=0).shape == (4, 2)
    assert model.output_shape == (None, 2)
    (symbolic,) = model([Input((3,))])
    assert symbolic.shape == (None, 2)


def test_values_are_dropped_after_their_last_use() -> None:
    alive: list[weakref.ref[object]] = []
    counts: list[int] = []

    class Watched(Layer):
        def call(self, x):
            alive[:] = [one for one in alive if one() is not None]
            counts.append(len(alive))
            y = x + 1.0
            alive.append(weakref.ref(y.array))
            return y

    x = Input((3,))
    first = Watched()(x)
    y = first
    for _ in range(5):
        y = Watched()(y)
    model = Model(x, [y, first * 2.0, y + first])
    alive.clear(), counts.clear()  # of the calls that found the shapes

    found = model(ones(2, 3))

    assert counts == [0, 1, 2, 2, 2, 2]  # the first value is needed until the end
    np.testing.assert_array_equal(found[2].numpy(), np.full((2, 3), 9.0))


def test_operators_and_slices_of_tensors_without_values() -> None:
    x = Input((4,))
    model = Model(x, (2.0 * x[:, 1:] - x[:, :3]) / 4.0 + (-x[:, :1]) ** 2)
    given = np.arange(8.0, dtype="float32").reshape(2, 4)

    expected = (2 * given[:, 1:] - given[:, :3]) / 4 + given[:, :1] ** 2

    np.testing.assert_allclose(model(given).numpy(), expected)
    assert model.output_shape == (None, 3)


def test_an_input_stays_as_given_where_a_layer_of_the_model_makes_it_too() -> None:
    x = Input((1, 4))
    low, high = Lambda(lambda x: tf.split(x, 2, -1))(x)
    model = Model([x, low], low + 10.0 * high)
    given = np.arange(4.0, dtype="float32").reshape(1, 1, 4)

    y = model([given, np.float32([[[5.0, 6.0]]])])

    np.testing.assert_array_equal(y.numpy(), [[[25.0, 36.0]]])


class Halves(Layer):
    """Two outputs with masks."""

    def call(self, inputs: Any) -> Any:
        return tf.split(inputs, 2, -1)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return [inputs[..., 0] > 0] * 2


def test_an_input_without_mask_gets_none_from_a_layer_that_makes_it_too() -> None:
    seen: list[Any] = []

    class Look(Layer):
        def call(self, inputs: Any, mask: Any = None) -> Any:
            seen.append(mask)
            return inputs

    x = Input((3, 4))
    low, high = Halves()(x)
    model = Model([x, low], Look()([low, high]))
    model([ones(1, 3, 4), ones(1, 3, 2)])

    assert [mask is None for mask in seen[-1]] == [True, False]


def test_a_shared_layer_has_one_set_of_weights() -> None:
    a, b = Input((2,)), Input((2,))
    shared = Dense(3)
    model = Model([a, b], Add()([shared(a), shared(b)]))

    assert len(model.variables) == 2
    assert model([ones(1, 2), ones(1, 2)]).shape == (1, 3)


def test_a_model_is_a_layer_of_another() -> None:
    inner = residual()
    x = Input((4,))
    model = Model(x, Dense(2)(inner(x)))

    assert model(ones(3, 4)).shape == (3, 2)
    assert len(model.variables) == 6


def test_an_inner_model_can_be_called_with_another_training_flag() -> None:
    class Inner(Model):
        def __init__(self) -> None:
            super().__init__()
            self.drop = Dropout(0.5)

        def call(self, inputs: Any) -> Any:
            return self.drop(inputs)

    class Outer(Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs, training=True)

    model = Outer()

    outputs = [model(ones(100), training=False).numpy() for _ in range(2)]

    for output in outputs:
        assert set(output.tolist()) == {0.0, 2.0}


def test_gradients_reach_all_weights() -> None:
    model = residual()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ones(2, 4)))

    assert all(g is not None for g in tape.gradient(loss, model.trainable_variables))


def test_an_output_that_no_input_leads_to_is_refused() -> None:
    x, other = Input((2,)), Input((2,), name="other")
    with pytest.raises(ArgumentError, match=r"name=other.*not among the model's inputs"):
        Model(x, Add()([x, other]))


def test_inputs_of_other_shapes_or_numbers_are_refused() -> None:
    model = residual()
    with pytest.raises(ShapeError, match=r"'x' of shape \(None, 4\). Got \(2, 5\)"):
        model(ones(2, 5))
    with pytest.raises(ArgumentError, match=r"takes 1 inputs.*Got 2"):
        model([ones(2, 4), ones(2, 4)])


def test_a_tensor_without_value_cannot_be_read() -> None:
    x = Input((2,))
    with pytest.raises(ArgumentTypeError, match="Lambda"):
        np.asarray(x)
    with pytest.raises(ArgumentTypeError, match="`call` of a layer"):
        bool(x)


def test_a_subclass_may_be_made_from_inputs_and_outputs() -> None:
    class Fixed(Model):
        def __init__(self) -> None:
            x = Input((3,))
            super().__init__(inputs=x, outputs=Dense(2)(x))

    assert Fixed()(ones(4, 3)).shape == (4, 2)


def test_masks_travel_through_models_beside_the_values() -> None:
    class Seen(Layer):
        def call(self, inputs: Any, mask: Any = None) -> Any:
            return tf.reduce_sum(inputs * tf.cast(mask, "float32")[..., None], axis=1)

        def compute_output_shape(self, input_shape: Any) -> Any:
            return (input_shape[0], input_shape[2])

    tokens = np.array([[1, 2, 0], [3, 0, 0]])
    table = np.arange(8.0).reshape(4, 2)
    stack = Sequential([Embedding(4, 2, mask_zero=True, weights=[table]), Seen()])
    x = Input((3,), dtype="int64")
    embedding = Embedding(4, 2, mask_zero=True, weights=[table])
    functional = Model(x, Seen()(embedding(x)))

    expected = [table[1] + table[2], table[3]]

    np.testing.assert_allclose(stack(tokens).numpy(), expected)
    np.testing.assert_allclose(functional(tokens).numpy(), expected)


def test_layers_of_several_tensors_get_the_mask_of_each() -> None:
    tokens = Input((4,), dtype="int64")
    embedded = Embedding(5, 3, mask_zero=True)(tokens)
    attention = MultiHeadAttention(1, 3)
    model = Model(tokens, attention(embedded, embedded))
    sentence = np.array([[1, 2, 0, 0]])
    table = model.layers[1].embeddings
    before = model(sentence).numpy()[:, :2]

    table.assign(table + np.array([[9.0], [0], [0], [0], [0]], "float32"))  # what is masked

    np.testing.assert_allclose(model(sentence).numpy()[:, :2], before, rtol=1e-6)


def test_a_model_frozen_from_the_start_has_nothing_to_train() -> None:
    model = Sequential([Input((2,)), Dense(1)], trainable=False)

    assert model.trainable_variables == []
    assert len(model.non_trainable_variables) == 2


def test_masked_steps_are_zero_and_known_to_later_layers() -> None:
    layer = Masking(-1.0)
    x = tf.constant([[[-1.0, -1.0], [2.0, -1.0]]])

    np.testing.assert_array_equal(layer(x).numpy(), [[[0.0, 0.0], [2.0, -1.0]]])
    np.testing.assert_array_equal(layer.compute_mask(x, None).numpy(), [[False, True]])


def test_layers_are_found_by_name_and_number() -> None:
    model = Sequential([Dense(1, name="a"), Flatten(name="b")])

    assert model.get_layer("b") is model.layers[1] is model.get_layer(index=-1)
    with pytest.raises(ArgumentError, match=r"no layer 'c'.*Its layers are: a, b"):
        model.get_layer("c")


def test_variables_are_named_by_their_paths() -> None:
    naming.clear_session()
    model = Sequential([Input((2,)), Dense(2), Sequential([Dense(1)], name="head")])

    assert list(model.named_variables()) == [
        "dense/kernel", "dense/bias", "head/dense_1/kernel", "head/dense_1/bias",
    ]  # fmt: skip


def test_a_summary_counts_all_weights(capsys: pytest.CaptureFixture[str]) -> None:
    model = Sequential([Input((3,)), Dense(4, name="one"), Dense(2, trainable=False, name="two")])

    model.summary()

    written = capsys.readouterr().out
    assert re.search(r"one \(Dense\) +\(None, 4\) +16", written)
    assert "Weights: 26 (104 bytes)" in written
    assert "Trainable weights: 16 (64 bytes)" in written


def test_a_training_loop_over_a_stack_learns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
    model = Sequential([Dense(16, activation="tanh"), Dense(1)])
    optimizer = tf.optimizers.Adam(0.05)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    losses = [float(step(tf.constant(x), tf.constant(y))) for _ in range(100)]

    assert losses[-1] < 0.02 * losses[0]


def test_weights_are_saved_and_loaded_by_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "model.weights.safetensors"
    model, other = residual(), residual()
    for layer, twin in zip(model.layers, other.layers):
        twin._name = layer.name
    model.save_weights(path)

    other.load_weights(path)

    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ArgumentError, match="overwrite=False"):
        model.save_weights(path, overwrite=False)


def test_weights_of_another_model_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.weights.safetensors"
    residual().save_weights(path)
    model = Sequential([Input((4,)), Dense(3, name="other")])
    before = model.get_weights()

    with pytest.raises(ArgumentError, match="nothing was loaded"):
        model.load_weights(path)

    np.testing.assert_array_equal(model.get_weights()[0], before[0])


def test_a_model_without_weights_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no weights to save yet"):
        Sequential([Dense(1)]).save_weights(tmp_path / "none.safetensors")


def test_checkpoints_carry_over_between_dtype_policies(tmp_path: Path) -> None:
    def make(policy: str) -> Sequential:
        return Sequential([Input((4,)), Dense(3, dtype=policy, name="only")])

    single, mixed = make("float32"), make("mixed_bfloat16")
    path = tf.train.Checkpoint(model=single).write(str(tmp_path / "ckpt"))

    tf.train.Checkpoint(model=mixed).read(path).assert_consumed()

    np.testing.assert_array_equal(mixed.get_weights()[0], single.get_weights()[0])


def test_gradients_of_single_examples_by_vmap() -> None:
    model = Sequential([Input((3,)), Dense(4, "tanh"), Dense(1)])
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")

    def gradient(example: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(model(example[None]))
        return tape.gradient(y, model.trainable_variables)

    together = tf.vectorized_map(gradient, tf.constant(x))

    for k in range(5):
        alone = gradient(tf.constant(x[k]))
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(other.numpy()[k], one.numpy(), rtol=1e-5, atol=1e-7)


def _fork(x: Any, y: Any) -> Any:
    a, b = Dense(4, name="a")(x), Dense(4, name="b")(y)
    sums = Add(name="sum")([a, Dense(4, name="c")(b)])
    return [Dense(2, name="e")(b), Dense(2, name="d")(sums)]


def _shared(x: Any, y: Any) -> Any:
    one = Dense(3, name="one")
    return Concatenate(name="both")([one(one(x)), Dense(3, name="two")(y)])


# Keras' orders: by the longest way to an output, then by a walk back from the outputs.
ORDERS: dict[str, Any] = {
    "fork": (_fork, ["y", "b", "x", "a", "c", "sum", "e", "d"], "bbaacceedd"),
    "shared": (_shared, ["x", "one", "y", "two", "both"], "oott"),
    "unused": (lambda x, y: Dense(2, name="a")(x), ["x", "y", "a"], "aa"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_layers_and_weights_have_the_order_of_keras(name: str) -> None:
    make, names, owners = ORDERS[name]
    x, y = Input((3,), name="x"), Input((3,), name="y")

    model = Model([x, y], make(x, y))

    assert [layer.name for layer in model.layers] == names
    owner = {v.number: layer.name[0] for layer in model.layers for v in layer.variables}
    assert "".join(owner[v.number] for v in model.weights) == owners
