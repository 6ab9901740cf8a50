"""The common functions as tapegrad's own."""

from __future__ import annotations

from typing import Any

import tapegrad as tf
from tapegrad_bench.adapters.tensorflow_names import TensorflowNames
from tapegrad_bench.workload import Array


class TapegradOps(TensorflowNames):
    """TensorFlow's names, and functions that TensorFlow has not in this form."""

    def __init__(self, dtype: str) -> None:
        super().__init__(tf, dtype)
        self.layer_norm = tf.nn.layer_norm

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        q, k, v = self.split_heads(qkv, batch, heads)
        return self.joined_heads(tf.nn.scaled_dot_product_attention(q, k, v, causal=True))

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        y: Any = tf.nn.fused_batch_norm(x, self.half(gain), self.half(bias), epsilon=1e-5)[0]
        return y
