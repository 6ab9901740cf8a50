"""Views: tensors that show a part of another tensor, so that a write to one reaches the other.

A tensor is a handle on an array that never changes, and a view knows the tensor that it was read
from. A write computes a new value for the view, for each base below it, and for all other views of
these bases. Then it stores the new values in the handles. Every step is an ordinary primitive, so
tapes record writes, and values that were computed or saved before a write do not change.

A view holds its base. A base has weak references to its views, so views that nobody holds cost
nothing. What NumPy would copy is not a view: tensors count as arrays in C order.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.elementwise import complex_numbers
from tapegrad.ops.indexing.primitives import slice_p, slice_set_p
from tapegrad.ops.shape.primitives import inverse_order, permute_p, reshape_p


class View:
    """How a view is read from its base, and how a new value of it changes the base."""

    __slots__ = ("base", "how")

    def __init__(self, base: Any, how: Any) -> None:
        self.base = base
        self.how = how

    def read(self, base: Any) -> Any:
        """Return the value of the view for a value of its base."""
        raise NotImplementedError

    def write(self, base: Any, part: Any) -> Any:
        """Return the value of the base after the view has got the value `part`."""
        raise NotImplementedError

    def layout(self, base: np.ndarray) -> np.ndarray:
        """Return the strides of the view for those of its base, as an array without memory."""
        return base


class Sliced(View):
    """`x[how]` with a basic index."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return slice_p(base, index=self.how)

    def write(self, base: Any, part: Any) -> Any:
        return slice_set_p(base, part, index=self.how)

    def layout(self, base: np.ndarray) -> np.ndarray:
        return base[(..., *self.how)]


class Reshaped(View):
    """`x` in the shape `how`."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return reshape_p(base, shape=self.how)

    def write(self, base: Any, part: Any) -> Any:
        return reshape_p(part, shape=tuple(base.shape))

    def layout(self, base: np.ndarray) -> np.ndarray:
        return base.reshape(self.how, copy=False)


class Permuted(View):
    """`x` with its axes in the order `how`."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return permute_p(base, axes=self.how)

    def write(self, base: Any, part: Any) -> Any:
        return permute_p(part, axes=inverse_order(self.how))

    def layout(self, base: np.ndarray) -> np.ndarray:
        return base.transpose(self.how)


class RealPart(View):
    """The real part of a complex tensor."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return complex_numbers.real(base)

    def write(self, base: Any, part: Any) -> Any:
        return complex_numbers.complex(part, complex_numbers.imag(base))


class ImaginaryPart(View):
    """The imaginary part of a complex tensor."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return complex_numbers.imag(base)

    def write(self, base: Any, part: Any) -> Any:
        return complex_numbers.complex(complex_numbers.real(base), part)


class ReadOnly(View):
    """The result of the function named `how`, which NumPy makes a view that must not be written."""

    __slots__ = ()

    def layout(self, base: np.ndarray) -> np.ndarray:
        raise ValueError("NumPy would copy most of these to give them another shape.")

    def write(self, base: Any, part: Any) -> Any:
        raise ArgumentError(
            f"The result of {self.how} is read-only: writing to it would not change the array that "
            "it was made from. Write to that array, or to a copy: y = x.copy()."
        )


_PRUNE_FROM = 16
_new = object.__new__


def as_view(part: Any, base: Any, kind: type[View], how: Any) -> Any:
    """Make the tensor `part` a view of `base`, and return it."""
    if part is base:
        return part
    view: View = _new(kind)
    view.base = base
    view.how = how
    part.view_of = view
    if kind is not ReadOnly:
        try:
            known = base.views
        except AttributeError:
            base.views = [weakref.ref(part)]
            return part
        known.append(weakref.ref(part))
        count = len(known)
        if count >= _PRUNE_FROM and not count & (count - 1):  # rarely, at powers of two
            known[:] = [ref for ref in known if ref() is not None]
    return part


def is_free_to_reshape(x: Any, shape: tuple[int, ...]) -> bool:
    """Whether NumPy would give an array with the strides of `x` another shape without a copy."""
    if getattr(x, "view_of", None) is None or not math.prod(shape):
        return True
    try:
        _layout(x).reshape(shape, copy=False)
    except ValueError:
        return False
    return True


def is_contiguous(x: Any) -> bool:
    """Whether the elements of an array with the strides of `x` lie side by side, in C order."""
    try:
        return bool(_layout(x).flags.c_contiguous)
    except ValueError:  # a read-only result, which has no strides
        return False


def _layout(x: Any) -> np.ndarray:
    """Return an array that has the shape and strides of `x` in C order, but no memory.

    Its elements must not be read.
    """
    view = getattr(x, "view_of", None)
    if view is not None:
        layout: np.ndarray = view.layout(_layout(view.base))
        return layout
    shape = tuple(x.shape)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.zeros((), np.int8), shape, strides)


# Writing


def write(target: Any, value: Any) -> None:
    """Give a tensor a new value, and all tensors that share elements with it theirs."""
    view = getattr(target, "view_of", None)
    if view is None and not hasattr(target, "views"):
        _check_storable(target, value)
        _store(target, value)
        return
    values = {id(target): (target, value)}
    root = target
    while view is not None:
        value = view.write(view.base, value)
        root = view.base
        values[id(root)] = (root, value)
        view = getattr(root, "view_of", None)
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
                    values[id(part)] = (part, part.view_of.read(values[id(base)][1]))
                waiting.append(part)


def _check_storable(handle: Any, value: Any) -> None:
    if type(value) in INTERPRETERS and type(handle) not in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap, a batched value cannot be written into an unbatched tensor. "
            "Use y = tapegrad.index_update(x, index, v)."
        )
    if why := getattr(handle, "why_read_only", ""):
        raise ArgumentError(why)


def _store(handle: Any, value: Any) -> None:
    if isinstance(handle, Tensor):
        handle.array, handle.node = value.array, value.node
    else:
        handle.tensor, handle.level = value.tensor, value.level


def root_of(x: Any) -> Any:
    """Return the tensor whose elements `x` shows: `x` itself unless it is a view."""
    while (view := getattr(x, "view_of", None)) is not None:
        x = view.base
    return x
