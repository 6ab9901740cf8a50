"""The common functions as PyTorch's own; images lie channels-last in memory, as cuDNN likes it."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array


class TorchOps:
    """PyTorch's functions; `dtype` is the precision of the computation."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._is_half = getattr(torch, dtype), is_half(dtype)
        self.tanh, self.relu, self.sum, self.mean = torch.tanh, torch.relu, torch.sum, torch.mean
        self.matvec, self.reshape = torch.mv, torch.reshape
        self.cross_entropy = functional.cross_entropy

    def half(self, x: Array) -> Array:
        return x.to(self._dtype) if self._is_half else x

    def single(self, x: Array) -> Array:
        return x.float() if self._is_half else x

    def gelu(self, x: Array) -> Array:
        return functional.gelu(x, approximate="tanh")

    def matmul_t(self, x: Array, w: Array) -> Array:
        return functional.linear(x, w)

    def layer_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return functional.layer_norm(x, gain.shape, gain, bias, 1e-5)

    def embedding(self, table: Array, tokens: Array) -> Array:
        return functional.embedding(tokens, table)

    def attention(self, qkv: Array, batch: int, heads: int) -> Array:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        split = qkv.view(batch, tokens // batch, 3, heads, width // heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(tokens, width)

    def conv(self, x: Array, w: Array, stride: int) -> Array:
        return functional.conv2d(x, w, stride=stride, padding=1)

    def batch_norm(self, x: Array, gain: Array, bias: Array) -> Array:
        return functional.batch_norm(x, None, None, gain, bias, training=True, eps=1e-5)

    def spatial_mean(self, x: Array) -> Array:
        return x.mean(dim=(2, 3))


def to_torch(array: Any, dtype: str, device: str) -> Any:
    """Bring a host array to the device; images and filters into PyTorch's order of axes."""
    value = torch.tensor(array, device=device)
    if array.dtype.kind == "f":
        value = value.to(getattr(torch, dtype))
    if array.ndim != 4:
        return value
    is_filter = array.shape[:2] == (3, 3)
    value = value.permute((3, 2, 0, 1) if is_filter else (0, 3, 1, 2))
    return value.contiguous(memory_format=torch.channels_last)


def to_host(value: Any) -> Any:
    """Return a filter's gradient in the workload's order of axes, and others as they are."""
    value = value.detach()
    if value.dim() == 4:
        value = value.permute(2, 3, 1, 0)
    return value.double().cpu().numpy()
