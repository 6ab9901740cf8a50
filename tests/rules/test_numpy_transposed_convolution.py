"""The two transposes of NumPy's convolution, for random geometries: <conv(x, w), t> three times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad_numpy.kernels.convolution import KERNELS
from tests.seeds import SEED


def geometry(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Return the shapes of data and filters, and the params."""
    rank, groups, fan_in = rng.integers(1, 4), int(rng.integers(1, 4)), int(rng.integers(1, 4))

    def one_each(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, rank))

    x_shape = (2, *one_each(1, 8), fan_in * groups)
    w_shape = (*one_each(1, 5), fan_in, groups * int(rng.integers(1, 4)))
    params = {
        "strides": one_each(1, 5),
        "padding": tuple(zip(one_each(0, 4), one_each(0, 4))),
        "dilation": one_each(1, 4),
        "groups": groups,
    }
    return x_shape, w_shape, params


@pytest.mark.parametrize("seed", range(SEED, SEED + 60))
def test_the_transposes_are_adjoint(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x_shape, w_shape, params = geometry(rng)
    x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
    y = KERNELS["conv"](x, w, **params)
    t = rng.normal(size=y.shape)

    for_x = KERNELS["conv_input_gradient"](t, w, input_shape=x_shape, **params)
    for_w = KERNELS["conv_filter_gradient"](x, t, window=w_shape[:-2], **params)

    product = np.vdot(y, t)
    assert (for_x.shape, for_w.shape) == (x_shape, w_shape)
    assert np.vdot(for_x, x) == pytest.approx(product, rel=1e-9, abs=1e-9)
    assert np.vdot(for_w, w) == pytest.approx(product, rel=1e-9, abs=1e-9)
