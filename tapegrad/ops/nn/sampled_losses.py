"""Losses over many classes that compare the true classes with a few drawn ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.slices_and_masks import nonzero
from tapegrad.ops.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
)
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.candidates import log_uniform_candidate_sampler
from tapegrad.ops.reduction.primitives import any as any_of, sum as sum_of
from tapegrad.ops.shape.functions import expand_dims, reshape
from tapegrad.ops.shape.joining import concat


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    name: str = "nce_loss",
) -> Any:
    """Return the noise-contrastive estimation loss of each example.

    `weights` are `[num_classes, dim]`, or a list of parts of them, `inputs` are `[batch, dim]`, and
    `labels` are `[batch, num_true]`. The other classes are drawn by
    `random.log_uniform_candidate_sampler`, unless `sampled_values` has the results of a sampler.

    >>> w, b, x = creation.ones([5, 3]), creation.zeros([5]), creation.ones([2, 3])
    >>> nce_loss(w, b, [[1], [2]], x, num_sampled=2, num_classes=5).shape
    (2,)
    """
    drawn = _drawn(labels, num_sampled, num_classes, num_true, sampled_values, None)
    logits, targets = _logits_and_targets(
        weights, biases, labels, inputs, num_true, drawn, remove_accidental_hits
    )
    return sum_of(sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), axis=1)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    seed: int | None = None,
    name: str = "sampled_softmax_loss",
) -> Any:
    """Return the softmax cross entropy of each example over the true and the drawn classes.

    The arguments are those of `nce_loss`.

    >>> w, b, x = creation.ones([5, 3]), creation.zeros([5]), creation.ones([2, 3])
    >>> sampled_softmax_loss(w, b, [[1], [2]], x, num_sampled=2, num_classes=5).shape
    (2,)
    """
    drawn = _drawn(labels, num_sampled, num_classes, num_true, sampled_values, seed)
    logits, targets = _logits_and_targets(
        weights, biases, labels, inputs, num_true, drawn, remove_accidental_hits
    )
    return softmax_cross_entropy_with_logits(labels=targets, logits=logits)


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """Find the drawn classes that are true ones: their examples, their places, and weights.

    The weights are the lowest number, to be added to the logits. The function runs eagerly, because
    the number of hits is not known before.

    >>> rows, places, weights = compute_accidental_hits([[1], [7]], [3, 7, 1], 1)
    >>> rows.tolist(), places.tolist()
    ([0, 1], [2, 1])
    """
    hits = _hits(_label_rows(true_classes, num_true), as_operand(sampled_candidates))
    rows, places = nonzero(hits)
    lowest = creation.fill(rows.shape, np.finfo(np.float32).min)
    return cast(rows, "int32"), cast(places, "int64"), lowest


def _label_rows(labels: Any, num_true: int) -> Any:
    rows = cast(as_operand(labels), "int64")
    if len(rows.shape) == 1 and num_true == 1:
        return expand_dims(rows, 1)
    if len(rows.shape) != 2 or rows.shape[1] != num_true:
        raise ShapeError(f"labels must have shape (batch, {num_true}). Got {rows.shape}.")
    return rows


def _drawn(
    labels: Any, count: int, classes: int, num_true: int, sampled_values: Any, seed: int | None
) -> tuple[Any, ...]:
    if sampled_values is None:
        rows = _label_rows(labels, num_true)
        sampled_values = log_uniform_candidate_sampler(rows, num_true, count, True, classes, seed)
    return tuple([stop_gradient(value) for value in sampled_values])


def _hits(rows: Any, drawn: Any) -> Any:
    """Return which drawn classes are among the true ones of each example."""
    return any_of(equal(expand_dims(rows, 2), cast(drawn, rows.dtype)), axis=1)


def _logits_and_targets(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_true: int,
    sampled_values: tuple[Any, ...],
    leave_out_hits: bool,
) -> tuple[Any, Any]:
    """Return the logits of the true and the drawn classes, less the logarithm of how often they
    are drawn, and the targets, which share a sum of 1 among the true classes."""
    x, rows = as_operand(inputs), _label_rows(labels, num_true)
    drawn, expected_of_true, expected_of_drawn = sampled_values
    table = concat(weights, 0) if isinstance(weights, list | tuple) else weights
    batch, count = rows.shape[0], drawn.shape[0]
    # One lookup of all classes, so that the table has one sparse gradient.
    ids = concat([reshape(rows, (-1,)), cast(drawn, rows.dtype)], 0)
    vectors, offsets = gather(table, ids), gather(biases, ids)
    trues = reshape(vectors[: batch * num_true], (batch, num_true, x.shape[1]))
    true_logits = sum_of(expand_dims(x, 1) * trues, axis=2)
    true_logits = true_logits + reshape(offsets[: batch * num_true], (batch, num_true))
    others = vectors[batch * num_true :], offsets[batch * num_true :]
    drawn_logits = matmul(x, others[0], transpose_b=True) + others[1]
    if leave_out_hits:
        lowest = float(np.finfo(numpy_dtype_of(drawn_logits)).min)
        drawn_logits = where(_hits(rows, drawn), lowest, drawn_logits)
    dtype = true_logits.dtype
    logits = concat(
        [
            true_logits - cast(log(reshape(expected_of_true, (batch, num_true))), dtype),
            drawn_logits - cast(log(expected_of_drawn), dtype),
        ],
        1,
    )
    targets = [
        creation.fill([batch, num_true], 1.0 / num_true),
        creation.zeros([batch, count]),
    ]
    return logits, cast(concat(targets, 1), dtype)
