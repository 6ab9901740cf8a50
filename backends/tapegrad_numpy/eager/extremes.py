"""Maxima and minima of large arrays along neighbouring axes, by compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.errors import ShapeError
from tapegrad_numpy.eager.formulas import MOST_PLANS
from tapegrad_numpy.loops.compile import make_all

Kernel = Callable[..., Any]

_COMBINES = {"max": "maximum", "min": "minimum"}
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class ExtremeKernel:
    """A maximum or minimum, compiled per shape; NumPy computes those that loops do not."""

    def __init__(self, name: str, plain: Kernel) -> None:
        self.plain = plain
        self._combine = _COMBINES[name]
        self._plans: dict[Any, Any] = {}

    def __call__(self, x: Any, *, axis: Sequence[int], keepdims: bool) -> Any:
        if x.dtype not in _FLOATS or not x.flags.c_contiguous:
            return self.plain(x, axis=axis, keepdims=keepdims)
        key = (x.dtype, x.shape, tuple(axis))
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = self._plan(x, axis)
        plan = self._plans[key]
        if plan is None:
            return self.plain(x, axis=axis, keepdims=keepdims)
        space, run = plan
        try:
            (y,) = run((x.reshape(space),), (None,))
        except ShapeError:  # an array that is not aligned
            return self.plain(x, axis=axis, keepdims=keepdims)
        sizes = [1 if i in axis else n for i, n in enumerate(x.shape) if keepdims or i not in axis]
        return y.reshape(sizes)

    def _plan(self, x: Any, axis: Sequence[int]) -> Any:
        """Return the space of a loop and its function; None for axes with others between them."""
        first, last = min(axis, default=0), max(axis, default=0)
        if len(axis) != last - first + 1:
            return None
        outer, inner = prod(x.shape[:first]), prod(x.shape[last + 1 :])
        space = (outer, prod(x.shape[first : last + 1]), inner)
        output = LoopOutput(array_input(0, x.dtype), (outer, inner), self._combine, (1,))
        (run,) = make_all([Loop(space, (LoopInput(space, space, x.dtype),), (output,))])
        return None if run is None else (space, run)
