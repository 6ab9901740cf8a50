"""Symbolic tensors, which record the layer calls that compute them.

A call of a layer on a `KerasTensor` creates a `Node`. The nodes between inputs and outputs define a
functional model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from tapegrad.core.absent_attributes import add_absent
from tapegrad.core.files.limits import active_limits
from tapegrad.core.values import nest
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import sample_texts
from tapegrad.core.values.trial import trial_call
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.creation import ones, zeros
from tapegrad.ops.elementwise.comparison import logical_and, logical_not, logical_or, logical_xor
from tapegrad.ops.elementwise.rounding import round as nearest
from tapegrad.ops.shape.functions import reshape, squeeze
from tapegrad.sparse.tensor import SparseTensor

Shape = tuple[int | None, ...]

_numbers = count()
_operation_layer: list[Callable[..., Any]] = []


class KerasTensor:
    """A symbolic tensor: a shape and a dtype without a value; unknown sizes are None.

    >>> KerasTensor((None, 3), "float32", name="x")
    <KerasTensor shape=(None, 3), dtype=float32, name=x>
    """

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: str,
        name: str | None = None,
        sparse: bool = False,
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.sparse = sparse
        self.name = name or f"keras_tensor_{next(_numbers)}"
        self.node: Node | None = None
        self.index = 0
        self._keras_mask: KerasTensor | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={self.name}>"

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "A KerasTensor has no value while the model is defined, so code cannot branch on it. "
            "Put such code into the `call` of a layer."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentTypeError(
            "A KerasTensor has no value while the model is defined. Put functions of tensors into "
            "a Lambda layer, or into the `call` of a layer."
        )

    def called_later(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the symbolic result of a function of tensors; see core/symbolic_calls.py."""
        given = {name: value for name, value in kwargs.items() if value is not None}
        return apply(function, *args, options=given)

    def __getitem__(self, index: Any) -> Any:
        return apply(operator.getitem, self, index)

    def __neg__(self) -> Any:
        return apply(operator.neg, self)

    def __abs__(self) -> Any:
        return apply(operator.abs, self)

    def __invert__(self) -> Any:
        return apply(logical_not, self)

    def __round__(self, ndigits: int = 0) -> Any:
        return apply(nearest, self, options={"decimals": ndigits})

    def reshape(self, newshape: Any) -> Any:
        """Return the symbolic tensor in another shape."""
        return apply(reshape, self, options={"shape": newshape})

    def squeeze(self, axis: Any = None) -> Any:
        """Return the symbolic tensor without axes of length 1."""
        return apply(squeeze, self, options={"axis": axis})


add_absent(
    KerasTensor,
    {
        "numpy item tolist assign device": "It has no value while the model is defined. Call the "
        "model on data, or put such code into the `call` of a layer."
    },
)


def is_keras_tensor(x: Any) -> bool:
    """Return whether a value is a symbolic tensor.

    >>> is_keras_tensor(KerasTensor((2,), "float32")), is_keras_tensor(2.0)
    (True, False)
    """
    return isinstance(x, KerasTensor)


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: apply(function, self, other)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: apply(function, other, self)


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COMPARISONS = ("lt", "le", "gt", "ge", "ne")
_LOGICAL = {"and": logical_and, "or": logical_or, "xor": logical_xor}
OPERATORS = (*_ARITHMETIC, *_COMPARISONS, "getitem", "neg", "abs")

for _name in _ARITHMETIC:
    setattr(KerasTensor, f"__{_name}__", _forward(getattr(operator, _name)))
    setattr(KerasTensor, f"__r{_name}__", _reflected(getattr(operator, _name)))
for _name in _COMPARISONS:
    setattr(KerasTensor, f"__{_name}__", _forward(getattr(operator, _name)))
for _name, _function in _LOGICAL.items():
    setattr(KerasTensor, f"__{_name}__", _forward(_function))
    setattr(KerasTensor, f"__r{_name}__", _reflected(_function))


def apply(function: Callable[..., Any], *operands: Any, options: Any = None) -> Any:
    """Apply a function to symbolic tensors; `options` holds arguments that are not tensors."""
    return _operation_layer[0](function, options)(*operands)


def set_operation_layer(make: Callable[..., Any]) -> None:
    """Set the layer class that applies operators; layers/core.py calls this."""
    _operation_layer[:] = [make]


class Node:
    """A call of a layer: its arguments, which contain symbolic tensors, and its outputs."""

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
    """Record a call of a layer on symbolic tensors, and return its outputs."""
    node = Node(layer, args, kwargs)
    first = args[0] if args else next(iter(kwargs.values()))
    more = len(node.inputs) > sum(isinstance(x, KerasTensor) for x in nest.flatten(first))
    # Shapes do not say that the input is text, so a trial call on text determines the output.
    takes_text = any([x.dtype == "string" for x in node.inputs])
    has_own_spec = not type(layer).compute_output_spec.__qualname__.startswith("Layer.")
    # Nor do they say that it is an integer, as for indices.
    takes_others = more or not all([as_dtype(x.dtype).is_floating for x in node.inputs])
    takes_others = takes_others or any([x._keras_mask is not None or x.sparse for x in node.inputs])
    infer = (takes_others and _has_no_output_shape(layer)) or (takes_text and not has_own_spec)
    spec = partial(inferred_outputs, layer) if infer else layer.compute_output_spec
    outputs = node.set_outputs(spec(*args, **kwargs))
    layer.__dict__.setdefault("input", first)  # that of the first call, as in Keras
    layer.__dict__.setdefault("output", outputs)
    layer.last_output_shape = nest.map_structure(lambda x: x.shape, outputs)
    _add_masks(node, first)
    return outputs


def _has_no_output_shape(layer: Any) -> bool:
    """Whether a layer defines no output shape, so that a trial call must determine it."""
    methods = type(layer).compute_output_shape, type(layer).compute_output_spec
    return all(method.__qualname__.startswith("Layer.") for method in methods)


def inferred_outputs(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Return symbolic outputs, inferred from two calls on zeros."""
    given = (args, kwargs)
    lengths = [n for x in nest.flatten(given) for n in getattr(x, "shape", ()) if n]
    one, other = for_two_sizes(lambda size: called_on_zeros(layer, given, size), lengths)
    return nest.map_structure(_common, one, other)


_LONGEST = 4096
"""The greatest length of an input that is tried for unknown sizes, because zeros take memory."""


def for_two_sizes(call: Callable[[int], Any], lengths: Sequence[int] = ()) -> tuple[Any, Any]:
    """Return the results of calls with two values for unknown sizes; sizes that differ are unknown.

    The sizes are 2 and 3. A layer may need others, e.g. to reshape a batch to 32 rows; then they
    are 64 and 128, the one size that a reshape in the layer allows, 1, or one of the known
    `lengths` of the inputs, such as the number of nodes beside an adjacency matrix.

    >>> for_two_sizes(lambda size: (size, 3))
    ((2, 3), (3, 3))
    """
    try:
        return call(2), call(3)
    except ShapeError as error:
        try:
            return call(64), call(128)
        except ShapeError:
            for size in (_only_size(error) or 1, *sorted({n for n in lengths if n <= _LONGEST})):
                with suppress(ShapeError):
                    return for_one_size(call, size)
            raise error from None


def for_one_size(call: Callable[[int], Any], size: int) -> tuple[Any, Any]:
    """Return the result of a call, and the same with other lengths where it has this size.

    >>> for_one_size(lambda size: (size, 3), 50)
    ((50, 3), (51, 3))
    """

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, int):
            return leaf + (leaf == size)
        return KerasTensor([n + (n == size) for n in leaf.shape], leaf.dtype.name)

    one = call(size)
    return one, nest.map_structure(changed, one)


def _only_size(error: BaseException | None) -> int | None:
    """Return the size for which a reshape that failed with the size 2 would have succeeded."""
    while error is not None:
        elements = getattr(error, "elements", None)
        if elements and elements[0] and elements[1] > 0 and 2 * elements[1] % elements[0] == 0:
            return int(2 * elements[1] // elements[0])
        error = error.__cause__
    return None


def called_on_zeros(layer: Any, given: Any, size: int) -> Any:
    """Call a layer on zeros in place of symbolic tensors, with `size` for unknown sizes."""
    args, kwargs = _values_for(given, size)
    with trial_call():
        return layer(*args, **{"training": False, **kwargs})


def _values_for(given: Any, size: int) -> Any:
    """Return zeros in place of symbolic tensors, with masks where these have masks."""

    def zeros_for(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        if limits is not None:
            limits.check_array(x.shape, "an array")
        sizes = [size if n is None else n for n in x.shape]
        if x.dtype == "string":
            return sample_texts(sizes, size)
        if x.sparse:
            return SparseTensor(np.zeros((0, len(sizes)), np.int64), zeros([0], x.dtype), sizes)
        value: Any = zeros(sizes, x.dtype)
        if x._keras_mask is not None:
            value._keras_mask = ones(
                [size if n is None else n for n in x._keras_mask.shape], "bool"
            )
        return value

    limits = active_limits()
    return nest.map_structure(zeros_for, given)


def _add_masks(node: Node, first: Any) -> None:
    """Add the masks that a layer computes to its symbolic outputs."""
    layer = node.layer
    is_masked = any(getattr(x, "_keras_mask", None) is not None for x in nest.flatten(first))
    if not (layer._makes_masks or (is_masked and layer.supports_masking)):
        return

    def masks(size: int) -> Any:
        values = _values_for(first, size)
        before = nest.map_structure(lambda x: getattr(x, "_keras_mask", None), values)
        return layer.compute_mask(values, before if is_masked else None)

    one, other = (nest.flatten(masks(size)) for size in (2, 3))
    for output, *made in zip(nest.flatten(node.outputs), one, other, strict=False):
        output._keras_mask = None if made[0] is None else _common(*made)


def _common(one: Any, other: Any) -> KerasTensor:
    sizes = [a if a == b else None for a, b in zip(one.shape, other.shape)]
    return KerasTensor(sizes, one.dtype.name)


def nodes_between(inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]) -> list[Node]:
    """Return the calls between inputs and outputs in topological order."""
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
    """Return layers in the order of Keras, so that lists of weights match.

    Layers that are farthest from an output come first. Layers at equal distance are in the order of
    a depth-first search from the outputs.
    """
    known = {id(tensor) for tensor in inputs}
    met = _depth_first_order(known, outputs)
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


def _depth_first_order(known: set[int], outputs: Sequence[KerasTensor]) -> dict[int, int]:
    """Return the position of each layer in a depth-first search from the outputs."""
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


def get_source_inputs(tensor: KerasTensor) -> list[KerasTensor]:
    """Return the inputs on which a symbolic tensor depends.

    >>> from tapegrad.keras import Input, layers
    >>> x = Input((2,))
    >>> get_source_inputs(layers.Dense(1)(x))[0] is x
    True
    """
    if not isinstance(tensor, KerasTensor):
        raise ArgumentTypeError(
            f"get_source_inputs takes a symbolic tensor. Got {type(tensor).__name__}."
        )
    found: dict[int, KerasTensor] = {}
    seen, waiting = set(), [tensor]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.node is None or not one.node.inputs:
            found[id(one)] = one
        else:
            waiting.extend(reversed(one.node.inputs))
    return list(found.values())
