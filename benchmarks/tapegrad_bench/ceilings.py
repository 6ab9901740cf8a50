"""What the machine reaches in a plain copy and in a large product of matrices."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tapegrad_bench.precision import is_half
from tapegrad_bench.results import Ceiling
from tapegrad_bench.timing import best_of

_HOST_BYTES, _HOST_SIDE = 2**27, 1024
_CUDA_BYTES, _CUDA_SIDE, _CUDA_REPEATS = 2**30, 8192, 5


def measure(device: str, dtype: str) -> Ceiling:
    """Measure the ceilings of "cpu" or "cuda".

    >>> measure("cpu", "float32").copy_tb_per_s > 0
    True
    """
    return _on_cpu(dtype) if device == "cpu" else _on_cuda(dtype)


def _on_cpu(dtype: str) -> Ceiling:
    source = np.ones(_HOST_BYTES // 8)
    target = np.empty_like(source)
    copy = 2 * _HOST_BYTES / best_of(lambda: np.copyto(target, source))
    rate = None
    if not is_half(dtype):
        a = np.ones((_HOST_SIDE, _HOST_SIDE), dtype)
        rate = 2 * _HOST_SIDE**3 / best_of(lambda: a @ a) / 1e12
    return Ceiling("cpu", dtype, copy / 1e12, rate)


def _on_cuda(dtype: str) -> Ceiling:
    cupy = importlib.import_module("cupy")
    source = cupy.ones(_CUDA_BYTES // 4, "float32")
    target = cupy.empty_like(source)

    def copy() -> None:
        for _ in range(_CUDA_REPEATS):
            target.data.copy_from_device_async(source.data, _CUDA_BYTES)
        cupy.cuda.Device().synchronize()

    copy()
    bandwidth = _CUDA_REPEATS * 2 * _CUDA_BYTES / best_of(copy)
    rate = _product_rate(cupy, dtype)
    cupy.get_default_memory_pool().free_all_blocks()
    return Ceiling("cuda", dtype, bandwidth / 1e12, rate)


def _product_rate(cupy: Any, dtype: str) -> float:
    kind = importlib.import_module("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    # Random numbers: a GPU draws less power, and so runs faster, on zeros and ones.
    a = cupy.random.standard_normal((_CUDA_SIDE, _CUDA_SIDE), dtype="float32").astype(kind)

    def products() -> None:
        for _ in range(_CUDA_REPEATS):
            cupy.matmul(a, a)
        cupy.cuda.Device().synchronize()

    products()
    return float(_CUDA_REPEATS * 2 * _CUDA_SIDE**3 / best_of(products) / 1e12)
