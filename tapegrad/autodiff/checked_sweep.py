"""A sweep that raises where a gradient becomes NaN, and names the line of the forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad.autodiff.accelerator import Accelerator
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.number_checks import largest, origin_of_node, pulling_back, share_of
from tapegrad.core.primitive.rule import PICK
from tapegrad.core.recorder import Node
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import NonFiniteError
from tapegrad.ops.indexing.gather import RowGradient


class CheckingAccelerator:
    """Checks what the rules return; recorded arrays are checked when their program runs."""

    def __init__(self, inner: Accelerator) -> None:
        self._inner = inner
        self._infinite = ""
        """The first operation whose rule returned infinities."""
        self.accumulate, self.cast, self.finish = inner.accumulate, inner.cast, inner.finish

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        with pulling_back(node):
            found = self._inner.pull_back(node, cotangent)
        if node.primitive is not PICK:
            for array in _arrays_in(found):
                self._check(node, cotangent, array)
        return found

    def _check(self, node: Node, cotangent: Any, array: Any) -> None:
        size = largest(array)
        if math.isinf(size) and not self._infinite:
            self._infinite = _described(node)
        if not math.isnan(size):
            return
        given = [largest(one) for one in _arrays_in([cotangent])]
        if any(math.isnan(one) for one in given):
            before = "What was pulled back through it had NaN before."
        elif self._infinite:
            before = f"Before that, the gradient of {self._infinite} was infinite."
        else:
            before = "What was pulled back through it had no NaN."
        raise NonFiniteError(
            f"The gradient of {_described(node)} became NaN in the backward pass: "
            f"{share_of(array)}. {before}"
        )


def _described(node: Node) -> str:
    site, function = origin_of_node(node)
    return f"{function or node.primitive.name} at {site or 'an unknown line'}"


def _arrays_in(values: Any) -> Iterator[Any]:
    """Yield the plain arrays in cotangents."""
    for value in values:
        if isinstance(value, RowGradient):
            yield from _arrays_in([value.values])
        elif isinstance(value, dict):
            yield from _arrays_in(value.values())
        else:
            array = value.array if isinstance(value, Tensor) else value
            if array is not None and capabilities_of(type(array)).adoption is None:
                yield array
