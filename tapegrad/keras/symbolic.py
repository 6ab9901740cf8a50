"""Tensors without values, which remember the layers that would compute them.

A call of a layer on a `KerasTensor` is a `Node`; from the nodes between its inputs and its outputs
a functional model is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.creation import zeros

Shape = tuple[int | None, ...]

_numbers = count()
_operation_layer: list[Callable[..., Any]] = []


class KerasTensor:
    """A tensor with a shape and a dtype, and no value yet; sizes that are not known are None.

    >>> KerasTensor((None, 3), "float32", name="x")
    <KerasTensor shape=(None, 3), dtype=float32, name=x>
    """

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, shape: Sequence[int | None], dtype: str, name: str | None = None) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.name = name or f"keras_tensor_{next(_numbers)}"
        self.node: Node | None = None
        self.index = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={self.name}>"

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "A KerasTensor has no value while the model is put together, so nothing can depend on "
            "it. Put such code into the `call` of a layer."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentTypeError(
            "A KerasTensor has no value while the model is put together. Wrap functions of "
            "tensors in a Lambda layer, or in the `call` of a layer of your own."
        )

    def __getitem__(self, index: Any) -> Any:
        return apply(operator.getitem, self, index)

    def __neg__(self) -> Any:
        return apply(operator.neg, self)

    def __abs__(self) -> Any:
        return apply(operator.abs, self)


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: apply(function, self, other)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: apply(function, other, self)


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COMPARISONS = ("lt", "le", "gt", "ge")
OPERATORS = (*_ARITHMETIC, *_COMPARISONS, "getitem", "neg", "abs")

for _name in _ARITHMETIC:
    setattr(KerasTensor, f"__{_name}__", _forward(getattr(operator, _name)))
    setattr(KerasTensor, f"__r{_name}__", _reflected(getattr(operator, _name)))
for _name in _COMPARISONS:
    setattr(KerasTensor, f"__{_name}__", _forward(getattr(operator, _name)))


def apply(function: Callable[..., Any], *operands: Any, options: Any = None) -> Any:
    """Return what a function gives on tensors without values; options are no tensors."""
    return _operation_layer[0](function, options)(*operands)


def set_operation_layer(make: Callable[..., Any]) -> None:
    """Say which layer applies an operator; the module of layers does."""
    _operation_layer[:] = [make]


class Node:
    """One call of a layer: its arguments, with tensors without values among them, and results."""

    def __init__(self, layer: Any, args: Any, kwargs: Any) -> None:
        self.layer, self.args, self.kwargs = layer, args, kwargs
        self.inputs = [x for x in nest.flatten((args, kwargs)) if isinstance(x, KerasTensor)]
        self.number = next(_numbers)
        self.outputs: Any = None

    def set_outputs(self, outputs: Any) -> Any:
        self.outputs = outputs
        for index, tensor in enumerate(nest.flatten(outputs)):
            tensor.node, tensor.index = self, index
        return outputs


def call_symbolically(layer: Any, args: Any, kwargs: Any) -> Any:
    """Note a call of a layer on tensors without values, and return its results."""
    node = Node(layer, args, kwargs)
    first = args[0] if args else next(iter(kwargs.values()))
    more = len(node.inputs) > sum(isinstance(x, KerasTensor) for x in nest.flatten(first))
    spec = partial(tried_outputs, layer) if more and _is_tried(layer) else layer.compute_output_spec
    outputs = node.set_outputs(spec(*args, **kwargs))
    layer.__dict__.setdefault("input", first)  # of the first call, as in Keras
    layer.__dict__.setdefault("output", outputs)
    layer.last_output_shape = nest.map_structure(lambda x: x.shape, outputs)
    return outputs


def _is_tried(layer: Any) -> bool:
    """Whether a layer says nothing of its outputs, so that it is called to learn of them."""
    said = type(layer).compute_output_shape, type(layer).compute_output_spec
    return all(method.__qualname__.startswith("Layer.") for method in said)


def tried_outputs(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Return tensors without values like what a call on zeros of two sizes gives."""
    one, other = (called_on_zeros(layer, (args, kwargs), size) for size in (2, 3))
    return nest.map_structure(_common, one, other)


def called_on_zeros(layer: Any, given: Any, size: int) -> Any:
    """Call a layer on zeros for tensors without values; sizes that are None become `size`."""

    def zeros_for(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        return zeros([size if n is None else n for n in x.shape], x.dtype)

    args, kwargs = nest.map_structure(zeros_for, given)
    with np.errstate(all="ignore"):  # zeros are not what the layer was made for
        return layer(*args, **{"training": False, **kwargs})


def _common(one: Any, other: Any) -> KerasTensor:
    sizes = [a if a == b else None for a, b in zip(one.shape, other.shape)]
    return KerasTensor(sizes, one.dtype.name)


def nodes_between(inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]) -> list[Node]:
    """Return the calls that lead from inputs to outputs, each after those it needs."""
    known = {id(tensor) for tensor in inputs}
    ordered: dict[int, Node] = {}
    waiting: list[tuple[KerasTensor, bool]] = [(tensor, False) for tensor in reversed(outputs)]
    while waiting:
        tensor, is_ready = waiting.pop()
        node = tensor.node
        if id(tensor) in known or (node is not None and node.number in ordered):
            continue
        if node is None or not node.inputs:
            raise ArgumentError(
                f"The output depends on {tensor!r}, which is not among the model's inputs "
                f"{[x.name for x in inputs]}. Add it to the inputs."
            )
        if is_ready:
            ordered[node.number] = node
        else:
            waiting.append((tensor, True))
            waiting.extend((x, False) for x in reversed(node.inputs))
    return list(ordered.values())


def layers_by_depth(
    inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor], nodes: Sequence[Node]
) -> list[Any]:
    """Return layers as Keras lists them: farthest from an output first, so that weights fit.

    Of those that are equally far, the one that a walk back from the outputs meets first.
    """
    known = {id(tensor) for tensor in inputs}
    met = _order_of_walk(known, outputs)
    distance: dict[Node, int] = {}
    depths: dict[int, int] = {}
    starts = [x.node for x in inputs if x.node is not None and not x.node.inputs]
    for node in [*reversed(nodes), *starts]:
        place = id(node.layer)
        depth = max(distance.get(node, 0), depths.get(place, 0))
        distance[node] = depths[place] = depth
        for x in node.inputs:
            if x.node is not None:
                distance[x.node] = max(depth + 1, distance.get(x.node, 0))
    layers = {id(node.layer): node.layer for node in [*starts, *nodes]}
    return sorted(layers.values(), key=lambda one: (-depths[id(one)], met.get(id(one), -1)))


def _order_of_walk(known: set[int], outputs: Sequence[KerasTensor]) -> dict[int, int]:
    """The number of each layer in a walk from the outputs back, each path to its end."""
    met: dict[int, int] = {}
    seen: set[Node] = set()
    waiting = list(reversed(outputs))
    while waiting:
        tensor = waiting.pop()
        node = tensor.node
        if node is None or node in seen or (node.inputs and id(tensor) in known):
            continue
        seen.add(node)
        met.setdefault(id(node.layer), len(met))
        waiting.extend(reversed(node.inputs))
    return met
