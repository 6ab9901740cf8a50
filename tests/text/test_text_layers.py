"""Text layers; the values are those of Keras' documentation or follow from its definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, IndexOutOfRangeError, ShapeError
from tapegrad.keras import layers

VOCABULARY = ["a", "b", "c", "d"]
DATA = [["a", "c", "d"], ["d", "z", "b"]]
EARTH = ["earth", "wind", "and", "fire"]


def test_lookup_gives_positions_and_texts_again():
    layer = layers.StringLookup(vocabulary=VOCABULARY)
    back = layers.StringLookup(vocabulary=VOCABULARY, invert=True)

    found = layer(DATA)
    assert found.tolist() == [[1, 3, 4], [4, 0, 2]]
    assert found.dtype == tf.int64
    assert back(found).tolist() == [[b"a", b"c", b"d"], [b"d", b"[UNK]", b"b"]]
    assert layer.get_vocabulary() == ["[UNK]", *VOCABULARY]
    assert layer.vocabulary_size() == 5


def test_lookup_counts_texts_in_the_other_modes():
    def made(mode, **more):
        return layers.StringLookup(vocabulary=VOCABULARY, output_mode=mode, **more)

    rows = [["a", "c", "d", "d"], ["d", "z", "b", "z"]]
    one_hot = made("one_hot")(["a", "b", "c", "d", "z"])
    assert one_hot.tolist() == np.eye(5)[[1, 2, 3, 4, 0]].tolist()
    assert made("multi_hot")(rows).tolist() == [[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]]
    assert made("count")(rows).tolist() == [[0, 1, 0, 1, 2], [2, 0, 1, 0, 1]]
    weights = [0.25, 0.75, 0.6, 0.4]
    weighted = made("tf_idf", idf_weights=weights)(rows)
    mean = np.mean(weights)
    wanted = [[0, 0.25, 0, 0.6, 0.8], [2 * mean, 0, 0.75, 0, 0.4]]
    np.testing.assert_allclose(weighted.numpy(), wanted, rtol=1e-6)
    padded = made("count", max_tokens=7, pad_to_max_tokens=True)
    assert padded(rows).shape == (2, 7)


def test_masks_and_unknown_texts():
    masked = layers.StringLookup(vocabulary=VOCABULARY, mask_token="")
    assert masked(["", "a", "z"]).tolist() == [0, 2, 1]
    dropped = layers.StringLookup(vocabulary=["a"], mask_token="", output_mode="count")
    assert dropped([["", "a", "z"]]).tolist() == [[1.0, 1.0]]
    several = layers.StringLookup(vocabulary=VOCABULARY, num_oov_indices=2)
    found = several(["a", "m", "n"]).tolist()
    hashes = tf.strings.to_hash_bucket_fast(["m", "n"], 2).tolist()
    assert found == [2, *hashes]
    none = layers.StringLookup(vocabulary=VOCABULARY, num_oov_indices=0)
    encoder = keras.Sequential([none, layers.Embedding(len(VOCABULARY) + 1, 3)])
    assert encoder(keras.Input((), dtype="string")).shape == (None, 3)
    assert none(["a"]).tolist() == [0]
    with pytest.raises(IndexOutOfRangeError, match="b'z' is not in its vocabulary"):
        none(["z"])


def test_adapt_orders_by_frequency_and_then_backwards():
    layer = layers.StringLookup(max_tokens=4)
    layer.adapt(["b", "a", "b", "c", "d", "[UNK]"])
    assert layer.get_vocabulary() == ["[UNK]", "b", "d", "c"]
    layer.adapt(tf.data.Dataset.from_tensor_slices(["x", "x", "y"]).batch(2))
    assert layer.get_vocabulary() == ["[UNK]", "x", "y"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"vocabulary": ["a", "a"]}, "there twice"),
        ({"vocabulary": ["a", ""], "mask_token": ""}, "a special token"),
        ({"vocabulary": VOCABULARY, "max_tokens": 3}, "more than max_tokens"),
        ({"vocabulary": VOCABULARY, "output_mode": "tf_idf"}, "idf_weights"),
        ({"vocabulary": ["a"], "idf_weights": [1.0]}, "idf_weights"),
        ({"pad_to_max_tokens": True}, "needs max_tokens"),
        ({"invert": True, "output_mode": "count"}, "needs output_mode='int'"),
        ({"num_oov_indices": -1}, "at least 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, why):
    with pytest.raises(ArgumentError, match=why):
        layers.StringLookup(**arguments)


def test_a_vocabulary_is_read_from_a_file(tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(VOCABULARY))

    layer = layers.StringLookup(vocabulary=str(tmp_path / "words.txt"))
    assert layer.get_vocabulary(include_special_tokens=False) == VOCABULARY


# TextVectorization


def test_words_are_numbered_and_padded():
    layer = layers.TextVectorization(vocabulary=EARTH, output_sequence_length=4)

    assert layer.get_vocabulary() == ["", "[UNK]", *EARTH]
    assert layer(["Earth, wind", "and fire! and water"]).tolist() == [[2, 3, 0, 0], [4, 5, 4, 1]]
    assert layer([["fire"]]).tolist() == [[5, 0, 0, 0]]
    assert layer("wind").tolist() == [3, 0, 0, 0]
    assert layers.TextVectorization(vocabulary=EARTH)(["fire and", "x"]).tolist() == [
        [5, 4],
        [1, 0],
    ]
    ragged = layers.TextVectorization(vocabulary=EARTH, ragged=True)
    assert ragged(["fire and", "x"]).to_list() == [[5, 4], [1]]


def test_standards_and_splits():
    def made(**more):
        layer = layers.TextVectorization(**more)
        layer.adapt(["B-b, A"])
        return layer.get_vocabulary(include_special_tokens=False)

    assert made() == ["bb", "a"]
    assert made(standardize="lower") == ["b-b,", "a"]
    assert made(standardize="strip_punctuation") == ["Bb", "A"]
    assert made(standardize=None) == ["B-b,", "A"]
    assert made(split="character", standardize="strip_punctuation") == ["b", "B", "A", " "]
    assert made(split=lambda x: tf.strings.split(x, "-"), standardize=None) == ["b, A", "B"]
    assert made(standardize=lambda x: tf.strings.regex_replace(x, "b", "c")) == ["B-c,", "A"]
    assert made(split=None, standardize="lower") == ["b-b, a"]


def test_ngrams_follow_single_words():
    layer = layers.TextVectorization(ngrams=2)
    layer.adapt(["a b c"])

    assert layer.get_vocabulary(False) == ["c", "b c", "b", "a b", "a"]
    pairs = layers.TextVectorization(ngrams=(2,))
    pairs.adapt(["a b c"])
    assert pairs.get_vocabulary(False) == ["b c", "a b"]


def test_weights_of_words_follow_from_documents():
    layer = layers.TextVectorization(output_mode="tf_idf")
    layer.adapt(["a b", "b b", "c"])

    # The weight of a word in d of n documents is log(1 + n / (1 + d)).
    weight = {"b": math.log(1 + 3 / 3), "c": math.log(1 + 3 / 2), "a": math.log(1 + 3 / 2)}
    assert layer.get_vocabulary() == ["[UNK]", "b", "c", "a"]
    wanted = [[np.mean(list(weight.values())), 2 * weight["b"], 0.0, weight["a"]]]
    np.testing.assert_allclose(layer(["b a b z"]).numpy(), wanted, rtol=1e-6)


def test_wrong_inputs_of_text_vectorization():
    layer = layers.TextVectorization()
    with pytest.raises(ArgumentError, match="has no vocabulary yet"):
        layer(["a"])
    layer.adapt(["a"])
    with pytest.raises(ShapeError, match=r"texts of shape \(batch,\)"):
        layer([["a", "b"]])
    with pytest.raises(ArgumentError, match="standardize"):
        layers.TextVectorization(standardize="upper")
    with pytest.raises(ArgumentError, match="need output_mode='int'"):
        layers.TextVectorization(output_mode="count", output_sequence_length=3)


# Hashes: the values of Keras' documentation


def test_hashes_of_texts():
    letters = [["A"], ["B"], ["C"], ["D"], ["E"]]

    assert layers.Hashing(3)(letters).tolist() == [[1], [0], [1], [1], [2]]
    masked = layers.Hashing(3, mask_value="")
    assert masked([["A"], ["B"], [""], ["C"], ["D"]]).tolist() == [[1], [1], [0], [2], [2]]
    assert layers.Hashing(3, salt=[133, 137])(letters).tolist() == [[1], [2], [1], [0], [2]]
    crossed = layers.HashedCrossing(5)
    numbers = [101, 101, 101, 102, 102]
    assert crossed((["A", "B", "A", "B", "A"], numbers)).tolist() == [1, 4, 1, 1, 3]


# Models

TEXTS = np.array(["earth wind", "fire", "and fire", "wind"] * 4)
TARGETS = np.random.default_rng(0).normal(size=(16, 1)).astype("float32")


def vectorizer():
    return layers.TextVectorization(vocabulary=EARTH, output_sequence_length=3)


def tail():
    return [
        layers.Embedding(6, 4, mask_zero=True),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1),
    ]


def stack():
    return keras.Sequential([vectorizer(), *tail()])


def graph():
    x = keras.Input((1,), dtype="string")
    y = vectorizer()(x)
    for layer in tail():
        y = layer(y)
    return keras.Model(x, y)


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.rest = vectorizer(), keras.Sequential(tail())

    def call(self, x):
        return self.rest(self.first(x))


@pytest.mark.parametrize("make", [stack, graph, Own])
def test_models_train_on_text_as_on_its_numbers(make):
    keras.utils.set_random_seed(1)
    model, plain = make(), keras.Sequential(tail())
    numbers = vectorizer()(TEXTS)
    model(tf.constant(TEXTS)), plain(numbers)
    plain.set_weights(model.get_weights())
    for one in (model, plain):
        one.compile("sgd", "mse")

    found = model.fit(TEXTS, TARGETS, batch_size=4, epochs=2, shuffle=False, verbose=0)
    wanted = plain.fit(numbers, TARGETS, batch_size=4, epochs=2, shuffle=False, verbose=0)

    np.testing.assert_allclose(found.history["loss"], wanted.history["loss"], rtol=1e-5)
    # Terms of size 0.1 cancel in some predictions; their rounding is 1e-8.
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), plain.predict(numbers, verbose=0), rtol=1e-5, atol=5e-8
    )
    data = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(4)
    assert model.evaluate(data, verbose=0) == pytest.approx(
        plain.evaluate(numbers, TARGETS, batch_size=4, verbose=0), rel=1e-5
    )


@pytest.mark.parametrize("make", [stack, graph])
def test_the_step_after_the_text_layers_is_compiled(make):
    model = make()
    model.compile("sgd", "mse")
    model.fit(TEXTS, TARGETS, batch_size=4, verbose=0)

    explanation = model._functions["train_step", 2, False, None].explain()
    assert len(explanation.recordings) == 1
    assert not explanation.eager_calls


@pytest.mark.parametrize("make", [stack, graph])
def test_models_with_text_layers_are_saved(make, tmp_path):
    model = make()
    wanted = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "model.keras")

    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.predict(TEXTS, verbose=0).tolist() == wanted.tolist()


def test_adapted_layers_are_saved_with_their_words_and_weights(tmp_path):
    layer = layers.TextVectorization(output_mode="tf_idf")
    layer.adapt(["a b", "b"])
    again = layers.TextVectorization.from_config(layer.get_config())

    assert again.get_vocabulary() == layer.get_vocabulary()
    np.testing.assert_allclose(again(["a b z"]).numpy(), layer(["a b z"]).numpy(), rtol=1e-6)


def test_text_stands_beside_numbers_in_a_model():
    inputs = {"t": keras.Input((1,), dtype="string", name="t"), "n": keras.Input((2,), name="n")}
    words = layers.StringLookup(vocabulary=EARTH, output_mode="one_hot")(inputs["t"])
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()([words, inputs["n"]])))
    model.compile("sgd", "mse")
    given = {"t": np.array(["fire", "x"] * 8), "n": np.ones((16, 2), "float32")}

    model.fit(given, TARGETS, verbose=0)

    kernel, bias = model.get_weights()
    rows = np.array([[0, 0, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 1, 1]] * 8)
    np.testing.assert_allclose(model.predict(given, verbose=0), rows @ kernel + bias, rtol=1e-5)
    assert not model._functions["train_step", 2, False, None].explain().eager_calls


def test_layers_that_are_trained_on_text_still_learn():
    inner = stack()  # holds an embedding behind the text layer
    x = keras.Input((1,), dtype="string")
    model = keras.Model(x, layers.Dense(1)(inner(x)))
    model.compile("sgd", "mse")
    before = inner.get_weights()

    model.fit(TEXTS, TARGETS, verbose=0)
    assert any((a != b).any() for a, b in zip(before, inner.get_weights()))


def test_ragged_text_is_looked_up():
    rows = tf.ragged.constant([["b", "a"], ["b"], []])
    layer = layers.StringLookup(output_mode="multi_hot")
    numbers = layers.StringLookup(vocabulary=["a", "b"])

    layer.adapt(rows)

    assert layer.get_vocabulary() == ["[UNK]", "b", "a"]
    assert layer(rows).tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0]]
    assert numbers(rows).to_list() == [[2, 1], [2], []]


def test_text_gets_an_axis_in_a_functional_model():
    inputs = keras.Input((), dtype="string")
    found = layers.StringLookup(vocabulary=VOCABULARY)(keras.ops.expand_dims(inputs, -1))
    model = keras.Model(inputs, found)

    assert model(tf.constant(["a", "c"])).tolist() == [[1], [3]]
