"""The common functions as tapegrad's own."""

from __future__ import annotations

import tapegrad as tf
from tapegrad_bench.adapters.tensorflow_names import TensorflowNames
from tapegrad_bench.workload import Array


class TapegradOps(TensorflowNames):
    """TensorFlow's names, and functions that TensorFlow has not in this form."""

    def __init__(self, dtype: str) -> None:
        super().__init__(tf, dtype)
        self.layer_norm = tf.nn.layer_norm
        self.batch_norm = tf.nn.batch_norm

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        q, k, v = self.split_heads(qkv, batch, heads)
        return self.joined_heads(tf.nn.scaled_dot_product_attention(q, k, v, causal=True))
