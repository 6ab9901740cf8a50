"""Encodings, losses, normalization and attention with Keras' signatures."""

from __future__ import annotations

from typing import Any

from keras.src.backend import config
from keras.src.backend.common import standardize_dtype

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.nn.activations import log_softmax
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import axes_of, convert_to_tensor
from tapegrad.keras import ops


def _refuse_sparse(sparse: bool) -> None:
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with tapegrad backend")


def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """Return the one-hot encoding of integers."""
    _refuse_sparse(sparse)
    labels = convert_to_tensor(x)
    if "int" not in labels.dtype.name:
        labels = tg.cast(labels, "int32")
    dtype = "float32" if dtype is None else standardize_dtype(dtype)
    return tg.one_hot(labels, num_classes, axis=axis, dtype=dtype)


def multi_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """Return the multi-hot encoding of the integers of each example."""
    _refuse_sparse(sparse)
    labels = convert_to_tensor(x, "int32")
    rows = one_hot(labels, num_classes, axis, dtype)
    return np.max(rows, axis=1 if labels.ndim > 1 else 0)


def _check_same(target: Any, output: Any) -> None:
    if tuple(target.shape) != tuple(output.shape):
        raise ValueError(
            "Targets and outputs must have the same shape. "
            f"Got {tuple(target.shape)} and {tuple(output.shape)}."
        )


def _log_probabilities(output: Any, from_logits: bool, axis: int) -> Any:
    if from_logits:
        return log_softmax(output, axis=axis)
    output = output / np.sum(output, axis=axis, keepdims=True)
    return np.log(np.clip(output, config.epsilon(), 1.0 - config.epsilon()))


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross entropy of class probabilities."""
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    _check_same(target, output)
    if target.ndim < 1:
        raise ValueError(
            "Class probabilities need an axis of classes, so at least rank 1. Got scalars."
        )
    logs = _log_probabilities(output, from_logits, axis)
    return -np.sum(tg.cast(target, logs.dtype) * logs, axis=axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross entropy of class numbers."""
    target, output = convert_to_tensor(target, "int32"), convert_to_tensor(output)
    if target.ndim == output.ndim and target.ndim and target.shape[-1] == 1:
        target = np.squeeze(target, axis=-1)
    if output.ndim < 1:
        raise ValueError("Outputs need an axis of classes, so at least rank 1. Got a scalar.")
    if tuple(target.shape) != tuple(output.shape)[:-1]:
        raise ValueError(
            "Targets must have the same shape as outputs without their last dimension. "
            f"Got {tuple(target.shape)} and {tuple(output.shape)}."
        )
    logs = _log_probabilities(output, from_logits, axis)
    if axis in (-1, output.ndim - 1) and from_logits:
        return tg.nn.sparse_softmax_cross_entropy_with_logits(target, output)
    classes = one_hot(target, output.shape[axis], axis=axis, dtype=logs.dtype)
    return -np.sum(classes * logs, axis=axis)


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return the cross entropy of each binary label."""
    target, output = convert_to_tensor(target), convert_to_tensor(output)
    _check_same(target, output)
    target = tg.cast(target, output.dtype)
    if from_logits:
        return tg.nn.sigmoid_cross_entropy_with_logits(target, output)
    output = np.clip(output, config.epsilon(), 1.0 - config.epsilon())
    return -(target * np.log(output) + (1.0 - target) * np.log(1.0 - output))


def moments(x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False) -> Any:
    """Return the mean and the variance; those of half precision are computed in float32."""
    if synchronized:
        raise NotImplementedError("Argument synchronized=True is not supported with tapegrad.")
    x = convert_to_tensor(x)
    dtype = x.dtype.name
    wide = tg.cast(x, "float32") if dtype in ("float16", "bfloat16") else x
    found = [*tg.nn.moments(wide, axes_of(axes), keepdims=keepdims)]
    if dtype == "float16":
        found = [np.clip(part, -65504.0, 65504.0) for part in found]
    return tuple([tg.cast(part, dtype) for part in found])


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Any:
    """Normalize x by a mean and a variance for each index along `axis`."""
    x = convert_to_tensor(x)
    parts = [
        None if part is None else convert_to_tensor(part, x.dtype)
        for part in (mean, variance, offset, scale)
    ]
    centre, spread, shift, factor = parts
    return ops.batch_normalization(x, centre, spread, axis, shift, factor, epsilon)


def psnr(x1: Any, x2: Any, max_val: float) -> Any:
    """Return the peak signal-to-noise ratio in decibels."""
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if tuple(x1.shape) != tuple(x2.shape):
        raise ValueError(
            f"The shapes of both images must match. Got {tuple(x1.shape)} and {tuple(x2.shape)}."
        )
    return ops.psnr(x1, x2, max_val)


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: float | None = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """Return dot-product attention over `[batch, length, heads, depth]`.

    `flash_attention` is ignored: the kernel depends on the device and the sizes.
    """
    xs = [convert_to_tensor(x) for x in (query, key, value)]
    if any([x.ndim != 4 for x in xs]):
        raise ValueError(
            "Attention only supports 4D inputs: batch, length, heads and features. "
            f"Got query, key and value of shapes {[tuple(x.shape) for x in xs]}."
        )
    dtype = result_type(*[x.dtype for x in xs])
    xs = [tg.cast(x, dtype) for x in xs]
    bias = None if bias is None else convert_to_tensor(bias, dtype)
    mask = None if mask is None else convert_to_tensor(mask, "bool")
    return ops.dot_product_attention(*xs, bias, mask, scale, is_causal)
