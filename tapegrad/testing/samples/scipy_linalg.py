"""Samples of SciPy's linear algebra functions that are composed of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.linalg.common import hermitian_part
from tapegrad.scipy import linalg
from tapegrad.testing.sample import (
    Maker,
    Sample,
    complex_normal,
    fixed,
    normal,
    of_scipy,
    positive_definite,
)

_BANDS = np.array([[0.0, 0.5, -0.4, 0.7], [4.0, 5.0, 6.0, 7.0]])
_PLANT = np.array([[0.1, 0.4, 0.0], [-0.3, 0.2, 0.5], [0.2, 0.0, -0.4]])
_INPUT = np.array([[1.0, 0.2], [0.3, -0.5], [0.0, 0.8]])

_theirs = partial(of_scipy, "linalg")


def _sample(name: str, args: Sequence[Maker], order: int = 2, **options: Any) -> Sample:
    ours = getattr(linalg, name)
    label = "-".join([f"scipy-{name}", *(str(value) for value in options.values())])
    return Sample(
        label, lambda *xs: ours(*xs, **options), args, _theirs(name, **options), order=order
    )


def _riccati(name: str) -> Sample:
    """The cost matrices must stay symmetric."""
    ours = getattr(linalg, name)
    return Sample(
        f"scipy-{name}",
        lambda a, b, q, r: ours(a, b, hermitian_part(q), hermitian_part(r)),
        [fixed(_PLANT), fixed(_INPUT), positive_definite(3), positive_definite(2)],
        _theirs(name),
    )


SAMPLES = [
    _sample("solveh_banded", [fixed(_BANDS), normal(4)]),
    _sample("cholesky_banded", [fixed(_BANDS)]),
    _sample("eigvals_banded", [fixed(_BANDS)]),
    _sample("eigvalsh_tridiagonal", [fixed([1.0, 3.0, 7.0]), normal(2)]),
    _sample("matmul_toeplitz", [normal(3), normal(3, 2)]),
    _sample("cosm", [normal(3, 3)]),
    _sample("sinm", [complex_normal(2, 2)]),
    _sample("tanhm", [fixed(_PLANT)]),
    _sample("signm", [fixed(_PLANT + np.diag([2.0, 1.0, -2.0]))]),
    _sample("fractional_matrix_power", [positive_definite(2)], order=1, t=0.3),
    _sample("subspace_angles", [normal(5, 3), normal(5, 2)]),
    _riccati("solve_continuous_are"),
    _riccati("solve_discrete_are"),
    _sample("leslie", [normal(3), normal(2)]),
    _sample("khatri_rao", [normal(2, 3), normal(4, 3)]),
    _sample("convolution_matrix", [normal(3)], n=4, mode="same"),
]
