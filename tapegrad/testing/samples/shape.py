"""Samples of shape, joining, creation, padding and diagonals."""

from __future__ import annotations

import numpy as np

from tapegrad.ops import creation, diagonal, joining, padding, rearranging, shape
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    complex_normal,
    fixed,
    integers,
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
    """Diagonals 1, 0, -1 of a 3 x 3 matrix, RIGHT_LEFT: padded in front above, behind below."""
    return np.stack(
        [np.concatenate([[0], np.diag(x, 1)]), np.diag(x), np.concatenate([np.diag(x, -1), [0]])]
    )


SHAPES = [
    alike("reshape-0d", shape.reshape, [normal()], np.reshape, (1, 1)),
    alike("reshape-empty", shape.reshape, [normal(2, 0)], np.reshape, (0, 2)),
    named(shape.ravel, [normal(2, 3)], np.ravel),
    alike("broadcast_to-0d", shape.broadcast_to, [normal()], np.broadcast_to, (2, 3)),
    named(shape.broadcast_arrays, [normal(2, 1), normal(3)], np.broadcast_arrays),
    named(shape.transpose, [normal(2, 3, 4)], np.transpose),
    Sample(
        "transpose-conjugate",
        lambda x: shape.transpose(x, (1, 0), conjugate=True),
        [complex_normal(2, 3)],
        lambda x: x.conj().T,
    ),
    named(shape.matrix_transpose, [normal(2, 3, 4)], lambda x: np.swapaxes(x, -1, -2)),
    alike("swapaxes", shape.swapaxes, [normal(2, 3, 4)], np.swapaxes, 0, -1),
    alike("moveaxis", shape.moveaxis, [normal(2, 3, 4)], np.moveaxis, (0, 1), (-1, 0)),
    alike("rollaxis", shape.rollaxis, [normal(2, 3, 4)], np.rollaxis, 0, 3),
    alike("expand_dims", shape.expand_dims, [normal(2, 3)], np.expand_dims, (0, -1)),
    named(shape.squeeze, [normal(1, 2, 1)], np.squeeze),
    alike("squeeze-axis", shape.squeeze, [normal(1, 2, 1)], np.squeeze, -1),
    named(shape.atleast_1d, [normal()], np.atleast_1d),
    named(shape.atleast_2d, [normal(3)], np.atleast_2d),
    named(shape.atleast_3d, [normal(3)], np.atleast_3d),
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
    named(rearranging.flip, [normal(2, 3)], np.flip),
    Sample("reverse", lambda x: rearranging.reverse(x, [-1]), [normal(2, 3)], lambda x: x[:, ::-1]),
    named(rearranging.fliplr, [normal(2, 3)], np.fliplr),
    named(rearranging.flipud, [normal(2, 3)], np.flipud),
    named(rearranging.rot90, [normal(2, 3)], np.rot90),
    alike("rot90-back", rearranging.rot90, [normal(2, 3, 4)], np.rot90, -1, (1, 2)),
    alike("roll", rearranging.roll, [normal(2, 3)], np.roll, (1, -2), (0, 1)),
    alike("roll-flat", rearranging.roll, [normal(2, 3)], np.roll, 4),
    alike("tile", rearranging.tile, [normal(2, 2)], np.tile, (2, 1, 3)),
    alike("tile-0d", rearranging.tile, [normal()], np.tile, (3,)),
    alike("repeat", rearranging.repeat, [normal(2, 3)], np.repeat, 2, 1),
    alike("repeat-flat", rearranging.repeat, [normal(2, 3)], np.repeat, 2),
    alike("repeat-counts", rearranging.repeat, [normal(2, 3)], np.repeat, [2, 0, 1], 1),
    named(rearranging.meshgrid, [normal(2), normal(3), normal(4)], np.meshgrid),
    alike("meshgrid-ij", rearranging.meshgrid, [normal(2), normal(3)], np.meshgrid, indexing="ij"),
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
    alike("split", joining.split, [normal(2, 4)], np.split, 2, -1),
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
    alike("array_split", joining.array_split, [normal(4, 2)], np.array_split, 3),
    alike("array_split-places", joining.array_split, [normal(2, 4)], np.array_split, [1, 3], 1),
    alike("vsplit", joining.vsplit, [normal(4, 2)], np.vsplit, 2),
    alike("hsplit", joining.hsplit, [normal(2, 4)], np.hsplit, 2),
    alike("dsplit", joining.dsplit, [normal(2, 1, 3)], np.dsplit, [1]),
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
    alike("linspace", creation.linspace, [normal(), normal()], np.linspace, 5),
    alike("linspace-axis", creation.linspace, [normal(2, 3), normal(3)], np.linspace, 4, axis=-1),
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
    ValueSample(
        "full_like", lambda x: creation.full_like(x, 3), [normal(2)], lambda x: np.full_like(x, 3)
    ),
    ValueSample("zeros_like", creation.zeros_like, [normal(2)], np.zeros_like),
    ValueSample("ones_like", creation.ones_like, [normal(2)], np.ones_like),
]

PADDED = [
    alike("pad", padding.pad, [normal(2, 3)], np.pad, [[1, 2], [0, 1]]),
    alike("pad-number", padding.pad, [normal(2, 3)], np.pad, [[1, 2], [0, 1]], constant_values=7),
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
    alike("tril", diagonal.tril, [normal(2, 3, 4)], np.tril, 1),
    alike("triu", diagonal.triu, [normal(3, 4)], np.triu, -1),
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
    alike("diagonal", diagonal.diagonal, [normal(3, 2, 4)], np.diagonal, -1, 0, 2),
    named(diagonal.diag, [normal(3)], np.diag),
    alike("diag-matrix", diagonal.diag, [normal(3, 4)], np.diag, 1),
    named(diagonal.diag_part, [complex_normal(3, 3)], np.diag),
    named(diagonal.diagflat, [normal(2, 2)], np.diagflat),
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
