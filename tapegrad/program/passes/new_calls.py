"""The calls by which a pass replaces a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.graph import Call, Shape, Value

_VIEWS = ("broadcast_to", "reshape", "slice")


class NewCalls:
    """Calls with new values; the last one makes the result of the call that they replace."""

    def __init__(self, call: Call, numbers: Iterator[int]) -> None:
        self.calls: list[Call] = []
        self._call, self._numbers = call, numbers

    def add(
        self,
        name: str,
        operands: Sequence[Any],
        params: dict[str, Any],
        shape: Shape,
        result: Value | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> Value:
        """Add a call of a primitive and return its result, a new value by default.

        That has the dtype of the result of the call that is replaced, unless `dtype` is given.
        """
        like = self._call.results[0]
        number, kind = next(self._numbers) if result is None else 0, dtype or like.dtype
        made = result or replace(like, number=number, shape=tuple(shape), dtype=kind)
        self.calls.append(
            replace(
                self._call,
                primitive=PRIMITIVES[name],
                operands=tuple(operands),
                params=params,
                results=(made,),
                aliases=name in _VIEWS,
            )
        )
        return made

    def reshape(self, x: Value, shape: Shape) -> Value:
        """Return a value in another shape, itself if it has this one."""
        if x.shape == shape:
            return x
        return self.add("reshape", (x,), {"shape": shape}, shape, dtype=x.dtype)

    def part(self, x: Value, index: tuple[Any, ...]) -> Value:
        """Return a slice of a value; `index` has a part for each axis."""
        shape = [len(range(*p.indices(n))) for p, n in zip(index, x.shape) if isinstance(p, slice)]
        if tuple(shape) == x.shape and all(
            isinstance(p, slice) and p.step in (None, 1) for p in index
        ):
            return x
        return self.add("slice", (x,), {"index": index}, tuple(shape))

    def placed(self, x: Value, index: tuple[slice, ...], shape: Shape) -> Value:
        """Return an array of zeros with a value at an index."""
        if x.shape == shape:
            return x
        return self.add("unslice", (x,), {"index": index, "shape": shape}, shape)

    def ending_in(self, result: Value) -> list[Call]:
        """Return the calls, of which the last one makes this result."""
        return [*self.calls[:-1], replace(self.calls[-1], results=(result,))]
