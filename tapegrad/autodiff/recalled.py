"""Values that nodes do not keep: the sweep gets them again when a rule reads them.

A process that holds a part of a weight gathers the whole for one layer at a time. `forget_saved`
puts stand-ins into the nodes of the layer afterwards, so that the memory of the whole weight is
free until the sweep comes back to the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakSet

from tapegrad.autodiff.accelerator import Accelerator
from tapegrad.core.recorder import RAW, Node, call_with_stack, with_saved


class StandIn:
    """Stands for an array, or a `view` of it, in the saved values of nodes.

    `recall` returns the array again. All stand-ins of a `unit` share it until the sweep has left
    the unit; `key` tells the arrays of a unit apart.
    """

    __slots__ = ("key", "recall", "unit", "view")

    def __init__(
        self,
        unit: object,
        key: object,
        recall: Callable[[], Any],
        view: Callable[[Any], Any] | None = None,
    ) -> None:
        self.unit, self.key, self.recall, self.view = unit, key, recall, view


_marked: WeakSet[Node] = WeakSet()


def forget_saved(nodes: Iterable[Node | None], after: int, stand_in: Callable[[Any], Any]) -> None:
    """Replace saved values of nodes, and of those before them, that are newer than `after`.

    `stand_in` returns what to keep for a saved value, which may be the value itself.
    """
    waiting, seen = [node for node in nodes if node is not None], set[Node]()
    while waiting:
        node = waiting.pop()
        if node in seen or node.order <= after:
            continue
        seen.add(node)
        waiting += [source for source in node.inputs if source is not None]
        if type(node.saved) in (tuple, list):
            saved = tuple([_replaced(part, stand_in) for part in node.saved])
            if not all(new is old for new, old in zip(saved, node.saved)):
                node.saved = saved
                _marked.add(node)


def _replaced(part: Any, change: Callable[[Any], Any]) -> Any:
    """Return a saved value, or the tuple of those that one rule reads, after a change."""
    if type(part) is not tuple:
        return change(part)
    found = tuple([change(value) for value in part])
    return part if all(new is old for new, old in zip(found, part)) else found


def with_recalled(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator that recalls what nodes do not keep, if there are such nodes."""
    return RecallingAccelerator(accelerator) if _marked else accelerator


class RecallingAccelerator:
    """Fills in the saved values of a node before its rules read them."""

    def __init__(self, inner: Accelerator) -> None:
        self._inner = inner
        self._unit: object = None
        self._known: dict[object, Any] = {}
        """The arrays of the present unit."""
        self.accumulate, self.cast = inner.accumulate, inner.cast

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if node in _marked:
            node = with_saved(node, tuple([_replaced(part, self._filled) for part in node.saved]))
        return self._inner.pull_back(node, cotangent)

    def finish(self) -> None:
        self._known.clear()
        self._inner.finish()

    def _filled(self, value: Any) -> Any:
        if type(value) is not StandIn:
            return value
        if value.unit is not self._unit:
            self._unit = value.unit
            self._known.clear()
        if value.key not in self._known:
            self._known[value.key] = call_with_stack(RAW, value.recall)
        array = self._known[value.key]
        return array if value.view is None else value.view(array)
