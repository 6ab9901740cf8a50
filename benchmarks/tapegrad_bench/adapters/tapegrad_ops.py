"""The common functions as tapegrad's own."""

from __future__ import annotations

from typing import Any

import tapegrad as tf
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array

AROUND = [[0, 0], [1, 1], [1, 1], [0, 0]]
"""One pixel of zeros on every side of an image."""


class TapegradOps:
    """tapegrad's functions; `dtype` is the precision of the computation."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._is_half = dtype, is_half(dtype)
        self.tanh, self.relu = tf.tanh, tf.nn.relu
        self.sum, self.mean = tf.reduce_sum, tf.reduce_mean
        self.matvec, self.reshape, self.embedding = tf.linalg.matvec, tf.reshape, tf.gather
        self.layer_norm = tf.nn.layer_norm

    def half(self, x: Array) -> Array:
        return tf.cast(x, self._dtype) if self._is_half else x

    def single(self, x: Array) -> Array:
        return tf.cast(x, "float32") if self._is_half else x

    def gelu(self, x: Array) -> Array:
        return tf.nn.gelu(x, approximate=True)

    def matmul_t(self, x: Array, w: Array) -> Array:
        return tf.matmul(x, w, transpose_b=True)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(self.single(losses))

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        split = tf.reshape(qkv, (batch, tokens // batch, 3, heads, width // heads))
        q, k, v = tf.unstack(tf.transpose(split, (2, 0, 3, 1, 4)))
        mixed = tf.nn.scaled_dot_product_attention(q, k, v, causal=True)
        return tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (tokens, width))

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        return tf.nn.conv2d(x, w, strides=stride, padding=AROUND)

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        y: Any = tf.nn.fused_batch_norm(x, self.half(gain), self.half(bias), epsilon=1e-5)[0]
        return y

    def spatial_mean(self, x: Array) -> Array:
        return tf.reduce_mean(x, axis=(1, 2))
