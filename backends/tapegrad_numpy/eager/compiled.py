"""The compiled form of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad_numpy.eager.convolutions import DepthwiseKernel
from tapegrad_numpy.eager.extremes import ExtremeKernel
from tapegrad_numpy.eager.families import CONVOLUTIONS, OF_MANY, OF_ONE
from tapegrad_numpy.eager.formulas import Formula
from tapegrad_numpy.eager.native import NativeKernel
from tapegrad_numpy.eager.products import StackKernel
from tapegrad_numpy.eager.rows import MAKERS, RowKernel

Kernel = Callable[..., Any]


def compiled_form(name: str, plain: Kernel) -> Kernel:
    """Return the kernel of a primitive for large arrays, which uses `plain` where it has none."""
    if name in CONVOLUTIONS:
        return _convolution(name, plain)
    if name in ("max", "min"):
        return ExtremeKernel(name, plain)
    if name == "matmul_stack":
        return StackKernel(name, plain)
    if name in OF_ONE or name in OF_MANY:
        return NativeKernel(name, plain)
    return RowKernel(name, plain) if name in MAKERS else Formula(name, plain)


def _convolution(name: str, plain: Kernel) -> Kernel:
    depthwise, native = DepthwiseKernel(name, plain), NativeKernel(name, plain)

    def convolution(x: Any, y: Any, **params: Any) -> Any:
        return (depthwise if params["groups"] > 1 else native)(x, y, **params)

    return convolution
