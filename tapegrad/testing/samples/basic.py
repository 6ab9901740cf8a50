"""Samples of the operations that autodiff itself uses."""

import numpy as np

from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape import functions as shape, joining
from tapegrad.testing.sample import (
    Sample,
    alike,
    complex_normal,
    like_numpy,
    normal,
    of_a_list,
)

SAMPLES = [
    like_numpy(arithmetic.add, [normal(2, 3), normal(2, 3)]),
    Sample("add-broadcast", arithmetic.add, [normal(2, 1, 3), normal(4, 1)], np.add),
    Sample("add-0d", arithmetic.add, [normal(), normal(3)], np.add),
    like_numpy(arithmetic.subtract, [normal(3), normal(2, 3)]),
    like_numpy(arithmetic.multiply, [normal(2, 3), normal(3)]),
    Sample(
        "multiply-complex",
        arithmetic.multiply,
        [complex_normal(3), complex_normal(2, 3)],
        np.multiply,
    ),
    Sample("multiply-mixed", arithmetic.multiply, [normal(3), complex_normal(2, 3)], np.multiply),
    like_numpy(arithmetic.divide, [normal(2, 3), normal(3)]),
    Sample("divide-complex", arithmetic.divide, [complex_normal(3), complex_normal(3)], np.divide),
    like_numpy(arithmetic.negative, [normal(3)]),
    like_numpy(arithmetic.positive, [normal(3)]),
    like_numpy(arithmetic.conj, [complex_normal(3)]),
    Sample(
        "cast", lambda x: cast.cast(cast.cast(x * x, "float64"), x.dtype), [normal(3)], np.square
    ),
    like_numpy(shape.reshape, [normal(2, 3)], (3, -1)),
    like_numpy(shape.broadcast_to, [normal(3, 1)], (2, 3, 2)),
    alike("permute_dims", shape.permute_dims, [normal(2, 3, 4)], np.transpose, (2, 0, 1)),
    like_numpy(reduction.sum, [normal(2, 3)]),
    like_numpy(reduction.sum, [normal(2, 3, 4)], case="axis", axis=(0, -1)),
    of_a_list("concat", joining.concat, [normal(2, 3), normal(2, 1)], np.concatenate, 1),
    of_a_list("stack", joining.stack, [normal(2, 3), normal(2, 3)], np.stack, -1),
]
