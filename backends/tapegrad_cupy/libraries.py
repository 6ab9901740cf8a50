"""The optional libraries for CUDA devices: which are used, and the cost of missing ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import cupy

from tapegrad.core.ownership import info_rows
from tapegrad_cupy.kernels.convolution import cudnn
from tapegrad_cupy.kernels.products import products
from tapegrad_cupy.library_calls.cudnn_handle import library
from tapegrad_cupy.library_calls.replay_state import replay_state
from tapegrad_cupy.runtime.array_references import why_not_counted


def libraries() -> list[tuple[str, str]]:
    """Return name and state of each library, for `tapegrad info`."""
    why_not_counted()  # the self-check behind `info_rows`
    major = cupy.cuda.runtime.runtimeGetVersion() // 1000
    return [
        ("cuBLASLt", cublaslt_state(products.REASON, major)),
        ("cuDNN", cudnn_state(cudnn.status(), library()[1], major)),
        ("library replay", replay_state()),
        ("nvmath", nvmath_state(importlib.util.find_spec)),
        *info_rows(),
    ]


def cublaslt_state(reason: str, cuda: int) -> str:
    """Return whether cuBLASLt is used, or why not; `cuda` is the major version of CUDA."""
    if not reason:
        return "used for matrix products"
    package = "nvidia-cublas" if cuda >= 13 else f"nvidia-cublas-cu{cuda}"
    return (
        f"missing: {reason.rstrip('.')}. Matrix products go through CuPy instead, slower and not "
        f"inside CUDA graphs. Run: pip install cuda-pathfinder {package}"
    )


def cudnn_state(status: str, reason: str, cuda: int) -> str:
    """Return whether cuDNN is used; `reason` says why not, and is "" if it is."""
    if not reason or "TAPEGRAD_CUDNN" in reason:
        return status
    return (
        f"{status}. Convolutions would be faster with it. "
        f"Run: pip install nvidia-cudnn-frontend nvidia-cudnn-cu{cuda}"
    )


def nvmath_state(find: Callable[[str], object]) -> str:
    """Return whether nvmath-python is installed; `find` looks up a module."""
    there = "installed" if find("nvmath") is not None else "not installed"
    return f"{there}, and not needed: tapegrad calls cuBLASLt itself"
