"""Sums on the GPU against NumPy in float64: every plan of the kernels, dtype and layout."""

from __future__ import annotations

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
reduction = pytest.importorskip("tapegrad_cupy.kernels.reduction.reduction")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PRECISION = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14}
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + [BFLOAT16]
CASES = [
    ((100_003, 10), (0,)),
    ((4096, 256), (0,)),
    ((70_000, 3), (0,)),
    ((3, 200, 33), (1,)),
    ((300, 400, 64), (1,)),
    ((2000, 5), (1,)),
    ((300, 2048), (1,)),
    ((50_000, 32), (1,)),
    ((70_001, 48), (1,)),
    ((20_000, 168), (1,)),
    ((64, 100, 8, 32), (1, 3)),
    ((2, 300_001), (1,)),
    ((1_000_003,), (0,)),
    ((4, 5, 6, 7), (0, 2, 3)),
    ((4, 5, 6, 7), (1, 3)),
    ((4, 1, 6), (1,)),
    ((3, 4), ()),
    ((), ()),
]


def draw(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sums_means_and_norms_equal_numpy(shape, axis, dtype) -> None:
    x = draw(shape, dtype)
    exact, here = x.astype(np.float64), cupy.asarray(x)
    # The largest float16 is 65504, which the sums of the larger arrays exceed.
    limit = np.inf if dtype != np.float16 else 6e4
    expected = {
        "sum": exact.sum(axis),
        "mean": exact.mean(axis),
        "sum_of_squares": (exact**2).sum(axis),
        "euclidean_norm": np.sqrt((exact**2).sum(axis)),
    }

    for name, value in expected.items():
        y = reduction.KERNELS[name](here, axis=axis, keepdims=False)
        assert y.dtype == dtype
        assert y.shape == np.shape(value)
        if np.max(value) < limit:
            rtol = 4 * PRECISION[dtype.name]
            np.testing.assert_allclose(cupy.asnumpy(y).astype(float), value, rtol=rtol)


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1), (0, 2)])
@pytest.mark.parametrize("layout", ["F", "strided", "permuted", "odd start"])
def test_the_layout_in_memory_does_not_matter(layout, axis) -> None:
    x = draw((33, 20, 48), np.dtype(np.float32))
    here = cupy.asarray(x)
    if layout == "F":
        here = cupy.asfortranarray(here)
    elif layout == "strided":
        here = cupy.repeat(here, 2, axis=2)[:, :, ::2]
    elif layout == "permuted":
        here = cupy.ascontiguousarray(here.transpose(1, 0, 2)).transpose(1, 0, 2)
    else:
        here = cupy.concatenate([cupy.zeros(1, "float32"), here.ravel()])[1:].reshape(x.shape)

    y = reduction.sum_(here, axis=axis, keepdims=True)

    expected = x.astype(float).sum(axis, keepdims=True)
    np.testing.assert_allclose(cupy.asnumpy(y), expected, rtol=1e-5)


def test_complex_numbers_are_summed_by_their_parts() -> None:
    x = draw((50, 40, 2), np.dtype(np.float64)) @ np.array([1, 1j])
    here = cupy.asarray(x.astype(np.complex64))

    for axis in [(0,), (1,), (0, 1)]:
        total = reduction.sum_(here, axis=axis, keepdims=False)
        squares = reduction.sum_of_squares(here, axis=axis, keepdims=False)
        assert (total.dtype, squares.dtype) == (np.complex64, np.float32)
        np.testing.assert_allclose(cupy.asnumpy(total), x.sum(axis), rtol=1e-5)
        np.testing.assert_allclose(cupy.asnumpy(squares), (np.abs(x) ** 2).sum(axis), rtol=1e-5)


def test_nothing_sums_to_zero_and_has_no_mean() -> None:
    x = cupy.zeros((0, 3), "float32")

    assert cupy.asnumpy(reduction.sum_(x, axis=(0,), keepdims=False)).tolist() == [0.0] * 3
    assert np.isnan(cupy.asnumpy(reduction.mean(x, axis=(0,), keepdims=False))).all()
    assert reduction.mean(x, axis=(1,), keepdims=False).shape == (0,)


def test_truth_values_are_counted_and_integers_keep_their_dtype() -> None:
    truth, small = cupy.ones((3, 4), bool), cupy.ones((3, 4), "int8")

    assert reduction.sum_(truth, axis=(0,), keepdims=False).dtype == np.int64
    assert reduction.sum_(small, axis=(0,), keepdims=False).dtype == np.int8
    assert reduction.mean(small, axis=(0,), keepdims=False).dtype == np.float64


def test_the_same_sum_gives_the_same_bits() -> None:
    x = cupy.asarray(draw((300_000, 12), np.dtype(np.float32)))

    first = reduction.sum_(x, axis=(0,), keepdims=False)

    for _ in range(5):
        again = reduction.sum_(x, axis=(0,), keepdims=False)
        np.testing.assert_array_equal(cupy.asnumpy(first), cupy.asnumpy(again))
