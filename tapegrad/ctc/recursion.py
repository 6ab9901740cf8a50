"""The probability of all alignments that give the labels."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.control_flow import foldl
from tapegrad.ops.creation import full_like, ones_like
from tapegrad.ops.elementwise.comparison import equal, greater_equal, less, logical_or, not_equal
from tapegrad.ops.elementwise.selection import minimum, where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.reduction.logsumexp import logsumexp
from tapegrad.ops.shape.functions import expand_dims, reshape, transpose
from tapegrad.ops.shape.joining import concat, stack

_NEVER = -1e30
"""The logarithm of probability 0: finite, so that its gradient is 0 instead of NaN."""


def negative_log_probability(
    logs: Any, labels: Any, label_lengths: Any, step_counts: Any, blank: int
) -> Any:
    """Return minus the logarithm of the probability of each row of labels.

    `logs` are log probabilities of shape (batch, steps, classes), `labels` integers of shape
    (batch, labels), the other two integers of shape (batch,). Labels without an alignment have the
    result infinity, whose gradient is 0.

    >>> import numpy as np
    >>> logs = np.log(np.full((1, 2, 2), 0.5))
    >>> f"{float(negative_log_probability(logs, [[1, 0]], [1], [2], 0)[0]):.4f}"
    '0.2877'
    """
    labels = cast(labels, "int32")
    path = _with_blanks(labels, blank)
    emitted = transpose(gather(logs, path, axis=2, batch_dims=1), (1, 0, 2))
    alpha = _forward(path, emitted, cast(step_counts, "int32"))
    places = cumsum(ones_like(path), axis=1) - 1
    last = expand_dims(2 * cast(label_lengths, "int32"), -1)
    is_end = logical_or(equal(places, last), equal(places, last - 1))
    total = logsumexp(where(is_end, alpha, _NEVER), axis=-1)
    return where(total < 0.5 * _NEVER, float("inf"), -total)


def cut_at_blank(labels: Any, lengths: Any, blank: int) -> tuple[Any, Any]:
    """End each row of labels before its first label from `blank` on, the number of the last class.

    TensorFlow's first version of CTC reads labels in this way, so that rows can be padded with any
    large number.

    >>> labels, lengths = cut_at_blank([[1, 9, 9], [0, 1, 0]], [3, 2], 2)
    >>> labels.tolist(), lengths.tolist()
    ([[1, 0, 0], [0, 1, 0]], [1, 2])
    """
    labels = cast(labels, "int32")
    before = equal(cumsum(cast(greater_equal(labels, blank), "int32"), axis=1), 0)
    count = reduce_sum(cast(before, "int32"), axis=1)
    return where(before, labels, 0), minimum(cast(lengths, "int32"), count)


def _with_blanks(labels: Any, blank: int) -> Any:
    """Return the labels with a blank before, between and after them."""
    batch, count = labels.shape
    blanks = full_like(labels, blank)
    pairs = reshape(stack([blanks, labels], axis=-1), (batch, 2 * count))
    return concat([pairs, full_like(pairs[:, :1], blank)], axis=1)


def _forward(path: Any, emitted: Any, step_counts: Any) -> Any:
    """Return the log probability of being at each place of the path after the last step.

    alpha[s] <- e[s] + log(exp alpha[s] + exp alpha[s - 1] + exp alpha[s - 2]). The last term
    applies only where the blank between two different labels may be skipped. The
    comparison is false between two blanks of the path. A label may have the number of the blank.
    """
    may_skip = not_equal(path[:, 2:], path[:, :-2])
    never = full_like(emitted[0], _NEVER)
    first = concat([emitted[0][:, :2], never[:, 2:]], axis=1)

    def step(state: tuple[Any, Any], emission: Any) -> tuple[Any, Any]:
        alpha, time = state
        one = concat([never[:, :1], alpha[:, :-1]], axis=1)
        two = concat([never[:, :2], where(may_skip, alpha[:, :-2], _NEVER)], axis=1)
        following = logsumexp(stack([alpha, one, two], axis=0), axis=0) + emission
        is_within = expand_dims(less(time, step_counts), -1)
        return where(is_within, following, alpha), time + 1

    return foldl(step, emitted[1:], (first, ones_like(step_counts)))[0]
