"""Fourier transforms of many rows in C agree with NumPy, whose transforms are independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad_numpy.kernels.fourier import PLAIN
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.fourier_passes import factors_of
from tapegrad_numpy.loops.shape_specialized import make_fixed
from tests.program.test_windows import check, steps_of

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(7)
LENGTHS = (2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 30, 36, 77, 100, 128, 169, 243, 256)


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def compiled(name: str, shape: tuple[int, ...], dtype: str, **params: Any) -> Any:
    (kernel,) = make_fixed([(name, [(shape, np.dtype(dtype))], params)], PLAIN)
    return kernel


def compare(name: str, shape: tuple[int, ...], dtype: str, **params: Any) -> None:
    kernel, x = compiled(name, shape, dtype, **params), numbers(shape, dtype)
    assert kernel is not None

    found, expected = kernel(x, **params), PLAIN[name](x, **params)

    assert found.dtype == expected.dtype
    unit = np.finfo(expected.real.dtype).eps * np.log2(4 * max(shape))
    np.testing.assert_allclose(found, expected, rtol=0, atol=unit * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_all_lengths(n: int, dtype: str) -> None:
    real = "float32" if dtype == "complex64" else "float64"
    norm, rows, half = ("backward", "ortho", "forward")[n % 3], 9 + 200 // n, n // 2 + 1

    compare("fourier", (rows, n), dtype, axes=(1,), inverse=bool(n % 2), norm=norm)
    compare("fourier", (3, n, 9 + 40 // n), dtype, axes=(1,), inverse=not n % 2, norm=norm)
    if n > 2:
        compare("real_fourier", (rows, n), real, axis=1, norm=norm)
        compare("real_fourier", (3, n, 9 + 40 // n), real, axis=1, norm=norm)
        compare("inverse_real_fourier", (rows, half), dtype, axis=1, n=n, norm=norm)
        compare("inverse_real_fourier", (3, half, 9 + 80 // n), dtype, axis=1, n=n, norm=norm)


def test_several_axes() -> None:
    compare("fourier", (3, 16, 20), "complex64", axes=(1, 2), inverse=False, norm="backward")
    compare("fourier", (16, 12, 20), "complex128", axes=(2, 0, 1), inverse=True, norm="ortho")


def test_an_array_that_is_not_contiguous() -> None:
    x = numbers((64, 32), "float32").T
    kernel = compiled("real_fourier", (32, 64), "float32", axis=1, norm="backward")

    found = kernel(x, axis=1, norm="backward")

    np.testing.assert_allclose(found, np.fft.rfft(x), rtol=0, atol=1e-4)


def test_a_row_that_is_not_finite_changes_no_other() -> None:
    x = numbers((10, 64), "float32")
    x[3, 5] = np.nan
    kernel = compiled("real_fourier", x.shape, "float32", axis=1, norm="backward")

    found = kernel(x, axis=1, norm="backward")

    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()


def test_lengths_with_large_factors_and_single_rows_stay_with_numpy() -> None:
    assert factors_of(2 * 17) is None
    assert compiled("real_fourier", (8, 34), "float32", axis=1, norm="backward") is None
    assert compiled("real_fourier", (1, 256), "float32", axis=1, norm="backward") is None
    assert (
        compiled("fourier", (8, 1 << 15), "complex64", axes=(1,), inverse=False, norm="a") is None
    )


def test_spectra_and_their_gradients_are_transforms_and_loops() -> None:
    def function(x: Any, rate: Any) -> Any:
        k = tnp.arange(33.0)
        spectrum = tnp.fft.rfft(x) * tnp.exp(-rate * k)
        return tnp.fft.irfft(spectrum * (k < 20), 64)

    program = check(
        function, tf.constant(numbers((8, 64), "float64")), tf.constant(0.1, "float64"), rtol=1e-9
    )

    if tf.constant(1.0).device == "cpu":
        assert {*steps_of(program)} <= {"real_fourier", "inverse_real_fourier", "positions_like"}
