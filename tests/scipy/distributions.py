"""One row per distribution of one variable: what all the tests in this folder run on."""

from __future__ import annotations

import numpy as np

from tests.scipy.more_distributions import MORE
from tests.scipy.row import COUNTS, POSITIVE, POSITIVE_SMOOTH, REAL, REAL_SMOOTH, Row

__all__ = ["BY_NAME", "ROWS", "Row"]

inf = np.inf

ROWS = [
    Row("norm", {}, REAL, (*REAL_SMOOTH, 0.0), (inf, -inf)),
    Row(
        "t",
        {"df": 3.5},
        (-1e5, *REAL, 1e-17, -1e-9),
        (*REAL_SMOOTH, 0.0, 1e-8),
        (inf, -inf),
        other={"df": 0.8},
    ),
    Row("cauchy", {}, (-1e8, *REAL), (*REAL_SMOOTH, 0.0), (inf, -inf)),
    Row(
        "gennorm",
        {"beta": 1.3},
        (-20.0, -3.0, -0.5, 0.0, 1e-25, 0.7, 4.0),
        REAL_SMOOTH,
        (inf, -inf),
        other={"beta": 2.0},
    ),
    Row(
        "truncnorm",
        {"a": -1.0, "b": 2.5},
        (-1.0, -0.5, 0.0, 0.7, 2.4, 2.5),
        (-0.5, 0.0, 0.7, 2.4),
        (-2.0, 2.6, inf, -inf),
        other={"a": 5.0, "b": 7.0},
        wrong={"a": 3.0, "b": 2.0},
    ),
    Row(
        "gamma",
        {"a": 2.3},
        POSITIVE,
        POSITIVE_SMOOTH,
        (-1.0, inf, -inf),
        other={"a": 0.4},
    ),
    Row(
        "chi2",
        {"df": 3.3},
        POSITIVE,
        POSITIVE_SMOOTH,
        (-1.0, inf, -inf),
        other={"df": 1.0},
    ),
    Row("expon", {}, POSITIVE, POSITIVE_SMOOTH, (-1.0, inf, -inf)),
    Row(
        "beta",
        {"a": 2.3, "b": 0.7},
        (0.0, 1e-5, 0.5, 0.9, 1 - 1e-9, 1.0),
        (0.1, 0.5, 0.9),
        (-0.5, 1.5, inf, -inf),
        other={"a": 1.0, "b": 4.0},
    ),
    Row("uniform", {}, (0.0, 0.3, 1.0), (0.1, 0.5, 0.9), (-0.5, 1.5, inf, -inf)),
    Row("laplace", {}, REAL, REAL_SMOOTH, (inf, -inf)),
    Row("logistic", {}, (-300.0, *REAL), REAL_SMOOTH, (inf, -inf)),
    Row("gumbel_r", {}, (*REAL, 300.0), (-1.0, *REAL_SMOOTH[1:]), (inf, -inf)),
    Row("gumbel_l", {}, (-300.0, *REAL), (*REAL_SMOOTH[:3], 1.0), (inf, -inf)),
    Row(
        "pareto",
        {"b": 2.6},
        (1.0, 1.5, 4.0, 300.0),
        (1.2, 3.0, 8.0),
        (0.5, -3.0, inf, -inf),
        other={"b": 0.7},
    ),
    Row(
        "vonmises",
        {"kappa": 1.7},
        (-2.6, -0.5, 0.0, 2.6),
        (-2.6, -0.5, 0.0, 2.6),
        other={"kappa": 0.4},
        elsewhere=("var", "std"),
    ),
    Row(
        "wrapcauchy",
        {"c": 0.4},
        (0.0, 0.7, 3.0, 3.1416, 5.0, 6.2),
        (0.7, 3.0, 3.1416, 5.0),
        (-1.0, 7.0, inf, -inf),
        other={"c": 0.9},
    ),
    Row("bernoulli", {"p": 0.3}, (0.0, 1.0), (0.0, 1.0), (-1.0, 0.5, 2.0, inf, -inf)),
    Row(
        "binom",
        {"n": 7.0, "p": 0.3},
        COUNTS,
        COUNTS,
        (-1.0, 0.5, 8.0, inf, -inf),
        whole=("n",),
        other={"n": 20.0, "p": 0.9},
    ),
    Row(
        "betabinom",
        {"n": 7.0, "a": 0.7, "b": 2.2},
        COUNTS,
        COUNTS,
        (-1.0, 0.5, 8.0, inf, -inf),
        whole=("n",),
        other={"n": 9.0, "a": 3.0, "b": 1.0},
    ),
    Row(
        "geom",
        {"p": 0.3},
        (1.0, 2.0, 7.0, 40.0),
        (1.0, 2.0, 7.0),
        (-1.0, 0.0, 1.5, inf, -inf),
        other={"p": 0.01},
    ),
    Row(
        "nbinom",
        {"n": 2.5, "p": 0.3},
        (*COUNTS, 40.0),
        COUNTS,
        (-1.0, 0.5, inf, -inf),
        other={"n": 40.0, "p": 0.7},
    ),
    Row(
        "poisson",
        {"mu": 2.5},
        (*COUNTS, 20.0),
        COUNTS,
        (-1.0, 0.5, inf, -inf),
        other={"mu": 100.0},
    ),
    *MORE,
]
BY_NAME = {row.name: row for row in ROWS}
