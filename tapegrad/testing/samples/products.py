"""Samples of matrix products and einsum.

Products with fused additions, activations or sums have no derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.products import einsum as einsums, functions as products
from tapegrad.ops.products.fused import matmul_sum_p, matmul_with_sums_p
from tapegrad.ops.products.short import short_p
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    complex_normal,
    like_numpy,
    named,
    normal,
)


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


_MATMUL = {
    "batch": [normal(2, 3, 4), normal(2, 4, 2)],
    "broadcast": [normal(2, 1, 3, 4), normal(3, 4, 2)],
    "fold": [normal(2, 5, 3, 4), normal(4, 2)],
    "left-shared": [normal(3, 4), normal(2, 4, 2)],
    "vectors": [normal(3), normal(3)],
    "row": [normal(3), normal(2, 3, 4)],
    "column": [normal(2, 4, 3), normal(3)],
    "matrix-vector": [normal(4, 3), normal(3)],
    "empty": [normal(2, 0), normal(0, 3)],
    "complex": [complex_normal(2, 3), complex_normal(3, 2)],
    "mixed": [normal(2, 3), complex_normal(3, 2)],
}

_A, _B, _BIAS, _RESIDUAL = normal(3, 4), normal(4, 2), normal(2), normal(3, 2)


def _relu(x: Any) -> Any:
    return np.where(x > 0, x, 0)


def _gelu_tanh(x: Any) -> Any:
    return x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))


_REFERENCES = {None: lambda x: x, "relu": _relu, "gelu_tanh": _gelu_tanh}


def _sum(
    name: str,
    args: list[Maker],
    bias: bool = False,
    residual: bool = False,
    activation: str | None = None,
    turned: tuple[bool, bool] = (False, False),
) -> Sample:
    def reference(a: Any, b: Any, *addends: Any) -> Any:
        product = (a.T if turned[0] else a) @ (b.T if turned[1] else b)
        return _REFERENCES[activation](sum(addends, product))

    return ValueSample(
        f"matmul_sum-{name}",
        lambda *arrays: matmul_sum_p(
            *arrays,
            transpose_a=turned[0],
            transpose_b=turned[1],
            bias=bias,
            residual=residual,
            activation=activation,
        ),
        args,
        reference,
    )


def _short(name: str, args: list[Maker], turned: tuple[bool, bool]) -> Sample:
    def reference(a: Any, b: Any) -> Any:
        return np.matmul(*[np.swapaxes(x, -1, -2) if t else x for x, t in zip((a, b), turned)])

    return ValueSample(
        f"short_matmul-{name}",
        lambda a, b: short_p(a, b, transpose_a=turned[0], transpose_b=turned[1]),
        args,
        reference,
    )


def _with_sums(name: str, args: list[Maker], turned: tuple[bool, bool], of_first: bool) -> Sample:
    def reference(a: Any, b: Any) -> Any:
        a, b = a.T if turned[0] else a, b.T if turned[1] else b
        return a @ b, a.sum(1) if of_first else b.sum(0)

    return ValueSample(
        f"matmul_with_sums-{name}",
        lambda a, b: matmul_with_sums_p(
            a, b, transpose_a=turned[0], transpose_b=turned[1], of_first=of_first
        ),
        args,
        reference,
    )


SAMPLES = [
    like_numpy(products.matmul, [normal(3, 4), normal(4, 2)]),
    *[
        Sample(f"matmul-{label}", products.matmul, args, np.matmul)
        for label, args in _MATMUL.items()
    ],
    *[_transposed(a, b) for a in (False, True) for b in (False, True)],
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
    like_numpy(products.vecdot, [complex_normal(2, 3), complex_normal(3)]),
    Sample(
        "vecdot-axis",
        lambda a, b: products.vecdot(a, b, axis=0),
        [normal(3, 2), normal(3, 2)],
        lambda a, b: (a * b).sum(0),
    ),
    like_numpy(products.dot, [normal(2, 3), normal(4, 3, 2)]),
    Sample("dot-vectors", products.dot, [normal(3), normal(3)], np.dot),
    Sample("dot-number", products.dot, [normal(), normal(3)], np.dot),
    like_numpy(products.vdot, [complex_normal(2, 3), complex_normal(2, 3)]),
    like_numpy(products.inner, [normal(2, 3), normal(4, 3)]),
    like_numpy(products.outer, [normal(3), normal(2, 2)]),
    like_numpy(products.tensordot, [normal(2, 3, 4), normal(3, 4, 2)]),
    Sample(
        "tensordot-axes",
        lambda a, b: products.tensordot(a, b, [[0, -1], [1, 0]]),
        [normal(2, 3, 4), normal(4, 2, 5)],
        lambda a, b: np.tensordot(a, b, ([0, 2], [1, 0])),
    ),
    like_numpy(
        products.tensordot, [complex_normal(2, 3), complex_normal(4, 2)], (0, 1), case="one-axis"
    ),
    like_numpy(products.tensordot, [normal(2), normal(3, 2)], 0, case="none"),
    like_numpy(products.kron, [normal(2, 3), normal(3, 2)]),
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
    _sum("nothing", [_A, _B]),
    _sum("bias", [_A, _B, _BIAS], bias=True),
    _sum("residual", [_A, _B, _RESIDUAL], residual=True),
    _sum("both", [_A, _B, _BIAS, _RESIDUAL], bias=True, residual=True),
    _sum("relu", [_A, _B], activation="relu"),
    _sum("all", [_A, _B, _BIAS, _RESIDUAL], bias=True, residual=True, activation="relu"),
    _sum("gelu", [_A, _B, _BIAS], bias=True, activation="gelu_tanh"),
    _sum(
        "transposed",
        [normal(4, 3), normal(2, 4), _BIAS, _RESIDUAL],
        bias=True,
        residual=True,
        turned=(True, True),
    ),
    _sum("column", [_A, normal(4, 1), normal(1)], bias=True),
    _sum("empty", [normal(3, 0), normal(0, 2), _BIAS], bias=True),
    _sum(
        "complex",
        [complex_normal(3, 4), complex_normal(4, 2), complex_normal(2), complex_normal(3, 2)],
        bias=True,
        residual=True,
    ),
    _short("stacks", [normal(5, 2, 3), normal(5, 3, 4)], (False, False)),
    _short("transposed", [normal(3, 2), normal(5, 4, 3)], (True, True)),
    _with_sums("second", [normal(4, 3), _B], (True, False), False),
    _with_sums("first", [normal(4, 3), _B], (True, False), True),
    _with_sums("plain", [_A, _B], (False, False), True),
    _with_sums("transposed", [_A, normal(2, 4)], (False, True), False),
    _with_sums("empty", [normal(0, 3), normal(0, 2)], (True, False), False),
]
