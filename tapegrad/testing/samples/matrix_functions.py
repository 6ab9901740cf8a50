"""Samples of matrix functions, norms, smaller products and the Schur decomposition.

The results do not depend on the order of eigenvalues and the phases of vectors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.linalg import functions, norms, traces
from tapegrad.ops.linalg.common import triangle
from tapegrad.ops.linalg.schur import hessenberg, schur
from tapegrad.ops.products.functions import adjoint, matmul
from tapegrad.ops.reduction.primitives import sum as total
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    alike,
    complex_normal,
    distinct,
    fixed,
    like_numpy,
    named,
    normal,
    of_a_list,
    of_scipy,
    positive_definite,
)

_scipy = partial(of_scipy, "linalg")


def _function(name: str, maker: Maker, case: str = "", order: int = 2) -> Sample:
    label = f"{name}-{case}" if case else name
    return Sample(label, getattr(functions, name), [maker], _scipy(name), order=order)


def _vector(name: str, ord: Any, maker: Maker, axis: Any = -1) -> Sample:
    reference = np.linalg.vector_norm
    return alike(f"vector_norm-{name}", norms.vector_norm, [maker], reference, ord=ord, axis=axis)


def _matrix(name: str, ord: Any, maker: Maker) -> Sample:
    return alike(f"matrix_norm-{name}", norms.matrix_norm, [maker], np.linalg.matrix_norm, ord=ord)


def _squared(x: Any) -> Any:
    """Return Z T² Z^H and the strict upper triangle of T, which is 0 for normal matrices."""
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
    """Return the squared magnitude of each entry: the phases of columns are arbitrary."""
    h, q = hessenberg(x)
    return h * conj(h), q * conj(q)


_hessenberg = of_scipy("linalg", "hessenberg", calc_q=True)


def _hessenberg_reference(x: Any) -> Any:
    h, q = _hessenberg(x)
    return h * h.conj(), q * q.conj()


def _mixed(values: list[complex]) -> Maker:
    """Return a non-normal matrix with these eigenvalues."""
    turn = np.eye(len(values)) + 0.4 * np.triu(np.ones((len(values),) * 2), 1)
    return fixed(turn @ np.diag(values) @ np.linalg.inv(turn))


SAMPLES = [
    named(traces.trace, [normal(2, 3, 3)], lambda x: np.trace(x, axis1=1, axis2=2)),
    Sample("trace-wide", traces.trace, [normal(2, 4)], np.trace),
    Sample("trace-tall", traces.trace, [complex_normal(4, 2)], np.trace),
    like_numpy(traces.cross, [normal(2, 3), normal(3)]),
    like_numpy(traces.cross, [normal(3, 2), normal(3, 2)], case="axis", axis=0),
    of_a_list(
        "multi_dot",
        traces.multi_dot,
        [normal(2, 4), normal(4, 3), normal(3, 2)],
        np.linalg.multi_dot,
    ),
    of_a_list(
        "multi_dot-vectors",
        traces.multi_dot,
        [normal(4), normal(4, 3), normal(3, 2), normal(2)],
        np.linalg.multi_dot,
    ),
    named(traces.tensorsolve, [normal(2, 3, 6), normal(2, 3)], np.linalg.tensorsolve),
    alike(
        "tensorsolve-axes",
        traces.tensorsolve,
        [normal(6, 2, 3), normal(2, 3)],
        np.linalg.tensorsolve,
        axes=(0,),
    ),
    named(traces.tensorinv, [normal(2, 3, 6)], np.linalg.tensorinv),
    _function("expm", normal(2, 3, 3)),
    _function("expm", complex_normal(3, 3), "complex"),
    Sample(
        "expm-large",
        lambda x: functions.expm(4.0 * x),
        [normal(3, 3)],
        lambda x: _scipy("expm")(4 * x),
    ),
    _function("expm", fixed([[0.0, 1.0], [0.0, 0.0]]), "nilpotent"),
    _function("sqrtm", positive_definite(3)),
    _function("sqrtm", fixed([[2.0, 1.0], [0.0, 2.0]]), "jordan"),
    _function("logm", positive_definite(3)),
    _function("logm", fixed([[2.0, 1.0], [0.0, 2.0]]), "jordan"),
    alike("matrix_power", functions.matrix_power, [normal(2, 3, 3)], np.linalg.matrix_power, 5),
    alike(
        "matrix_power-negative",
        functions.matrix_power,
        [positive_definite(3)],
        np.linalg.matrix_power,
        -2,
    ),
    Sample(
        "matrix_power-zero",
        lambda x: functions.matrix_power(x, 0),
        [normal(3, 3)],
        lambda x: np.eye(3),
    ),
    ValueSample(
        "matrix_rank",
        functions.matrix_rank,
        [fixed([[1.0, 2.0], [2.0, 4.0]])],
        np.linalg.matrix_rank,
    ),
    _vector("2", 2, normal(2, 3)),
    _vector("1", 1, normal(2, 3)),
    _vector("3", 3, normal(2, 3)),
    _vector("half", 0.5, normal(2, 3)),
    _vector("inf", np.inf, distinct(2, 3)),
    _vector("minus-inf", -np.inf, distinct(2, 3)),
    _vector("0", 0, normal(2, 3)),
    _vector("complex", 3, complex_normal(2, 3)),
    _vector("complex-2", 2, complex_normal(2, 3)),
    _vector("all", 2, normal(2, 3), axis=None),
    _matrix("fro", "fro", complex_normal(2, 3, 3)),
    _matrix("nuc", "nuc", normal(2, 3, 4)),
    _matrix("2", 2, normal(4, 3)),
    _matrix("minus-2", -2, complex_normal(3, 3)),
    _matrix("1", 1, normal(3, 4)),
    _matrix("minus-inf", -np.inf, normal(3, 4)),
    alike(
        "matrix_norm-axes",
        norms.matrix_norm,
        [normal(3, 2, 4)],
        np.linalg.norm,
        2,
        axis=(2, 0),
        keepdims=True,
    ),
    named(norms.norm, [normal(2, 3)], np.linalg.norm),
    alike("norm-axis", norms.norm, [normal(2, 3)], np.linalg.norm, 1, axis=0, keepdims=True),
    Sample(
        "norm-matrix",
        lambda x: norms.norm(x, "fro", axis=[-2, -1]),
        [normal(2, 3, 3)],
        lambda x: np.linalg.norm(x, axis=(1, 2)),
    ),
    Sample(
        "normalize",
        lambda x: norms.normalize(x, axis=-1),
        [normal(2, 3)],
        lambda x: (
            x / np.linalg.norm(x, axis=-1, keepdims=True),
            np.linalg.norm(x, axis=-1, keepdims=True),
        ),
    ),
    Sample(
        "l2_normalize",
        lambda x: norms.l2_normalize(x, axis=1),
        [normal(2, 3)],
        lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
    ),
    Sample(
        "l2_normalize-small",
        lambda x: norms.l2_normalize(x, 0, epsilon=100.0),
        [normal(3)],
        lambda x: x / 10,
    ),
    Sample(
        "global_norm",
        lambda a, b: norms.global_norm([a, None, b]),
        [normal(2, 3), normal(4)],
        lambda a, b: np.sqrt((a * a).sum() + (b * b).sum()),
    ),
    named(norms.cond, [normal(3, 4)], np.linalg.cond),
    alike("cond-fro", norms.cond, [positive_definite(3)], np.linalg.cond, "fro"),
    Sample("schur", _squared, [normal(3, 3)], _squared_reference),
    Sample("schur-complex", _squared, [complex_normal(3, 3)], _squared_reference, order=1),
    ValueSample("schur-real", _rebuilt_real, [normal(2, 4, 4)], _rebuilt_reference),
    named(hessenberg, [normal(4, 4)], _hessenberg),
    Sample("hessenberg-complex", _hessenberg_sizes, [complex_normal(4, 4)], _hessenberg_reference),
    # Order 1, because every order doubles the matrix; tests/scipy checks the second order.
    _function("sqrtm", _mixed([1j, -2 - 1j]), "complex", order=1),
    _function("logm", _mixed([1j, -2 - 1j]), "complex", order=1),
]
