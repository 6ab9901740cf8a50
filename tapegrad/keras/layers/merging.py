"""Merging layers: Add, Multiply, Concatenate, Dot and others."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.arithmetic import add as sum_of_two, multiply as product_of_two
from tapegrad.ops.elementwise.comparison import logical_or
from tapegrad.ops.elementwise.selection import (
    maximum as larger_of_two,
    minimum as smaller_of_two,
    where,
)
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.products.einsum import einsum
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.joining import concat

Shape = tuple[int | None, ...]


class _Merge(Layer):
    """Base class of layers that combine tensors elementwise, with broadcasting."""

    supports_masking = True
    least = 2
    merge: Callable[[Any, Any], Any]

    def build(self, input_shape: Any) -> None:
        _check_several(self, input_shape, self.least)

    def call(self, inputs: Sequence[Any]) -> Any:
        return reduce(self.merge, _aligned(self, inputs))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        rank = max(len(shape) for shape in input_shape)
        shapes = [(*s[:1], *(1,) * (rank - len(s)), *s[1:]) for s in map(tuple, input_shape)]
        return reduce(lambda a, b: _broadcast(self, a, b), shapes)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Return the union of the masks, or None if any tensor has no mask."""
        masks = previous_mask or [None]
        return None if any(mask is None for mask in masks) else reduce(logical_or, masks)


def _aligned(layer: Layer, inputs: Sequence[Any]) -> list[Any]:
    """Return the tensors with equal ranks; new axes are inserted after the batch axis."""
    first = inputs[0]
    rank, dtype = first.ndim, first.dtype
    if all([x.ndim == rank and x.dtype is dtype for x in inputs]):
        return list(inputs)
    rank = max(len(x.shape) for x in inputs)
    if any(len(x.shape) != rank for x in inputs):
        inputs = [
            reshape(x, (*x.shape[:1], *(1,) * (rank - len(x.shape)), *x.shape[1:])) for x in inputs
        ]
    if len({x.dtype for x in inputs}) > 1 and any(x.dtype.is_floating for x in inputs):
        # An integer would promote a float32 operand to float64.
        return [x if x.dtype.is_floating else cast(x, layer.compute_dtype) for x in inputs]
    return list(inputs)


def _expand_mask(mask: Any, x: Any) -> Any:
    """Append axes of length 1 to a mask until it has the rank of the tensor."""
    return reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))


class _Extreme(_Merge):
    """Base class of Maximum and Minimum, which do not compare masked elements."""

    def call(self, inputs: Sequence[Any], mask: Any = None) -> Any:
        tensors = _aligned(self, inputs)
        masks = [None if m is None else _expand_mask(m, x) for m, x in zip(mask or (), tensors)]
        if all(m is None for m in masks):
            return reduce(self.merge, tensors)
        result, kept = tensors[0], masks[0]
        for x, own in zip(tensors[1:], masks[1:]):
            x = x if own is None else where(own, x, result)
            result = result if kept is None else where(kept, result, x)
            kept = None if kept is None or own is None else logical_or(kept, own)
            result = self.merge(result, x)
        return result


def _check_several(layer: Layer, shapes: Any, least: int) -> None:
    if not isinstance(shapes, list | tuple) or not all(isinstance(s, list | tuple) for s in shapes):
        raise ShapeError(f"{layer._title} takes a list of tensors. Got one of shape {shapes}.")
    if len(shapes) < least:
        raise ShapeError(f"{layer._title} takes {least} tensors or more. Got {len(shapes)}.")


def _broadcast(layer: Layer, one: Shape, other: Shape) -> Shape:
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other)
    sizes: list[int | None] = []
    for a, b in pairs:
        if a == b or b == 1:
            sizes.append(a)
        elif a == 1 or a is None:
            sizes.append(b)
        elif b is None:
            sizes.append(a)
        else:
            raise ShapeError(f"{layer._title} cannot combine tensors of shapes {one} and {other}.")
    return tuple(sizes)


class Add(_Merge):
    """Add tensors.

    >>> import tapegrad
    >>> Add()([tapegrad.ones([2]), tapegrad.ones([2])]).tolist()
    [2.0, 2.0]
    """

    merge = staticmethod(sum_of_two)


class Subtract(_Merge):
    """Subtract the second tensor from the first.

    >>> import tapegrad
    >>> Subtract()([tapegrad.ones([2]), tapegrad.ones([2])]).tolist()
    [0.0, 0.0]
    """

    merge = staticmethod(operator.sub)

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if len(input_shape) != 2:
            raise ShapeError(f"{self._title} takes two tensors. Got {len(input_shape)}.")


class Multiply(_Merge):
    """Multiply tensors elementwise.

    >>> import tapegrad
    >>> Multiply()([tapegrad.ones([2]), 3 * tapegrad.ones([2])]).tolist()
    [3.0, 3.0]
    """

    def call(self, inputs: Sequence[Any], mask: Any = None) -> Any:
        tensors = _aligned(self, inputs)
        if mask is None or all(m is None for m in mask):
            return reduce(product_of_two, tensors)
        # Masked elements count as 1; elements that are masked in all tensors become 0.
        masks = [None if m is None else _expand_mask(m, x) for m, x in zip(mask, tensors)]
        factors = [x if m is None else where(m, x, 1.0) for m, x in zip(masks, tensors)]
        product = reduce(product_of_two, factors)
        if any(m is None for m in masks):
            return product
        return where(reduce(logical_or, masks), product, 0.0)


class Average(_Merge):
    """Average tensors elementwise.

    >>> import tapegrad
    >>> Average()([tapegrad.ones([2]), 3 * tapegrad.ones([2])]).tolist()
    [2.0, 2.0]
    """

    def call(self, inputs: Sequence[Any]) -> Any:
        return reduce(sum_of_two, _aligned(self, inputs)) / float(len(inputs))


class Maximum(_Extreme):
    """Take the elementwise maximum of tensors.

    >>> import tapegrad
    >>> Maximum()([tapegrad.ones([2]), 3 * tapegrad.ones([2])]).tolist()
    [3.0, 3.0]
    """

    merge = staticmethod(larger_of_two)


class Minimum(_Extreme):
    """Take the elementwise minimum of tensors.

    >>> import tapegrad
    >>> Minimum()([tapegrad.ones([2]), 3 * tapegrad.ones([2])]).tolist()
    [1.0, 1.0]
    """

    merge = staticmethod(smaller_of_two)


class Concatenate(Layer):
    """Concatenate tensors along an axis.

    >>> import tapegrad
    >>> Concatenate()([tapegrad.ones([2, 3]), tapegrad.ones([2, 1])]).shape
    (2, 4)
    """

    supports_masking = True

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = check_whole("axis", axis, "Concatenate")

    def build(self, input_shape: Any) -> None:
        _check_several(self, input_shape, 1)
        axis = self.axis % len(input_shape[0])
        others = [tuple(n for k, n in enumerate(shape) if k != axis) for shape in input_shape]
        if any(not _fits(others[0], other) for other in others):
            raise ShapeError(
                f"{self._title} takes tensors whose shapes differ only along axis {self.axis}. "
                f"Got shapes {[tuple(shape) for shape in input_shape]}."
            )

    def call(self, inputs: Sequence[Any]) -> Any:
        return concat(list(inputs), self.axis)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        sizes = list(input_shape[0])
        along = [shape[self.axis] for shape in input_shape]
        sizes[self.axis] = None if None in along else sum(along)
        return tuple(sizes)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Concatenate the masks; along the feature axis, return the union of the masks."""
        if previous_mask is None or all(mask is None for mask in previous_mask):
            return None
        masks = [_mask_of(x, mask) for x, mask in zip(inputs, previous_mask)]
        axis = self.axis % len(inputs[0].shape)
        return concat(masks, axis) if axis < len(masks[0].shape) else reduce(logical_or, masks)


def _mask_of(x: Any, mask: Any) -> Any:
    """Return a mask over all axes but the last; without a mask, it is True everywhere."""
    if mask is None:
        return ones_like(x[..., 0], "bool")
    return broadcast_to(_expand_mask(mask, x[..., 0]), x.shape[:-1])


def _fits(one: Shape, other: Shape) -> bool:
    same = len(one) == len(other)
    return same and all(a is None or b is None or a == b for a, b in zip(one, other))


class Dot(Layer):
    """Contract one axis of each of two tensors, example by example.

    >>> import tapegrad
    >>> Dot(1)([tapegrad.ones([2, 3]), tapegrad.ones([2, 3])]).tolist()
    [[3.0], [3.0]]
    """

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axes = (axes, axes) if isinstance(axes, int) else tuple(axes)
        self.normalize = normalize
        if len(self.axes) != 2 or 0 in self.axes:
            raise ArgumentError(
                "Dot takes one axis, or one axis for each tensor, and none of them may be 0, the "
                "batch axis. "
                f"Got {axes}."
            )

    def build(self, input_shape: Any) -> None:
        _check_several(self, input_shape, 2)

    def call(self, inputs: Sequence[Any]) -> Any:
        a, b = inputs
        one, other = self._letters(len(a.shape), len(b.shape))
        first, second = (k % len(x.shape) for k, x in zip(self.axes, (a, b)))
        if self.normalize:
            a, b = l2_normalize(a, axis=first), l2_normalize(b, axis=second)
        kept = [c for k, c in enumerate(one) if k not in (0, first)]
        kept += [c for k, c in enumerate(other) if k not in (0, second)]
        result = einsum(f"{''.join(one)},{''.join(other)}->{one[0]}{''.join(kept)}", a, b)
        return result if kept else result[:, None]

    def _letters(self, rank_a: int, rank_b: int) -> tuple[list[str], list[str]]:
        letters = iter("bcdefghijklmnopqrstuvwxyz")
        one = ["a", *[next(letters) for _ in range(rank_a - 1)]]
        other = ["a", *[next(letters) for _ in range(rank_b - 1)]]
        other[self.axes[1] % rank_b] = one[self.axes[0] % rank_a]
        return one, other

    def compute_output_shape(self, input_shape: Any) -> Shape:
        a, b = (list(shape) for shape in input_shape)
        first, second = self.axes[0] % len(a), self.axes[1] % len(b)
        kept = [n for k, n in enumerate(a) if k not in (0, first)]
        kept += [n for k, n in enumerate(b) if k not in (0, second)]
        return (a[0], *(kept or [1]))


def _as_function(kind: type[Layer]) -> Callable[..., Any]:
    def merge(inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return kind(*args, **kwargs)(inputs)

    merge.__name__ = merge.__qualname__ = kind.__name__.lower()
    merge.__doc__ = f"Create a `{kind.__name__}` layer and call it on tensors."
    return merge


add, subtract, multiply = _as_function(Add), _as_function(Subtract), _as_function(Multiply)
average, maximum, minimum = _as_function(Average), _as_function(Maximum), _as_function(Minimum)
concatenate, dot = _as_function(Concatenate), _as_function(Dot)
