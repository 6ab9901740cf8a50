"""Calls that mean the same under NumPy and under tapegrad.numpy, as Python expressions.

`np` is the one or the other module, the letters are the arrays below. Values, dtypes and shapes
are compared with NumPy's, and derivatives by the floating arrays with differences.
"""

from __future__ import annotations

import math

import numpy as np

from tests.numpy import calls_arrays, calls_elementwise, calls_linear, calls_polynomials

_rng = np.random.default_rng(20251112)


def _away_from_zero(*shape):
    x = _rng.normal(size=shape)
    return x + 0.1 * np.sign(x)


ARRAYS = {
    "x": _away_from_zero(3, 4),
    "y": _away_from_zero(3, 4),
    "u": _rng.uniform(0.1, 0.9, (3, 4)),
    "v": _away_from_zero(4),
    "w": _away_from_zero(4),
    "p": _rng.uniform(1.2, 3.0, (3, 4)),
    "d": (_rng.permutation(12) * 0.37 - 2.0).reshape(3, 4),
    "t": _away_from_zero(2, 3, 4),
    "m": _rng.normal(size=(3, 3)) + 3.0 * np.eye(3),
    "s": (lambda a: a @ a.T + 3.0 * np.eye(3))(_rng.normal(size=(3, 3))),
    "z": _rng.normal(size=(3, 4)) + 1j * _rng.normal(size=(3, 4)),
    "h": _rng.normal(size=(3, 3)) + 1j * _rng.normal(size=(3, 3)) + 3.0 * np.eye(3),
    "f": _away_from_zero(3, 4).astype("float32"),
    "g": np.sort(_rng.uniform(-2.0, 2.0, 5)),
    "c": _away_from_zero(3),
    "i": _rng.integers(0, 6, (3, 4)),
    "j": _rng.integers(0, 6, (3, 4)).astype("int32"),
    "k": np.array([2, 0, 1]),
    "b": _rng.integers(0, 2, (3, 4)).astype(bool),
    "n": np.array([[1.0, math.nan, 3.0, -2.0], [0.5, 2.5, math.nan, 4.0], [7.0, 8.0, 6.5, 5.5]]),
}


def after(change, a):
    """What an array is after a function has written into a copy of it."""
    a = a.copy()
    change(a)
    return a


GROUPS = (
    *(calls_elementwise.ELEMENTWISE, calls_elementwise.PARTS, calls_elementwise.REDUCTIONS),
    *(calls_arrays.SHAPES, calls_arrays.INDEXING, calls_arrays.ORDER, calls_arrays.CREATION),
    *(calls_linear.PRODUCTS, calls_linear.SERIES, calls_linear.LINALG, calls_linear.FFT),
    calls_linear.METHODS,
)
CALLS = [line for text in GROUPS for line in text.strip().split("\n")]

# Functions of NumPy that take tensors for arrays: it does not ask what they mean.
NOT_ASKED = (calls_arrays.NOT_ASKED, calls_polynomials.POLYNOMIALS)
ALL_CALLS = [*CALLS, *[line for text in NOT_ASKED for line in text.strip().split("\n")]]
