"""A loop over the elements of a space: what a fused kernel computes, whatever it is written in.

Each output is a formula of one element of the space. It is stored for every element, or combined
along some axes. Targets write loops down in their language; nothing here knows one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.core.expression import Expression

Shape = tuple[int, ...]
DType = np.dtype[Any]

COMBINATIONS = ("add", "multiply", "maximum", "minimum")
"""How elements can be brought together; NaN comes through all of them."""


@dataclass(frozen=True)
class LoopInput:
    """An array that is read, by the formulas as `input` with its position."""

    shape: Shape
    seen: Shape
    """The shape with axes of length 1 put in or left out; it broadcasts to that of the loop."""
    dtype: DType


@dataclass(frozen=True)
class LoopOutput:
    """A formula, and what becomes of its value."""

    expression: Expression
    shape: Shape
    combine: str | None = None
    """None: one result per element of the space. Else one of COMBINATIONS."""
    axes: tuple[int, ...] = ()
    """The axes of the space, in order, along which elements are combined."""
    finish: Expression | None = None
    """A formula of the combined value, which is its input 0."""

    @property
    def dtype(self) -> DType:
        dtype = (self.expression if self.finish is None else self.finish).dtype
        assert dtype is not None
        return dtype


@dataclass(frozen=True)
class Loop:
    """Inputs, a space, and outputs; all combining outputs combine along the same axes."""

    shape: Shape
    inputs: tuple[LoopInput, ...]
    outputs: tuple[LoopOutput, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which outputs are combined; none if nothing is."""
        return next((output.axes for output in self.outputs if output.combine), ())

    @property
    def writes(self) -> bool:
        """Whether there is an output with a value for every element."""
        return any(output.combine is None for output in self.outputs)


@dataclass(frozen=True)
class JoinedLoops:
    """Loops of one formula over different arrays, for a target that runs them in one launch.

    All read every array whole or as a single element, and combine nothing. Arrays come and go
    loop by loop: all that the first one reads, then the second.
    """

    loops: tuple[Loop, ...]
