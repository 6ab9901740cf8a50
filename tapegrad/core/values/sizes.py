"""Lengths of axes that note what the user's code does with them while a function is recorded.

One recording may serve other sizes if the Python code would do the same for them. A `Size` is an
int. What the user's code compares is noted, so that it can be computed again for another size. What
it converts, so that it can no longer be followed, is pinned: it must not change.

Most modules of the package are trusted instead: they branch on sizes only to choose among
equivalent computations. Where a result depends on a size that is divided or limited, either the
module is in the table below and is followed like the user's code, or it calls `computed`, as slices
do for the end of `x[:8]`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

_OWN = ("tapegrad.", "tapegrad_numpy.", "tapegrad_cupy.")
_FOLLOWED = (
    "tapegrad.keras.layers.image_",
    "tapegrad.numpy.fft",
    "tapegrad.numpy.products",
    "tapegrad.ops.convolution.sequences",
    "tapegrad.ops.fourier.",
    "tapegrad.ops.image.",
    "tapegrad.ops.reduction.order_statistics",
    "tapegrad.ops.reduction.quantile",
    "tapegrad.ops.shape.diagonal",
    "tapegrad.scipy.",
)
"""Beginnings of the names of modules that are followed like the user's code."""
_SEQUENCES = (list, tuple, str, bytes, bytearray)


class Noted(NamedTuple):
    """An operation on sizes by the user's code; without a function, an operand that is pinned."""

    function: Callable[..., Any] | None
    operands: tuple[Any, ...]
    result: Any


_note_of_recording: list[Callable[[Noted], None]] = []


def computed(function: Callable[..., Any], *operands: Any) -> Any:
    """Return a number that depends on a size in any way; a recording notes how.

    >>> computed(min, 8, 5)
    5
    """
    result = function(*operands)
    for note in _note_of_recording:
        note(Noted(function, tuple([plain_sizes(one) for one in operands]), result))
    return result


def set_recorder(note: Callable[[Noted], None] | None) -> None:
    """Set what notes the operations of `computed`; None while nothing is recorded."""
    _note_of_recording[:] = [] if note is None else [note]


def bounds(start: Any, stop: Any, step: Any, length: int) -> tuple[int, int, int]:
    """Return the bounds and the step of a slice of an axis.

    >>> bounds(None, 8, None, 5)
    (0, 5, 1)
    """
    return slice(start, stop, step).indices(length)


def _nothing() -> None:
    """Stands for a recording that is gone."""


class SizeNotes:
    """What the user's code did with sizes during one recording."""

    def __init__(self, adopt: Callable[[], Callable[[Any], Any] | None] = _nothing) -> None:
        self._adopt = adopt
        self.operations: list[Noted] = []
        self.is_read = False
        """Whether the user's code has read a size at all."""

    def pin(self, value: Any) -> None:
        """Note that the result of the function may depend on a size in any way."""
        self.operations.append(Noted(None, (value,), value))

    def sized(self, value: Any) -> Any:
        """Return a number that depends on sizes, such that operations on it are noted."""
        kind: Any = Size if type(value) is int else SizeRatio if type(value) is float else None
        if kind is None:
            return value
        made = kind(value)
        made.notes = self
        return made

    def adopted(self, array: Any) -> Any:
        """Return an array as a constant of the recording, as it is after the recording."""
        adopt = self._adopt()
        return array if adopt is None else adopt(array)

    def shape(self, lengths: tuple[int, ...]) -> list[Any]:
        """Return the lengths of the axes of a tensor, whose operations are noted."""
        self.is_read = True
        return [self.sized(length) for length in lengths]


def is_followed(frame: FrameType) -> bool:
    """Whether a frame runs code whose use of sizes is followed, mostly that of the user.

    >>> import sys
    >>> is_followed(sys._getframe())  # this example belongs to the package
    False
    """
    name = f"{frame.f_globals.get('__name__')}."
    return not name.startswith(_OWN) or name.startswith(_FOLLOWED)


def _plain(value: Any) -> Any:
    if isinstance(value, Size):
        return int.__pos__(value)
    return float.__pos__(value) if isinstance(value, SizeRatio) else value


def plain_sizes(value: Any) -> Any:
    """Return a parameter of an operation, with plain numbers in place of sizes.

    >>> plain_sizes((slice(0, SizeNotes().sized(3)), "a"))
    (slice(0, 3, None), 'a')
    """
    kind = type(value)
    if kind is Size or kind is SizeRatio:
        return _plain(value)
    if kind is tuple or kind is list:
        parts = [plain_sizes(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else kind(parts)
    if kind is slice:
        return slice(plain_sizes(value.start), plain_sizes(value.stop), plain_sizes(value.step))
    if isinstance(value, tuple) and any(type(part) is Size for part in value):
        return tuple([plain_sizes(part) for part in value])  # e.g. a `TensorShape`
    return value


def pinned_size(value: Any) -> Any:
    """Return a size as a plain number that others compute with: the recording is for it alone.

    >>> type(pinned_size(SizeNotes().sized(3)))
    <class 'int'>
    """
    if type(value) is Size or type(value) is SizeRatio:
        value.notes.pin(_plain(value))
        return _plain(value)
    return value


def for_shape(array: Any, shape: Any) -> Any:
    """Return an array such that filling a shape with its value is recorded if that has sizes.

    Otherwise a filled array would be a constant of one size.

    >>> for_shape(1.0, (2, 3))
    1.0
    """
    lengths = shape if isinstance(shape, tuple | list) else (shape,)
    found = next((length for length in lengths if type(length) is Size), None)
    return array if found is None else found.notes.adopted(array)


def _followed(function: Callable[..., Any], reflected: bool = False) -> Any:
    """Return a method whose result is a size again; where that goes shows what it depends on."""

    def method(self: Any, *others: Any) -> Any:
        if others and type(others[0]) not in _NUMBERS:
            if isinstance(others[0], _SEQUENCES) and is_followed(sys._getframe(1)):
                self.notes.pin(_plain(self))  # the length of a list
            return NotImplemented
        operands = [_plain(self), *map(_plain, others)]
        return self.notes.sized(function(*(reversed(operands) if reflected else operands)))

    return method


def _noted(function: Callable[..., Any], reflected: bool = False) -> Any:
    """Return a method whose result is noted, since no formula can be found for it later."""

    def method(self: Any, *others: Any) -> Any:
        if others and type(others[0]) not in _NUMBERS:
            return NotImplemented
        operands = [_plain(self), *map(_plain, others)]
        if reflected:
            operands.reverse()
        result = function(*operands)
        if is_followed(sys._getframe(1)):
            self.notes.operations.append(Noted(function, tuple(operands), result))
        return self.notes.sized(result)

    return method


def _pinned(function: Callable[..., Any]) -> Any:
    """Return a method whose result cannot be followed, so that the size must stay the same."""

    def method(self: Any, *others: Any) -> Any:
        if is_followed(sys._getframe(1)):
            self.notes.pin(_plain(self))
        return function(_plain(self), *map(_plain, others))

    return method


def _array_function(
    self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
) -> Any:  # NumPy's functions return plain numbers
    return getattr(ufunc, method)(*map(pinned_size, inputs), **kwargs)


def _pickled(self: Any) -> Any:
    number = _plain(self)
    return type(number), (number,)


class _Followed:
    """The operations of `Size` and `SizeRatio`; all others are those of plain numbers."""

    notes: SizeNotes

    __add__ = _followed(operator.add)
    __radd__ = _followed(operator.add, reflected=True)
    __sub__ = _followed(operator.sub)
    __rsub__ = _followed(operator.sub, reflected=True)
    __mul__ = _followed(operator.mul)
    __rmul__ = _followed(operator.mul, reflected=True)
    __neg__ = _followed(operator.neg)
    __pos__ = _followed(operator.pos)

    __lt__ = _noted(operator.lt)
    __le__ = _noted(operator.le)
    __eq__ = _noted(operator.eq)
    __ne__ = _noted(operator.ne)
    __gt__ = _noted(operator.gt)
    __ge__ = _noted(operator.ge)
    __bool__ = _noted(operator.truth)
    __abs__ = _noted(operator.abs)
    __round__ = _noted(round)
    __floor__ = _noted(math.floor)
    __ceil__ = _noted(math.ceil)
    __trunc__ = _noted(math.trunc)
    __floordiv__ = _noted(operator.floordiv)
    __rfloordiv__ = _noted(operator.floordiv, reflected=True)
    __truediv__ = _noted(operator.truediv)
    __rtruediv__ = _noted(operator.truediv, reflected=True)
    __mod__ = _noted(operator.mod)
    __rmod__ = _noted(operator.mod, reflected=True)
    __pow__ = _noted(operator.pow)
    __rpow__ = _noted(operator.pow, reflected=True)

    __hash__ = _pinned(hash)
    __int__ = _pinned(int)
    __float__ = _pinned(float)
    __complex__ = _pinned(complex)
    __divmod__ = _pinned(divmod)
    __rdivmod__ = _pinned(lambda x, y: divmod(y, x))
    __array_ufunc__ = _array_function
    __reduce__ = _pickled
    as_integer_ratio = _pinned(lambda x: x.as_integer_ratio())


class Size(_Followed, int):
    """The length of an axis, or a whole number that was computed from one."""

    __lshift__ = _pinned(operator.lshift)
    __rshift__ = _pinned(operator.rshift)
    __and__ = _pinned(operator.and_)
    __or__ = _pinned(operator.or_)
    __xor__ = _pinned(operator.xor)
    __rlshift__ = _pinned(lambda x, y: y << x)
    __rrshift__ = _pinned(lambda x, y: y >> x)
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __invert__ = _pinned(operator.invert)
    bit_length = _pinned(int.bit_length)


class SizeRatio(_Followed, float):
    """A float that was computed from the lengths of axes."""

    is_integer = _pinned(float.is_integer)


_NUMBERS = frozenset({int, float, bool, Size, SizeRatio})
