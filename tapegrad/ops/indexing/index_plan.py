"""Parsing of NumPy indices: a basic index, then integer arrays along some remaining axes."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import described
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values import host
from tapegrad.core.values.convert import TextFoundError, device_array, to_host_array
from tapegrad.core.values.sizes import bounds, computed
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexKindError,
    IndexOutOfRangeError,
    IndexShapeError,
    MaskError,
)
from tapegrad.ops.indexing.gather import linear_index
from tapegrad.ops.shape.joining import holds_tensors
from tapegrad.ops.shape.primitives import reshape_p

_ALL = slice(None)
_ONE_ELLIPSIS = "An index may contain `...` only once."

nonzero_p = nondifferentiable(
    "nonzero", lambda xp, x: tuple(xp.nonzero(x)), many=True, shapes_vary=True
)


class Plan:
    """A parsed index: a basic index, then integer arrays by axis of its result."""

    def __init__(self) -> None:
        self.basic: list[Any] = []
        self.arrays: dict[int, Any] = {}
        self.labels: list[int] = []
        self.spots: list[int] = []
        self.ellipses = 0

    @property
    def is_adjacent(self) -> bool:
        """Whether the arrays are adjacent; otherwise their axes come first in the result."""
        return self.spots[-1] - self.spots[0] == len(self.spots) - 1

    @property
    def is_whole(self) -> bool:
        """Whether the basic index changes nothing."""
        return all(part == _ALL for part in self.basic)


def parse_basic(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Return a full basic index with ints and slices in range, or None if it contains arrays."""
    if type(index) is int and shape and -shape[0] <= index < shape[0]:
        return (index, *(_ALL,) * (len(shape) - 1))
    items = index if isinstance(index, tuple) else (index,)
    parts: list[Any] = []
    axis = 0
    for position, item in enumerate(items):
        if item is None:
            parts.append(None)
            continue
        if item is Ellipsis:
            if builtins.any(part is Ellipsis for part in items[position + 1 :]):
                raise IndexOutOfRangeError(_ONE_ELLIPSIS)
            later = builtins.sum(part is not None for part in items[position + 1 :])
            rest = max(len(shape) - axis - later, 0)
            parts.extend([_ALL] * rest)
            axis += rest
            continue
        number = item if type(item) is int else _as_int(item)
        if number is None and type(item) is not slice:
            return None
        if axis == len(shape):
            raise _too_many(items, shape)
        if number is None:
            parts.append(_normalize_slice(item, shape[axis]))
        elif -shape[axis] <= number < shape[axis]:
            parts.append(number)
        else:
            raise IndexOutOfRangeError(
                f"Indexing got index {number} for axis {axis} of length {shape[axis]}."
            )
        axis += 1
    return (*parts, *[_ALL] * (len(shape) - axis))


def _as_int(item: Any) -> int | None:
    """Return an integer scalar on the host as a Python int, else None.

    A scalar on a device gives None, because reading it would synchronize.
    """
    if isinstance(item, Variable):
        item = item.shared_value()
    if isinstance(item, Tensor):
        item = item.array
    if isinstance(item, bool | np.bool_):
        return None
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        return int(item)
    return None


def _too_many(items: Any, shape: tuple[int, ...]) -> IndexOutOfRangeError:
    count = builtins.sum(item is not None and item is not Ellipsis for item in items)
    return IndexOutOfRangeError(
        f"Too many indices: a tensor of shape {tuple(shape)} has {len(shape)} axes. Got {count}."
    )


def _normalize_slice(part: slice, length: int) -> slice:
    """Return a slice with bounds in range, as the Array API requires."""
    if part.start is None and part.stop is None and part.step is None:
        return part
    try:
        start, stop, step = computed(bounds, part.start, part.stop, part.step, length)
    except TypeError:
        raise ArgumentTypeError(
            "The bounds and step of a slice must be integers. "
            f"Got {':'.join('' if x is None else repr(x) for x in (part.start, part.stop))}"
            f"{'' if part.step is None else f':{part.step!r}'}."
        ) from None
    except ValueError as error:
        raise ArgumentError("The step of a slice cannot be 0.") from error
    if step > 0:
        return slice(start, max(start, stop), step)
    if start < 0:
        return slice(0, 0, 1)
    return slice(start, None if stop < 0 else stop, step)


def parse(index: Any, shape: tuple[int, ...]) -> Plan:
    """Parse an index that contains arrays or masks."""
    items = [as_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    taken = builtins.sum(_axes_taken(item) for item in items)
    if taken > len(shape):
        raise _too_many(items, shape)
    plan = Plan()
    axis = 0
    for item in items:
        axis += _add_item(plan, item, shape, axis, len(shape) - taken)
    plan.basic.extend([_ALL] * (len(shape) - axis))
    return plan


def as_item(item: Any) -> Any:
    """Return None, Ellipsis, slices and ints unchanged, all else as an array or operand."""
    found = item
    if item is None or item is Ellipsis or type(item) is slice:
        return item
    number = _as_int(item)
    if number is not None:
        return number
    if isinstance(item, str | bytes):
        raise _wrong_kind(repr(item))
    if isinstance(item, Variable):
        item = item.shared_value()
    if isinstance(item, list | tuple) and holds_tensors(item):
        item = as_operand(item)
    on_device = None if isinstance(item, Tensor) else device_array(item)
    if on_device is not None:
        item = wrap(on_device)
    if not isinstance(item, Tensor) and type(item) not in INTERPRETERS:
        try:
            item = to_host_array(item)
        except TextFoundError:
            raise _wrong_kind(described(item)) from None
        item = (
            item if item.size else item.astype(np.int64 if item.dtype.kind == "f" else item.dtype)
        )
    if item.dtype.kind not in "iub":
        raise _wrong_kind(item.dtype if item.shape or found is item else repr(found))
    return item


def _wrong_kind(found: Any) -> IndexKindError:
    return IndexKindError(
        f"An index may contain integers, booleans, slices, None and `...`. Got {found}."
    )


def _axes_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return len(item.shape) if is_mask(item) else 1


def is_mask(item: Any) -> bool:
    """Return whether an item of an index is a boolean or an array of booleans."""
    return hasattr(item, "dtype") and item.dtype.kind == "b"


def _add_item(plan: Plan, item: Any, shape: tuple[int, ...], axis: int, rest: int) -> int:
    """Add one item to the plan and return the number of axes that it indexes."""
    if item is None:
        plan.basic.append(None)
        return 0
    if item is Ellipsis:
        plan.basic.extend([_ALL] * rest)
        if plan.ellipses:
            raise IndexOutOfRangeError(_ONE_ELLIPSIS)
        plan.ellipses += 1  # separates arrays even if it covers no axis
        return rest
    if type(item) is slice:
        plan.basic.append(_normalize_slice(item, shape[axis]))
        return 1
    if not is_mask(item):
        _add_array(plan, item, axis, _ALL)
        return 1
    if not item.shape:  # True adds an axis of length 1, False one of length 0
        _add_array(plan, np.zeros(int(bool(item)), np.int64), axis, None)
        return 0
    found = _where_true(item, shape[axis : axis + len(item.shape)], axis)
    for offset, array in enumerate(found):
        _add_array(plan, array, axis + offset, _ALL)
    return len(found)


def _add_array(plan: Plan, array: Any, axis: int, part: Any) -> None:
    plan.arrays[len(plan.basic)] = array
    plan.spots.append(len(plan.basic) + plan.ellipses)
    plan.labels.append(axis)
    plan.basic.append(part)


def _where_true(mask: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    # A mask of length 0 selects nothing; NumPy allows it along any axis.
    fits = len(mask.shape) == len(shape) and all([m in (n, 0) for m, n in zip(mask.shape, shape)])
    if not fits:
        raise MaskError(
            f"A mask at axis {axis} must have the shape {tuple(shape)} of the axes that it "
            f"indexes. Got {mask.shape}."
        )
    if isinstance(mask, np.ndarray):
        return tuple(np.nonzero(mask))
    if type(mask) in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap, a batched mask cannot select entries: the lengths of the examples would "
            "differ. Use tapegrad.where(mask, x, 0)."
        )
    return where_true(mask, "a mask as index")


def where_true(x: Any, how: str) -> tuple[Any, ...]:
    """Return the coordinates of the nonzero elements; `how` names the caller in read reports."""
    # The array library reads their number on the host to allocate the result.
    host.note_read(x.array if isinstance(x, Tensor) else x, how, nbytes=8)
    found: tuple[Any, ...] = nonzero_p(x)
    return found


def find_positions(x: Any, plan: Plan) -> tuple[Any, int, int, int]:
    """Return positions along the merged axes, the first and last of them, and the array rank."""
    shape = tuple(x.shape)
    shapes = [
        np.shape(array) if isinstance(array, int) else tuple(array.shape)
        for array in plan.arrays.values()
    ]
    try:
        rank = len(np.broadcast_shapes(*shapes))
    except (ValueError, RuntimeError) as error:  # NumPy broadcasts up to 32 dimensions
        raise IndexShapeError(
            f"Index arrays must broadcast together. Got shapes {', '.join(map(str, shapes))}."
        ) from error
    first, last = min(plan.arrays), max(plan.arrays)
    between = [axis for axis in range(first, last) if axis not in plan.arrays]
    labels = dict(zip(plan.arrays, plan.labels, strict=True))
    arrays = []
    for axis in range(first, last + 1):
        if axis in plan.arrays:
            arrays.append(_with_unit_axes(plan.arrays[axis], len(between)))
        else:
            behind = len(between) - between.index(axis) - 1
            arrays.append(np.arange(shape[axis]).reshape(-1, *[1] * behind))
    axes = tuple(labels.get(axis, axis) for axis in range(first, last + 1))
    where = linear_index(x, arrays, shape[first : last + 1], axes, "Indexing")
    return where, first, last, rank


def _with_unit_axes(array: Any, count: int) -> Any:
    if isinstance(array, int):
        return np.asarray(array)
    if not count:
        return array
    shape = (*array.shape, *[1] * count)
    return array.reshape(shape) if isinstance(array, np.ndarray) else reshape_p(array, shape=shape)


def merge_axes(x: Any, first: int, last: int) -> Any:
    if first == last:
        return x
    shape = x.shape
    length = math.prod(shape[first : last + 1])
    return reshape_p(x, shape=(*shape[:first], length, *shape[last + 1 :]))


def arrays_first(first: int, rank: int, ndim: int) -> tuple[int, ...]:
    """Return the permutation that puts the axes of the index arrays first."""
    return (*range(first, first + rank), *range(first), *range(first + rank, ndim))


def shape_of_basic(basic: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.broadcast_to(np.zeros(()), shape)[basic].shape)
