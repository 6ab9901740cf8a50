"""GPT-2 as a `tapegrad.keras` model."""

from __future__ import annotations

from functools import partial
from typing import Any

import tapegrad as tf
from tapegrad_bench.workload import Array

keras = tf.keras


class GPT2(keras.Model):
    """Tokens [batch, length] to logits [batch * length, vocabulary], which share the embedding.

    >>> model = GPT2(layers=2, width=8, heads=2, length=4, vocabulary=11, dtype="float32")
    >>> model(tf.zeros([3, 4], "int32")).shape
    (12, 11)
    """

    def __init__(
        self, layers: int, width: int, heads: int, length: int, vocabulary: int, dtype: str
    ) -> None:
        super().__init__(dtype=dtype)
        self.tokens = keras.layers.Embedding(vocabulary, width, dtype=dtype)
        self.positions = Positions(dtype=dtype)
        self.blocks = [Block(width, heads, length, dtype=dtype) for _ in range(layers)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype)
        self.width = width

    def call(self, inputs: Array) -> Array:
        x = self.positions(self.tokens(inputs))
        # One row per token: products and norms take them all alike.
        x = tf.reshape(x, (-1, self.width))
        for block in self.blocks:
            x = block(x)
        table = tf.cast(self.tokens.embeddings, self.compute_dtype)
        return tf.matmul(self.norm(x), table, transpose_b=True)


class Positions(keras.layers.Layer):
    """Adds a vector to each place of a sequence."""

    def build(self, input_shape: Any) -> None:
        self.vectors = self.add_weight(input_shape[1:], "random_normal", name="vectors")

    def call(self, inputs: Array) -> Array:
        return inputs + self.vectors


class Block(keras.layers.Layer):
    """Causal attention and two dense layers, each after a norm and beside what came in."""

    def __init__(self, width: int, heads: int, length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dense = partial(keras.layers.Dense, dtype=self.dtype_policy)
        norm = partial(keras.layers.LayerNormalization, epsilon=1e-5, dtype=self.dtype_policy)
        gelu = partial(keras.activations.gelu, approximate=True)
        self.heads, self.length = heads, length
        self.attention_norm = norm()
        self.to_heads, self.from_heads = dense(3 * width), dense(width)
        self.dense_norm = norm()
        self.widen, self.narrow = dense(4 * width, activation=gelu), dense(width)

    def call(self, inputs: Array) -> Array:
        x = inputs + self.from_heads(self._attended(self.to_heads(self.attention_norm(inputs))))
        return x + self.narrow(self.widen(self.dense_norm(x)))

    def _attended(self, qkv: Array) -> Array:
        rows, width = qkv.shape[0], qkv.shape[1] // 3
        split = tf.reshape(qkv, (-1, self.length, 3, self.heads, width // self.heads))
        q, k, v = tf.unstack(tf.transpose(split, (2, 0, 3, 1, 4)))
        mixed = tf.nn.scaled_dot_product_attention(q, k, v, causal=True)
        return tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (rows, width))
