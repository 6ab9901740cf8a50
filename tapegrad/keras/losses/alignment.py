"""The CTC loss: labels without alignment to a longer sequence."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ShapeError
from tapegrad.keras.configured import computing
from tapegrad.keras.losses.loss import PlainLoss
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like, ones_like, zeros_like
from tapegrad.ops.elementwise.comparison import equal, logical_and, logical_or, not_equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.logsumexp import logsumexp
from tapegrad.ops.reduction.primitives import sum as sum_of
from tapegrad.ops.shape.functions import expand_dims, reshape
from tapegrad.ops.shape.joining import concat, stack, unstack

_NEVER = -1e30
"""The logarithm of probability 0: finite, so that its gradient is 0 instead of NaN."""


def ctc(y_true: Any, y_pred: Any) -> Any:
    """Return the negative log probability of the labels over all alignments.

    `y_true` is (batch, labels) with class numbers of 1 or more, padded with 0. `y_pred` are logits
    (batch, steps, classes), where class 0 is the blank. An alignment has one class per step: it
    gives the labels when repetitions are merged and then blanks are removed.

    >>> loss = ctc([[1, 0]], [[[0.0, 0.0], [0.0, 0.0]]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.2877'
    """
    labels, logits = as_operand(y_true), as_operand(y_pred)
    _check(tuple(labels.shape), tuple(logits.shape))
    if as_dtype(logits.dtype).name in ("float16", "bfloat16"):
        logits = cast(logits, "float32")
    labels = labels if labels.dtype in ("int32", "int64") else cast(labels, "int32")
    path = _with_blanks(labels)
    steps = unstack(gather(log_softmax(logits), path, axis=2, batch_dims=1), axis=1)
    total = _log_probability(path, steps, sum_of(cast(not_equal(labels, 0), "int32"), axis=-1))
    return where(total < 0.5 * _NEVER, float("inf"), -total)


def _check(labels: tuple[int, ...], logits: tuple[int, ...]) -> None:
    if len(labels) != 2 or len(logits) != 3 or labels[0] != logits[0]:
        raise ShapeError(
            "ctc takes labels of shape (batch, labels), padded with 0, and logits of shape (batch, "
            f"steps, classes). Got {labels} and {logits}."
        )


def _with_blanks(labels: Any) -> Any:
    """Return the labels with a blank, class 0, before, between and after them."""
    batch, count = labels.shape
    pairs = stack([zeros_like(labels), labels], axis=-1)
    return concat([reshape(pairs, (batch, 2 * count)), zeros_like(labels[:, :1])], axis=1)


def _log_probability(path: Any, steps: list[Any], lengths: Any) -> Any:
    """Return the log probability of all alignments by the forward recursion over the path.

    alpha[s] <- e[s] + log(exp alpha[s] + exp alpha[s - 1] + exp alpha[s - 2]). The last term
    applies only where the blank between two different labels may be skipped.
    """
    may_skip = logical_and(not_equal(path[:, 2:], 0), not_equal(path[:, 2:], path[:, :-2]))
    never = full_like(steps[0], _NEVER)
    alpha = concat([steps[0][:, :2], never[:, 2:]], axis=1)
    for emitted in steps[1:]:
        one = concat([never[:, :1], alpha[:, :-1]], axis=1)
        two = concat([never[:, :2], where(may_skip, alpha[:, :-2], _NEVER)], axis=1)
        alpha = logsumexp(stack([alpha, one, two], axis=0), axis=0) + emitted
    # Indices computed on the device of the labels.
    places = cumsum(ones_like(path), axis=1) - 1
    last = expand_dims(cast(2 * lengths, places.dtype), -1)
    is_end = logical_or(equal(places, last), equal(places, last - 1))
    return logsumexp(where(is_end, alpha, _NEVER), axis=-1)


@computing(ctc)
class CTC(PlainLoss):
    """The CTC loss of padded labels and logits; see `ctc`.

    >>> f"{float(CTC()([[1, 0]], [[[0.0, 0.0], [0.0, 0.0]]])):.4f}"
    '0.2877'
    """

    _casts_labels = False

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return ctc(y_true, y_pred)
