"""Samples of matrix products and einsum."""

from __future__ import annotations

import numpy as np

from tapegrad.ops import einsum as einsums, products
from tapegrad.testing.sample import Sample, alike, complex_normal, named, normal


def _transposed(transpose_a: bool, transpose_b: bool) -> Sample:
    a = normal(4, 3) if transpose_a else normal(3, 4)
    b = normal(2, 4) if transpose_b else normal(4, 2)
    return Sample(
        f"matmul-transposed-{int(transpose_a)}{int(transpose_b)}",
        lambda x, y: products.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b),
        [a, b],
        lambda x, y: (x.T if transpose_a else x) @ (y.T if transpose_b else y),
    )


def _einsum(name: str, equation: str, *args: object) -> Sample:
    return Sample(
        f"einsum-{name}",
        lambda *xs: einsums.einsum(equation, *xs),
        args,  # type: ignore[arg-type]  # makers
        lambda *xs: np.einsum(equation, *xs),
    )


SAMPLES = [
    named(products.matmul, [normal(3, 4), normal(4, 2)], np.matmul),
    *[_transposed(a, b) for a in (False, True) for b in (False, True)],
    Sample("matmul-batch", products.matmul, [normal(2, 3, 4), normal(2, 4, 2)], np.matmul),
    Sample("matmul-broadcast", products.matmul, [normal(2, 1, 3, 4), normal(3, 4, 2)], np.matmul),
    Sample("matmul-fold", products.matmul, [normal(2, 5, 3, 4), normal(4, 2)], np.matmul),
    Sample("matmul-left-shared", products.matmul, [normal(3, 4), normal(2, 4, 2)], np.matmul),
    Sample(
        "matmul-shared-transposed",
        lambda a, b: products.matmul(a, b, transpose_a=True, transpose_b=True),
        [normal(4, 3), normal(5, 2, 4)],
        lambda a, b: a.T @ b.swapaxes(-1, -2),
    ),
    Sample(
        "matmul-batch-transposed",
        lambda a, b: products.matmul(a, b, transpose_a=True),
        [normal(5, 4, 3), normal(4, 2)],
        lambda a, b: a.swapaxes(-1, -2) @ b,
    ),
    Sample("matmul-vectors", products.matmul, [normal(3), normal(3)], np.matmul),
    Sample("matmul-row", products.matmul, [normal(3), normal(2, 3, 4)], np.matmul),
    Sample("matmul-column", products.matmul, [normal(2, 4, 3), normal(3)], np.matmul),
    Sample("matmul-matrix-vector", products.matmul, [normal(4, 3), normal(3)], np.matmul),
    Sample("matmul-empty", products.matmul, [normal(2, 0), normal(0, 3)], np.matmul),
    Sample(
        "matmul-complex", products.matmul, [complex_normal(2, 3), complex_normal(3, 2)], np.matmul
    ),
    Sample("matmul-mixed", products.matmul, [normal(2, 3), complex_normal(3, 2)], np.matmul),
    Sample(
        "matmul-adjoint",
        lambda a, b: products.matmul(a, b, adjoint_a=True, transpose_b=True),
        [complex_normal(3, 2), complex_normal(4, 3)],
        lambda a, b: a.conj().T @ b.T,
    ),
    Sample("matmul-operator", lambda a, b: a @ b, [normal(3, 4), normal(4, 2)], np.matmul),
    named(products.adjoint, [complex_normal(2, 3, 4)], lambda x: x.conj().swapaxes(-1, -2)),
    named(
        products.matvec, [normal(2, 3, 4), normal(2, 4)], lambda a, b: (a @ b[..., None])[..., 0]
    ),
    named(products.vecmat, [complex_normal(3), complex_normal(2, 3, 4)], lambda a, b: a.conj() @ b),
    named(products.vecdot, [complex_normal(2, 3), complex_normal(3)], np.vecdot),
    Sample(
        "vecdot-axis",
        lambda a, b: products.vecdot(a, b, axis=0),
        [normal(3, 2), normal(3, 2)],
        lambda a, b: (a * b).sum(0),
    ),
    named(products.dot, [normal(2, 3), normal(4, 3, 2)], np.dot),
    Sample("dot-vectors", products.dot, [normal(3), normal(3)], np.dot),
    Sample("dot-number", products.dot, [normal(), normal(3)], np.dot),
    named(products.vdot, [complex_normal(2, 3), complex_normal(2, 3)], np.vdot),
    named(products.inner, [normal(2, 3), normal(4, 3)], np.inner),
    named(products.outer, [normal(3), normal(2, 2)], np.outer),
    named(products.tensordot, [normal(2, 3, 4), normal(3, 4, 2)], np.tensordot),
    Sample(
        "tensordot-axes",
        lambda a, b: products.tensordot(a, b, [[0, -1], [1, 0]]),
        [normal(2, 3, 4), normal(4, 2, 5)],
        lambda a, b: np.tensordot(a, b, ([0, 2], [1, 0])),
    ),
    alike(
        "tensordot-one-axis",
        products.tensordot,
        [complex_normal(2, 3), complex_normal(4, 2)],
        np.tensordot,
        (0, 1),
    ),
    alike("tensordot-none", products.tensordot, [normal(2), normal(3, 2)], np.tensordot, 0),
    named(products.kron, [normal(2, 3), normal(3, 2)], np.kron),
    Sample("kron-ranks", products.kron, [normal(2), normal(2, 3)], np.kron),
    _einsum("matmul", "ij,jk->ik", normal(2, 3), normal(3, 4)),
    _einsum("swapped", "ij,jk->ki", normal(2, 3), normal(3, 4)),
    _einsum("implicit", "ij,kj", normal(2, 3), normal(4, 3)),
    _einsum("attention", "bqhd,bkhd->bhqk", normal(2, 3, 2, 4), normal(2, 5, 2, 4)),
    _einsum("trace", "ii", normal(3, 3)),
    _einsum("diagonal", "iji->ij", normal(3, 2, 3)),
    _einsum("triple-diagonal", "iii->i", normal(3, 3, 3)),
    _einsum("sum", "ijk->k", normal(2, 3, 4)),
    _einsum("transpose", "ijk->kij", normal(2, 3, 4)),
    _einsum("outer", "i,j->ji", normal(2), normal(3)),
    _einsum("elementwise", "ij,ji->ij", normal(2, 3), normal(3, 2)),
    _einsum("dot", "i,i", normal(3), normal(3)),
    _einsum("lonely-label", "ij,kl->il", normal(2, 3), normal(4, 2)),
    _einsum("ellipsis", "...ij,...jk->...ik", normal(2, 1, 3, 4), normal(5, 4, 2)),
    _einsum("ellipsis-reordered", "i...,ji->...j", normal(2, 3, 4), normal(5, 2)),
    _einsum("ellipsis-implicit", "...i,...i", normal(2, 3), normal(3)),
    _einsum("three", "ij,jk,kl->il", normal(2, 3), normal(3, 4), normal(4, 2)),
    _einsum("bilinear", "bi,ijk,bk->bj", normal(2, 3), normal(3, 4, 2), normal(2, 2)),
    _einsum("diagonal-product", "ii,ij->j", normal(3, 3), normal(3, 2)),
    _einsum("two-summed", "ijk,jkl->il", normal(2, 3, 4), normal(3, 4, 2)),
    _einsum("complex", "ij,jk->ik", complex_normal(2, 3), complex_normal(3, 2)),
    Sample(
        "einsum-lists",
        lambda a, b: einsums.einsum(a, [0, 1], b, [1, 2], [2, 0]),
        [normal(2, 3), normal(3, 4)],
        lambda a, b: (a @ b).T,
    ),
    Sample(
        "einsum-lists-ellipsis",
        lambda a, b: einsums.einsum(a, [..., 0], b, [..., 0]),
        [normal(2, 3), normal(2, 3)],
        lambda a, b: (a * b).sum(-1),
    ),
]
