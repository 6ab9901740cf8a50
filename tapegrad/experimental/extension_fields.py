"""Values of the fields of extension types: convert them to the annotated type, or refuse them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError, TapegradError
from tapegrad.ops.creation import convert_to_tensor
from tapegrad.program.record.signature import TensorSpec

_TENSORS = (Tensor, StringTensor)


class FrozenMapping(Mapping[str, Any]):
    """A mapping that cannot be changed.

    >>> FrozenMapping({"a": 1})
    FrozenMapping({'a': 1})
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"FrozenMapping({self._entries!r})"


def converted(value: Any, kind: Any, field: str, is_spec: bool = False) -> Any:
    """Return a value as the annotated type of its field; specs have a spec for each tensor.

    >>> converted([1, 2], tuple[int, ...], "sizes")
    (1, 2)
    >>> converted("two", int, "count")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentTypeError: count must be int. Got str: 'two'.
    """
    if kind is Any:
        return value
    if kind in (Tensor, Variable) or kind is TensorSpec:
        return _as_spec(value, field) if is_spec else _as_tensor(value, field)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _first_that_fits(value, inner, field, is_spec)
    if origin is tuple:
        return _as_tuple(value, inner, field, is_spec)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _refusal(value, "a mapping", field)
        entry = inner[1] if len(inner) == 2 else Any
        return FrozenMapping(
            {key: converted(one, entry, f"{field}[{key!r}]", is_spec) for key, one in value.items()}
        )
    return _as_plain(value, kind, field, is_spec)


def _as_tensor(value: Any, field: str) -> Any:
    if isinstance(value, (*_TENSORS, TensorSpec)) or hasattr(type(value), "called_later"):
        return value
    if value is None:
        raise _refusal(value, "a tensor", field)
    try:
        return convert_to_tensor(value)
    except (TapegradError, TypeError, ValueError) as error:
        raise _refusal(value, "a tensor", field) from error


def _as_spec(value: Any, field: str) -> Any:
    if isinstance(value, TensorSpec):
        return value
    if isinstance(value, _TENSORS):
        return TensorSpec(value.shape, value.dtype)
    raise _refusal(value, "a TensorSpec", field)


def _first_that_fits(value: Any, kinds: tuple[Any, ...], field: str, is_spec: bool) -> Any:
    # Plain values first: a tensor field would convert any number.
    order = sorted(kinds, key=lambda kind: kind is Tensor and not isinstance(value, _TENSORS))
    for kind in order:
        try:
            return converted(value, kind, field, is_spec)
        except ArgumentTypeError:
            continue
    raise _refusal(value, " or ".join(_name(kind) for kind in kinds), field)


def _as_tuple(value: Any, inner: tuple[Any, ...], field: str, is_spec: bool) -> Any:
    if not isinstance(value, list | tuple):
        raise _refusal(value, "a tuple", field)
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if inner and len(inner) != len(value):
        raise _refusal(value, f"a tuple of {len(inner)} entries", field)
    return tuple(
        converted(one, kind, f"{field}[{k}]", is_spec)
        for k, (one, kind) in enumerate(zip(value, inner))
    )


_MAKERS: dict[Any, Callable[[Any], Any]] = {TensorShape: TensorShape, DType: as_dtype}


def _as_plain(value: Any, kind: Any, field: str, is_spec: bool) -> Any:
    """Return a value of a class; a spec has the spec of the class, or a shape that is unknown."""
    if kind in (None, type(None)):
        if value is not None:
            raise _refusal(value, "None", field)
        return None
    if kind in _MAKERS and (value is None or not isinstance(value, kind)):
        try:
            return _MAKERS[kind](value)
        except (TapegradError, TypeError, ValueError) as error:
            raise _refusal(value, _name(kind), field) from error
    known = getattr(kind, "Spec", None) if is_spec else kind
    is_number = kind in (int, float) and isinstance(value, bool)
    if isinstance(known, type) and (not isinstance(value, known) or is_number):
        raise _refusal(value, _name(kind), field)
    return value


def _name(kind: Any) -> str:
    return "a tensor" if kind is Tensor else getattr(kind, "__name__", str(kind))


def _refusal(value: Any, wanted: str, field: str) -> ArgumentTypeError:
    shown = repr(value)
    text = shown if len(shown) <= 60 else f"{shown[:60]}..."
    return ArgumentTypeError(f"{field} must be {wanted}. Got {type(value).__name__}: {text}.")
