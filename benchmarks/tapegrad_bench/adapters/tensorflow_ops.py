"""The common functions as TensorFlow's own."""

from __future__ import annotations

import tensorflow as tf

from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array


class TensorflowOps:
    """TensorFlow's functions; `dtype` is the precision of the computation."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._is_half = dtype, is_half(dtype)
        self.tanh, self.relu = tf.tanh, tf.nn.relu
        self.sum, self.mean = tf.reduce_sum, tf.reduce_mean
        self.matvec, self.reshape, self.embedding = tf.linalg.matvec, tf.reshape, tf.gather

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

    def layer_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, 1e-5)

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        length, depth = tokens // batch, width // heads
        split = tf.reshape(qkv, (batch, length, 3, heads, depth))
        q, k, v = tf.unstack(tf.transpose(split, (2, 0, 3, 1, 4)))
        scores = self.single(tf.matmul(q, k, transpose_b=True)) * depth**-0.5
        seen = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
        weights = tf.nn.softmax(tf.where(seen, scores, scores.dtype.min))
        mixed = tf.matmul(self.half(weights), v)
        return tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (tokens, width))

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        return tf.nn.conv2d(x, w, strides=stride, padding=[[0, 0], [1, 1], [1, 1], [0, 0]])

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        mean, variance = tf.nn.moments(self.single(x), axes=[0, 1, 2])
        scaled = tf.nn.batch_normalization(self.single(x), mean, variance, bias, gain, 1e-5)
        return self.half(scaled)

    def spatial_mean(self, x: Array) -> Array:
        return tf.reduce_mean(x, axis=(1, 2))
