"""Losses of one replica as shares of the loss of the whole batch; there is one replica here."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.reduction.functions import reduce_sum


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Any:
    """Return the sum of the losses of the examples, divided by the size of the whole batch.

    >>> float(compute_average_loss([1.0, 3.0])), float(compute_average_loss([1.0, 3.0], [1.0, 0.0]))
    (2.0, 0.5)
    """
    losses = as_operand(per_example_loss)
    if not losses.shape:
        raise ShapeError("compute_average_loss takes one loss per example. Got a scalar.")
    if sample_weight is not None:
        losses = losses * cast(sample_weight, losses.dtype)
    size = losses.shape[0] if global_batch_size is None else global_batch_size
    return reduce_sum(losses) / cast(size, losses.dtype)


def scale_regularization_loss(regularization_loss: Any) -> Any:
    """Return the sum of regularization losses, divided by the number of replicas, which is 1.

    >>> float(scale_regularization_loss([1.0, 2.0]))
    3.0
    """
    return reduce_sum(as_operand(regularization_loss))
