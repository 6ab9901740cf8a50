"""Large depthwise convolutions and their gradients in C; everything else is left to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_numpy.eager.formulas import MOST_PLANS
from tapegrad_numpy.kernels.half import accumulator
from tapegrad_numpy.loops.shape_specialized import make_fixed

Kernel = Callable[..., Any]


class DepthwiseKernel:
    """A convolution or one of its gradients, compiled per shape of its operands.

    Half precision is computed in single precision, as the plain kernel does.
    """

    def __init__(self, name: str, plain: Kernel) -> None:
        self._name, self.plain = name, plain
        self._plans: dict[Any, Kernel | None] = {}

    def __call__(self, a: Any, b: Any, **params: Any) -> Any:
        dtype = np.result_type(a, b)
        wide = accumulator(dtype)
        key = (a.shape, b.shape, wide, tuple(params.items()))
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            operands = ((a.shape, wide), (b.shape, wide))
            request = (self._name, operands, params)
            (self._plans[key],) = make_fixed([request], {self._name: self.plain})
        run = self._plans[key]
        if run is None:
            return self.plain(a, b, **params)
        wide_a, wide_b = a.astype(wide, copy=False), b.astype(wide, copy=False)
        return run(wide_a, wide_b, **params).astype(dtype, copy=False)
