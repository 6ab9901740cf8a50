"""Samples of the operations that the engine itself computes with."""

from __future__ import annotations

import numpy as np

from tapegrad.ops import arithmetic, cast, joining, reduction, shape
from tapegrad.testing.sample import Sample, alike, complex_normal, normal

SAMPLES = [
    Sample("add", arithmetic.add, [normal(2, 3), normal(2, 3)], np.add),
    Sample("add-broadcast", arithmetic.add, [normal(2, 1, 3), normal(4, 1)], np.add),
    Sample("add-0d", arithmetic.add, [normal(), normal(3)], np.add),
    Sample("subtract", arithmetic.subtract, [normal(3), normal(2, 3)], np.subtract),
    Sample("multiply", arithmetic.multiply, [normal(2, 3), normal(3)], np.multiply),
    Sample(
        "multiply-complex",
        arithmetic.multiply,
        [complex_normal(3), complex_normal(2, 3)],
        np.multiply,
    ),
    Sample("multiply-mixed", arithmetic.multiply, [normal(3), complex_normal(2, 3)], np.multiply),
    Sample("divide", arithmetic.divide, [normal(2, 3), normal(3)], np.divide),
    Sample("divide-complex", arithmetic.divide, [complex_normal(3), complex_normal(3)], np.divide),
    Sample("negative", arithmetic.negative, [normal(3)], np.negative),
    Sample("positive", arithmetic.positive, [normal(3)], np.positive),
    Sample("conj", arithmetic.conj, [complex_normal(3)], np.conj),
    Sample(
        "cast", lambda x: cast.cast(cast.cast(x * x, "float64"), x.dtype), [normal(3)], np.square
    ),
    Sample(
        "reshape", lambda x: shape.reshape(x, (3, -1)), [normal(2, 3)], lambda x: x.reshape(3, 2)
    ),
    alike("broadcast_to", shape.broadcast_to, [normal(3, 1)], np.broadcast_to, (2, 3, 2)),
    Sample(
        "permute_dims",
        lambda x: shape.permute_dims(x, (2, 0, 1)),
        [normal(2, 3, 4)],
        lambda x: x.transpose(2, 0, 1),
    ),
    Sample("sum", reduction.sum, [normal(2, 3)], np.sum),
    Sample(
        "sum-axis",
        lambda x: reduction.sum(x, axis=(0, -1)),
        [normal(2, 3, 4)],
        lambda x: x.sum((0, 2)),
    ),
    Sample(
        "concat",
        lambda a, b: joining.concat([a, b], 1),
        [normal(2, 3), normal(2, 1)],
        lambda a, b: np.concatenate([a, b], 1),
    ),
    Sample(
        "stack",
        lambda a, b: joining.stack([a, b], -1),
        [normal(2, 3), normal(2, 3)],
        lambda a, b: np.stack([a, b], -1),
    ),
]
