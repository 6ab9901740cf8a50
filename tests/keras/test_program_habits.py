"""Habits of Keras programs: masks in subclassed models, files of layers, names of optimizers."""

import gc
from pathlib import Path

import numpy as np

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import layers
from tapegrad.keras.layers.masks import KEPT, mask_of

TOKENS = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])


class Encoder(keras.Model):
    """An embedding with a mask, and a recurrent layer that skips masked steps."""

    def __init__(self, keeps_steps=False):
        super().__init__()
        self.embedding = layers.Embedding(5, 3, mask_zero=True)
        self.lstm = layers.LSTM(2, return_sequences=keeps_steps)
        self.dense = layers.Dense(1)

    def call(self, x):
        return self.dense(self.lstm(self.embedding(x)))


def functional(model):
    tokens = keras.Input((4,), dtype="int32")
    return keras.Model(tokens, model.dense(model.lstm(model.embedding(tokens))))


def test_subclass_skips_masked_steps_like_a_functional_model():
    model = Encoder()
    given = model(TOKENS).numpy()
    np.testing.assert_allclose(given, functional(model)(TOKENS).numpy(), rtol=1e-6)
    np.testing.assert_allclose(given, model.predict(TOKENS, verbose=0), rtol=1e-5)
    # The masked steps change nothing: one row with its first step alone.
    short = model.dense(model.lstm(model.embedding(TOKENS[1:, :1])))
    np.testing.assert_allclose(given[1:], short.numpy(), rtol=1e-6)


def test_loss_of_a_subclass_leaves_out_masked_steps():
    targets = np.ones((2, 4, 1), "float32")
    losses = []
    model = Encoder(keeps_steps=True)
    for one in (model, functional(model)):
        one.compile("sgd", "mse")
        losses.append(one.evaluate(TOKENS, targets, verbose=0))
    errors = ((model(TOKENS).numpy() - targets) ** 2)[..., 0]
    np.testing.assert_allclose(losses, errors[TOKENS != 0].sum() / 3, rtol=1e-5)


def test_attention_and_pooling_use_the_masks_of_their_inputs():
    rows = layers.Embedding(5, 3, mask_zero=True)(tf.constant(TOKENS))
    mask = tf.constant(TOKENS != 0)
    plain = tf.identity(rows)
    assert mask_of(plain) is None
    pooled = layers.GlobalAveragePooling1D()
    np.testing.assert_allclose(pooled(rows), pooled(plain, mask=mask), rtol=1e-6)
    attention = layers.MultiHeadAttention(2, 3)
    found = attention(rows, rows)
    expected = attention(plain, plain, query_mask=mask, value_mask=mask)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_masks_end_with_their_tensors():
    gc.collect()
    before = len(KEPT)
    rows = layers.Embedding(5, 3, mask_zero=True)(tf.constant(TOKENS))
    assert rows._keras_mask.numpy().tolist() == (TOKENS != 0).tolist()
    np.testing.assert_array_equal(layers.Dense(2)(rows)._keras_mask, TOKENS != 0)
    assert len(KEPT) > before
    del rows
    gc.collect()
    assert len(KEPT) == before


def test_own_layer_computes_a_mask_from_its_inputs_alone():
    class Tokens(layers.Layer):
        def __init__(self):
            super().__init__()
            self.embedding = layers.Embedding(5, 3, mask_zero=True)

        def call(self, x):
            return self.embedding(x)

        def compute_mask(self, x, mask=None):
            return self.embedding.compute_mask(x)

    assert Tokens()(TOKENS)._keras_mask.numpy().tolist() == (TOKENS != 0).tolist()


def test_symbolic_outputs_know_whether_they_have_a_mask():
    class NeedsMask(layers.Layer):
        def call(self, inputs, mask=None):
            return inputs * tf.cast(mask, "float32")[..., None]

    tokens = keras.Input((None,), dtype="int32")
    rows = layers.Embedding(5, 3, mask_zero=True)(tokens)
    assert tokens._keras_mask is None
    assert (rows._keras_mask.shape, rows._keras_mask.dtype) == ((None, None), "bool")
    assert layers.LSTM(2)(rows)._keras_mask is None
    model = keras.Model(tokens, NeedsMask()(rows))
    assert not model(TOKENS).numpy()[TOKENS == 0].any()


def test_result_of_a_metric_may_be_the_value_of_a_variable():
    class Count(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="count")
            self.total = self.add_variable((), "zeros", name="total")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(2.0)

        def result(self):
            return self.total.value

    metric = Count()
    metric.update_state(1, 1)
    assert float(metric.result()) == 2.0


def test_optimizers_of_tensorflow_have_the_names_of_keras():
    schedule = tf.optimizers.schedules.PiecewiseConstantDecay([2], [0.5, 0.25])
    assert float(schedule(3)) == 0.25
    assert tf.optimizers.Nadam is keras.optimizers.Nadam


class WithStart(layers.Layer):
    """A layer whose `build` takes an initializer besides the shape."""

    def build(self, input_shape, start):
        self.start = start
        self.seen = input_shape
        self.scale = self.add_weight(shape=(input_shape[-1],), initializer=start)

    def call(self, inputs):
        return inputs * self.scale

    def get_build_config(self):
        return {"input_shape": self.seen, "start": self.start}

    def build_from_config(self, config):
        self.build(config["input_shape"], config["start"])


def test_files_hold_the_arguments_of_build(tmp_path):
    layer = WithStart()
    layer.build((3,), "ones")
    model = keras.Sequential([layer, layers.Dense(2)])
    x = np.ones((2, 3), "float32")
    expected = model(x).numpy()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"WithStart": WithStart}
    )
    assert loaded.layers[0].start == "ones"
    np.testing.assert_array_equal(loaded(x).numpy(), expected)


class WithText(layers.Dense):
    """A layer that keeps a text in a file beside the weights."""

    text = ""

    def save_assets(self, folder):
        (Path(folder) / "text.txt").write_text(self.text, encoding="utf-8")

    def load_assets(self, folder):
        self.text = (Path(folder) / "text.txt").read_text(encoding="utf-8")


def test_files_hold_what_layers_write_beside_their_weights(tmp_path):
    model = keras.Sequential([keras.Input((3,)), WithText(2, name="a"), WithText(2, name="b")])
    model.layers[0].text, model.layers[1].text = "one", "two"
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"WithText": WithText}
    )
    assert [layer.text for layer in loaded.layers] == ["one", "two"]


def test_a_function_for_one_example_at_a_time_is_part_of_a_model():
    def best(inputs):
        boxes, scores = inputs
        kept = tf.image.non_max_suppression(
            tf.squeeze(boxes, 0), tf.reduce_max(tf.squeeze(scores, 0), 1), 2
        )
        return tf.expand_dims(tf.gather(boxes[0], kept), 0)

    boxes, scores = keras.Input((None, 4)), keras.Input((None, 3))
    model = keras.Model([boxes, scores], layers.Lambda(best)([boxes, scores]))

    corners = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], "float32")
    found = model([corners, np.array([[[0.1] * 3, [0.9] * 3, [0.5] * 3]], "float32")])
    np.testing.assert_array_equal(found, corners[:, [1, 2]])
    assert (model.output_shape[0], model.output_shape[-1]) == (None, 4)
