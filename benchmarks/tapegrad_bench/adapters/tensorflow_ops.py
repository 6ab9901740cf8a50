"""The common functions as TensorFlow's own."""

from __future__ import annotations

import tensorflow as tf

from tapegrad_bench.adapters.tensorflow_names import TensorflowNames
from tapegrad_bench.workload import Array


class TensorflowOps(TensorflowNames):
    """The shared names, and what TensorFlow composes of other functions."""

    def __init__(self, dtype: str) -> None:
        super().__init__(tf, dtype)

    def layer_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, 1e-5)

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        q, k, v = self.split_heads(qkv, batch, heads)
        length, depth = q.shape[2], q.shape[3]
        scores = self.single(tf.matmul(q, k, transpose_b=True)) * depth**-0.5
        seen = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
        weights = tf.nn.softmax(tf.where(seen, scores, scores.dtype.min))
        return self.joined_heads(tf.matmul(self.half(weights), v))

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        mean, variance = tf.nn.moments(self.single(x), axes=[0, 1, 2])
        scaled = tf.nn.batch_normalization(self.single(x), mean, variance, bias, gain, 1e-5)
        return self.half(scaled)
