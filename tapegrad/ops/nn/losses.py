"""Losses of logits and log-rates, with TensorFlow's `tf.nn` signatures.

Losses that compare predictions with targets directly are in regression_losses.py.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.index_check import check_range, is_checking
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.real_operands import require_real
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.elementwise.comparison import greater
from tapegrad.ops.elementwise.exponential import exp, log, xlogy
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.sigmoids import softplus
from tapegrad.ops.indexing.gather import move_axis
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.nn.cross_entropy import cross_entropy_p, sparse_cross_entropy_p
from tapegrad.ops.reduction.squares import sum_of_squares
from tapegrad.ops.shape.primitives import broadcast_p


def like(values: Any, other: Any) -> Any:
    """Return `values` as an operand with the dtype of `other`."""
    return in_dtype(as_operand(values), other.dtype)


def real_pair(name: str, first: Any, second: Any) -> tuple[Any, Any]:
    """Return two real operands, the first one with the dtype of the second."""
    first, second = as_operand(first), as_operand(second)
    require_real(name, first, second)
    return in_dtype(first, second.dtype), second


def sparse_softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, name: str | None = None
) -> Any:
    """Return the cross entropy of each row of logits with its class index.

    The tape keeps the softmax. A label out of range raises an error on the CPU; on a GPU the loss
    and gradient of its row are NaN, as in TensorFlow.

    >>> loss = sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0.0, 0.0]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.6931'
    """
    x, y = as_operand(logits), as_operand(labels)
    require_real("sparse_softmax_cross_entropy_with_logits", x)
    if not is_integer(y):
        raise ArgumentTypeError(
            f"labels must be class indices of an integer dtype. Got {y.dtype}; for class "
            "probabilities use softmax_cross_entropy_with_logits."
        )
    if not x.shape or y.shape != tuple(x.shape[:-1]):
        raise ShapeError(
            "labels must have the shape of the logits without its last axis. "
            f"Got labels of shape {y.shape} and logits of shape {x.shape}."
        )
    if is_checking():
        name = "sparse_softmax_cross_entropy_with_logits"
        check_range(name, y, x.shape[-1], len(x.shape) - 1, lowest=0)
    return sparse_cross_entropy_p(x, y)[0]


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
) -> Any:
    """Return -sum(labels * log_softmax(logits)) along `axis`.

    Both arguments have gradients, which are exact even if the labels do not sum to 1.

    >>> loss = softmax_cross_entropy_with_logits(labels=[[0.5, 0.5]], logits=[[0.0, 0.0]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.6931'
    """
    y, x = real_pair("softmax_cross_entropy_with_logits", labels, logits)
    axis = normalize_axis(axis, len(x.shape), "softmax_cross_entropy_with_logits")
    if y.shape != x.shape:
        try:
            y = broadcast_p(y, shape=tuple(x.shape))
        except ValueError as error:
            raise ShapeError(
                f"labels must have the logits' shape {x.shape}. Got {y.shape}."
            ) from error
    if axis != len(x.shape) - 1:
        x, y = move_axis(x, axis, len(x.shape) - 1), move_axis(y, axis, len(x.shape) - 1)
    return cross_entropy_p(x, y)[0]


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Return the cross entropy of independent binary labels, element by element.

    It is `log(1 + exp(logits)) - labels * logits`, computed without overflow.

    >>> f"{float(sigmoid_cross_entropy_with_logits(labels=1.0, logits=0.0)):.4f}"
    '0.6931'
    """
    _check_given("sigmoid_cross_entropy_with_logits", labels, logits)
    y, x = real_pair("sigmoid_cross_entropy_with_logits", labels, logits)
    return softplus(x) - y * x


def weighted_cross_entropy_with_logits(
    labels: Any, logits: Any, pos_weight: Any, name: str | None = None
) -> Any:
    """Return the sigmoid cross entropy with the term of positive labels times `pos_weight`.

    >>> f"{float(weighted_cross_entropy_with_logits(1.0, 0.0, 2.0)):.4f}"
    '1.3863'
    """
    _check_given("weighted_cross_entropy_with_logits", labels, logits)
    y, x = real_pair("weighted_cross_entropy_with_logits", labels, logits)
    require_real("weighted_cross_entropy_with_logits", pos_weight)
    weight = 1 + (like(pos_weight, x) - 1) * y
    return (1 - y) * x + weight * softplus(-x)


def _check_given(name: str, labels: Any, logits: Any) -> None:
    if labels is None or logits is None:
        missing = "labels" if labels is None else "logits"
        raise ArgumentError(f"{name} needs both labels and logits. Got no {missing}.")


def l2_loss(t: Any, name: str | None = None) -> Any:
    """Return half the sum of squares.

    >>> float(l2_loss([3.0, 4.0]))
    12.5
    """
    return sum_of_squares(t) / 2


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Any:
    """Return the Poisson loss of a log-rate, exp(log_input) - targets * log_input.

    With `compute_full_loss`, Stirling's approximation of log(targets!) is added where targets
    are greater than 1.

    >>> float(log_poisson_loss(targets=2.0, log_input=0.0))
    1.0
    """
    z, c = real_pair("log_poisson_loss", targets, log_input)
    loss = exp(c) - z * c
    if not compute_full_loss:
        return loss
    # Evaluate the unused correction at 1, so that an infinite slope cannot give NaN gradients.
    safe = where(greater(z, 1), z, 1.0)
    stirling = xlogy(safe, safe) - safe + 0.5 * log(2 * math.pi * safe)
    return loss + where(greater(z, 1), stirling, 0.0)
