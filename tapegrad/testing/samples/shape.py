"""Samples of shape, joining, creation, padding and diagonals."""

from __future__ import annotations

import numpy as np

from tapegrad.ops import creation, diagonal, joining, padding, rearranging, shape
from tapegrad.testing.sample import Sample, complex_normal, fixed, integers, normal

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
    Sample("reshape-0d", lambda x: shape.reshape(x, (1, 1)), [normal()], lambda x: x.reshape(1, 1)),
    Sample(
        "reshape-empty",
        lambda x: shape.reshape(x, (0, 2)),
        [normal(2, 0)],
        lambda x: x.reshape(0, 2),
    ),
    Sample("ravel", shape.ravel, [normal(2, 3)], np.ravel),
    Sample(
        "broadcast_to-0d",
        lambda x: shape.broadcast_to(x, (2, 3)),
        [normal()],
        lambda x: np.broadcast_to(x, (2, 3)),
    ),
    Sample(
        "broadcast_arrays", shape.broadcast_arrays, [normal(2, 1), normal(3)], np.broadcast_arrays
    ),
    Sample("transpose", shape.transpose, [normal(2, 3, 4)], np.transpose),
    Sample(
        "transpose-conjugate",
        lambda x: shape.transpose(x, (1, 0), conjugate=True),
        [complex_normal(2, 3)],
        lambda x: x.conj().T,
    ),
    Sample(
        "matrix_transpose",
        shape.matrix_transpose,
        [normal(2, 3, 4)],
        lambda x: np.swapaxes(x, -1, -2),
    ),
    Sample(
        "swapaxes",
        lambda x: shape.swapaxes(x, 0, -1),
        [normal(2, 3, 4)],
        lambda x: np.swapaxes(x, 0, -1),
    ),
    Sample(
        "moveaxis",
        lambda x: shape.moveaxis(x, (0, 1), (-1, 0)),
        [normal(2, 3, 4)],
        lambda x: np.moveaxis(x, (0, 1), (-1, 0)),
    ),
    Sample(
        "rollaxis",
        lambda x: shape.rollaxis(x, 0, 3),
        [normal(2, 3, 4)],
        lambda x: np.rollaxis(x, 0, 3),
    ),
    Sample(
        "expand_dims",
        lambda x: shape.expand_dims(x, (0, -1)),
        [normal(2, 3)],
        lambda x: np.expand_dims(x, (0, -1)),
    ),
    Sample("squeeze", shape.squeeze, [normal(1, 2, 1)], np.squeeze),
    Sample(
        "squeeze-axis",
        lambda x: shape.squeeze(x, -1),
        [normal(1, 2, 1)],
        lambda x: np.squeeze(x, -1),
    ),
    Sample("atleast_1d", shape.atleast_1d, [normal()], np.atleast_1d),
    Sample("atleast_2d", shape.atleast_2d, [normal(3)], np.atleast_2d),
    Sample("atleast_3d", shape.atleast_3d, [normal(3)], np.atleast_3d),
    Sample("atleast_3d-matrix", shape.atleast_3d, [normal(2, 3)], np.atleast_3d),
    Sample("ensure_shape", lambda x: shape.ensure_shape(x, (None, 3)), [normal(2, 3)], lambda x: x),
    Sample(
        "identity_n",
        lambda a, b: shape.identity_n([a, b]),
        [normal(2), normal(3)],
        lambda a, b: (a, b),
    ),
    Sample("to_device", lambda x: shape.to_device(x, x.device) * x, [normal(3)], np.square),
    Sample(
        "shape",
        lambda x: shape.shape(x),
        [normal(2, 3)],
        lambda x: np.array(x.shape),
        differentiable=False,
    ),
    Sample("size", lambda x: shape.size(x), [normal(2, 3)], np.size, differentiable=False),
    Sample("rank", lambda x: shape.rank(x), [normal(2, 3)], np.ndim, differentiable=False),
    Sample(
        "shape_n",
        lambda a, b: shape.shape_n([a, b]),
        [normal(2), normal(3)],
        lambda a, b: (np.array([2]), np.array([3])),
        differentiable=False,
    ),
]

REARRANGED = [
    Sample("flip", rearranging.flip, [normal(2, 3)], np.flip),
    Sample("reverse", lambda x: rearranging.reverse(x, [-1]), [normal(2, 3)], lambda x: x[:, ::-1]),
    Sample("fliplr", rearranging.fliplr, [normal(2, 3)], np.fliplr),
    Sample("flipud", rearranging.flipud, [normal(2, 3)], np.flipud),
    Sample("rot90", rearranging.rot90, [normal(2, 3)], np.rot90),
    Sample(
        "rot90-back",
        lambda x: rearranging.rot90(x, -1, (1, 2)),
        [normal(2, 3, 4)],
        lambda x: np.rot90(x, -1, (1, 2)),
    ),
    Sample(
        "roll",
        lambda x: rearranging.roll(x, (1, -2), (0, 1)),
        [normal(2, 3)],
        lambda x: np.roll(x, (1, -2), (0, 1)),
    ),
    Sample("roll-flat", lambda x: rearranging.roll(x, 4), [normal(2, 3)], lambda x: np.roll(x, 4)),
    Sample(
        "tile",
        lambda x: rearranging.tile(x, (2, 1, 3)),
        [normal(2, 2)],
        lambda x: np.tile(x, (2, 1, 3)),
    ),
    Sample("tile-0d", lambda x: rearranging.tile(x, (3,)), [normal()], lambda x: np.tile(x, 3)),
    Sample(
        "repeat",
        lambda x: rearranging.repeat(x, 2, 1),
        [normal(2, 3)],
        lambda x: np.repeat(x, 2, 1),
    ),
    Sample(
        "repeat-flat", lambda x: rearranging.repeat(x, 2), [normal(2, 3)], lambda x: np.repeat(x, 2)
    ),
    Sample(
        "repeat-counts",
        lambda x: rearranging.repeat(x, [2, 0, 1], 1),
        [normal(2, 3)],
        lambda x: np.repeat(x, [2, 0, 1], 1),
    ),
    Sample("meshgrid", rearranging.meshgrid, [normal(2), normal(3), normal(4)], np.meshgrid),
    Sample(
        "meshgrid-ij",
        lambda a, b: rearranging.meshgrid(a, b, indexing="ij"),
        [normal(2), normal(3)],
        lambda a, b: np.meshgrid(a, b, indexing="ij"),
    ),
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
    Sample(
        "concat-empty",
        lambda a, b: joining.concat([a, b]),
        [normal(0, 3), normal(1, 3)],
        lambda a, b: np.concatenate([a, b]),
    ),
    Sample(
        "stack-0d",
        lambda a, b: joining.stack([a, b]),
        [normal(), normal()],
        lambda a, b: np.stack([a, b]),
    ),
    Sample(
        "split", lambda x: joining.split(x, 2, -1), [normal(2, 4)], lambda x: np.split(x, 2, -1)
    ),
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
    Sample(
        "array_split",
        lambda x: joining.array_split(x, 3),
        [normal(4, 2)],
        lambda x: np.array_split(x, 3),
    ),
    Sample(
        "array_split-places",
        lambda x: joining.array_split(x, [1, 3], 1),
        [normal(2, 4)],
        lambda x: np.array_split(x, [1, 3], 1),
    ),
    Sample("vsplit", lambda x: joining.vsplit(x, 2), [normal(4, 2)], lambda x: np.vsplit(x, 2)),
    Sample("hsplit", lambda x: joining.hsplit(x, 2), [normal(2, 4)], lambda x: np.hsplit(x, 2)),
    Sample(
        "dsplit", lambda x: joining.dsplit(x, [1]), [normal(2, 1, 3)], lambda x: np.dsplit(x, [1])
    ),
    Sample(
        "vstack",
        lambda a, b: joining.vstack([a, b]),
        [normal(3), normal(2, 3)],
        lambda a, b: np.vstack([a, b]),
    ),
    Sample(
        "hstack",
        lambda a, b: joining.hstack([a, b]),
        [normal(3), normal()],
        lambda a, b: np.hstack([a, b]),
    ),
    Sample(
        "dstack",
        lambda a, b: joining.dstack([a, b]),
        [normal(3), normal(1, 3)],
        lambda a, b: np.dstack([a, b]),
    ),
    Sample(
        "column_stack",
        lambda a, b: joining.column_stack([a, b]),
        [normal(3), normal(3, 2)],
        lambda a, b: np.column_stack([a, b]),
    ),
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
    Sample(
        "linspace",
        lambda a, b: creation.linspace(a, b, 5),
        [normal(), normal()],
        lambda a, b: np.linspace(a, b, 5),
    ),
    Sample(
        "linspace-axis",
        lambda a, b: creation.linspace(a, b, 4, axis=-1),
        [normal(2, 3), normal(3)],
        lambda a, b: np.linspace(a, b, 4, axis=-1),
    ),
    Sample(
        "one_hot",
        lambda i: creation.one_hot(i, 4, dtype="float32"),
        [integers(0, 4, 2, 3)],
        lambda i: np.eye(4)[i],
        differentiable=False,
    ),
    Sample(
        "one_hot-axis",
        lambda i: creation.one_hot(i, 3, 5, -1, axis=0, dtype="float32"),
        [integers(-1, 5, 2)],
        lambda i: np.where(np.arange(3)[:, None] == i, 5.0, -1.0),
        differentiable=False,
    ),
    Sample(
        "full_like",
        lambda x: creation.full_like(x, 3),
        [normal(2)],
        lambda x: np.full_like(x, 3),
        differentiable=False,
    ),
    Sample("zeros_like", creation.zeros_like, [normal(2)], np.zeros_like, differentiable=False),
    Sample("ones_like", creation.ones_like, [normal(2)], np.ones_like, differentiable=False),
]

PADDED = [
    Sample(
        "pad",
        lambda x: padding.pad(x, [[1, 2], [0, 1]]),
        [normal(2, 3)],
        lambda x: np.pad(x, [[1, 2], [0, 1]]),
    ),
    Sample(
        "pad-number",
        lambda x: padding.pad(x, [[1, 2], [0, 1]], constant_values=7),
        [normal(2, 3)],
        lambda x: np.pad(x, [[1, 2], [0, 1]], constant_values=7),
    ),
    Sample(
        "pad-tensor",
        lambda x, c: padding.pad(x, [[1, 2]], constant_values=c),
        [normal(3), normal()],
        lambda x, c: np.pad(x, [[1, 2]], constant_values=c),
    ),
    *[
        Sample(
            f"pad-{mode}",
            lambda x, mode=mode: padding.pad(x, [[1, 2], [0, 2]], mode),
            [normal(3, 4)],
            lambda x, mode=mode: np.pad(x, [[1, 2], [0, 2]], mode),
        )
        for mode in ("reflect", "symmetric", "edge", "wrap")
    ],
]

DIAGONALS = [
    Sample("tril", lambda x: diagonal.tril(x, 1), [normal(2, 3, 4)], lambda x: np.tril(x, 1)),
    Sample("triu", lambda x: diagonal.triu(x, -1), [normal(3, 4)], lambda x: np.triu(x, -1)),
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
    Sample(
        "diagonal",
        lambda x: diagonal.diagonal(x, -1, 0, 2),
        [normal(3, 2, 4)],
        lambda x: np.diagonal(x, -1, 0, 2),
    ),
    Sample("diag", diagonal.diag, [normal(3)], np.diag),
    Sample("diag-matrix", lambda x: diagonal.diag(x, 1), [normal(3, 4)], lambda x: np.diag(x, 1)),
    Sample("diag_part", diagonal.diag_part, [complex_normal(3, 3)], np.diag),
    Sample("diagflat", diagonal.diagflat, [normal(2, 2)], np.diagflat),
    Sample(
        "tensor_diag",
        diagonal.tensor_diag,
        [normal(2, 2)],
        lambda x: np.diag(x.ravel()).reshape(2, 2, 2, 2),
    ),
    Sample(
        "tensor_diag_part",
        diagonal.tensor_diag_part,
        [normal(2, 2, 2, 2)],
        lambda x: np.diag(x.reshape(4, 4)).reshape(2, 2),
    ),
    Sample(
        "fill_diagonal",
        diagonal.fill_diagonal,
        [normal(3, 2), normal()],
        lambda x, v: np.where(np.eye(3, 2, dtype=bool), v, x),
    ),
]

SAMPLES = [*SHAPES, *REARRANGED, *JOINED, *MADE, *PADDED, *DIAGONALS]
