"""Samples of reading and writing by index: getitem, setitem, gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.indexing import functions as indexing, gather, scatter, slices_and_masks
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    complex_normal,
    distinct,
    fixed,
    integers,
    like_numpy,
    named,
    normal,
    of_either,
    uniform,
)

_MASK = np.array([[True, False, True], [False, False, True]])

# One row per kind of index, for an array of shape (3, 4, 5).
INDICES: dict[str, Any] = {
    "int": 1,
    "ints": (1, -2),
    "scalar": (1, 2, 3),
    "slice": slice(1, None),
    "steps": (slice(None, None, -1), slice(3, 0, -2)),
    "none": (None, 1, ..., None),
    "empty": slice(2, 1),
    "array": [2, 0, 0],
    "array-2d": np.array([[0, 2], [2, -1]]),
    "array-inside": (slice(None), [3, 3, 0]),
    "arrays": ([0, 2, 0], [1, 3, 1]),
    "arrays-broadcast": ([[0], [2]], slice(1, None), [1, 3, 1]),
    "arrays-apart": ([0, 2], slice(None), [1, 1]),
    "array-and-int": (0, slice(None, None, 2), [1, 4]),
    "mask": np.arange(60).reshape(3, 4, 5) % 7 < 2,
    "mask-first": [True, False, True],
    "mask-inside": (slice(None), np.array([True, False, True, True])),
    "no-rows": np.zeros(0, int),
    "true": (True, 0),
}


def _highest(x: Any, index: Any, v: Any) -> Any:
    result = np.array(x)
    np.maximum.at(result, index, v)
    return result


def _write(index: Any) -> Callable[[Any, Any], Any]:
    return lambda x, v: indexing.index_update(x, index, v)


def _written(index: Any) -> Callable[[Any, Any], Any]:
    def write(x: Any, v: Any) -> Any:
        y = x.copy()
        y[index] = v
        return y

    return write


def _added(x: Any, index: Any, v: Any) -> Any:
    y = x.copy()
    np.add.at(y, index, v)
    return y


READ = [
    *[
        of_either(f"getitem-{name}", lambda x, i=index: x[i], [normal(3, 4, 5)])
        for name, index in INDICES.items()
    ],
    Sample("getitem-0d", lambda x: x[...], [normal()], lambda x: x),
    of_either("getitem-0d-new-axis", lambda x: x[None], [normal()]),
    of_either("getitem-tensor", lambda x, i: x[i], [normal(4, 2), integers(-4, 4, 3)]),
    of_either(
        "getitem-tensors",
        lambda x, i, j: x[i, :, j],
        [normal(4, 2, 3), integers(0, 4, 2, 1), integers(-3, 3, 3)],
    ),
    of_either("getitem-tensor-scalar", lambda x, i: x[i, 1:], [normal(4, 3), integers(0, 4)]),
    of_either("getitem-complex", lambda x: x[[1, 1, 0]], [complex_normal(2, 2)]),
    of_either("iterate", lambda x: list(x * x), [normal(3, 2)]),
]

WRITTEN = [
    *[
        Sample(
            f"index_update-{name}",
            _write(INDICES[name]),
            [normal(3, 4, 5), value],
            _written(INDICES[name]),
        )
        for name, value in {
            "int": normal(4, 5),
            "ints": normal(),
            "scalar": normal(),
            "slice": normal(5),
            "steps": normal(3, 2, 5),
            "none": normal(1, 4, 5, 1),
            "array": normal(3, 4, 5),
            "array-inside": normal(3, 1, 5),
            "arrays": normal(3, 5),
            "arrays-broadcast": normal(2, 3, 3),
            "arrays-apart": normal(2, 4),
            "mask": normal(),
            "mask-first": normal(1, 4, 1),
            "no-rows": normal(4, 5),
        }.items()
    ],
    Sample("index_update-0d", _write(...), [normal(), normal()], _written(...)),
    Sample(
        "index_update-tensor",
        lambda x, v, i: indexing.index_update(x, (slice(None), i), v),
        [normal(2, 4), normal(2, 3), integers(0, 4, 3)],
        lambda x, v, i: _written((slice(None), i))(x, v),
    ),
    Sample(
        "index_update-squared",
        lambda x, v: indexing.index_update(x * x, [2, 2], v) * x,
        [normal(3), normal(2)],
        lambda x, v: np.array([x[0] ** 2, x[1] ** 2, v[1]]) * x,
    ),
    Sample(
        "index_add",
        lambda x, v: indexing.index_add(x, (slice(1, None), [1, 1, 0]), v),
        [normal(3, 4), normal(3)],
        lambda x, v: _added(x, (slice(1, None), [1, 1, 0]), v),
    ),
    Sample(
        "index_add-slice",
        lambda x, v: indexing.index_add(x, slice(1, None), v),
        [normal(3, 4), normal(4)],
        lambda x, v: _added(x, slice(1, None), v),
    ),
    Sample(
        "put_along_axis",
        lambda x, v, i: slices_and_masks.put_along_axis(x, i, v, 1),
        [normal(2, 4), normal(2, 2), fixed([[3, 0], [1, 2]])],
        lambda x, v, i: _put(x, v, i),
    ),
]


def _put(x: Any, v: Any, i: Any) -> Any:
    y = x.copy()
    np.put_along_axis(y, i, v, 1)
    return y


GATHERED = [
    named(gather.gather, [normal(4, 2), integers(0, 4, 3)], lambda x, i: x[i]),
    Sample("gather-0d", gather.gather, [normal(4, 2), integers(0, 4)], lambda x, i: x[i]),
    Sample(
        "gather-axis",
        lambda x, i: gather.gather(x, i, axis=-1),
        [normal(2, 4), integers(0, 4, 3, 2)],
        lambda x, i: x[:, i],
    ),
    Sample(
        "gather-batch_dims",
        lambda x, i: gather.gather(x, i, batch_dims=1),
        [normal(2, 4, 3), integers(0, 4, 2, 3)],
        lambda x, i: np.stack([a[b] for a, b in zip(x, i, strict=True)]),
    ),
    Sample(
        "gather-batch_dims-axis",
        lambda x, i: gather.gather(x, i, axis=2, batch_dims=1),
        [normal(2, 4, 3), integers(0, 3, 2, 5)],
        lambda x, i: np.stack([a[:, b] for a, b in zip(x, i, strict=True)]),
    ),
    named(gather.embedding_lookup, [normal(4, 2), fixed([[1, 1], [0, 3]])], lambda x, i: x[i]),
    named(
        gather.gather_nd, [normal(3, 4, 2), integers(0, 3, 5, 2)], lambda x, i: x[i[:, 0], i[:, 1]]
    ),
    Sample(
        "gather_nd-whole",
        lambda x: gather.gather_nd(x, np.zeros((2, 0), int)),
        [normal(3)],
        lambda x: np.stack([x, x]),
    ),
    Sample(
        "gather_nd-batch_dims",
        lambda x, i: gather.gather_nd(x, i, batch_dims=1),
        [normal(2, 4, 3), integers(0, 4, 2, 3, 1)],
        lambda x, i: np.stack([a[b[:, 0]] for a, b in zip(x, i, strict=True)]),
    ),
    like_numpy(slices_and_masks.take, [normal(2, 3), integers(-6, 6, 4)]),
    like_numpy(slices_and_masks.take, [normal(2, 3), integers(0, 3, 4)], case="axis", axis=1),
    like_numpy(slices_and_masks.take, [normal(3)], [-5, 9], case="clip", mode="clip"),
]

SCATTERED = [
    Sample(
        "scatter_nd",
        lambda u: scatter.scatter_nd([[0, 1], [2, 0], [0, 1]], u, (3, 2, 4)),
        [normal(3, 4)],
        lambda u: _added(np.zeros((3, 2, 4)), ([0, 2, 0], [1, 0, 1]), u),
    ),
    Sample(
        "tensor_scatter_nd_update",
        lambda x, u: scatter.tensor_scatter_nd_update(x, [[0], [2], [0]], u),
        [normal(3, 2), normal(3, 2)],
        lambda x, u: np.stack([u[2], x[1], u[1]]),
    ),
    named(
        scatter.tensor_scatter_nd_add,
        [normal(3, 2), fixed([[0], [2], [0]]), normal(3, 2)],
        lambda x, i, u: _added(x, i[:, 0], u),
    ),
    named(
        scatter.tensor_scatter_nd_sub,
        [normal(3), fixed([[0], [2], [0]]), normal(3)],
        lambda x, i, u: _added(x, i[:, 0], -u),
    ),
    Sample(
        "tensor_scatter_nd_max",
        lambda x, u: scatter.tensor_scatter_nd_max(x, [[0], [2], [0]], u),
        [distinct(3), fixed([0.03, -5.0, 7.0])],
        lambda x, u: np.maximum(x, [max(u[0], u[2]), -np.inf, u[1]]),
    ),
    Sample(
        "tensor_scatter_nd_min",
        lambda x, u: scatter.tensor_scatter_nd_min(x, [[0, 1], [1, 0]], u),
        [distinct(2, 2), fixed([-3.0, 9.0])],
        lambda x, u: np.minimum(x, [[np.inf, u[0]], [u[1], np.inf]]),
    ),
    Sample(
        "tensor_scatter_nd_max-indices",
        scatter.tensor_scatter_nd_max,
        [distinct(4, 2), integers(0, 4, 3, 1), uniform(0.0, 0.05, 3, 2)],
        lambda x, i, u: _highest(x, i[:, 0], u),
    ),
    Sample(
        "dynamic_stitch",
        lambda a, b: scatter.dynamic_stitch([[0, 2], [1, 2]], [a, b]),
        [normal(2, 2), normal(2, 2)],
        lambda a, b: np.stack([a[0], b[0], b[1]]),
    ),
]

PICKED = [
    Sample(
        "slice",
        lambda x: slices_and_masks.slice_tensor(x, [1, 0], [2, -1]),
        [normal(3, 2)],
        lambda x: x[1:3],
    ),
    Sample(
        "strided_slice",
        lambda x: slices_and_masks.strided_slice(
            x, [0, 1, 0], [3, 9, 4], [2, 1, 1], end_mask=1, shrink_axis_mask=2, new_axis_mask=4
        ),
        [normal(3, 2)],
        lambda x: x[::2, 1, None],
    ),
    Sample(
        "boolean_mask",
        lambda x: slices_and_masks.boolean_mask(x, _MASK),
        [normal(2, 3, 2)],
        lambda x: x[_MASK],
    ),
    Sample(
        "boolean_mask-axis",
        lambda x: slices_and_masks.boolean_mask(x, [True, False, True], axis=1),
        [normal(2, 3)],
        lambda x: x[:, [0, 2]],
    ),
    Sample(
        "compress",
        lambda x: slices_and_masks.compress([True, False, True], x, axis=1),
        [normal(2, 3)],
        lambda x: x[:, [0, 2]],
    ),
    Sample(
        "extract", lambda x: slices_and_masks.extract(_MASK, x), [normal(2, 3)], lambda x: x[_MASK]
    ),
    ValueSample(
        "nonzero", slices_and_masks.nonzero, [fixed([[0, 1], [2, 0]])], np.nonzero, batches=False
    ),
    ValueSample("argwhere", slices_and_masks.argwhere, [fixed(_MASK)], np.argwhere, batches=False),
    Sample(
        "where-both",
        lambda x, y: slices_and_masks.where(_MASK, x, y),
        [normal(2, 3), normal(3)],
        lambda x, y: np.where(_MASK, x, y),
    ),
    ValueSample(
        "where-condition", slices_and_masks.where, [fixed(_MASK)], np.argwhere, batches=False
    ),
    ValueSample(
        "flatnonzero", slices_and_masks.flatnonzero, [fixed(_MASK)], np.flatnonzero, batches=False
    ),
    ValueSample(
        "unravel_index",
        lambda i: slices_and_masks.unravel_index(i, (3, 4)),
        [integers(0, 12, 5)],
        lambda i: np.stack(np.unravel_index(i, (3, 4))),
        batches=False,
    ),
    ValueSample(
        "added_rows",
        lambda x, v, i: gather.added_rows_p(x, v, i, axis=0),
        [normal(4, 2), normal(3, 2), fixed(np.array([2, 0, 2]))],
        lambda x, v, i: x + np.array([v[1], 0 * v[0], v[0] + v[2], 0 * v[0]]),
        batches=False,
    ),
    ValueSample(
        "sequence_mask",
        lambda n: slices_and_masks.sequence_mask(n, 4),
        [integers(0, 5, 3)],
        lambda n: np.arange(4) < n[:, None],
    ),
    Sample(
        "dynamic_partition",
        lambda x: slices_and_masks.dynamic_partition(x, [1, 0, 1], 2),
        [normal(3, 2)],
        lambda x: (x[1:2], x[::2]),
    ),
    Sample(
        "select",
        lambda x: slices_and_masks.select([x < 0, x < 1], [x * x, -x], 5.0),
        [normal(6)],
        lambda x: np.select([x < 0, x < 1], [x * x, -x], 5.0),
    ),
    Sample(
        "choose",
        lambda a, b: slices_and_masks.choose([0, 1, 1], [a, b]),
        [normal(3), normal(2, 3)],
        lambda a, b: np.choose([0, 1, 1], [a, b]),
    ),
    Sample(
        "piecewise",
        lambda x: slices_and_masks.piecewise(x, [x < 0], [lambda v: v * v, 3.0]),
        [normal(6)],
        lambda x: np.where(x < 0, x * x, 3.0),
    ),
]

SAMPLES = [*READ, *WRITTEN, *GATHERED, *SCATTERED, *PICKED]
