"""The CTC loss: labels without alignment to a longer sequence."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.ctc.recursion import negative_log_probability
from tapegrad.errors import ShapeError
from tapegrad.keras.configured import computing
from tapegrad.keras.losses.loss import PlainLoss
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.ops.reduction.primitives import sum as sum_of


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
    lengths = sum_of(cast(not_equal(labels, 0), "int32"), axis=-1)
    step_counts = full_like(lengths, logits.shape[1])
    return negative_log_probability(log_softmax(logits), labels, lengths, step_counts, 0)


def _check(labels: tuple[int, ...], logits: tuple[int, ...]) -> None:
    if len(labels) != 2 or len(logits) != 3 or labels[0] != logits[0]:
        raise ShapeError(
            "ctc takes labels of shape (batch, labels), padded with 0, and logits of shape (batch, "
            f"steps, classes). Got {labels} and {logits}."
        )


@computing(ctc)
class CTC(PlainLoss):
    """The CTC loss of padded labels and logits; see `ctc`.

    >>> f"{float(CTC()([[1, 0]], [[[0.0, 0.0], [0.0, 0.0]]])):.4f}"
    '0.2877'
    """

    _casts_labels = False

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return ctc(y_true, y_pred)
