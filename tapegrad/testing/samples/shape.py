"""Samples of shape, joining, creation, padding and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import creation
from tapegrad.ops.shape import diagonal, functions as shape, joining, padding, rearranging
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    alike_in_value,
    complex_normal,
    fixed,
    integers,
    like_numpy,
    named,
    normal,
    of_a_list,
)

_BLOCKS = fixed(np.arange(1.0, 33.0).reshape(1, 4, 4, 2))


def _space_to_depth(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    return (
        x.reshape(n, h // 2, 2, w // 2, 2, c)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h // 2, w // 2, 4 * c)
    )


def _band_rows(x: np.ndarray) -> np.ndarray:
    """Diagonals 1, 0, -1 of a 3 x 3 matrix, RIGHT_LEFT: padded before above, after below."""
    return np.stack(
        [np.concatenate([[0], np.diag(x, 1)]), np.diag(x), np.concatenate([np.diag(x, -1), [0]])]
    )


def _positions(x: Any) -> Any:
    return creation.positions_like_p(x, length=3, dtype=np.dtype(np.int64))


SHAPES = [
    like_numpy(shape.reshape, [normal()], (1, 1), case="0d"),
    like_numpy(shape.reshape, [normal(2, 0)], (0, 2), case="empty"),
    like_numpy(shape.ravel, [normal(2, 3)]),
    like_numpy(shape.broadcast_to, [normal()], (2, 3), case="0d"),
    like_numpy(shape.broadcast_arrays, [normal(2, 1), normal(3)]),
    like_numpy(shape.transpose, [normal(2, 3, 4)]),
    Sample(
        "transpose-conjugate",
        lambda x: shape.transpose(x, (1, 0), conjugate=True),
        [complex_normal(2, 3)],
        lambda x: x.conj().T,
    ),
    named(shape.matrix_transpose, [normal(2, 3, 4)], lambda x: np.swapaxes(x, -1, -2)),
    like_numpy(shape.swapaxes, [normal(2, 3, 4)], 0, -1),
    like_numpy(shape.moveaxis, [normal(2, 3, 4)], (0, 1), (-1, 0)),
    like_numpy(shape.rollaxis, [normal(2, 3, 4)], 0, 3),
    like_numpy(shape.expand_dims, [normal(2, 3)], (0, -1)),
    like_numpy(shape.squeeze, [normal(1, 2, 1)]),
    like_numpy(shape.squeeze, [normal(1, 2, 1)], -1, case="axis"),
    like_numpy(shape.atleast_1d, [normal()]),
    like_numpy(shape.atleast_2d, [normal(3)]),
    like_numpy(shape.atleast_3d, [normal(3)]),
    Sample("atleast_3d-matrix", shape.atleast_3d, [normal(2, 3)], np.atleast_3d),
    Sample("ensure_shape", lambda x: shape.ensure_shape(x, (None, 3)), [normal(2, 3)], lambda x: x),
    Sample(
        "identity_n",
        lambda a, b: shape.identity_n([a, b]),
        [normal(2), normal(3)],
        lambda a, b: (a, b),
    ),
    Sample("to_device", lambda x: shape.to_device(x, x.device) * x, [normal(3)], np.square),
    ValueSample("shape", lambda x: shape.shape(x), [normal(2, 3)], lambda x: np.array(x.shape)),
    ValueSample("size", lambda x: shape.size(x), [normal(2, 3)], np.size),
    ValueSample("rank", lambda x: shape.rank(x), [normal(2, 3)], np.ndim),
    ValueSample(
        "shape_n",
        lambda a, b: shape.shape_n([a, b]),
        [normal(2), normal(3)],
        lambda a, b: (np.array([2]), np.array([3])),
    ),
]

REARRANGED = [
    like_numpy(rearranging.flip, [normal(2, 3)]),
    Sample("reverse", lambda x: rearranging.reverse(x, [-1]), [normal(2, 3)], lambda x: x[:, ::-1]),
    like_numpy(rearranging.fliplr, [normal(2, 3)]),
    like_numpy(rearranging.flipud, [normal(2, 3)]),
    like_numpy(rearranging.rot90, [normal(2, 3)]),
    like_numpy(rearranging.rot90, [normal(2, 3, 4)], -1, (1, 2), case="back"),
    like_numpy(rearranging.roll, [normal(2, 3)], (1, -2), (0, 1)),
    like_numpy(rearranging.roll, [normal(2, 3)], 4, case="flat"),
    like_numpy(rearranging.tile, [normal(2, 2)], (2, 1, 3)),
    like_numpy(rearranging.tile, [normal()], (3,), case="0d"),
    like_numpy(rearranging.repeat, [normal(2, 3)], 2, 1),
    like_numpy(rearranging.repeat, [normal(2, 3)], 2, case="flat"),
    like_numpy(rearranging.repeat, [normal(2, 3)], [2, 0, 1], 1, case="counts"),
    like_numpy(rearranging.meshgrid, [normal(2), normal(3), normal(4)]),
    like_numpy(rearranging.meshgrid, [normal(2), normal(3)], case="ij", indexing="ij"),
    Sample(
        "space_to_depth", lambda x: rearranging.space_to_depth(x, 2), [_BLOCKS], _space_to_depth
    ),
    Sample(
        "depth_to_space",
        lambda x: rearranging.depth_to_space(rearranging.space_to_depth(x, 2), 2),
        [_BLOCKS],
        lambda x: x,
    ),
    Sample(
        "depth_to_space-nchw",
        lambda x: rearranging.depth_to_space(rearranging.space_to_depth(x, 2, "NCHW"), 2, "NCHW"),
        [normal(1, 2, 4, 4)],
        lambda x: x,
    ),
    Sample(
        "space_to_batch",
        lambda x: rearranging.space_to_batch(x, [2], [[1, 0]]),
        [normal(1, 3, 2)],
        lambda x: np.stack([np.stack([np.zeros(2), x[0, 1]]), np.stack([x[0, 0], x[0, 2]])]),
    ),
    Sample(
        "batch_to_space",
        lambda x: rearranging.batch_to_space(
            rearranging.space_to_batch(x, [2, 2], [[1, 0], [0, 2]]), [2, 2], [[1, 0], [0, 2]]
        ),
        [normal(2, 3, 4, 2)],
        lambda x: x,
    ),
]

JOINED = [
    Sample(
        "concat-axis0",
        lambda a, b: joining.concat([a, b, a], 0),
        [normal(2, 3), normal(1, 3)],
        lambda a, b: np.concatenate([a, b, a]),
    ),
    of_a_list("concat-empty", joining.concat, [normal(0, 3), normal(1, 3)], np.concatenate),
    of_a_list("stack-0d", joining.stack, [normal(), normal()], np.stack),
    like_numpy(joining.split, [normal(2, 4)], 2, -1),
    Sample(
        "split-sizes",
        lambda x: joining.split(x, [1, -1, 2]),
        [normal(5, 2)],
        lambda x: np.split(x, [1, 3]),
    ),
    Sample(
        "unstack",
        lambda x: joining.unstack(x, axis=1),
        [normal(2, 3)],
        lambda x: (x[:, 0], x[:, 1], x[:, 2]),
    ),
    Sample("unstack-one", lambda x: joining.unstack(x * x)[1], [normal(3)], lambda x: x[1] ** 2),
    like_numpy(joining.array_split, [normal(4, 2)], 3),
    like_numpy(joining.array_split, [normal(2, 4)], [1, 3], 1, case="places"),
    like_numpy(joining.vsplit, [normal(4, 2)], 2),
    like_numpy(joining.hsplit, [normal(2, 4)], 2),
    like_numpy(joining.dsplit, [normal(2, 1, 3)], [1]),
    of_a_list("vstack", joining.vstack, [normal(3), normal(2, 3)], np.vstack),
    of_a_list("hstack", joining.hstack, [normal(3), normal()], np.hstack),
    of_a_list("dstack", joining.dstack, [normal(3), normal(1, 3)], np.dstack),
    of_a_list("column_stack", joining.column_stack, [normal(3), normal(3, 2)], np.column_stack),
    Sample(
        "list-of-tensors",
        lambda a, b: shape.ravel([[a, b], [b, a]]),
        [normal(), normal()],
        lambda a, b: np.array([a, b, b, a]),
    ),
]

MADE = [
    Sample("fill", lambda v: creation.fill((2, 3), v), [normal()], lambda v: np.full((2, 3), v)),
    Sample("full", lambda v: creation.full((2, 3), v), [normal(3)], lambda v: np.full((2, 3), v)),
    like_numpy(creation.linspace, [normal(), normal()], 5),
    like_numpy(creation.linspace, [normal(2, 3), normal(3)], 4, case="axis", axis=-1),
    ValueSample(
        "one_hot",
        lambda i: creation.one_hot(i, 4, dtype="float32"),
        [integers(0, 4, 2, 3)],
        lambda i: np.eye(4)[i],
    ),
    ValueSample(
        "one_hot-axis",
        lambda i: creation.one_hot(i, 3, 5, -1, axis=0, dtype="float32"),
        [integers(-1, 5, 2)],
        lambda i: np.where(np.arange(3)[:, None] == i, 5.0, -1.0),
    ),
    alike_in_value("full_like", creation.full_like, [normal(2)], np.full_like, 3),
    alike_in_value("positions_like", _positions, [normal(2)], lambda x: np.arange(3)),
    ValueSample("zeros_like", creation.zeros_like, [normal(2)], np.zeros_like),
    ValueSample("ones_like", creation.ones_like, [normal(2)], np.ones_like),
]

PADDED = [
    like_numpy(padding.pad, [normal(2, 3)], [[1, 2], [0, 1]]),
    like_numpy(padding.pad, [normal(2, 3)], [[1, 2], [0, 1]], case="number", constant_values=7),
    Sample(
        "pad-tensor",
        lambda x, c: padding.pad(x, [[1, 2]], constant_values=c),
        [normal(3), normal()],
        lambda x, c: np.pad(x, [[1, 2]], constant_values=c),
    ),
    *[
        alike(f"pad-{mode}", padding.pad, [normal(3, 4)], np.pad, [[1, 2], [0, 2]], mode)
        for mode in ("reflect", "symmetric", "edge", "wrap")
    ],
]

DIAGONALS = [
    like_numpy(diagonal.tril, [normal(2, 3, 4)], 1),
    like_numpy(diagonal.triu, [normal(3, 4)], -1),
    Sample(
        "band_part",
        lambda x: diagonal.band_part(x, 1, 0),
        [normal(4, 4)],
        lambda x: np.triu(np.tril(x), -1),
    ),
    Sample(
        "matrix_diag",
        lambda v: diagonal.matrix_diag(v, k=-1),
        [normal(2, 3)],
        lambda v: np.stack([np.diag(row, -1) for row in v]),
    ),
    Sample(
        "matrix_diag-band",
        lambda v: diagonal.matrix_diag(v, k=(-1, 1)),
        [normal(3, 3)],
        lambda v: np.diag(v[0, 1:], 1) + np.diag(v[1]) + np.diag(v[2, :2], -1),
    ),
    Sample(
        "matrix_diag_part",
        lambda x: diagonal.matrix_diag_part(x, k=1),
        [normal(2, 3, 4)],
        lambda x: np.diagonal(x, 1, -2, -1),
    ),
    Sample(
        "matrix_diag_part-band",
        lambda x: diagonal.matrix_diag_part(x, k=(-1, 1)),
        [normal(3, 3)],
        _band_rows,
    ),
    Sample(
        "set_diag",
        diagonal.set_diag,
        [normal(2, 3, 3), normal(2, 3)],
        lambda x, v: x * (1 - np.eye(3)) + v[..., None] * np.eye(3),
    ),
    like_numpy(diagonal.diagonal, [normal(3, 2, 4)], -1, 0, 2),
    like_numpy(diagonal.diag, [normal(3)]),
    like_numpy(diagonal.diag, [normal(3, 4)], 1, case="matrix"),
    named(diagonal.diag_part, [complex_normal(3, 3)], np.diag),
    like_numpy(diagonal.diagflat, [normal(2, 2)]),
    named(diagonal.tensor_diag, [normal(2, 2)], lambda x: np.diag(x.ravel()).reshape(2, 2, 2, 2)),
    named(
        diagonal.tensor_diag_part,
        [normal(2, 2, 2, 2)],
        lambda x: np.diag(x.reshape(4, 4)).reshape(2, 2),
    ),
    named(
        diagonal.fill_diagonal,
        [normal(3, 2), normal()],
        lambda x, v: np.where(np.eye(3, 2, dtype=bool), v, x),
    ),
]

SAMPLES = [*SHAPES, *REARRANGED, *JOINED, *MADE, *PADDED, *DIAGONALS]
