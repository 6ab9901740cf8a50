"""The common functions that TensorFlow and tapegrad have under the same names."""

from __future__ import annotations

from typing import Any

from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array, Optimizer

AROUND = [[0, 0], [1, 1], [1, 1], [0, 0]]
"""One pixel of zeros on every side of an image."""


class TensorflowNames:
    """Functions of `tf`, which is either library; `dtype` is the precision of the computation."""

    def __init__(self, tf: Any, dtype: str) -> None:
        self._tf, self._dtype, self._is_half = tf, dtype, is_half(dtype)
        self.tanh, self.relu = tf.tanh, tf.nn.relu
        self.sum, self.mean = tf.reduce_sum, tf.reduce_mean
        self.matvec, self.reshape, self.embedding = tf.linalg.matvec, tf.reshape, tf.gather

    def half(self, x: Array) -> Array:
        return self._tf.cast(x, self._dtype) if self._is_half else x

    def single(self, x: Array) -> Array:
        return self._tf.cast(x, "float32") if self._is_half else x

    def gelu(self, x: Array) -> Array:
        return self._tf.nn.gelu(x, approximate=True)

    def matmul_t(self, x: Array, w: Array) -> Array:
        return self._tf.matmul(x, w, transpose_b=True)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        loss = self._tf.nn.sparse_softmax_cross_entropy_with_logits
        return self.mean(self.single(loss(labels=labels, logits=logits)))

    def split_heads(self, qkv: Array, batch: int, heads: int) -> Array:
        """Return queries, keys and values as [batch, heads, length, depth]."""
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        split = self.reshape(qkv, (batch, tokens // batch, 3, heads, width // heads))
        return self._tf.unstack(self._tf.transpose(split, (2, 0, 3, 1, 4)))

    def joined_heads(self, mixed: Array) -> Array:
        """Return [tokens, width] of what attention gave."""
        batch, heads, length, depth = mixed.shape
        rows = self._tf.transpose(mixed, (0, 2, 1, 3))
        return self.reshape(rows, (batch * length, heads * depth))

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        return self._tf.nn.conv2d(x, w, strides=stride, padding=AROUND)

    def spatial_mean(self, x: Array) -> Array:
        return self.mean(x, axis=(1, 2))


def make_optimizer(rule: Optimizer, optimizers: Any) -> Any:
    """Return the optimizer of a module of them: either of ours, or Keras'.

    >>> import tapegrad as tf
    >>> type(make_optimizer(Optimizer("adam", 0.1), tf.optimizers)).__name__
    'Adam'
    """
    if rule.name in ("sgd", "momentum"):
        return optimizers.SGD(rule.rate, momentum=rule.momentum * (rule.name == "momentum"))
    moments = {"beta_1": rule.beta_1, "beta_2": rule.beta_2, "epsilon": rule.epsilon}
    if rule.name == "adam":
        return optimizers.Adam(rule.rate, **moments)
    return optimizers.AdamW(rule.rate, weight_decay=rule.weight_decay, **moments)


def restart_optimizer(tf: Any, optimizer: Any) -> None:
    """Let an optimizer forget its updates; `tf` is its library."""
    for variable in (optimizer.iterations, *slots_of(optimizer)):
        variable.assign(tf.zeros_like(variable))


def moments_of(rule: Optimizer, optimizer: Any) -> list[Any]:
    """Return Adam's running means of the gradients; other rules have none."""
    return slots_of(optimizer)[::2] if rule.name in ("adam", "adamw") else []


def slots_of(optimizer: Any) -> list[Any]:
    """Return the arrays that an optimizer keeps, those of one variable beside each other."""
    return list(optimizer.variables[2:])  # after the count of steps and the learning rate
