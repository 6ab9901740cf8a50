"""A layer whose weights are sharded: gather them, compute, and free them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tapegrad.autodiff.recalled import StandIn, forget_saved
from tapegrad.core.recorder import active_stack, next_order
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.collective.sharded_weights import ShardedWeight, keeping


class UnitCall:
    """Calls a layer, after which nodes on a tape do not hold the gathered weights any more.

    It takes the place of the method `call` of one layer; `weights` are those that the layer and
    the layers inside it read.
    """

    def __init__(self, layer: Any, weights: Sequence[ShardedWeight]) -> None:
        self.layer, self.weights = layer, weights

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        after = next_order()
        with keeping(self.weights):
            outputs = type(self.layer).call(self.layer, *args, **kwargs)
            if active_stack().tokens:
                nodes = [leaf.node for leaf in nest.flatten(outputs) if type(leaf) is Tensor]
                forget_saved(nodes, after, self._stand_ins())
        return outputs

    def _stand_ins(self) -> Callable[[Any], Any]:
        """Return the function that replaces gathered weights, and views of them, by stand-ins."""
        unit = object()
        known = {
            id(_root(weight.whole.array)): (weight, weight.part.array)
            for weight in self.weights
            if type(weight.whole) is Tensor
        }

        def stand_in(value: Any) -> Any:
            root = _root(value)
            found = known.get(id(root))
            if found is None:
                return value
            weight, part = found
            view = None if value is weight.whole.array else View(value, root)
            return StandIn(unit, weight, partial(weight.gather, part), view)

        return stand_in


class View:
    """How an array of NumPy shows the memory of the array that owns it."""

    def __init__(self, view: np.ndarray, root: np.ndarray) -> None:
        offset = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        self._known = view.dtype, view.shape, view.strides, offset

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Return the view of the memory behind another array."""
        dtype, shape, strides, offset = self._known
        return np.ndarray(
            shape, dtype, _root(array).reshape(-1).view(np.uint8).data, offset, strides
        )


def _root(array: Any) -> Any:
    """Return the array that owns the memory of an array of NumPy; others are returned as is."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array
