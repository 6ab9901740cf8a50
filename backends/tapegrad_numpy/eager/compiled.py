"""The compiled form of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad_numpy.eager.convolutions import DepthwiseKernel
from tapegrad_numpy.eager.formulas import Formula
from tapegrad_numpy.eager.rows import MAKERS, RowKernel
from tapegrad_numpy.loops.depthwise import NAMES as CONVOLUTIONS

Kernel = Callable[..., Any]


def compiled_form(name: str, plain: Kernel) -> Kernel:
    """Return the kernel of a primitive for large arrays, which uses `plain` where it has none."""
    if name in CONVOLUTIONS:
        return DepthwiseKernel(name, plain)
    return RowKernel(name, plain) if name in MAKERS else Formula(name, plain)
