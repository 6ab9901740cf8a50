"""Sums of short rows and of few columns, which NumPy's backend computes as products with ones."""

import numpy as np
import pytest

from tapegrad_numpy.kernels.reduction import mean, sum_

CASES = [
    ((20_000, 3), (1,)),
    ((300, 200), (1,)),
    ((300, 700), (1,)),
    ((40, 50, 40), (1, 2)),
    ((40, 300, 8), (1,)),
    ((40, 300, 8), (0,)),
    ((40, 300, 8), (0, 1)),
    ((40, 300, 8), (0, 2)),
    ((40, 300, 8), (0, 1, 2)),
    ((40, 300, 8), ()),
    ((40, 20, 60), (1,)),
    ((8, 128, 4, 16), (1, 3)),
    ((8, 300, 16), (0, 2)),
    ((6, 20, 30, 4, 5), (0, 2, 4)),
    ((6, 20, 3, 20, 5), (0, 1, 3)),
    ((70_000,), (0,)),
    ((0, 5), (1,)),
]


PRECISION = {"float32": 1e-5, "float64": 1e-13, "complex64": 1e-5, "int32": 0, "float16": 4e-3}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sums(shape, axis, dtype, keepdims):
    x = (10 * np.random.default_rng(1).normal(size=shape)).astype(dtype)
    scale = 10 * max(np.prod([shape[a] for a in axis]), 1) ** 0.5
    for values in (x, x[::-1]):
        found = sum_(values, axis=axis, keepdims=keepdims)

        wide = values.astype("complex128" if dtype == "complex64" else "float64")
        expected = wide.sum(axis, keepdims=keepdims)
        assert found.shape == expected.shape
        assert found.dtype == dtype
        near = PRECISION[dtype]
        np.testing.assert_allclose(found, expected, rtol=near, atol=near * scale)
        if dtype.startswith("float") and x.size:
            count = np.prod([shape[a] for a in axis])
            averages = mean(values, axis=axis, keepdims=keepdims)
            np.testing.assert_allclose(averages, expected / count, rtol=near, atol=near * 10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_and_nan(dtype):
    x = np.ones((20_000, 4), dtype)
    x[3, 1], x[4, 2], x[5, 0], x[5, 1] = np.inf, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):  # NumPy warns about inf - inf
        found = sum_(x, axis=(1,), keepdims=False)
        averages = mean(x, axis=(0,), keepdims=True)

    assert found[3] == np.inf
    assert np.isnan(found[4])
    assert np.isnan(found[5])
    assert np.all(found[6:] == 4)
    assert np.isnan(averages[0, 2])
