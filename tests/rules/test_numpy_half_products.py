"""Products in half precision are those in single precision, rounded once."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tapegrad_numpy.kernels.products import KERNELS


def numbers(*shape: int, dtype: Any = np.float16, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("shapes", [((30, 40), (40, 50)), ((3, 30, 40), (3, 40, 5))], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matrices(shapes: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    a, b = [numbers(*shape, dtype=dtype, seed=k) for k, shape in enumerate(shapes)]
    result = KERNELS["matmul"](a, b, transpose_a=False, transpose_b=False)

    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert result.dtype == a.dtype
    spacing = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(result.astype(np.float64), exact, rtol=spacing, atol=1e-5)


def test_matrices_and_vectors() -> None:
    a, x = numbers(300, 400), numbers(400, seed=1)
    (y,) = KERNELS["matvecs"](a, x, transpose=False)

    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, KERNELS["matvec"](a, x, transpose=False))
    np.testing.assert_allclose(y, a.astype(np.float64) @ x.astype(np.float64), rtol=1e-3, atol=1e-3)


def test_large_sums_do_not_overflow_on_the_way() -> None:
    a = np.array([[300.0, 300.0]], np.float16)
    b = np.array([[300.0], [-300.0]], np.float16)

    assert KERNELS["matmul"](a, b, transpose_a=False, transpose_b=False) == 0


def test_they_are_computed_by_blas() -> None:
    a = numbers(400, 400)
    wide = a.astype(np.float32)
    times = []
    for one in (a, wide):
        start = time.process_time()
        KERNELS["matmul"](one, one, transpose_a=False, transpose_b=False)
        times.append(time.process_time() - start)

    # NumPy's own loop takes 300 times as long as BLAS.
    assert times[0] < 60 * times[1] + 0.02
