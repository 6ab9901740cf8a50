"""Rows of distributions that are made of others: lengths, ratios, powers, extremes, counts."""

from __future__ import annotations

import numpy as np

from tests.scipy.row import COUNTS, POSITIVE, POSITIVE_SMOOTH, REAL, REAL_SMOOTH, Row

inf = np.inf
BELOW = (-1.0, inf, -inf)
REACH = (0.0, 1e-5, 0.5, 2.0, 6.0, 30.0)
UNIT = (0.0, 1e-5, 0.3, 0.5, 0.9, 1.0)
UNIT_SMOOTH = (0.1, 0.45, 0.9)
BEYOND = (-0.5, 1.5, inf, -inf)

LENGTHS = [
    Row("halfnorm", {}, REACH, POSITIVE_SMOOTH, BELOW),
    Row("rayleigh", {}, REACH, POSITIVE_SMOOTH, BELOW),
    Row("maxwell", {}, REACH, POSITIVE_SMOOTH, BELOW),
    Row("chi", {"df": 3.3}, REACH, POSITIVE_SMOOTH, BELOW, other={"df": 1.0}),
    Row("nakagami", {"nu": 1.7}, REACH[:-1], POSITIVE_SMOOTH[:3], BELOW, other={"nu": 0.5}),
]

RATIOS = [
    Row("invgamma", {"a": 2.6}, POSITIVE, POSITIVE_SMOOTH, BELOW, other={"a": 0.7}),
    Row("levy", {}, (0.0, 1e-2, *POSITIVE[2:]), POSITIVE_SMOOTH, BELOW),
    Row(
        "betaprime",
        {"a": 2.3, "b": 3.4},
        POSITIVE,
        POSITIVE_SMOOTH,
        BELOW,
        other={"a": 1.4, "b": 0.9},
    ),
    Row(
        "f",
        {"dfn": 3.5, "dfd": 6.5},
        POSITIVE,
        POSITIVE_SMOOTH,
        BELOW,
        other={"dfn": 1.0, "dfd": 2.0},
    ),
    Row("halfcauchy", {}, (*POSITIVE, 1e8), POSITIVE_SMOOTH, BELOW),
]

POWERS = [
    Row("lognorm", {"s": 0.8}, POSITIVE, POSITIVE_SMOOTH, BELOW, other={"s": 2.0}),
    Row(
        "loguniform",
        {"a": 0.2, "b": 5.0},
        (0.2, 0.3, 1.0, 4.9, 5.0),
        (0.25, 1.0, 4.5),
        (-1.0, 0.1, 5.5, inf, -inf),
    ),
    Row(
        "reciprocal",
        {"a": 1.0, "b": 3.0},
        (1.0, 1.3, 2.0, 3.0),
        (1.25, 2.0),
        (-1.0, 0.1, 5.5, inf, -inf),
    ),
    Row("fisk", {"c": 2.6}, POSITIVE[:-2], POSITIVE_SMOOTH, BELOW, other={"c": 4.5}),
    Row("lomax", {"c": 2.6}, POSITIVE, POSITIVE_SMOOTH, BELOW, other={"c": 0.8}),
    Row("powerlaw", {"a": 1.7}, UNIT, UNIT_SMOOTH, BEYOND, other={"a": 2.6}),
    Row("triang", {"c": 0.35}, UNIT, UNIT_SMOOTH, BEYOND, other={"c": 0.9}),
    Row("arcsine", {}, UNIT, UNIT_SMOOTH, BEYOND),
]

EXTREMES = [
    Row("weibull_min", {"c": 1.7}, REACH, POSITIVE_SMOOTH[:3], BELOW, other={"c": 0.6}),
    Row(
        "weibull_max",
        {"c": 1.7},
        tuple(-x for x in REACH),
        (-2.0, -0.5, -0.1),
        (1.0, inf, -inf),
        other={"c": 0.6},
    ),
    Row("invweibull", {"c": 2.6}, (0.0, 0.3, 2.0, 30.0), (0.5, 2.0, 9.0), BELOW, other={"c": 3.3}),
    Row(
        "genextreme",
        {"c": 0.3},
        (-5.0, -1.0, 0.0, 0.01, 2.0, 3.2),
        (-1.0, 0.01, 0.5, 2.0),
        (3.5, inf, -inf),
        other={"c": -0.2},
        wrong={"c": inf},
    ),
    Row(
        "genpareto",
        {"c": 0.3},
        (*POSITIVE, 0.05),
        (*POSITIVE_SMOOTH, 0.03),
        BELOW,
        other={"c": -0.003},
        wrong={"c": inf},
    ),
    Row("halflogistic", {}, POSITIVE, POSITIVE_SMOOTH, BELOW),
    Row("hypsecant", {}, (*REAL, -300.0), (*REAL_SMOOTH, 0.0), (inf, -inf)),
]

SKEWED = [
    Row(
        "skewnorm",
        {"a": 1.5},
        (-0.5, 0.0, 0.7, 1.5),
        (-0.7, -0.2, 0.4, 2.0),
        (inf, -inf),
        other={"a": -1.2},
        wrong={"a": inf},
    ),
    Row("exponnorm", {"K": 1.5}, REAL[1:], REAL_SMOOTH, (inf, -inf), other={"K": 0.3}),
    Row(
        "invgauss",
        {"mu": 1.5},
        (0.0, 0.05, 0.5, 2.0, 9.0),
        POSITIVE_SMOOTH,
        BELOW,
        other={"mu": 0.4},
    ),
    Row(
        "johnsonsu",
        {"a": 0.7, "b": 1.3},
        REAL,
        (*REAL_SMOOTH, 0.0),
        (inf, -inf),
        other={"a": -1.0, "b": 2.0},
    ),
]

LATTICE = [
    Row("planck", {"lambda_": 0.6}, COUNTS, COUNTS, (-1.0, 0.5, *BELOW[1:])),
    Row(
        "dlaplace",
        {"a": 0.6},
        (-9.0, -1.0, 0.0, 1.0, 4.0),
        (-9.0, -1.0, 0.0, 4.0),
        (0.5, *BELOW[1:]),
        other={"a": 2.5},
    ),
    Row(
        "randint",
        {"low": -2.0, "high": 7.0},
        (-2.0, 0.0, 6.0),
        (-2.0, 0.0, 5.0),
        (-3.0, 0.5, 7.0, *BELOW[1:]),
        whole=("low", "high"),
        wrong={"low": 3.0, "high": 3.0},
    ),
    Row(
        "zipf",
        {"a": 5.6},
        (1.0, 2.0, 3.0),
        (1.0, 2.0, 7.0),
        (-1.0, 0.0, 1.5, inf),
        elsewhere=("entropy",),
    ),
    Row(
        "logser",
        {"p": 0.7},
        (1.0, 2.0, 7.0, 40.0),
        (1.0, 2.0, 7.0),
        (-1.0, 0.0, *BELOW[1:]),
        other={"p": 0.2},
    ),
    Row(
        "skellam",
        {"mu1": 2.5, "mu2": 1.2},
        (-4.0, -1.0, 0.0, 2.0, 5.0),
        (-4.0, 0.0, 2.0, 5.0),
        (0.5, inf),
        lacks=("entropy",),
        other={"mu1": 3.0, "mu2": 2.0},
    ),
]

MORE = [*LENGTHS, *RATIOS, *POWERS, *EXTREMES, *SKEWED, *LATTICE]
