"""Kernels of NumPy's backend that move entries, against NumPy's own functions."""

import numpy as np
import pytest

from tapegrad_numpy.kernels.shape import roll


@pytest.mark.parametrize(
    ("shape", "shift", "axis"),
    [
        ((5,), (2,), (0,)),
        ((5, 7), (-3,), (1,)),
        ((5, 7), (6, 8), (0, 1)),
        ((4, 3, 2), (1, 2, 1), (0, 0, 2)),
        ((0, 3), (1,), (0,)),
        ((3,), (0,), (0,)),
        ((3,), (), ()),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool"])
def test_roll(shape, shift, axis, dtype):
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    for value in (x, x.T.copy().T):
        found = roll(value, shift=shift, axis=axis)

        np.testing.assert_array_equal(found, np.roll(value, shift, axis), strict=True)
        assert not np.shares_memory(found, value)
