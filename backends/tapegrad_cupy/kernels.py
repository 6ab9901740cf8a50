"""Kernels that CuPy runs in its own way, by primitive name; all others are generic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad_cupy.philox import KERNELS as PHILOX
from tapegrad_cupy.products import KERNELS as PRODUCTS
from tapegrad_cupy.special import KERNELS as SPECIAL

KERNELS: dict[str, Callable[..., Any]] = {**SPECIAL, **PHILOX, **PRODUCTS}
