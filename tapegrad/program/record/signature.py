"""Signatures of functions: parameters by name and position, and input signatures."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.strings import StringTensor, string_tensor, text_array
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape, UnknownShape
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, SignatureError
from tapegrad.program.record.arguments import Args, Kwargs

_NUMBERS = "biufc"
"""NumPy's kinds of numbers."""

MOST_TEXT = 40
"""The most characters of a value that a warning shows."""


_IN_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Parameters:
    """The parameters of a Python function, to pass keyword arguments by position."""

    def __init__(self, python_function: Callable[..., Any]) -> None:
        try:
            self._signature: inspect.Signature | None = inspect.signature(python_function)
        except (TypeError, ValueError):  # some builtins have no signature
            self._signature = None

    @property
    def names(self) -> list[str]:
        """The names of the parameters that can be passed by position."""
        found = {} if self._signature is None else self._signature.parameters
        return [name for name, one in found.items() if one.kind in _IN_PLACE]

    def by_position(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Return the call with keyword arguments passed by position where possible."""
        if self._signature is None:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # calling the function raises a better error
            return args, kwargs
        placed = list(bound.args)
        defaults = [p.default for p in self._signature.parameters.values() if p.kind in _IN_PLACE]
        if len(placed) <= len(defaults):  # otherwise the last ones belong to *args
            while placed and _is_default(placed[-1], defaults[len(placed) - 1]):
                placed.pop()  # a default value: the same program as if it were omitted
        return tuple(placed), bound.kwargs

    def completed(self, args: Args, count: int) -> Args:
        """Return `count` arguments: those given, and the defaults of the parameters after them."""
        if self._signature is None or len(args) >= count:
            return args
        places = [p for p in self._signature.parameters.values() if p.kind in _IN_PLACE]
        defaults = [p.default for p in places[len(args) : count]]
        return (
            args if any(one is inspect.Parameter.empty for one in defaults) else (*args, *defaults)
        )

    def check(self, name: str, args: Args, kwargs: Kwargs) -> None:
        """Raise if the function `name` does not take these arguments.

        >>> Parameters(lambda a, b: a).check("f", (1,), {})
        Traceback (most recent call last):
        tapegrad.errors.ArgumentTypeError: f(a, b): missing a required argument: 'b'.
        """
        if self._signature is None:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            known = self._signature.parameters
            unknown = [one for one in kwargs if one not in known]
            words = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else str(error)
            parameters = str(self._signature.replace(return_annotation=inspect.Signature.empty))
            raise ArgumentTypeError(f"{name}{parameters}: {words}.") from None

    def described(self, args: Args, kwargs: Kwargs) -> dict[str, str]:
        """Return a description of the arguments by parameter name: shapes and dtypes, or values."""
        named: dict[str, Any] = {f"argument {k}": arg for k, arg in enumerate(args)} | kwargs
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
                named = {f"argument {name!r}": v for name, v in bound.arguments.items()}
            except TypeError:
                pass
        found: dict[str, str] = {}
        for name, value in named.items():
            leaves = nest.flatten(value)
            for k, leaf in enumerate(leaves):
                place = f"entry {k} of {name}" if nest.is_nested(value) else name
                found[place] = described_leaf(leaf)
            if nest.is_nested(value):
                found[f"the number of entries of {name}"] = str(len(leaves))
        return found

    def axis_names(self, args: Args, kwargs: Kwargs, leaves: Sequence[Any]) -> list[str]:
        """Return, for each axis of each tensor among the leaves, the name of its argument."""
        described = self.described(args, kwargs)
        names = [name for name in described if not name.startswith("the number of entries of ")]
        if len(names) != len(leaves):
            names = [f"argument {k}" for k in range(len(leaves))]
        tensors = [(name, leaf) for name, leaf in zip(names, leaves) if type(leaf) is Tensor]
        return [name for name, tensor in tensors for _ in tensor.shape]


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and type(value) in (int, bool, str) and value == default
    )


def described_leaf(leaf: Any) -> str:
    """Return a short description of a leaf of the arguments."""
    if isinstance(leaf, Tensor | np.ndarray):
        return f"{as_dtype(leaf.dtype)}{list(leaf.shape)}"
    if isinstance(leaf, Variable):
        return f"the variable {leaf.name!r} (number {leaf.number})"
    text = repr(leaf)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."


def changes(before: dict[str, str], now: dict[str, str]) -> str:
    """Describe the differences between two results of `described`."""
    found = [
        f"{name} was {before.get(name, 'absent')} and is now {now.get(name, 'absent')}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    return "; ".join(found[:3]) or (
        "the device, the type of the arrays, or an attribute of an object that it reads changed"
    )


class TypeSpec(ABC):
    """The kind of an argument: the base of the specs of tensors and of structures of tensors.

    >>> isinstance(TensorSpec([None, 3], "float32"), TypeSpec)
    True
    """

    @property
    @abstractmethod
    def value_type(self) -> type:
        """The class of the values that this spec describes."""

    @abstractmethod
    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a value, or all values of another spec, match this spec."""

    def fitted(self, value: Any, position: int) -> Any:
        """Return an argument that matches, or raise; `position` is its place in the signature."""
        if not self.is_compatible_with(value):
            raise ArgumentTypeError(
                f"Entry {position} of the input_signature requires {self!r}. Got "
                f"{described_leaf(value)}."
            )
        return value


class TensorSpec(TypeSpec):
    """The shape and dtype that an argument must have; None in a shape allows any length.

    >>> TensorSpec([None, 8])
    TensorSpec(shape=(None, 8), dtype=float32)
    >>> TensorSpec([None, 8]).is_compatible_with(TensorSpec([3, 8]))
    True
    """

    def __init__(self, shape: Any, dtype: Any = "float32", name: str | None = None) -> None:
        is_unknown = shape is None or isinstance(shape, UnknownShape)
        self.shape: tuple[int | None, ...] | None = None if is_unknown else TensorShape(shape)
        self.dtype: DType = as_dtype(dtype)
        self.name = name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """Return the shape and dtype of another spec under a name.

        >>> TensorSpec.from_spec(TensorSpec([2]), "x").name
        'x'
        """
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Return the shape and dtype of a tensor.

        >>> TensorSpec.from_tensor(to_tensor([1.0, 2.0]))
        TensorSpec(shape=(2,), dtype=float32)
        """
        return cls(tensor.shape, tensor.dtype, name)

    @property
    def value_type(self) -> type:
        return Tensor

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a tensor, or all tensors of another spec, match this spec."""
        shape, dtype = getattr(spec_or_value, "shape", ()), getattr(spec_or_value, "dtype", None)
        if dtype is None or as_dtype(dtype) != self.dtype:
            return False
        return self.shape is None or TensorShape(self.shape).is_compatible_with(shape)

    def fitted(self, value: Any, position: int) -> Any:
        return _fitted(self, value, position)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (self.shape, self.dtype, self.name) == (other.shape, other.dtype, other.name)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype.name, self.name))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype})"


MOST_SPECS = 16
"""So many signatures of recorded calls are kept, for `saved_model.save`."""


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def keep_specs(known: dict[Any, Any], key: Any, args: Any, kwargs: Any) -> None:
    """Add the signature of a recorded call to the known ones, unless there are many.

    Calls with other objects are left out, because a function must not keep these alive.
    """
    if len(known) < MOST_SPECS:
        specs = specs_of(args, kwargs)
        if all(isinstance(one, (TensorSpec, *_PLAIN)) for one in nest.flatten(specs)):
            known[key] = specs


def specs_of(args: Any, kwargs: Any) -> Any:
    """Return arguments with a TensorSpec in the place of each tensor and array."""

    def spec(one: Any) -> Any:
        is_tensor = isinstance(one, Tensor | Variable | np.ndarray | np.generic)
        return TensorSpec(tuple(one.shape), one.dtype) if is_tensor else one

    return nest.map_structure(spec, (args, dict(kwargs)))


def check_specs(given: Any) -> tuple[Any, ...] | None:
    """Check an input signature and return it as a tuple of structures of specs."""
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        raise ArgumentTypeError(
            "input_signature must be a list with one tapegrad.TensorSpec per argument. "
            f"Got {type(given).__name__}."
        )
    for position, spec in enumerate(nest.flatten(list(given))):
        if not isinstance(spec, TypeSpec | Tensor | Variable):
            raise ArgumentTypeError(
                "input_signature must hold tapegrad.TensorSpec(shape, dtype), or tensors as "
                f"examples. Entry {position} is {type(spec).__name__}."
            )
    return tuple(given)


def fitted_to(specs: Sequence[Any], args: Args) -> Args:
    """Return the arguments as tensors that match the specs; raise if one does not."""
    if len(args) != len(specs):
        raise ArgumentError(
            f"The function's input_signature has {len(specs)} entries. Got {len(args)} arguments."
        )
    pairs = [pair for spec, arg in zip(specs, args) for pair in _pairs(spec, arg)]
    fitted = [
        spec.fitted(leaf, k) if isinstance(spec, TypeSpec) else _fitted(spec, leaf, k)
        for k, (spec, leaf) in enumerate(pairs)
    ]
    return tuple(nest.pack_sequence_as(list(specs), fitted))


def _pairs(spec: Any, value: Any) -> list[tuple[Any, Any]]:
    """Pair each spec with its argument; a list of numbers for one tensor is one value."""
    if not nest.is_nested(spec):
        return [(spec, value)]
    entries = nest.children(value) if nest.is_nested(value) else []
    same_keys = not isinstance(spec, Mapping) or set(spec) == set(value)
    if len(entries) != len(nest.children(spec)) or not same_keys:
        raise ArgumentError(f"The input_signature requires {spec!r}. Got {described_leaf(value)}.")
    return [p for part, entry in zip(nest.children(spec), entries) for p in _pairs(part, entry)]


def _fitted(spec: Any, value: Any, position: int) -> Any:
    has_numbers = isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS
    if isinstance(value, Variable | StringTensor):
        tensor: Any = value
    elif isinstance(value, Tensor) or has_numbers:
        tensor = to_tensor(value)
    elif spec.dtype.name == "string":
        tensor = string_tensor(text_array(value))
    elif isinstance(value, np.ndarray):
        tensor = to_tensor(value)
    else:
        tensor = to_tensor(value, spec.dtype)
    if tensor.dtype != spec.dtype:
        raise DTypeError(
            f"Entry {position} of the input_signature requires {spec.dtype}. Got {tensor.dtype}; "
            f"cast it with tapegrad.cast(x, '{spec.dtype}')."
        )
    wanted, shape = spec.shape, tuple(tensor.shape)
    fits = wanted is None or (
        len(wanted) == len(shape) and all(w in (None, n) for w, n in zip(wanted, shape))
    )
    if not fits:
        raise SignatureError(
            f"Entry {position} of the input_signature requires shape {tuple(wanted)}. Got {shape}."
        )
    return tensor
