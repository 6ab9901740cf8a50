"""Views: tensors that show a part of another tensor, so that a write to one reaches the other.

A tensor is a handle on an array that never changes, and a view knows the tensor that it was read
from. A write computes a new value for the view, for each base below it, and for all other views of
these bases. Then it stores the new values in the handles. Every step is an ordinary primitive, so
tapes record writes, and values that were computed or saved before a write do not change.

A view holds its base. A base has weak references to its views, so unused views cost nothing.
What NumPy would copy is not a view: tensors count as arrays in C order.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.elementwise import complex_numbers
from tapegrad.ops.indexing.primitives import slice_p, slice_set_p
from tapegrad.ops.shape.primitives import inverse_order, permute_p, reshape_p


class ReadOnly(NamedTuple):
    """How a read-only view is made: by `function`, as the value `read(base)`.

    `layout` does the same with an array of NumPy's, and gives the strides.
    """

    function: str
    read: Callable[[Any], Any]
    layout: Callable[[np.ndarray], np.ndarray]


class View:
    """A kind of view: how it is read from its base, and how a new value of it changes the base.

    `how` is what distinguishes views of one kind, e.g. the index of a slice.
    """

    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        """Return the value of the view for a value of its base."""
        raise NotImplementedError

    def write(self, base: Any, part: Any, how: Any) -> Any:
        """Return the value of the base after the view has got the value `part`."""
        raise NotImplementedError

    def layout(self, base: np.ndarray, how: Any) -> np.ndarray:
        """Return the strides of the view for those of its base, as an array without memory."""
        return base


class _Sliced(View):
    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        return slice_p(base, index=how)

    def write(self, base: Any, part: Any, how: Any) -> Any:
        return slice_set_p(base, part, index=how)

    def layout(self, base: np.ndarray, how: Any) -> np.ndarray:
        return base[(..., *how)]


class _Reshaped(View):
    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        return reshape_p(base, shape=how)

    def write(self, base: Any, part: Any, how: Any) -> Any:
        return reshape_p(part, shape=tuple(base.shape))

    def layout(self, base: np.ndarray, how: Any) -> np.ndarray:
        return base.reshape(how, copy=False)


class _Permuted(View):
    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        return permute_p(base, axes=how)

    def write(self, base: Any, part: Any, how: Any) -> Any:
        return permute_p(part, axes=inverse_order(how))

    def layout(self, base: np.ndarray, how: Any) -> np.ndarray:
        return base.transpose(how)


class _RealPart(View):
    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        return complex_numbers.real(base)

    def write(self, base: Any, part: Any, how: Any) -> Any:
        return complex_numbers.complex(part, complex_numbers.imag(base))


class _ImaginaryPart(View):
    __slots__ = ()

    def read(self, base: Any, how: Any) -> Any:
        return complex_numbers.imag(base)

    def write(self, base: Any, part: Any, how: Any) -> Any:
        return complex_numbers.complex(complex_numbers.real(base), part)


class _ReadOnly(View):
    __slots__ = ()

    def read(self, base: Any, how: ReadOnly) -> Any:
        return how.read(base)

    def write(self, base: Any, part: Any, how: ReadOnly) -> Any:
        raise ArgumentError(
            f"The result of {how.function} is read-only, because several of its elements may be "
            "one element of the array that it was made from. Write to that array, or to a copy: "
            "y = x.copy()."
        )

    def layout(self, base: np.ndarray, how: ReadOnly) -> np.ndarray:
        return how.layout(base)


SLICED = _Sliced()
"""`x[how]` with a full basic index."""
RESHAPED = _Reshaped()
"""`x` in the shape `how`."""
PERMUTED = _Permuted()
"""`x` with its axes in the order `how`."""
REAL_PART = _RealPart()
IMAGINARY_PART = _ImaginaryPart()
READ_ONLY = _ReadOnly()
"""A part that changes with its base and must not be written. `how` is a `ReadOnly`."""

_PRUNE_FROM = 16
_ref = weakref.ref


def as_view(part: Any, base: Any, kind: View, how: Any) -> Any:
    """Make the tensor `part` a view of `base`, and return it."""
    if part is base:
        return part
    try:
        part.view_of = (base, kind, how)
    except AttributeError:
        return part  # text is never written in place
    try:
        known = base.views
    except AttributeError:
        base.views = [_ref(part)]
        return part
    known.append(_ref(part))
    count = len(known)
    if count >= _PRUNE_FROM and not count & (count - 1):  # rarely, at powers of two
        known[:] = [ref for ref in known if ref() is not None]
    return part


def is_free_to_reshape(x: Any, shape: tuple[int, ...]) -> bool:
    """Whether NumPy would give an array with the strides of `x` another shape without a copy."""
    if not hasattr(x, "view_of") or not math.prod(shape):
        return True
    try:
        _layout(x).reshape(shape, copy=False)
    except ValueError:
        return False
    return True


def is_contiguous(x: Any) -> bool:
    """Whether the elements of an array with the strides of `x` lie side by side, in C order."""
    return not hasattr(x, "view_of") or bool(_layout(x).flags.c_contiguous)


def is_fortran(x: Any) -> bool:
    """Whether the elements of an array with the strides of `x` lie side by side by columns only."""
    return hasattr(x, "view_of") and bool(_layout(x).flags.fnc)


def memory_order(x: Any) -> tuple[int, ...]:
    """Return the axes of `x` from the largest stride to the smallest, NumPy's order 'K'.

    As in NumPy's iterator, axes of stride 0 are not compared and stay beside their neighbours.
    """
    axes = range(len(x.shape))
    if not hasattr(x, "view_of"):
        return tuple(axes)
    strides = [abs(step) for step in _layout(x).strides]
    order: list[int] = []  # from the smallest stride to the largest
    for axis in reversed(axes):
        place = len(order)
        for k in reversed(range(len(order))):
            if strides[axis] and strides[order[k]]:
                if strides[order[k]] <= strides[axis]:
                    break
                place = k
        order.insert(place, axis)
    return tuple(reversed(order))


def share_elements(x: Any, y: Any) -> bool:
    """Whether a write to one of two tensors may change the other."""
    if x is y:
        return True
    return root_of(x) is root_of(y) and bool(np.shares_memory(_layout(x), _layout(y)))


def _layout(x: Any) -> np.ndarray:
    """Return an array that has the shape and strides of `x` in C order, but no memory.

    Its elements must not be read.
    """
    if hasattr(x, "view_of"):
        base, kind, how = x.view_of
        layout: np.ndarray = kind.layout(_layout(base), how)
        return layout
    shape = tuple(x.shape)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return np.lib.stride_tricks.as_strided(_NO_MEMORY, shape, strides)


_NO_MEMORY = np.zeros((), np.int8)
"""One address for all layouts, so that those of one base tell whether they overlap."""


# Writing

WRITE_GUARDS: list[Callable[[Any], None]] = []
"""Functions that are called with each tensor before it is written, and may raise."""


def write(target: Any, value: Any) -> None:
    """Give a tensor a new value, and all tensors that share elements with it theirs."""
    if not hasattr(target, "view_of") and not hasattr(target, "views"):
        _check_storable(target, value)
        _store(target, value)
        return
    values = {id(target): (target, value)}
    root = target
    while hasattr(root, "view_of"):
        root, kind, how = root.view_of
        value = kind.write(root, value, how)
        values[id(root)] = (root, value)
    _read_views(root, values)
    for handle, new in values.values():
        _check_storable(handle, new)
    for handle, new in values.values():
        _store(handle, new)


def _read_views(root: Any, values: dict[int, tuple[Any, Any]]) -> None:
    """Add the new values of all views of `root`, and of their views, to `values`."""
    waiting = [root]
    while waiting:
        base = waiting.pop()
        for ref in getattr(base, "views", ()):
            part = ref()
            if part is not None:
                if id(part) not in values:
                    _, kind, how = part.view_of
                    values[id(part)] = (part, kind.read(values[id(base)][1], how))
                waiting.append(part)


def _check_storable(handle: Any, value: Any) -> None:
    if type(value) in INTERPRETERS and type(handle) not in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap, a batched value cannot be written into an unbatched tensor. "
            "Use y = tapegrad.index_update(x, index, v)."
        )
    if why := getattr(handle, "why_read_only", ""):
        raise ArgumentError(why)
    for guard in WRITE_GUARDS:
        guard(handle)


def _store(handle: Any, value: Any) -> None:
    if isinstance(handle, Tensor):
        handle.array, handle.node = value.array, value.node
    else:
        handle.tensor, handle.level = value.tensor, value.level


def root_of(x: Any) -> Any:
    """Return the tensor whose elements `x` shows: `x` itself unless it is a view."""
    while hasattr(x, "view_of"):
        x = x.view_of[0]
    return x
