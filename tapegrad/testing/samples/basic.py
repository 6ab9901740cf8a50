"""Samples of the operations that the engine itself computes with."""

import numpy as np

from tapegrad.ops import arithmetic, cast, joining, reduction, shape
from tapegrad.testing.sample import Sample, alike, complex_normal, named, normal, of_a_list

SAMPLES = [
    named(arithmetic.add, [normal(2, 3), normal(2, 3)], np.add),
    Sample("add-broadcast", arithmetic.add, [normal(2, 1, 3), normal(4, 1)], np.add),
    Sample("add-0d", arithmetic.add, [normal(), normal(3)], np.add),
    named(arithmetic.subtract, [normal(3), normal(2, 3)], np.subtract),
    named(arithmetic.multiply, [normal(2, 3), normal(3)], np.multiply),
    Sample(
        "multiply-complex",
        arithmetic.multiply,
        [complex_normal(3), complex_normal(2, 3)],
        np.multiply,
    ),
    Sample("multiply-mixed", arithmetic.multiply, [normal(3), complex_normal(2, 3)], np.multiply),
    named(arithmetic.divide, [normal(2, 3), normal(3)], np.divide),
    Sample("divide-complex", arithmetic.divide, [complex_normal(3), complex_normal(3)], np.divide),
    named(arithmetic.negative, [normal(3)], np.negative),
    named(arithmetic.positive, [normal(3)], np.positive),
    named(arithmetic.conj, [complex_normal(3)], np.conj),
    Sample(
        "cast", lambda x: cast.cast(cast.cast(x * x, "float64"), x.dtype), [normal(3)], np.square
    ),
    alike("reshape", shape.reshape, [normal(2, 3)], np.reshape, (3, -1)),
    alike("broadcast_to", shape.broadcast_to, [normal(3, 1)], np.broadcast_to, (2, 3, 2)),
    alike("permute_dims", shape.permute_dims, [normal(2, 3, 4)], np.transpose, (2, 0, 1)),
    named(reduction.sum, [normal(2, 3)], np.sum),
    alike("sum-axis", reduction.sum, [normal(2, 3, 4)], np.sum, axis=(0, -1)),
    of_a_list("concat", joining.concat, [normal(2, 3), normal(2, 1)], np.concatenate, 1),
    of_a_list("stack", joining.stack, [normal(2, 3), normal(2, 3)], np.stack, -1),
]
