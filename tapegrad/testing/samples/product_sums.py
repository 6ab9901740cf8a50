"""Samples of matrix products that take in what follows them; they have no derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.matrix_product_sum import matmul_sum_p, matmul_with_sums_p
from tapegrad.testing.sample import Maker, Sample, ValueSample, complex_normal, normal

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
    _with_sums("second", [normal(4, 3), _B], (True, False), False),
    _with_sums("first", [normal(4, 3), _B], (True, False), True),
    _with_sums("plain", [_A, _B], (False, False), True),
    _with_sums("transposed", [_A, normal(2, 4)], (False, True), False),
    _with_sums("empty", [normal(0, 3), normal(0, 2)], (True, False), False),
]
