"""Concatenating, stacking, splitting and unstacking tensors along an axis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tapegrad.core.argument_checks import check_whole, check_wholes
from tapegrad.core.primitive.operand import as_operand, common_operands, normalize_axis
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.values.convert import register_tensor_conversion_function, to_tensor
from tapegrad.core.values.sizes import bounds, computed
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.indexing.primitives import expand_ellipsis, slice_p
from tapegrad.ops.shape.primitives import lift_unbatched, reshape_p

concat_p = Primitive(
    "concat", lambda xp, *arrays, axis, sizes: xp.concat(arrays, axis=axis), selects=False
)
stack_p = Primitive("stack", lambda xp, *arrays, axis: xp.stack(arrays, axis=axis), selects=False)


def _split(xp: Any, x: Any, *, axis: int, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    parts, start = [], 0
    for size in sizes:
        parts.append(x[(*(slice(None),) * axis, slice(start, start + size), ...)])
        start += size
    return tuple(parts)


split_p = Primitive("split", _split, many=True)
unstack_p = Primitive(
    "unstack",
    lambda xp, x, *, axis: tuple(x[(*(slice(None),) * axis, k, ...)] for k in range(x.shape[axis])),
    many=True,
)


@concat_p.vjp
def _concat_vjp(t: Any, *, axis: int, sizes: tuple[int, ...], needs: tuple[bool, ...]) -> list[Any]:
    parts, start = [], 0
    for size, needed in zip(sizes, needs, strict=True):
        index = (slice(None),) * axis + (slice(start, start + size),)
        parts.append(slice_p(t, index=expand_ellipsis(index, len(t.shape))) if needed else None)
        start += size
    return parts


@concat_p.jvp
def _concat_jvp(ts: Any, y_shape: tuple[int, ...], *, axis: int, sizes: tuple[int, ...]) -> Any:
    example = next(t for t in ts if t is not None)
    parts = [
        zeros_for(example, (*y_shape[:axis], size, *y_shape[axis + 1 :]), example.dtype)
        if t is None
        else t
        for t, size in zip(ts, sizes, strict=True)
    ]
    return concat_p(*parts, axis=axis, sizes=sizes)


@concat_p.batch
def _concat_batch(
    size: int, batched: tuple[bool, ...], *args: Any, axis: int, sizes: tuple[int, ...]
) -> Any:
    return concat_p(*lift_unbatched(size, batched, *args), axis=axis + 1, sizes=sizes)


@stack_p.vjp
def _stack_vjp(t: Any, *, axis: int, needs: tuple[bool, ...]) -> list[Any]:
    lead = (slice(None),) * axis
    rest = (slice(None),) * (len(t.shape) - axis - 1)
    return [
        slice_p(t, index=(*lead, k, *rest)) if needed else None for k, needed in enumerate(needs)
    ]


@stack_p.jvp
def _stack_jvp(ts: Any, y_shape: tuple[int, ...], *, axis: int) -> Any:
    example = next(t for t in ts if t is not None)
    shape = (*y_shape[:axis], *y_shape[axis + 1 :])
    parts = [zeros_for(example, shape, example.dtype) if t is None else t for t in ts]
    return stack_p(*parts, axis=axis)


@stack_p.batch
def _stack_batch(size: int, batched: tuple[bool, ...], *args: Any, axis: int) -> Any:
    return stack_p(*lift_unbatched(size, batched, *args), axis=axis + 1)


split_p.vjp(lambda t, *, axis, sizes: (concat_p(*t, axis=axis, sizes=sizes),))
split_p.jvp(lambda t, *, axis, sizes: split_p(t[0], axis=axis, sizes=sizes))
split_p.batch(lambda size, batched, x, *, axis, sizes: split_p(x, axis=axis + 1, sizes=sizes))
unstack_p.vjp(lambda t, *, axis: (stack_p(*t, axis=axis),))
unstack_p.jvp(lambda t, *, axis: unstack_p(t[0], axis=axis))
unstack_p.batch(lambda size, batched, x, *, axis: unstack_p(x, axis=axis + 1))


def as_operands(values: Any, name: str) -> list[Any]:
    """Return the items of a list, or the slices of a tensor, as operands of one dtype."""
    if isinstance(values, Tensor | Variable) or type(values) in INTERPRETERS:
        return list(unstack(values))
    parts = list(values)
    if not parts:
        raise ArgumentError(f"{name} needs at least one tensor. Got none.")
    return common_operands(*parts)


def concat(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Concatenate tensors along an existing axis.

    >>> concat([[1.0], [2.0, 3.0]], 0).shape
    (3,)
    """
    one = isinstance(values, Tensor | Variable) or type(values) in INTERPRETERS
    parts = as_operands([values] if one else values, "concat")
    axis = normalize_axis(axis, len(parts[0].shape), "concat")
    if len({len(part.shape) for part in parts}) > 1 or not parts[0].shape:
        raise ShapeError(
            "concat needs tensors of equal rank, at least 1. "
            f"Got shapes {', '.join(str(tuple(part.shape)) for part in parts)}."
        )
    return concat_p(*parts, axis=axis, sizes=tuple(part.shape[axis] for part in parts))


def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Any:
    """Stack tensors of equal shape along a new axis.

    >>> stack([1.0, 2.0]).shape
    (2,)
    """
    parts = as_operands(values, "stack")
    axis = normalize_axis(axis, len(parts[0].shape) + 1, "stack")
    if len({tuple(part.shape) for part in parts}) > 1:
        raise ShapeError(
            "stack needs tensors of equal shape. "
            f"Got {', '.join(str(tuple(part.shape)) for part in parts)}."
        )
    return stack_p(*parts, axis=axis)


def split(
    value: Any,
    num_or_size_splits: Any,
    axis: int = 0,
    num: int | None = None,
    name: str | None = "split",
) -> list[Any]:
    """Split a tensor along an axis into `n` equal parts, or into parts of the given sizes.

    >>> [part.shape[0] for part in split([1.0, 2.0, 3.0], [1, 2])]
    [1, 2]
    """
    x = as_operand(value)
    axis = normalize_axis(axis, len(x.shape), "split")
    sizes = _sizes(num_or_size_splits, x.shape[axis])
    return list(split_p(x, axis=axis, sizes=sizes))


def _sizes(wanted: Any, length: int) -> tuple[int, ...]:
    if not isinstance(wanted, list | tuple) and not getattr(wanted, "shape", ()):
        count = check_whole("num_or_size_splits", wanted, "split")
        if count < 1 or length % count:
            raise ShapeError(
                f"split cannot divide an axis of length {length} into {count} equal parts. "
                "Pass a list of sizes, or use array_split."
            )
        return (length // count,) * count
    sizes = [*check_wholes("num_or_size_splits", wanted, "split")]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = length - sum(size for size in sizes if size != -1)
    if sum(sizes) != length or any(size < 0 for size in sizes):
        raise ShapeError(f"split needs sizes that add up to {length}. Got {list(wanted)}.")
    return tuple(sizes)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = None) -> Any:
    """Return the slices along an axis as a list, without that axis.

    >>> [float(x) for x in unstack([1.0, 2.0])]
    [1.0, 2.0]
    """
    x = as_operand(value)
    if not x.shape:
        raise ShapeError("unstack needs at least one axis. Got a 0-d tensor.")
    axis = normalize_axis(axis, len(x.shape), "unstack")
    if num is not None and num != x.shape[axis]:
        raise ShapeError(f"unstack got num={num}, but the axis has length {x.shape[axis]}.")
    return list(unstack_p(x, axis=axis)) if x.shape[axis] else []


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split a tensor into `n` nearly equal parts, or before each of the given positions.

    >>> [part.shape[0] for part in array_split([1.0, 2.0, 3.0], 2)]
    [2, 1]
    """
    x = as_operand(ary)
    axis = normalize_axis(axis, len(x.shape), "array_split")
    length = x.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ArgumentError(f"array_split needs at least 1 part. Got {indices_or_sections}.")
        sizes = computed(_nearly_equal, length, indices_or_sections)
        return list(split_p(x, axis=axis, sizes=sizes))
    lead = (slice(None),) * axis
    edges = [None, *check_wholes("indices_or_sections", indices_or_sections), None]
    spans = [slice(*computed(bounds, a, b, None, length)) for a, b in pairwise(edges)]
    return [slice_p(x, index=expand_ellipsis((*lead, span), len(x.shape))) for span in spans]


def _nearly_equal(length: int, parts: int) -> tuple[int, ...]:
    """Return the sizes of parts that differ by at most 1, the longer ones first."""
    each, longer = divmod(length, parts)
    return (each + 1,) * longer + (each,) * (parts - longer)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the first axis.

    >>> len(vsplit([[1.0], [2.0]], 2))
    2
    """
    return _numpy_split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the second axis; a vector along its only axis.

    >>> len(hsplit([[1.0, 2.0]], 2))
    2
    """
    return _numpy_split(ary, indices_or_sections, 1 if len(as_operand(ary).shape) > 1 else 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the third axis.

    >>> len(dsplit([[[1.0, 2.0]]], 2))
    2
    """
    return _numpy_split(ary, indices_or_sections, 2)


def _numpy_split(ary: Any, indices_or_sections: Any, axis: int) -> list[Any]:
    if isinstance(indices_or_sections, int):
        return split(ary, indices_or_sections, axis)
    return array_split(ary, indices_or_sections, axis)


def vstack(tup: Any) -> Any:
    """Concatenate along the first axis; vectors become rows.

    >>> vstack([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    parts = as_operands(tup, "vstack")
    return concat([_with_rank(part, 2, 0) for part in parts], 0)


def hstack(tup: Any) -> Any:
    """Concatenate along the second axis; vectors along their only axis.

    >>> hstack([[1.0, 2.0], [3.0]]).shape
    (3,)
    """
    parts = [_with_rank(part, 1, 0) for part in as_operands(tup, "hstack")]
    return concat(parts, 0 if len(parts[0].shape) == 1 else 1)


def dstack(tup: Any) -> Any:
    """Concatenate along the third axis.

    >>> dstack([[1.0, 2.0], [3.0, 4.0]]).shape
    (1, 2, 2)
    """
    parts = [_with_rank(part, 2, 0) for part in as_operands(tup, "dstack")]
    return concat([_with_rank(part, 3, 2) for part in parts], 2)


def column_stack(tup: Any) -> Any:
    """Concatenate vectors as columns, and matrices along the second axis.

    >>> column_stack([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    parts = [_with_rank(part, 1, 0) for part in as_operands(tup, "column_stack")]
    return concat([_with_rank(part, 2, 1) for part in parts], 1)


def _with_rank(x: Any, rank: int, at: int) -> Any:
    """Insert unit axes at position `at` until `x` has `rank` axes."""
    missing = max(0, rank - len(x.shape))
    if not missing:
        return x
    at = min(at, len(x.shape))
    return reshape_p(x, shape=(*x.shape[:at], *[1] * missing, *x.shape[at:]))


# Conversion of lists that contain tensors


def holds_tensors(value: Any) -> bool:
    """Return whether a nested list contains a tensor, a variable or a batched value."""
    try:
        return _holds_tensors(value)
    except RecursionError:
        raise ArgumentTypeError(
            f"Cannot turn {type(value).__name__} into a tensor: it is nested too deeply, or it "
            "contains itself."
        ) from None


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_tensors(part) for part in value)
    return isinstance(value, Tensor | Variable) or type(value) in INTERPRETERS


def _from_sequence(value: Any) -> Any:
    if not holds_tensors(value):
        return NotImplemented
    leaves = _leaves(value)
    like = next((leaf for leaf in leaves if isinstance(leaf, Tensor | Variable)), None)
    return _stack_nested(value, None if like is None else to_tensor(like))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def _stack_nested(value: Any, like: Tensor | None) -> Any:
    if isinstance(value, list | tuple) and holds_tensors(value):
        return stack([_stack_nested(part, like) for part in value])
    return value if type(value) in INTERPRETERS else to_tensor(value, like=like)


register_tensor_conversion_function(list, _from_sequence)
register_tensor_conversion_function(tuple, _from_sequence)
