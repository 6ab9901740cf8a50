"""The common functions as JAX's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array


class JaxOps:
    """JAX's functions; `dtype` is the precision of the computation."""

    def __init__(self, dtype: str, is_cuda: bool) -> None:
        self._dtype, self._is_half, self._is_cuda = dtype, is_half(dtype), is_cuda
        self.tanh, self.relu, self.sum, self.mean = jnp.tanh, jax.nn.relu, jnp.sum, jnp.mean
        self.matvec, self.reshape = jnp.dot, jnp.reshape

    def half(self, x: Array) -> Array:
        return x.astype(self._dtype) if self._is_half else x

    def single(self, x: Array) -> Array:
        return x.astype("float32") if self._is_half else x

    def gelu(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=True)

    def matmul_t(self, x: Array, w: Array) -> Array:
        return x @ w.T

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        logits = self.single(logits)
        picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)

    def layer_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return self.half(self._normalized(x, -1) * self.single(gain) + self.single(bias))

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return self.half(self._normalized(x, (0, 1, 2)) * gain + bias)

    def _normalized(self, x: Array, axis: Any) -> Array:
        x = self.single(x)
        x = x - jnp.mean(x, axis=axis, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True) + 1e-5)

    def embedding(self, table: Array, tokens: Array) -> Array:
        return table[tokens]

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        split = qkv.reshape(batch, tokens // batch, 3, heads, width // heads)
        q, k, v = (split[:, :, i] for i in range(3))
        # cuDNN's kernel is JAX's fastest; it takes half precision only.
        implementation = "cudnn" if self._is_cuda and self._is_half else "xla"
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation)
        return mixed.reshape(tokens, width)

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def spatial_mean(self, x: Array) -> Array:
        return jnp.mean(x, axis=(1, 2))
