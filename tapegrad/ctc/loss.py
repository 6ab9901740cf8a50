"""TensorFlow's CTC losses, with dense and with sparse labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.ctc.recursion import cut_at_blank, negative_log_probability
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.ops.shape.functions import transpose
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def ctc_loss(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Any:
    """Return minus the log probability of the labels over all alignments, one number per row.

    `logits` are (steps, batch, classes), or (batch, steps, classes) with `logits_time_major=False`.
    Dense labels are (batch, labels), with `label_length` numbers in each row; the blank is class 0
    unless `blank_index` says otherwise. Sparse labels need no lengths, but a `blank_index`.
    Labels that no alignment gives have the loss infinity.

    >>> loss = ctc_loss([[1, 0]], [[[0.0, 0.0]], [[0.0, 0.0]]], [1], [2])
    >>> f"{float(loss[0]):.4f}"
    '0.2877'
    """
    is_sparse = isinstance(labels, SparseTensor)
    if is_sparse and blank_index is None:
        raise ArgumentError("ctc_loss needs the argument blank_index if the labels are sparse.")
    rows, lengths = padded_labels(labels) if is_sparse else (as_operand(labels), label_length)
    if lengths is None:
        raise ArgumentError("ctc_loss needs the argument label_length if the labels are dense.")
    return _loss(rows, logits, lengths, logit_length, logits_time_major, blank_index or 0)


def ctc_loss_of_sparse_labels(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Any:
    """Return the CTC loss of sparse labels; the last class is the blank and ends a row of labels.

    This is `tapegrad.compat.v1.nn.ctc_loss`.

    >>> labels = SparseTensor([[0, 0]], [0], [1, 1])
    >>> loss = ctc_loss_of_sparse_labels(labels, [[[0.0, 0.0]], [[0.0, 0.0]]], [2])
    >>> f"{float(loss[0]):.4f}"
    '0.2877'
    """
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise ArgumentError(
            "ctc_loss takes preprocess_collapse_repeated=False and ctc_merge_repeated=True. Merge "
            "repeated labels with tapegrad.nn.collapse_repeated before the call."
        )
    if not isinstance(labels, SparseTensor):
        raise ArgumentError(
            "compat.v1.nn.ctc_loss takes sparse labels; tapegrad.nn.ctc_loss takes dense ones. Got "
            f"{type(labels).__name__}."
        )
    rows, lengths = padded_labels(labels)
    scores = as_operand(logits if inputs is None else inputs)
    rows, lengths = cut_at_blank(rows, lengths, scores.shape[-1] - 1)
    return _loss(rows, scores, lengths, sequence_length, time_major, -1)


def _loss(
    labels: Any, logits: Any, lengths: Any, steps: Any, is_time_major: bool, blank: int
) -> Any:
    scores = as_operand(logits)
    if len(scores.shape) == 3 and is_time_major:
        scores = transpose(scores, (1, 0, 2))
    if len(labels.shape) != 2 or len(scores.shape) != 3 or labels.shape[0] != scores.shape[0]:
        raise ShapeError(
            "ctc_loss takes labels of shape (batch, labels) and logits of 3 axes, one for the "
            f"same batch. Got {tuple(labels.shape)} and {tuple(as_operand(logits).shape)}; see the "
            "argument logits_time_major."
        )
    if as_dtype(scores.dtype).name in ("float16", "bfloat16"):
        scores = cast(scores, "float32")
    blank = blank if blank >= 0 else blank + scores.shape[2]
    logs = log_softmax(scores)
    return negative_log_probability(logs, labels, as_operand(lengths), as_operand(steps), blank)


def padded_labels(labels: SparseTensor) -> tuple[Any, Any]:
    """Return the labels of each row one after the other, padded with 0, and their numbers.

    >>> rows, lengths = padded_labels(SparseTensor([[0, 0], [0, 1], [1, 0]], [5, 6, 7], [3, 2]))
    >>> rows.tolist(), lengths.tolist()
    ([[5, 6], [7, 0], [0, 0]], [2, 1, 0])
    """
    row, count = labels.places()[:, 0], labels.shape[0]
    lengths = np.bincount(row, minlength=count).astype(np.int32)
    starts = np.cumsum(lengths) - lengths
    padded = np.zeros((count, max(int(lengths.max(initial=0)), 1)), np.int32)
    padded[row, np.arange(len(row)) - starts[row]] = np.asarray(labels.values)
    return as_tensor(padded), as_tensor(lengths)
