"""Sweeps that keep the cotangents of examples apart where examples share a value.

Inside `vmap` a tape may differentiate by a value that all examples share, such as the weights of a
model. An operation that combines it with an example's own values repeats it for each example. The
sweep brings the cotangent of the repeated value back to the shared one, but does not add up the
examples: after it the cotangent is a batch, and one step computes it for all examples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tapegrad.autodiff import batching
from tapegrad.autodiff.accelerator import Accelerator
from tapegrad.core.recorder import Node


class ApartAccelerator:
    """Makes batches of the cotangents of repeated values."""

    def __init__(self, inner: Accelerator, level: int) -> None:
        self._inner, self._level = inner, level
        self.accumulate, self.cast, self.finish = inner.accumulate, inner.cast, inner.finish

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if batching.repeats_shared(node):
            return (batching.Batched(cotangent, self._level),)
        return self._inner.pull_back(node, cotangent)


def keeps_apart(targets: Iterable[Node], sources: Collection[Node]) -> bool:
    """Whether each way from a target to a source passes a value that was repeated."""
    waiting, seen = [*targets], set[Node]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        if node in sources:
            return False
        seen.add(node)
        if node.primitive is not None and not batching.repeats_shared(node):
            waiting += [source for source in node.inputs if source is not None]
    return True
