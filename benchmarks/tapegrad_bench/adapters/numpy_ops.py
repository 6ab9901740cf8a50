"""The common functions on NumPy arrays, or on those of a namespace shaped like NumPy's."""

from __future__ import annotations

from typing import Any

from tapegrad_bench.workload import Array


class NumpyOps:
    """Forward functions only: for the reference, and for HIPS autograd, which differentiates them.

    Everything is computed in the precision of its inputs, so `half` and `single` do nothing.
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.tanh, self.sum, self.mean = xp.tanh, xp.sum, xp.mean

    def half(self, x: Array) -> Array:
        return x

    def single(self, x: Array) -> Array:
        return x

    def relu(self, x: Array) -> Array:
        return self.xp.maximum(x, 0)

    def gelu(self, x: Array) -> Array:
        return 0.5 * x * (1 + self.xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def matvec(self, matrix: Array, x: Array) -> Array:
        return self.xp.dot(matrix, x)

    def matmul_t(self, x: Array, w: Array) -> Array:
        return self.xp.dot(x, w.T)

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        return self.xp.reshape(x, shape)

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        xp = self.xp
        top = xp.max(logits, axis=1, keepdims=True)
        log_total = xp.log(xp.sum(xp.exp(logits - top), axis=1)) + top[:, 0]
        return xp.mean(log_total - logits[range(len(labels)), labels])

    def layer_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return self._normalized(x, -1) * gain + bias

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return self._normalized(x, (0, 1, 2)) * gain + bias

    def _normalized(self, x: Array, axis: Any) -> Array:
        xp = self.xp
        x = x - xp.mean(x, axis=axis, keepdims=True)
        return x / xp.sqrt(xp.mean(x * x, axis=axis, keepdims=True) + 1e-5)

    def embedding(self, table: Array, tokens: Array) -> Array:
        return table[tokens]

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        xp = self.xp
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        length, depth = tokens // batch, width // heads
        split = xp.reshape(qkv, (batch, length, 3, heads, depth))
        q, k, v = (xp.transpose(split[:, :, i], (0, 2, 1, 3)) for i in range(3))
        scores = xp.matmul(q, xp.transpose(k, (0, 1, 3, 2))) * depth**-0.5
        scores = xp.where(xp.tri(length, dtype=bool), scores, -1e30)
        e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        mixed = xp.matmul(e / xp.sum(e, axis=-1, keepdims=True), v)
        return xp.reshape(xp.transpose(mixed, (0, 2, 1, 3)), (tokens, width))

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        """The sum over the nine pixels of the filter of a product of matrices."""
        xp = self.xp
        height, width = x.shape[1], x.shape[2]
        padded = xp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "constant")
        return sum(
            xp.matmul(padded[:, i : i + height : stride, j : j + width : stride], w[i, j])
            for i in range(3)
            for j in range(3)
        )

    def spatial_mean(self, x: Array) -> Array:
        return self.xp.mean(x, axis=(1, 2))
