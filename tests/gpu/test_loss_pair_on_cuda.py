"""Losses with gradients on the GPU, against formulas in float64 and the separate kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tapegrad.ops.nn import cross_entropy

cupy = pytest.importorskip("cupy")
rows = pytest.importorskip("tapegrad_cupy.kernels.rows.rows")
losses_with_gradients = pytest.importorskip("tapegrad_cupy.kernels.rows.losses_with_gradients")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PRIMITIVES = (  # declared here, run by the backend's kernels
    cross_entropy.sparse_cross_entropy_and_gradient_p,
    cross_entropy.cross_entropy_and_gradient_p,
)
SPARSE, DENSE = (rows.KERNELS[primitive.name] for primitive in PRIMITIVES)
DTYPES = [np.dtype(ml_dtypes.bfloat16), *map(np.dtype, ("float16", "float32", "float64"))]
ALL = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
# Tolerances relative to the largest element, for roundings of results and of float32 sums.
TOLERANCES = {"bfloat16": 1.5e-2, "float16": 2e-3, "float32": 4e-6, "float64": 1e-12}
# Lengths for a warp, a block in registers, part and all of the shared memory of a multiprocessor,
# and none of it; with rows that are aligned to 16 bytes, and rows that are not.
LENGTHS = [1, 7, 10, 1000, 4101, 8192, 16391, 20000, 50257, 50304, 100001, 120000]


def draw(*shape: int, seed: int = 0, scale: float = 2.0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape) * scale


def place(values: Any, dtype: Any) -> tuple[Any, Any]:
    """Return values on the device, and as float64 what was left of them after rounding."""
    rounded = np.asarray(values).astype(dtype)
    return cupy.asarray(rounded), rounded.astype("float64")


def one_hot(labels: Any, length: int) -> Any:
    return (np.asarray(labels)[..., None] == np.arange(length)).astype("float64")


def formula(x: Any, labels: Any, t: Any) -> tuple[Any, Any]:
    """The loss and its gradient from weights of classes, in float64."""
    top = x.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(x - top).sum(axis=-1, keepdims=True)) + top
    loss = (labels * (log_total - x)).sum(axis=-1)
    weights = np.exp(x - log_total) * labels.sum(axis=-1, keepdims=True)
    return loss, t[..., None] * (weights - labels)


def check(results: Any, references: Any, dtype: Any) -> None:
    for result, reference in zip(results, references, strict=True):
        assert result.dtype == dtype
        host = cupy.asnumpy(result).astype("float64")
        assert host.shape == reference.shape
        finite = np.abs(reference[np.isfinite(reference)])
        size = max(1e-30, finite.max() if finite.size else 0.0)
        np.testing.assert_allclose(
            host / size, reference / size, rtol=0, atol=TOLERANCES[np.dtype(dtype).name]
        )


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_sparse_losses_and_gradients_are_those_of_the_formula(length: int, dtype: Any) -> None:
    x, t = place(draw(5, length), dtype), place(draw(5, seed=1), dtype)
    labels = np.array([0, length - 1, length // 2, length // 3, 0])

    result = SPARSE(x[0], cupy.asarray(labels), t[0])

    check(result, formula(x[1], one_hot(labels, length), t[1]), dtype)


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_dense_losses_and_gradients_are_those_of_the_formula(length: int, dtype: Any) -> None:
    x, t = place(draw(5, length), dtype), place(draw(5, seed=1), dtype)
    weights = np.abs(draw(5, length, seed=2)) / length
    weights[:, 1::3] = 0
    labels = place(weights, dtype)

    result = DENSE(x[0], labels[0], t[0])

    check(result, formula(x[1], labels[1], t[1]), dtype)


@ALL
@pytest.mark.parametrize("length", [10, 1000, 33001, 50304])
def test_together_is_as_one_after_the_other(length: int, dtype: Any) -> None:
    x, t = place(draw(3, length), dtype)[0], place(draw(3, seed=1), dtype)[0]
    numbers = cupy.asarray(np.array([length - 1, 0, length // 2]))
    weights = place(np.abs(draw(3, length, seed=2)) / length, dtype)[0]

    sparse, dense = SPARSE(x, numbers, t), DENSE(x, weights, t)

    loss, softmax = rows.sparse_cross_entropy(x, numbers)
    gradient = rows.sparse_cross_entropy_gradient(t, softmax, numbers)
    check(sparse, [cupy.asnumpy(y).astype("float64") for y in (loss, gradient)], dtype)
    loss, log_total = rows.cross_entropy(x, weights)
    gradient = rows.cross_entropy_gradient(t, x, weights, log_total)
    check(dense, [cupy.asnumpy(y).astype("float64") for y in (loss, gradient)], dtype)


@ALL
@pytest.mark.parametrize("length", [9, 3000, 30000, 50304, 120000])
def test_a_label_out_of_range_makes_its_row_nan(length: int, dtype: Any) -> None:
    labels = cupy.asarray(np.array([-1, 3, length, -(2**40)], "int64"))
    x, t = place(draw(4, length), dtype)[0], place(draw(4, seed=1), dtype)[0]

    loss, g = (cupy.asnumpy(y).astype("float64") for y in SPARSE(x, labels, t))

    assert np.isnan(loss).tolist() == [True, False, True, True]
    assert np.isnan(g).all(axis=1).tolist() == [True, False, True, True]
    assert not np.isnan(g[1]).any()


@pytest.mark.parametrize("length", [6, 2000, 20000, 50304, 120000])
def test_masked_rows_infinities_and_nan_are_those_of_the_separate_kernels(length: int) -> None:
    x = draw(7, length).astype("float32")
    x[0] = -np.inf
    x[1, length // 2 :] = -np.inf
    x[2, 1] = np.nan
    x[3, 2] = np.inf
    x[4, : length // 2] = -np.inf
    x[4, -1] = 300.0
    x[5] = -1e30
    x[6, 0] = -np.inf
    logits, t = cupy.asarray(x), cupy.asarray(draw(7, seed=1).astype("float32"))
    labels = cupy.asarray(np.array([1, 0, 0, 0, length - 1, 2, 0]))

    loss, g = (cupy.asnumpy(y) for y in SPARSE(logits, labels, t))

    separate, softmax = rows.sparse_cross_entropy(logits, labels)
    gradient = rows.sparse_cross_entropy_gradient(t, softmax, labels)
    np.testing.assert_allclose(loss, cupy.asnumpy(separate), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(g, cupy.asnumpy(gradient), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("length", [8, 4096, 20000, 50304])
def test_arrays_that_start_off_a_boundary(length: int) -> None:
    x = cupy.asarray(draw(3 * length + 1).astype("float32"))[1:].reshape(3, length)
    t, labels = cupy.asarray(draw(3).astype("float32")), np.array([0, 1, length - 1])

    result = SPARSE(x, cupy.asarray(labels), t)

    hosts = (cupy.asnumpy(array).astype("float64") for array in (x, t))
    logits, cotangent = hosts
    check(result, formula(logits, one_hot(labels, length), cotangent), np.dtype("float32"))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_labels_of_any_integers_and_more_axes(dtype: str) -> None:
    labels = np.array([[1, 2], [0, 4]], dtype)
    x, t = draw(2, 2, 5), draw(2, 2, seed=1)

    result = SPARSE(cupy.asarray(x), cupy.asarray(labels), cupy.asarray(t))

    check(result, formula(x, one_hot(labels, 5), t), np.dtype("float64"))


def test_one_row_without_an_axis_for_rows() -> None:
    x, t = draw(5), np.array(0.5)

    result = SPARSE(cupy.asarray(x), cupy.asarray(np.array(3)), cupy.asarray(t))

    check(result, formula(x, one_hot(3, 5), t), np.dtype("float64"))


def test_strided_logits_and_a_broadcast_cotangent() -> None:
    x = draw(20, 6)
    labels = np.arange(6)
    t = cupy.broadcast_to(cupy.asarray(np.array([0.25])), (6,))

    result = SPARSE(cupy.asarray(x).T, cupy.asarray(labels), t)

    check(result, formula(x.T, one_hot(labels, 20), np.full(6, 0.25)), np.dtype("float64"))


def test_a_cotangent_of_another_dtype() -> None:
    x, t = draw(4, 6).astype("float32"), draw(4, seed=1)
    labels = np.arange(4)

    loss, g = SPARSE(cupy.asarray(x), cupy.asarray(labels), cupy.asarray(t))

    references = formula(x.astype("float64"), one_hot(labels, 6), t)
    np.testing.assert_allclose(cupy.asnumpy(loss), references[0], rtol=1e-5)
    np.testing.assert_allclose(cupy.asnumpy(g), references[1], rtol=1e-5, atol=1e-6)


def test_empty_arrays_stay_empty() -> None:
    for shape in ((0, 5), (3, 0)):
        x, t = cupy.zeros(shape, "float32"), cupy.zeros(shape[0], "float32")

        loss, g = SPARSE(x, cupy.zeros(shape[0], "int64"), t)

        assert (loss.shape, g.shape) == (shape[:1], shape)
        assert cupy.asnumpy(cupy.isnan(loss)).all()
        loss, g = DENSE(x, x, t)
        assert (loss.shape, g.shape) == (shape[:1], shape)
        assert cupy.asnumpy(loss).tolist() == [0.0] * shape[0]


@pytest.mark.parametrize("length", [1000, 50304, 120000])
def test_the_same_bits_come_out_each_time(length: int) -> None:
    x, t = place(draw(600, length), DTYPES[0])[0], place(draw(600, seed=1), DTYPES[0])[0]
    labels = cupy.asarray(np.random.default_rng(0).integers(0, length, 600))

    first, second = SPARSE(x, labels, t), SPARSE(x, labels, t)

    for one, other in zip(first, second, strict=True):
        assert (one.view("uint16") == other.view("uint16")).all()


def test_rows_of_several_lengths_take_turns() -> None:
    # The limit of shared memory belongs to the kernel, which rows of similar lengths share.
    for length in (50304, 50000, 50304, 100000, 99000, 100000, 50304):
        x, t = place(draw(3, length), DTYPES[0]), place(draw(3, seed=1), DTYPES[0])
        labels = np.array([0, length - 1, 5])

        result = SPARSE(x[0], cupy.asarray(labels), t[0])

        check(result, formula(x[1], one_hot(labels, length), t[1]), DTYPES[0])


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_the_gradient_over_the_logits_is_the_same(length: int, dtype: Any) -> None:
    x, _ = place(draw(37, length), dtype)
    labels = cupy.asarray(np.random.default_rng(1).integers(0, length, 37))
    t, _ = place(draw(37, seed=2), dtype)
    expected = [cupy.asnumpy(result) for result in SPARSE(x, labels, t)]

    over = losses_with_gradients.overwrite_logits(x, labels, t)

    for one, other in zip(over, expected, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(one), other)
