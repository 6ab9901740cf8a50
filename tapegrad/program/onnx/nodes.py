"""A list of ONNX nodes as plain values, to which the rules of primitives add.

Inputs of nodes are names of values, or constants in place: {"ints": [...]} is a vector of int64,
and {"number": [value, dtype]} a scalar. Whole numbers in both may depend on the lengths of unknown
axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.program.graph.graph import Value
from tapegrad.program.saved.encoding import Encoder

Input = str | dict[str, Any]
"""The name of a value, or a constant."""


class UnsupportedError(Exception):
    """ONNX has no operators for a call; the message says why."""


class Nodes:
    """The nodes of one recording; `emit` of a rule adds to them."""

    def __init__(self, encoder: Encoder) -> None:
        self.nodes: list[list[Any]] = []
        self.names: dict[int, Input] = {}
        """The inputs that stand for the values of the graph, by their numbers."""
        self._encoder = encoder
        self._count = 0

    def ops(self, count: int, kind: str, *inputs: Input, **attributes: Any) -> list[str]:
        """Add a node with several results, and return their names."""
        made = [self._new() for _ in range(count)]
        self.nodes.append([kind, list(inputs), attributes, made])
        return made

    def op(self, kind: str, *inputs: Input, **attributes: Any) -> str:
        """Add a node with one result, and return its name."""
        return self.ops(1, kind, *inputs, **attributes)[0]

    def _new(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def constant(self, array: Any) -> Input:
        """Return a constant array as an input; ranges and fills are described by their lengths."""
        return {"constant": self._encoder.constant(array)}

    def input_of(self, operand: Any, dtype: Any) -> Input:
        """Return an operand, which is a value of the graph, an array or a number, as an input."""
        if isinstance(operand, Value):
            return self.names[operand.number]
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        return number(operand, dtype)

    def cast(self, x: Input, dtype: Any) -> str:
        """Return `x` as an array of a dtype."""
        return self.op("Cast", x, to={"dtype": np.dtype(dtype).name})

    def reshape(self, x: Input, shape: Sequence[int]) -> str:
        """Return `x` in a shape; no entry of it is -1 or 0 with another meaning."""
        return self.op("Reshape", x, ints(shape), allowzero=1)

    def transpose(self, x: Input, axes: Sequence[int]) -> Input:
        """Return `x` with its axes in another order."""
        if list(axes) == sorted(axes):
            return x
        return self.op("Transpose", x, perm={"list": list(axes)})

    def swap_last(self, x: Input, rank: int) -> Input:
        """Return the transposes of matrices."""
        return self.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def ints(values: Sequence[int]) -> Input:
    """Return a vector of int64 as an input."""
    return {"ints": [int(value) for value in values]}


def number(value: Any, dtype: Any) -> Input:
    """Return a scalar as an input."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, complex) or not isinstance(plain, bool | int | float):
        raise UnsupportedError("it has a complex number as an operand")
    name = np.dtype(dtype).name
    if np.dtype(dtype).kind == "f" and not np.isfinite(plain):
        return {"special": [str(float(plain)), name]}  # JSON has no infinity
    return {"number": [plain, name]}
