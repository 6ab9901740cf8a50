"""`tf.compat.v1.nn`: functions whose arguments have changed; the others are those of `tf.nn`."""

from __future__ import annotations

from typing import Any

from tapegrad import nn
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ctc.decoding import ctc_beam_search_decoder as _search, merge_repeated_labels
from tapegrad.ctc.loss import ctc_loss_of_sparse_labels as ctc_loss
from tapegrad.errors import ArgumentError
from tapegrad.ops.nn.losses import softmax_cross_entropy_with_logits as _cross_entropy
from tapegrad.ops.products.functions import matmul

__all__ = [
    "ctc_beam_search_decoder", "ctc_loss", "dropout", "relu_layer",
    "softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits_v2", "xw_plus_b",
]  # fmt: skip


def ctc_beam_search_decoder(
    inputs: Any,
    sequence_length: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[Any], Any]:
    """Search for the most probable labels; see `tapegrad.nn.ctc_beam_search_decoder`.

    With `merge_repeated`, equal neighbours among the labels that were found are merged.

    >>> labels, _ = ctc_beam_search_decoder([[[1.0, 0.0]], [[0.0, 3.0]], [[1.0, 0.0]]], [3])
    >>> labels[0].values.tolist()
    [0]
    """
    found, scores = _search(inputs, sequence_length, beam_width, top_paths)
    return [merge_repeated_labels(one) for one in found] if merge_repeated else found, scores


def dropout(
    x: Any,
    keep_prob: float | None = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    rate: float | None = None,
) -> Any:
    """Set elements to 0 at random: with probability `rate`, or 1 - `keep_prob`.

    >>> dropout([1.0, 2.0], keep_prob=1.0).tolist()
    [1.0, 2.0]
    """
    if (keep_prob is None) == (rate is None):
        raise ArgumentError("dropout needs one of the arguments rate and keep_prob.")
    share: Any = 1.0 - keep_prob if keep_prob is not None else rate
    return nn.dropout(x, share, noise_shape=noise_shape, seed=seed)


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Any:
    """Return the cross entropy of probabilities `labels` and the softmax of `logits`.

    >>> loss = softmax_cross_entropy_with_logits(labels=[1.0, 0.0], logits=[0.0, 0.0])
    >>> f"{float(loss):.4f}"
    '0.6931'
    """
    if _sentinel is not None or labels is None or logits is None:
        raise ArgumentError(
            "softmax_cross_entropy_with_logits needs the arguments labels=... and logits=..., by "
            "name."
        )
    return _cross_entropy(labels, logits, axis=dim if axis is None else axis)


softmax_cross_entropy_with_logits_v2 = _cross_entropy


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return x @ weights + biases.

    >>> xw_plus_b([[1.0, 2.0]], [[1.0], [1.0]], [0.5]).tolist()
    [[3.5]]
    """
    return nn.bias_add(matmul(x, weights), biases)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return relu(x @ weights + biases).

    >>> relu_layer([[1.0, 2.0]], [[1.0], [-1.0]], [0.5]).tolist()
    [[0.0]]
    """
    return nn.relu(xw_plus_b(x, weights, biases))


def __getattr__(name: str) -> Any:
    return getattr(nn, name)


_check_calls(globals(), [name for name in __all__ if name != "ctc_loss"])
