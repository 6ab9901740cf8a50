"""Kernels that NumPy runs better, or only, in its own way, by primitive name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KERNELS: dict[str, Callable[..., Any]] = {}
