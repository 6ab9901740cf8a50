"""Discretization, Hashing, HashedCrossing and IntegerLookup."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, DTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.fingerprints import farm_hash, sip_hash
from tapegrad.keras.layers import Discretization, HashedCrossing, Hashing, IntegerLookup

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3)).astype("float32")

# Discretization


def test_values_get_the_number_of_their_interval():
    ends = [-0.5, 0.0, 0.75]
    layer = Discretization(ends)

    y = layer(X)

    np.testing.assert_array_equal(y.numpy(), np.digitize(X, ends))
    assert (y.dtype.name, layer.compute_output_shape((None, 3))) == ("int64", (None, 3))
    assert layer(tf.constant([-1, 0, 1])).tolist() == [0, 2, 3]
    np.testing.assert_array_equal(tf.function(layer)(tf.constant(X)).numpy(), y.numpy())


def test_forms_of_the_output():
    numbers = np.digitize(X, [0.0, 1.0])
    rows = np.eye(3)[numbers]
    forms = {"one_hot": rows, "multi_hot": rows.max(axis=1), "count": rows.sum(axis=1)}

    for mode, wanted in forms.items():
        layer = Discretization([0.0, 1.0], output_mode=mode)
        np.testing.assert_array_equal(layer(X).numpy(), wanted)
        assert layer.compute_output_shape(X.shape) == wanted.shape


def test_boundaries_are_quantiles_of_the_data():
    layer = Discretization(num_bins=4)
    data = RNG.normal(size=1000)
    layer.adapt(tf.data.Dataset.from_tensor_slices(data).batch(100))

    counts = np.bincount(layer(data).numpy())

    assert counts.tolist() == [250] * 4
    np.testing.assert_allclose(layer.bin_boundaries, np.quantile(data, [0.25, 0.5, 0.75]))
    again = Discretization.from_config(layer.get_config())
    np.testing.assert_array_equal(again(data).numpy(), layer(data).numpy())


def test_wrong_boundaries_are_refused():
    with pytest.raises(ArgumentError, match="either bin_boundaries or num_bins"):
        Discretization()
    with pytest.raises(ArgumentError, match="ascending numbers"):
        Discretization([1.0, 0.0])
    with pytest.raises(ArgumentError, match=r"Call adapt\(data\) first"):
        Discretization(num_bins=3)(X)
    with pytest.raises(ArgumentError, match="created with bin_boundaries"):
        Discretization([0.0]).adapt(X)
    with pytest.raises(ArgumentError, match="finite values only"):
        Discretization(num_bins=3).adapt(np.array([np.nan]))
    with pytest.raises(ArgumentError, match="output_mode must be"):
        Discretization([0.0], output_mode="binaries")
    with pytest.raises(ArgumentError, match="returns dense tensors"):
        Discretization([0.0], sparse=True)


# Hashing


def test_hashes_of_all_lengths_are_those_of_farmhash():
    # Values of Fingerprint64 that other implementations publish.
    assert hex(int(farm_hash([b""])[0])) == "0x9ae16a3b2f90404f"
    texts = [str(10**k).encode() for k in range(19)]
    one_by_one = [int(farm_hash([text])[0]) for text in texts]
    assert farm_hash(texts).tolist() == one_by_one
    assert len(set(one_by_one)) == len(texts)


def test_salted_hashes_are_those_of_siphash():
    # The example in the appendix of the paper on SipHash.
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)

    assert hex(int(sip_hash([bytes(range(15))], key)[0])) == "0xa129ca6149be45e5"


def test_integers_are_hashed_by_their_digits():
    x = np.array([[1, -20], [345678901234567, 1]])

    y = Hashing(7)(tf.constant(x)).numpy()

    wanted = farm_hash([str(n).encode() for n in x.ravel()]) % np.uint64(7)
    assert y.ravel().tolist() == wanted.tolist()
    salted = Hashing(7, salt=133)(tf.constant(x)).numpy()
    wanted = sip_hash([str(n).encode() for n in x.ravel()], (133, 133)) % np.uint64(7)
    assert salted.ravel().tolist() == wanted.tolist()


def test_a_masked_value_has_a_bin_of_its_own():
    x = np.arange(50)

    y = Hashing(4, mask_value=7)(tf.constant(x)).numpy()

    assert (y == 0).tolist() == (x == 7).tolist()
    assert set(y.tolist()) == {0, 1, 2, 3}
    rows = Hashing(4, output_mode="one_hot")(tf.constant([[1], [2]]))
    assert (rows.shape, rows.numpy().sum(axis=1).tolist()) == ((2, 4), [1.0, 1.0])


def test_crossed_features_depend_on_the_pair_and_its_order():
    first, second = tf.constant([1, 1, 2, 2]), tf.constant([3, 4, 3, 3])
    layer = HashedCrossing(1000)

    y = layer((first, second)).tolist()

    assert y[2] == y[3]
    assert len({*y, layer((second, first)).tolist()[0]}) == 4
    columns = layer((tf.reshape(first, (4, 1)), tf.reshape(second, (4, 1))))
    assert columns.tolist() == [[n] for n in y]
    assert HashedCrossing(5, output_mode="one_hot")((first, second)).shape == (4, 5)


def test_wrong_features_are_refused():
    with pytest.raises(DTypeError, match="takes integers or text. Got float32".replace(".", r"\.")):
        Hashing(3)(X)
    with pytest.raises(ArgumentError, match="salt must be an integer, or two"):
        Hashing(3, salt="s")
    with pytest.raises(ArgumentError, match="num_bins as an integer of 1 or more"):
        Hashing(0)
    with pytest.raises(ShapeError, match="features of one shape"):
        HashedCrossing(3)((tf.constant([1]), tf.constant([1, 2])))
    with pytest.raises(ArgumentError, match="output_mode must be"):
        HashedCrossing(3, output_mode="count")


# IntegerLookup


def test_positions_in_a_given_vocabulary():
    layer = IntegerLookup(vocabulary=[12, 36, 1138, 42], mask_token=0)
    x = tf.constant([[12, 0, 42], [42, 1000, 36]])

    assert layer(x).tolist() == [[2, 0, 5], [5, 1, 3]]
    assert tf.function(layer)(x).tolist() == layer(x).tolist()
    assert layer.get_vocabulary() == [0, -1, 12, 36, 1138, 42]
    assert layer.vocabulary_size() == 6
    back = IntegerLookup(vocabulary=layer.get_vocabulary(), mask_token=0, invert=True)
    assert back(layer(x)).tolist() == [[12, 0, 42], [42, -1, 36]]
    assert back(tf.constant([99, -5])).tolist() == [-1, -1]


def test_a_vocabulary_by_frequency():
    layer = IntegerLookup()
    layer.adapt([[12, 1138, 42], [42, 1000, 36]])

    assert layer.get_vocabulary() == [-1, 42, 1138, 1000, 36, 12]
    short = IntegerLookup(max_tokens=3)
    short.adapt(tf.data.Dataset.from_tensor_slices([5, 6, 6, 7, 7, 7]).batch(4))
    assert short.get_vocabulary(include_special_tokens=False) == [7, 6]
    again = IntegerLookup.from_config(layer.get_config())
    assert again(tf.constant([1000, 3])).tolist() == [3, 0]


def test_several_positions_for_unknown_integers_or_none():
    several = IntegerLookup(vocabulary=[10, 20], num_oov_indices=3)
    assert several(tf.constant([10, 4, 5, 20])).tolist() == [3, 1, 2, 4]

    none = IntegerLookup(vocabulary=[10, 20], num_oov_indices=0)
    assert none(tf.constant([20, 10])).tolist() == [1, 0]
    with pytest.raises(IndexOutOfRangeError, match="num_oov_indices=0, and 7 is not in its"):
        none(tf.constant([20, 7]))
    encoder = keras.Sequential([none, keras.layers.Embedding(2, 3)])
    assert encoder(keras.Input((), dtype="int64")).shape == (None, 3)


def test_forms_of_positions():
    x = tf.constant([[10, 20, 20], [10, 5, 10]])
    rows = np.eye(3)[[[1, 2, 2], [1, 0, 1]]]

    for mode, wanted in {"multi_hot": rows.max(1), "count": rows.sum(1)}.items():
        layer = IntegerLookup(vocabulary=[10, 20], output_mode=mode)
        np.testing.assert_array_equal(layer(x).numpy(), wanted)
    padded = IntegerLookup(
        max_tokens=6, vocabulary=[10, 20], output_mode="count", pad_to_max_tokens=True
    )
    assert padded(x).shape == (2, 6)


def test_a_model_with_a_lookup_learns_and_is_loaded_again(tmp_path):
    x, y = np.array([[100], [200], [300]] * 20), np.array([1.0, 2.0, 3.0] * 20)
    inputs = keras.Input((1,), dtype="int64")
    numbers = IntegerLookup(vocabulary=[100, 200, 300])(inputs)
    outputs = keras.layers.Flatten()(keras.layers.Embedding(4, 1)(numbers))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(x, y, epochs=60, verbose=0)
    model.save(tmp_path / "model.keras")

    loaded = keras.models.load_model(tmp_path / "model.keras")

    np.testing.assert_allclose(loaded(x[:3]).numpy().ravel(), [1, 2, 3], atol=0.2)


def test_wrong_vocabularies_are_refused():
    with pytest.raises(ArgumentError, match="5 is there twice"):
        IntegerLookup(vocabulary=[5, 5])
    with pytest.raises(ArgumentError, match="-1 is a special token"):
        IntegerLookup(vocabulary=[5, -1])
    with pytest.raises(ArgumentError, match="more than max_tokens=2"):
        IntegerLookup(max_tokens=2, vocabulary=[5, 6])
    with pytest.raises(ArgumentError, match="vocabulary must be a list of integers"):
        IntegerLookup(vocabulary=["a"])
    with pytest.raises(ArgumentError, match="has no vocabulary yet"):
        IntegerLookup()(tf.constant([1]))
    with pytest.raises(ArgumentError, match="output_mode='int' and num_oov_indices=1"):
        IntegerLookup(invert=True, num_oov_indices=2)
    with pytest.raises(DTypeError, match="takes integers"):
        IntegerLookup(vocabulary=[5])(X)
