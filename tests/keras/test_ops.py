"""keras.ops: NumPy functions with Keras dtypes, eagerly and in functional models."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import keras
from tapegrad.errors import ArgumentError
from tapegrad.keras import ops

RNG = np.random.default_rng(5)
A = RNG.uniform(0.5, 2.0, (3, 4)).astype(np.float32)
B = RNG.uniform(0.5, 2.0, (3, 4)).astype(np.float32)
SQUARE = RNG.normal(size=(4, 4)).astype(np.float32)

# What Keras' keywords are called, with what NumPy makes of the same numbers.
CASES = {
    "add": (lambda: ops.add(A, B), A + B),
    "add by name": (lambda: ops.add(x1=A, x2=B), A + B),
    "clip": (lambda: ops.clip(A, x_min=1.0, x_max=1.5), np.clip(A, 1.0, 1.5)),
    "concatenate": (lambda: ops.concatenate([A, B], axis=-1), np.concatenate([A, B], -1)),
    "cumsum": (lambda: ops.cumsum(A, axis=1), np.cumsum(A, 1)),
    "einsum": (lambda: ops.einsum("ij,kj->ik", A, B), A @ B.T),
    "expand_dims": (lambda: ops.expand_dims(A, axis=1), A[:, None]),
    "gammainc": (lambda: ops.gammainc(1.0, A), 1 - np.exp(-A)),
    "logsumexp": (lambda: ops.logsumexp(A, axis=0), np.log(np.exp(A).sum(0))),
    "matmul": (lambda: ops.matmul(A, ops.transpose(B)), A @ B.T),
    "max": (lambda: ops.max(A, axis=1, keepdims=True), A.max(1, keepdims=True)),
    "mean": (lambda: ops.mean(x=A, axis=(0, 1)), A.mean()),
    "norm": (lambda: ops.norm(A, axis=1), np.sqrt((A * A).sum(1))),
    "pad": (lambda: ops.pad(A, [[1, 0], [0, 2]]), np.pad(A, [[1, 0], [0, 2]])),
    "repeat": (lambda: ops.repeat(A, repeats=2, axis=0), np.repeat(A, 2, 0)),
    "reshape": (lambda: ops.reshape(A, newshape=(2, -1)), A.reshape(2, -1)),
    "rsqrt": (lambda: ops.rsqrt(A), A**-0.5),
    "scatter": (lambda: ops.scatter([[2], [0]], values=A[:2], shape=(3, 4)),
                np.stack([A[1], 0 * A[0], A[0]])),
    "scatter_update": (lambda: ops.scatter_update(A, [[1, 2]], [9.0]),
                       np.where(np.arange(12).reshape(3, 4) == 6, 9.0, A)),
    "searchsorted": (lambda: ops.searchsorted(sorted_sequence=[1.0, 2.0, 3.0], values=[2.5]), [2]),
    "slice": (lambda: ops.slice(A, (1, 1), (2, 2)), A[1:3, 1:3]),
    "slice_update": (lambda: ops.slice_update(A, (1, 2), np.full((2, 2), 7.0, np.float32)),
                     np.where((np.arange(12).reshape(3, 4) % 4 > 1)
                              & (np.arange(12).reshape(3, 4) > 3), 7.0, A)),
    "solve": (lambda: ops.solve(SQUARE, ops.transpose(A)), np.linalg.solve(SQUARE, A.T)),
    "stack": (lambda: ops.stack([A, B], axis=1), np.stack([A, B], 1)),
    "std": (lambda: ops.std(A, axis=0), A.std(0)),
    "take": (lambda: ops.take(A, indices=[2, 0], axis=1), A[:, [2, 0]]),
    "tile": (lambda: ops.tile(A, repeats=(2, 1)), np.tile(A, (2, 1))),
    "top_k": (lambda: ops.top_k(A, 2)[0], np.sort(A, -1)[:, ::-1][:, :2]),
    "unstack": (lambda: ops.unstack(A, axis=1)[3], A[:, 3]),
    "where": (lambda: ops.where(A > 1, x1=A, x2=B), np.where(A > 1, A, B)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_functions_give_what_numpy_gives(name):
    call, expected = CASES[name]

    np.testing.assert_allclose(ops.convert_to_numpy(call()), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ops.__all__)
def test_every_name_is_a_function_of_that_name(name):
    function = getattr(ops, name)

    assert callable(function)
    assert function.__name__ == name
    assert function is getattr(ops, name)


def test_parts_of_the_module_hold_the_same_functions():
    assert ops.numpy.sum is ops.sum
    assert ops.nn.relu is ops.relu
    assert ops.linalg.svd is ops.svd
    assert {"numpy", "softmax"} <= set(dir(ops))


def test_unknown_names_get_the_closest_one():
    with pytest.raises(AttributeError, match=r"no 'soft_max'\. Did you mean 'softmax'\?"):
        ops.soft_max  # noqa: B018
    with pytest.raises(AttributeError, match=r"keras\.ops has no 'zzzzzzzz'\.$"):
        ops.zzzzzzzz  # noqa: B018


WIDE = np.array([1.0, 2.0])
NARROW = np.array([1, 2], np.int32)
DTYPES = [
    (lambda: ops.ones((2,)), "float32"),
    (lambda: ops.arange(3), "int32"),
    (lambda: ops.linspace(0, 1, 3), "float32"),
    (lambda: ops.array([1.0, 2.0]), "float32"),
    (lambda: ops.array([1, 2]), "int32"),
    (lambda: ops.sum([1, 2]), "int32"),
    (lambda: ops.mean(NARROW), "float32"),
    (lambda: ops.exp(NARROW), "float32"),
    (lambda: ops.argmax(A, axis=1), "int32"),
    (lambda: ops.add(NARROW, 1.5), "float32"),
    (lambda: ops.add(A[:, 0], [1.0, 2.0, 3.0]), "float32"),
    (lambda: ops.add(A[0, :2], WIDE), "float64"),
    (lambda: ops.concatenate([A[0], WIDE]), "float64"),
    (lambda: ops.mean(WIDE), "float64"),
    (lambda: ops.add(A, np.float64(1)), "float64"),
    (lambda: ops.real(WIDE * 1j), "float64"),
    (lambda: ops.einsum("i->", [1, 2]), "int32"),
    (lambda: ops.sum(np.array([1, 2], np.int64)), "int64"),
    (lambda: ops.zeros((2,), "float64"), "float64"),
    (lambda: ops.full((2,), 1.0, dtype="float64"), "float64"),
    (lambda: ops.cast(A, "float64"), "float64"),
    (lambda: ops.svd(SQUARE)[1], "float32"),
    (lambda: ops.unique([3, 3], return_counts=True)[1], "int32"),
    (lambda: ops.view_as_complex(A[:, :2]), "complex64"),
    (lambda: ops.one_hot([1], 3), "float32"),
]


@pytest.mark.parametrize(("call", "expected"), DTYPES)
def test_64_bits_come_out_only_where_64_bits_went_in(call, expected):
    assert ops.dtype(call()) == expected


def test_results_follow_floatx():
    keras.config.set_dtype_policy("float64")
    try:
        assert ops.dtype(ops.ones((2,))) == "float64"
    finally:
        keras.config.set_dtype_policy("float32")


def test_gradients_go_through_conversions():
    x = tg.constant([1.0, 2.0])
    with tg.GradientTape() as tape:
        tape.watch(x)
        y = ops.sum(ops.multiply(x, [3.0, 4.0]))

    assert tape.gradient(y, x).tolist() == [3.0, 4.0]


class Scaled(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight((shape[-1], 2), name="kernel")

    def call(self, inputs):
        return ops.softmax(ops.matmul(inputs, self.kernel), axis=-1)


def test_layers_written_with_ops_learn():
    model = keras.Sequential([Scaled()])
    model.compile(keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy")
    labels = (A[:, 0] > A[:, 1]).astype(np.int32)

    losses = model.fit(A, labels, epochs=30, verbose=0).history["loss"]

    assert losses[-1] < 0.5 * losses[0]


def functional():
    first, second = keras.Input((4, 3)), keras.Input((4, 3))
    x = ops.reshape(ops.concatenate([first, second], axis=-1), (-1, 24))
    x = ops.relu(keras.layers.Dense(5)(x))
    head, tail = ops.split(x, [2], axis=1)
    total = ops.einsum("bi,bi->b", x, ops.where(x > 0.1, x1=x, x2=0.0))
    return keras.Model([first, second], [ops.mean(tail, axis=-1, keepdims=True), head, total])


def outputs_of(model, data):
    return [part.numpy() for part in model(data)]


def test_functional_models_compute_what_the_same_functions_give():
    model, data = functional(), [RNG.normal(size=(2, 4, 3)).astype(np.float32) for _ in range(2)]
    kernel, bias = model.get_weights()
    x = np.maximum(np.concatenate(data, -1).reshape(2, 24) @ kernel + bias, 0)

    mean, head, total = outputs_of(model, data)

    assert [part.shape for part in model.outputs] == [(None, 1), (None, 2), (None,)]
    np.testing.assert_allclose(mean, x[:, 2:].mean(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(head, x[:, :2], rtol=1e-5)
    np.testing.assert_allclose(total, (x * np.where(x > 0.1, x, 0)).sum(1), rtol=1e-5)


def test_functional_models_with_ops_are_saved_and_cloned(tmp_path):
    model, data = functional(), [RNG.normal(size=(2, 4, 3)).astype(np.float32) for _ in range(2)]
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())

    for other in (keras.models.load_model(tmp_path / "model.keras"), clone):
        for ours, theirs in zip(outputs_of(model, data), outputs_of(other, data), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_shapes_of_tensors_without_values_are_known():
    assert ops.shape(keras.Input((4, 3))) == (None, 4, 3)


def test_tensors_without_values_are_taken_by_name():
    x, weights = keras.Input((5, 2, 4)), keras.Input((5, 2))
    outputs = [
        ops.dot_product_attention(query=x, key=x, value=2 * x),
        ops.average(ops.sum(x, axis=-1), weights=weights, axis=1),
        ops.multiply(x1=x, x2=x),
        ops.binary_crossentropy(output=ops.sigmoid(x), target=ops.relu(x)),
    ]
    model = keras.Model([x, weights], outputs)
    values = RNG.uniform(0.1, 0.9, (3, 5, 2, 4)).astype(np.float32)
    counts = RNG.uniform(0.5, 1.0, (3, 5, 2)).astype(np.float32)

    attended, averaged, squares, losses = outputs_of(model, [values, counts])

    scores = np.einsum("bqhd,bkhd->bhqk", values, values) / 2
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        attended, np.einsum("bhqk,bkhd->bqhd", shares, 2 * values), rtol=1e-5
    )
    np.testing.assert_allclose(
        averaged, np.average(values.sum(-1), weights=counts, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(squares, values**2, rtol=1e-6)
    chances = 1 / (1 + np.exp(-values))
    np.testing.assert_allclose(
        losses, -values * np.log(chances) - (1 - values) * np.log(1 - chances), rtol=1e-5
    )


def test_tensors_without_values_are_refused_where_a_name_has_no_place():
    with pytest.raises(ArgumentError, match=r"rearrange takes symbolic .* Got n by name"):
        ops.rearrange(A, "b (n k) -> b n k", n=keras.Input((4,)))


COUNTS = np.array([[1, 2, 2], [0, 0, 5]])

# Functions whose parameters have other names or another order in NumPy and TensorFlow.
KERAS_PARAMETERS = {
    "bincount": (lambda: ops.bincount(COUNTS), [[0, 1, 2, 0, 0, 0], [2, 0, 0, 0, 0, 1]]),
    "bincount, weights": (lambda: ops.bincount(COUNTS[0], weights=[0.5, 1.0, 2.0]), [0, 0.5, 3]),
    "bitwise_and": (lambda: ops.bitwise_and(x=[6, 3], y=[3, 1]), [2, 1]),
    "convert_to_tensor": (lambda: ops.convert_to_tensor(A, sparse=False, ragged=False), A),
    "convert_to_tensor, ragged": (
        lambda: ops.convert_to_tensor(tg.ragged.constant([[1, 2], [3]]), ragged=False),
        [[1, 2], [3, 0]],
    ),
    "convert_to_tensor, sparse": (
        lambda: ops.convert_to_tensor(tg.sparse.from_dense(COUNTS), sparse=False), COUNTS
    ),
    "einsum": (lambda: ops.einsum("ij->j", A), A.sum(0)),
    "map": (lambda: ops.map(f=lambda x: 2 * x, xs=A), 2 * A),
    "nan_to_num": (lambda: ops.nan_to_num([np.nan, np.inf, 1.0], 2.0, 3.0), [2, 3, 1]),
    "pad": (lambda: ops.pad(A, 1, "constant", 7.0), np.pad(A, 1, constant_values=7.0)),
    "pad, reflect": (lambda: ops.pad(x=A, pad_width=1, mode="reflect"), np.pad(A, 1, "reflect")),
    "rot90": (lambda: ops.rot90(array=A, k=1), np.rot90(A)),
    "scan": (
        lambda: ops.scan(lambda c, x: (c + x, c), init=A[0, 0] * 0, xs=A[0])[1],
        np.cumsum([0, *A[0, :-1]]),
    ),
    "scatter": (lambda: ops.scatter(indices=[[2]], values=[1.0], shape=(3,)), [0, 0, 1]),
    "scatter_update, add": (
        lambda: ops.scatter_update(inputs=[1.0, 2.0], indices=[[0], [0]], updates=[3.0, 4.0],
                                   reduction="add"),
        [8, 2],
    ),
    "scatter_update, max": (lambda: ops.scatter_update([1, 9], [[0], [1]], [3, 4], "max"), [3, 9]),
    "scatter_update, min": (lambda: ops.scatter_update([1, 9], [[0], [1]], [3, 4], "min"), [1, 4]),
    "scatter_update, mul": (lambda: ops.scatter_update([2, 9], [[0], [0]], [3, 4], "mul"), [24, 9]),
    "slice": (lambda: ops.slice(inputs=A, start_indices=(1, 1), shape=(2, 2)), A[1:3, 1:3]),
    "unique": (lambda: ops.unique([3, 1, 3], True, True)[1], [1, 0]),
    "unique, cut": (lambda: ops.unique([3, 1, 2], size=2), [1, 2]),
    "unique, filled": (lambda: ops.unique(x=[3, 1, 3], size=4, fill_value=-1), [1, 3, -1, -1]),
    "unravel_index": (lambda: ops.unravel_index(indices=[5], shape=(3, 4))[1], [1]),
    "vectorized_map": (lambda: ops.vectorized_map(function=lambda x: x + 1, elements=A), A + 1),
    "while_loop": (lambda: ops.while_loop(lambda n: n < 9, lambda n: n + 2, 0), 10),
    "while_loop, limited": (
        lambda: ops.while_loop(lambda n: n < 9, lambda n: (n + 2,), (0,), 3)[0], 6
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERAS_PARAMETERS)
def test_functions_take_the_parameters_of_keras(name):
    call, expected = KERAS_PARAMETERS[name]

    np.testing.assert_allclose(ops.convert_to_numpy(call()), expected, rtol=1e-6)


def test_counts_of_integers_have_32_bits():
    assert ops.dtype(ops.bincount(COUNTS)) == ops.dtype(ops.bincount(COUNTS[0])) == "int32"


@pytest.mark.parametrize("name", ["empty", "eye", "identity", "ones", "tri", "zeros"])
def test_numbers_are_created_in_the_dtype_of_keras(name):
    create, size = getattr(ops, name), 1000 if name in ("eye", "identity", "tri") else (1000, 1000)
    create(size)  # imports what it needs
    tracemalloc.start()
    try:
        x = create(size)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert x.dtype == "float32"
    assert most < 2.5 * 4 * 1000 * 1000  # with one copy, and not in 64 bits first
    assert create(size, dtype="int32").dtype == "int32"
    assert create(size, dtype=None).dtype == "float32"


def test_no_dtype_is_the_dtype_of_keras():
    assert ops.linspace(0.0, 1.0, 3, dtype=None).dtype == "float32"
    assert ops.arange(3, dtype=None).dtype == "int32"
    assert ops.full((2,), 1.5, dtype=None).dtype == "float32"
    assert ops.eye(2, 3, 0, "int32").dtype == "int32"


def test_values_for_a_padding_that_takes_none_are_refused():
    with pytest.raises(ArgumentError, match="constant_values with mode 'constant'"):
        ops.pad(A, 1, "reflect", 1.0)
    with pytest.raises(ArgumentError, match=r"dense counts"):
        ops.bincount(COUNTS, sparse=True)


def test_ops_work_inside_of_functions():
    step = tg.function(lambda x: ops.sum(ops.relu(x) * ops.arange(3)))

    assert float(step(tg.constant([1.0, -1.0, 2.0]))) == 4.0
