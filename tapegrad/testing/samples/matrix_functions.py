"""Samples of matrix functions, norms and smaller products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.linalg import functions, norms, traces
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    alike,
    complex_normal,
    distinct,
    fixed,
    named,
    normal,
    of_a_list,
    positive_definite,
)


def _scipy(name: str) -> Callable[[Any], Any]:
    def reference(x: Any) -> Any:
        import scipy.linalg

        return getattr(scipy.linalg, name)(x)

    return reference


def _vector(name: str, ord: Any, maker: Maker, axis: Any = -1, order: int = 2) -> Sample:
    return Sample(
        f"vector_norm-{name}",
        lambda x: norms.vector_norm(x, ord, axis),
        [maker],
        lambda x: np.linalg.vector_norm(x, ord=ord, axis=axis),
        order=order,
    )


def _matrix(name: str, ord: Any, maker: Maker) -> Sample:
    return Sample(
        f"matrix_norm-{name}",
        lambda x: norms.matrix_norm(x, ord),
        [maker],
        lambda x: np.linalg.matrix_norm(x, ord=ord),
    )


def _cross_reference(a: Any, b: Any) -> Any:
    return np.cross(a, b)


SAMPLES = [
    named(traces.trace, [normal(2, 3, 3)], lambda x: np.trace(x, axis1=1, axis2=2)),
    Sample("trace-wide", traces.trace, [normal(2, 4)], np.trace),
    Sample("trace-tall", traces.trace, [complex_normal(4, 2)], np.trace),
    named(traces.cross, [normal(2, 3), normal(3)], _cross_reference),
    alike("cross-axis", traces.cross, [normal(3, 2), normal(3, 2)], np.cross, axis=0),
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
    named(functions.expm, [normal(2, 3, 3)], _scipy("expm")),
    Sample("expm-complex", functions.expm, [complex_normal(3, 3)], _scipy("expm")),
    Sample(
        "expm-large",
        lambda x: functions.expm(4.0 * x),
        [normal(3, 3)],
        lambda x: _scipy("expm")(4 * x),
    ),
    Sample("expm-nilpotent", functions.expm, [fixed([[0.0, 1.0], [0.0, 0.0]])], _scipy("expm")),
    named(functions.sqrtm, [positive_definite(3)], _scipy("sqrtm")),
    Sample("sqrtm-jordan", functions.sqrtm, [fixed([[2.0, 1.0], [0.0, 2.0]])], _scipy("sqrtm")),
    named(functions.logm, [positive_definite(3)], _scipy("logm")),
    Sample("logm-jordan", functions.logm, [fixed([[2.0, 1.0], [0.0, 2.0]])], _scipy("logm")),
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
]
