"""Samples of linear algebra.

Samples of decompositions use only results that do not depend on the signs and phases of vectors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.linalg import (
    decompositions,
    determinants,
    eigen,
    factored,
    pivots,
    solve,
    sylvester,
)
from tapegrad.ops.linalg.common import as_row, hermitian_part
from tapegrad.ops.products.functions import adjoint, matmul
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    alike,
    complex_normal,
    fixed,
    named,
    normal,
    of_scipy,
    positive_definite,
)


def regular(size: int, *batch: int, imaginary: bool = False) -> Maker:
    """Well-conditioned square matrices."""

    def make(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(*batch, size, size))
        if imaginary:
            x = x + 1j * rng.normal(size=x.shape)
        return x + size * np.eye(size)

    return make


def hermitian_definite(size: int) -> Maker:
    """Complex Hermitian positive definite matrices."""

    def make(rng: np.random.Generator) -> Any:
        x = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
        return x @ x.conj().T + size * np.eye(size)

    return make


def _of_hermitian(name: str, function: Any, maker: Maker, reference: Any) -> Sample:
    """Make a sample of the function of the Hermitian part, so that any direction is allowed."""
    return Sample(
        name, lambda x: function(hermitian_part(x)), [maker], lambda x: reference(_herm(x))
    )


def _herm(x: Any) -> Any:
    return (x + _turned(x)) / 2


def _turned(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def _eigh_projected(x: Any) -> Any:
    """Eigenvalues and V diag(w³ + w) V^H."""
    w, v = eigen.eigh(hermitian_part(x))
    return w, matmul(v * as_row(w * w * w + w), adjoint(v))


def _eigh_reference(x: Any) -> Any:
    x = _herm(x)
    return np.linalg.eigvalsh(x), x @ x @ x + x


def _solve_factored(a: Any, b: Any, adjoint: bool) -> Any:
    factors, pivots = factored.factors_p(a)
    return factored.solve_factored_p(factors, pivots, b, adjoint=adjoint)


def _solve_of(a: Any, b: Any, adjoint: bool) -> Any:
    return np.linalg.solve(_turned(a) if adjoint else a, b)


_sylvester_reference = of_scipy("linalg", "solve_sylvester")


def _svd_invariants(x: Any) -> Any:
    """Singular values, U V^H, and a matrix that distinguishes the single singular vectors."""
    u, s, vh = eigen.svd(x)
    weights = s * s + 1.0 / s
    return (
        s,
        matmul(u, vh),
        matmul(u * as_row(weights), adjoint(u)),
        matmul(adjoint(vh) * as_row(weights), vh),
    )


def _svd_reference(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    weights = s * s + 1 / s
    row = weights[..., None, :]
    return s, u @ vh, (u * row) @ _turned(u), (_turned(vh) * row) @ vh


def _eig_rebuilt(x: Any) -> Any:
    """f(A) = V (w²) V^-1 and weighted |v|²: both independent of the phases of v."""
    w, v = eigen.eig(x)
    return matmul(v * as_row(w * w), solve.inv(v))


def _eig_moduli(x: Any) -> Any:
    w, v = eigen.eig(x)
    return matmul(v * as_row(w), adjoint(v))


def _eig_moduli_reference(x: Any) -> Any:
    w, v = np.linalg.eig(x)
    return (v * w[..., None, :]) @ _turned(v)


def _lu_rebuilt(x: Any) -> Any:
    return decompositions.lu(x)[0]


def _lu_reference(x: Any) -> Any:
    return of_scipy("linalg", "lu_factor")(x)[0]


def _lstsq_reference(a: Any, b: Any) -> Any:
    return np.linalg.lstsq(a, b)[0]


def _ridge(a: Any, b: Any) -> Any:
    return np.linalg.solve(a.T @ a + 0.3 * np.eye(a.shape[1]), a.T @ b)


def _lstsq(
    case: str, a: Maker, b: Maker, reference: Any = _lstsq_reference, **options: Any
) -> Sample:
    return Sample(f"lstsq-{case}", partial(solve.lstsq, **options), [a, b], reference)


_COMPLEX = regular(3, imaginary=True)
_SPREAD = np.diag([1.0, 2.0, 4.0, 7.0])

SAMPLES = [
    named(solve.solve, [regular(3), normal(3, 2)], np.linalg.solve),
    *[
        ValueSample(
            f"solve-factored-{order}{'-adjoint' if adjoint else ''}",
            partial(_solve_factored, adjoint=adjoint),
            [regular(order), normal(order, 2)],
            partial(_solve_of, adjoint=adjoint),
        )
        for order in (3, 40)
        for adjoint in (False, True)
    ],
    Sample("solve-vector", solve.solve, [regular(3), normal(3)], np.linalg.solve),
    Sample("solve-batch", solve.solve, [regular(3, 2), normal(2, 3, 2)], np.linalg.solve),
    Sample("solve-broadcast", solve.solve, [regular(3), normal(2, 3, 2)], np.linalg.solve),
    Sample(
        "solve-adjoint",
        lambda a, b: solve.solve(a, b, adjoint=True),
        [_COMPLEX, complex_normal(3, 2)],
        lambda a, b: np.linalg.solve(_turned(a), b),
    ),
    Sample(
        "solve-complex",
        solve.solve,
        [_COMPLEX, complex_normal(3, 2)],
        np.linalg.solve,
    ),
    named(
        solve.triangular_solve,
        [regular(3, 2), normal(2, 3, 2)],
        lambda a, b: np.linalg.solve(np.tril(a), b),
    ),
    Sample(
        "triangular_solve-upper",
        lambda a, b: solve.triangular_solve(a, b, lower=False),
        [regular(3), normal(4, 3, 2)],
        lambda a, b: np.linalg.solve(np.triu(a), b),
    ),
    Sample(
        "triangular_solve-adjoint",
        lambda a, b: solve.triangular_solve(a, b, adjoint=True),
        [_COMPLEX, complex_normal(3)],
        lambda a, b: np.linalg.solve(_turned(np.tril(a)), b),
    ),
    named(
        solve.cholesky_solve,
        [regular(3), normal(3, 2)],
        lambda c, b: np.linalg.solve(np.tril(c) @ np.tril(c).T, b),
    ),
    named(solve.inv, [regular(3, 2)], np.linalg.inv),
    Sample(
        "inv-complex",
        lambda x: solve.inv(x, adjoint=True),
        [_COMPLEX],
        lambda x: _turned(np.linalg.inv(x)),
    ),
    Sample("pinv-tall", solve.pinv, [normal(4, 2)], np.linalg.pinv),
    Sample("pinv-wide", solve.pinv, [complex_normal(2, 4)], np.linalg.pinv),
    _lstsq("tall", normal(5, 3), normal(5, 2)),
    _lstsq("wide", normal(3, 5), normal(3, 2)),
    _lstsq("vector", normal(5, 3), normal(5)),
    _lstsq("careful", normal(5, 3), normal(5, 2), fast=False),
    _lstsq("ridge", normal(5, 3), normal(5, 2), _ridge, l2_regularizer=0.3),
    _lstsq("ridge-wide", normal(3, 5), normal(3, 2), _ridge, l2_regularizer=0.3),
    _lstsq("ridge-careful", normal(3, 5), normal(3, 2), _ridge, l2_regularizer=0.3, fast=False),
    _of_hermitian("cholesky", decompositions.cholesky, positive_definite(3, 2), np.linalg.cholesky),
    _of_hermitian(
        "cholesky-complex", decompositions.cholesky, hermitian_definite(3), np.linalg.cholesky
    ),
    Sample("qr-tall", decompositions.qr, [normal(2, 4, 3)], np.linalg.qr),
    Sample("qr-square", decompositions.qr, [regular(3)], np.linalg.qr),
    Sample("qr-wide", decompositions.qr, [normal(3, 5)], np.linalg.qr),
    Sample("qr-complex", decompositions.qr, [complex_normal(4, 3)], np.linalg.qr),
    ValueSample(
        "qr-complete",
        lambda x: decompositions.qr(x, full_matrices=True),
        [normal(4, 2)],
        lambda x: np.linalg.qr(x, mode="complete"),
    ),
    ValueSample(
        "row-swaps",
        lambda x: pivots.row_swaps_p(decompositions.lu(x)[1], count=3),
        [normal(5, 3)],
        lambda x: of_scipy("linalg", "lu_factor")(x)[1],
    ),
    ValueSample(
        "swapped-rows",
        lambda x: pivots.swapped_rows_p(x, length=4),
        [fixed(np.array([[2, 1, 3], [0, 3, 3]], np.int32))],
        lambda x: np.array([[2, 1, 3, 0], [0, 3, 1, 2]], np.int32),
    ),
    ValueSample(
        "column-order",
        pivots.column_order_p,
        [fixed(np.array([[1.0, 3.0, 3.0], [0.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))],
        lambda x: np.array([1, 2, 0], np.int32),  # what remains of the last column is longer
    ),
    Sample("lu", _lu_rebuilt, [normal(2, 4, 4)], _lu_reference),
    Sample("lu-tall", _lu_rebuilt, [normal(5, 3)], _lu_reference),
    Sample("lu-wide", _lu_rebuilt, [complex_normal(3, 5)], _lu_reference),
    Sample("eigh", _eigh_projected, [positive_definite(3, 2)], _eigh_reference),
    Sample("eigh-complex", _eigh_projected, [hermitian_definite(3)], _eigh_reference),
    _of_hermitian("eigvalsh", eigen.eigvalsh, positive_definite(3, 2), np.linalg.eigvalsh),
    _of_hermitian("eigvalsh-complex", eigen.eigvalsh, hermitian_definite(3), np.linalg.eigvalsh),
    Sample("eig", _eig_rebuilt, [regular(3)], lambda x: x @ x),
    Sample("eig-complex", _eig_rebuilt, [regular(3, 2, imaginary=True)], lambda x: x @ x),
    Sample("eig-moduli", _eig_moduli, [regular(3)], _eig_moduli_reference),
    named(eigen.eigvals, [fixed(_SPREAD + 0.1)], np.linalg.eigvals),
    Sample("eigvals-complex", eigen.eigvals, [fixed(_SPREAD * (1 + 1j) + 0.1)], np.linalg.eigvals),
    Sample("svd-tall", _svd_invariants, [normal(4, 3)], _svd_reference),
    Sample("svd-square", _svd_invariants, [regular(3, 2)], _svd_reference),
    Sample("svd-wide", _svd_invariants, [normal(3, 5)], _svd_reference),
    Sample("svd-complex", _svd_invariants, [complex_normal(3, 4)], _svd_reference),
    ValueSample(
        "svd-full", lambda x: eigen.svd(x, full_matrices=True), [normal(4, 2)], np.linalg.svd
    ),
    alike("tf_svd", eigen.tf_svd, [normal(4, 2)], np.linalg.svd, compute_uv=False),
    named(eigen.svdvals, [normal(2, 3, 4)], np.linalg.svdvals),
    Sample("svdvals-complex", eigen.svdvals, [complex_normal(4, 3)], np.linalg.svdvals),
    named(sylvester.solve_sylvester, [regular(3), regular(2), normal(3, 2)], _sylvester_reference),
    Sample(
        "solve_sylvester-complex",
        sylvester.solve_sylvester,
        [regular(2, imaginary=True), regular(2, imaginary=True), complex_normal(2, 2)],
        _sylvester_reference,
    ),
    Sample(
        "solve_sylvester-stack",
        sylvester.solve_sylvester,
        [regular(2, 3), regular(2), normal(3, 2, 2)],
        lambda a, b, q: np.stack([_sylvester_reference(x, b, y) for x, y in zip(a, q)]),
    ),
    named(determinants.det, [normal(2, 3, 3)], np.linalg.det),
    Sample("det-complex", determinants.det, [complex_normal(3, 3)], np.linalg.det),
    Sample("det-identity", determinants.det, [fixed(np.eye(3))], np.linalg.det),
    Sample(
        "det-singular", determinants.det, [fixed([[1.0, 2.0], [2.0, 4.0]])], np.linalg.det, order=1
    ),
    named(determinants.slogdet, [normal(2, 3, 3)], np.linalg.slogdet),
    Sample("slogdet-complex", determinants.slogdet, [complex_normal(3, 3)], np.linalg.slogdet),
    named(determinants.logdet, [positive_definite(3)], lambda x: np.linalg.slogdet(x)[1]),
]
