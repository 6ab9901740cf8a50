"""Label sequences of CTC: merged repetitions, different labels, the distance of two sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Any, Any]:
    """Merge equal neighbours of each row; return the padded rows and their lengths.

    >>> rows, lengths = collapse_repeated([[1, 1, 2, 2], [3, 1, 1, 1]], [4, 3])
    >>> rows.tolist(), lengths.tolist()
    ([[1, 2], [3, 1]], [2, 2])
    """
    rows = np.asarray(as_operand(labels))
    lengths = np.asarray(as_operand(seq_length))
    if rows.ndim != 2 or lengths.shape != rows.shape[:1]:
        raise ShapeError(
            "collapse_repeated takes labels of shape (batch, labels) and one length for each row. "
            f"Got {rows.shape} and {lengths.shape}."
        )
    is_kept = np.arange(rows.shape[1]) < lengths[:, None]
    is_kept[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    counts = is_kept.sum(axis=1).astype(lengths.dtype)
    merged = np.zeros((len(rows), int(counts.max(initial=0))), rows.dtype)
    merged[np.arange(merged.shape[1]) < counts[:, None]] = rows[is_kept]
    return as_tensor(merged), as_tensor(counts)


def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return the different labels of each row, padded with 0, and where each label stands there.

    >>> [one.tolist() for one in ctc_unique_labels([[3, 1, 3], [2, 2, 0]])]
    [[[3, 1, 0], [2, 0, 0]], [[0, 1, 0], [0, 0, 1]]]
    """
    rows = np.asarray(as_operand(labels))
    if rows.ndim != 2:
        raise ShapeError(f"ctc_unique_labels takes labels of 2 axes. Got shape {rows.shape}.")
    found, places = np.zeros_like(rows), np.zeros_like(rows)
    for row, values in enumerate(rows):
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(first)
        found[row, : len(first)] = values[first[order]]
        places[row] = np.argsort(order)[inverse.ravel()]
    return as_tensor(found), as_tensor(places)


def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance"
) -> Any:
    """Return how many entries to insert, delete or replace to get from one sequence to another.

    Both are sparse tensors; their last axis is that of the sequences. With `normalize`, the numbers
    are divided by the lengths in `truth`; an empty sequence there gives infinity, or 0 for another
    empty one.

    >>> a = SparseTensor([[0, 0], [0, 1]], ["k", "i"], [1, 2])
    >>> b = SparseTensor([[0, 0], [0, 1], [0, 2]], ["s", "i", "t"], [1, 3])
    >>> edit_distance(a, b, normalize=False).tolist()
    [2.0]
    """
    for one in (hypothesis, truth):
        if not isinstance(one, SparseTensor):
            raise ArgumentError(f"{name} takes sparse tensors. Got {type(one).__name__}.")
    shapes = [tuple(one.shape)[:-1] for one in (hypothesis, truth)]
    if len(shapes[0]) != len(shapes[1]):
        raise ShapeError(f"{name} takes tensors of equal rank. Got {shapes[0]} and {shapes[1]}.")
    result = np.zeros(np.maximum(*shapes) if shapes[0] else (), np.float32)
    ours, theirs = _sequences(hypothesis), _sequences(truth)
    for place in {*ours, *theirs}:
        wanted = theirs.get(place, [])
        distance = float(_distance(ours.get(place, []), wanted))
        if normalize:
            distance = distance / len(wanted) if wanted else float("inf" if distance else 0)
        result[place] = distance
    return as_tensor(result)


def _sequences(values: SparseTensor) -> dict[tuple[int, ...], list[Any]]:
    found: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(values.places().tolist(), np.asarray(values.values).tolist()):
        found.setdefault(tuple(place[:-1]), []).append(value)
    return found


def _distance(ours: list[Any], theirs: list[Any]) -> int:
    above = list(range(len(theirs) + 1))
    for i, mine in enumerate(ours, 1):
        row = [i]
        for j, other in enumerate(theirs, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (mine != other)))
        above = row
    return above[-1]
