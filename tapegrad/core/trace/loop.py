"""Loops: the intermediate representation of a fused kernel.

A loop runs over the elements of an iteration space. Each output is an expression of one element,
which is stored for every element or reduced along some axes. A loop with stages passes over each
of its rows several times, because later passes read what earlier ones reduced, as in a softmax.
Backends compile loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.trace.expression import Expression

Shape = tuple[int, ...]
DType = np.dtype[Any]

COMBINATIONS = ("add", "multiply", "maximum", "minimum")
"""The reductions of a loop; all of them propagate NaN."""


INSIDE, WRAPS, ZEROS = "inside", "wraps", "zeros"
"""What an array has beyond its ends: nothing is read there, its other end, or zeros."""

INDEXED = "indexed"
"""The position along an axis is a value of the loop, such as an element of an index array."""

PIECES = "pieces"
"""The position is another linear function of the index in each of several parts of the axis."""


class Piece(NamedTuple):
    """Where a part of an axis is read: from index `begin` on, at `first`, `first + step`, ...

    If `first` is None, the elements are 0.
    """

    begin: int
    first: int | None
    step: int = 1


@dataclass(frozen=True)
class Along:
    """Where a loop reads along one axis of an array.

    At index i of the loop's `axis` the position is `offset + step * m`. The number m is `i + shift`
    if the mode is `INSIDE`, and modulo `size` if it `WRAPS`. If the mode is `ZEROS`, an element
    with m outside of 0 to `size - 1` is 0. Without an axis the position is `offset`. If the mode is
    `INDEXED`, m is the value of the loop's index expression with the number `index`, and an element
    with m outside of 0 to `size - 1` is 0. If the mode is `PIECES`, m is what the piece that has
    index i says, and the pieces are in order, from index 0 on.
    """

    axis: int | None
    offset: int = 0
    step: int = 1
    mode: str = INSIDE
    shift: int = 0
    size: int = 0
    index: int = 0
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class LoopInput:
    """An array that a loop reads; expressions refer to it by its position."""

    shape: Shape
    seen: Shape
    """The shape with axes of length 1 inserted or removed, so that it broadcasts to the loop's."""
    dtype: DType
    window: tuple[Along, ...] | None = None
    """If it is not read element by element: where, along each axis of the array.

    `seen` has the lengths of the loop's axes along which the position changes, otherwise 1.
    """


@dataclass(frozen=True)
class Rows:
    """Rows into which an output adds its values, beginning with zeros.

    The output has one axis of length `size` in place of some neighbouring `axes` of the space. The
    position along it is the value of the loop's index expression with the number `index`, which
    changes along these axes only. Values at positions outside of 0 to `size - 1` are dropped.
    """

    index: int
    size: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class LoopOutput:
    """An expression, and whether its values are stored or reduced."""

    expression: Expression
    shape: Shape
    combine: str | None = None
    """None to store one value per element of the space, else one of COMBINATIONS."""
    axes: tuple[int, ...] = ()
    """The axes of the space, in order, that are reduced.

    An output that is not reduced has axes if the loop has stages and one value per row is stored.
    """
    finish: Expression | None = None
    """An expression of the reduced value, which is its input 0."""
    rows: Rows | None = None
    """If values are added into rows; nothing is reduced then."""

    @property
    def dtype(self) -> DType:
        dtype = (self.expression if self.finish is None else self.finish).dtype
        assert dtype is not None
        return dtype


@dataclass(frozen=True)
class Loop:
    """Inputs, an iteration space and outputs; all reductions are along the same axes."""

    shape: Shape
    inputs: tuple[LoopInput, ...]
    outputs: tuple[LoopOutput, ...]
    stages: tuple[LoopOutput, ...] = ()
    """Reductions that later stages and the outputs read, along neighbouring axes of the space.

    A row is what is reduced to one value. To expressions the finished value of stage k is the input
    at position `len(inputs) + k`. A stage reads earlier stages only. In a loop with stages no
    output is reduced. The expression of an output per row reads stages, and inputs that are
    constant along the row.
    """
    indices: tuple[Expression, ...] = ()
    """Integer expressions by which inputs are read; they read inputs, but no stages."""

    @property
    def axes(self) -> tuple[int, ...]:
        """The reduced axes, () if nothing is reduced."""
        reduced = (*self.stages, *self.outputs)
        return next((output.axes for output in reduced if output.combine), ())

    @property
    def writes(self) -> bool:
        """Whether an output stores a value for every element."""
        return any(output.combine is None and not output.axes for output in self.outputs)


@dataclass(frozen=True)
class JoinedLoops:
    """Loops of equal expressions over different arrays, which run in one launch.

    Each input has the shape of its loop or one element, and no output is reduced. The inputs and
    outputs are listed loop by loop.
    """

    loops: tuple[Loop, ...]
