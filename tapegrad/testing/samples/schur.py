"""Samples of the Schur decomposition, and of matrix functions that are made of it.

Eigenvalues come in any order and vectors with any phase; the samples show neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.arithmetic import conj
from tapegrad.ops.complex_numbers import real
from tapegrad.ops.linalg import functions
from tapegrad.ops.linalg.common import triangle
from tapegrad.ops.linalg.schur import hessenberg, schur
from tapegrad.ops.products import adjoint, matmul
from tapegrad.ops.reduction import sum as total
from tapegrad.testing.sample import Maker, Sample, ValueSample, complex_normal, fixed, named, normal


def _scipy(name: str) -> Callable[[Any], Any]:
    def reference(x: Any) -> Any:
        import scipy.linalg

        return getattr(scipy.linalg, name)(x)

    return reference


def _squared(x: Any) -> Any:
    """Z T² Z^H, and what of T is above the diagonal, which measures how far A is from normal."""
    t, z = schur(x, "complex")
    above = triangle(t, lower=False, offset=1)
    return matmul(matmul(z, matmul(t, t)), adjoint(z)), real(total(above * conj(above)))


def _squared_reference(x: Any) -> Any:
    x = x + 0j
    return x @ x, (np.abs(x) ** 2).sum() - (np.abs(np.linalg.eigvals(x)) ** 2).sum()


def _rebuilt_real(x: Any) -> Any:
    t, z = schur(x)
    return matmul(matmul(z, t), adjoint(z)), matmul(z, adjoint(z)), triangle(t, True, -2)


def _rebuilt_reference(x: Any) -> Any:
    return x, np.broadcast_to(np.eye(x.shape[-1]), x.shape), 0 * x


def _hessenberg_sizes(x: Any) -> Any:
    """The square of each entry's size: the phases of columns are free."""
    h, q = hessenberg(x)
    return h * conj(h), q * conj(q)


def _hessenberg(x: Any) -> Any:
    import scipy.linalg

    return scipy.linalg.hessenberg(x, calc_q=True)


def _hessenberg_reference(x: Any) -> Any:
    h, q = _hessenberg(x)
    return h * h.conj(), q * q.conj()


def _mixed(values: list[complex]) -> Maker:
    """A matrix with these eigenvalues and no right angles."""
    turn = np.eye(len(values)) + 0.4 * np.triu(np.ones((len(values),) * 2), 1)
    return fixed(turn @ np.diag(values) @ np.linalg.inv(turn))


SAMPLES = [
    Sample("schur", _squared, [normal(3, 3)], _squared_reference),
    Sample("schur-complex", _squared, [complex_normal(3, 3)], _squared_reference, order=1),
    ValueSample("schur-real", _rebuilt_real, [normal(2, 4, 4)], _rebuilt_reference),
    named(hessenberg, [normal(4, 4)], _hessenberg),
    Sample("hessenberg-complex", _hessenberg_sizes, [complex_normal(4, 4)], _hessenberg_reference),
    # Of order 1, since every order doubles the matrix; tests/scipy has the second.
    Sample("sqrtm-complex", functions.sqrtm, [_mixed([1j, -2 - 1j])], _scipy("sqrtm"), order=1),
    Sample("logm-complex", functions.logm, [_mixed([1j, -2 - 1j])], _scipy("logm"), order=1),
]
