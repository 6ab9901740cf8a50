"""Data sources: slices of arrays, lists, integer ranges and generators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.functions import annotate_errors
from tapegrad.data.plan import (
    END,
    ArrayRows,
    ListRows,
    Plan,
    Rows,
    RowSource,
    Run,
    Source,
    State,
    peek,
    refuse_beyond,
)
from tapegrad.data.structure import (
    DatasetSpec,
    concatenated_rows,
    has_composite,
    own_host,
    own_leaf,
    spec_of,
    to_host,
)
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotFoundError,
    ShapeError,
)
from tapegrad.io.files import files_matching
from tapegrad.program.record.signature import TensorSpec, TypeSpec


class _RandomAccess(Plan):
    """A plan whose elements have random access."""

    def __init__(
        self, step: str, rows: Rows, spec: Callable[[], Any], size: int | None = None
    ) -> None:
        self.step = step
        self._rows = rows
        self._spec = spec
        self._size = len(rows) if size is None else size

    def open(self, run: Run, state: State | None) -> Source:
        return RowSource(self.step, self._rows, 0 if state is None else state["at"])

    def size(self) -> int:
        return self._size

    def spec(self) -> Any:
        return self._spec()

    def rows(self) -> Rows:
        return self._rows


def random_access(step: str, rows: Rows, spec: Callable[[], Any], size: int | None = None) -> Plan:
    """Return a plan with the given rows; its size is their number, or a sentinel."""
    return _RandomAccess(step, rows, spec, size)


# Arrays


def slices(tensors: Any) -> Plan:
    """Return a plan whose elements are the slices of arrays along their first axis."""
    step = "from_tensor_slices"
    arrays = own_host(tensors, step)
    if has_composite(arrays):
        return listed(step, concatenated_rows(arrays))
    leaves = nest.flatten(arrays)
    if not leaves:
        raise ArgumentError(f"{step} needs at least one array. Got {tensors!r}.")
    if any(leaf.ndim == 0 for leaf in leaves):
        raise ShapeError(
            f"{step} slices arrays along their first axis, but got a single number. "
            "Use from_tensors for one element, or wrap it in a list."
        )
    lengths = [leaf.shape[0] for leaf in leaves]
    if len(set(lengths)) > 1:
        raise ShapeError(
            f"{step} needs arrays whose first axes have the same length. Got the lengths "
            f"{', '.join(map(str, lengths))}."
        )
    specs = [TensorSpec(leaf.shape[1:], leaf.dtype) for leaf in leaves]
    return _RandomAccess(step, ArrayRows(arrays), lambda: nest.pack_sequence_as(arrays, specs))


def paths(pattern: Any) -> list[str]:
    """Return the files that match glob patterns, or raise if there are none."""
    found = files_matching(pattern, "list_files")
    if not found:
        raise NotFoundError(f"list_files: no file matches {pattern!r}.")
    return found


def listed(step: str, elements: Sequence[Any]) -> Plan:
    """Return a plan with the given host elements, whose shapes may differ."""

    def spec() -> Any:
        if not elements:
            raise ArgumentError(f"The dataset of {step} is empty, so its elements have no shape.")
        return spec_of(elements[0])

    return _RandomAccess(step, ListRows(elements), spec)


# Ranges


class _RangeRows(Rows):
    def __init__(self, numbers: range, dtype: np.dtype[Any]) -> None:
        self._numbers = numbers
        self._dtype = dtype

    def __len__(self) -> int:
        return len(self._numbers)

    def at(self, index: int) -> Any:
        return np.asarray(self._numbers[index], self._dtype)

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        chosen = np.asarray(indices, np.int64)
        numbers = self._numbers.start + chosen * self._numbers.step
        return numbers.astype(self._dtype)


def numbers(args: Sequence[Any], output_type: Any) -> Plan:
    """Return a plan with the integers of a range."""
    if not 1 <= len(args) <= 3:
        raise ArgumentTypeError(
            f"range takes stop, or start and stop, or start, stop and step. Got {len(args)} "
            "numbers."
        )
    try:
        found = range(*(int(number) for number in args))
    except ValueError as error:
        raise ArgumentError(f"range needs a nonzero step. Got {list(args)}.") from error
    dtype = as_dtype(output_type)
    return _RandomAccess("range", _RangeRows(found, dtype.dtype), lambda: TensorSpec((), dtype))


def counting(start: int, step: int = 1, output_type: Any = "int64") -> Plan:
    """Return a plan with the integers start, start + step, ... without an end."""
    if step == 0:
        raise ArgumentError("counter needs a nonzero step. Got 0.")
    limit = sys.maxsize if step > 0 else -sys.maxsize
    count = min(sys.maxsize, (limit - start) // step)  # len() of a longer range fails
    dtype = as_dtype(output_type)
    rows = _RangeRows(range(start, start + step * count, step), dtype.dtype)
    return _RandomAccess("counting", rows, lambda: TensorSpec((), dtype), INFINITE_CARDINALITY)


# Generators

_SPECS = (TypeSpec, DatasetSpec)


def signature(types: Any, shapes: Any, given: Any) -> Any:
    """Return the TensorSpecs that dtypes and shapes describe, or the ones that are given."""
    if types is None:
        if shapes is not None:
            raise ArgumentError("from_generator got output_shapes without output_types.")
        return given
    if given is not None:
        raise ArgumentError("from_generator takes output_signature or output_types, not both.")
    if shapes is None and all(isinstance(leaf, _SPECS) for leaf in nest.flatten(types)):
        return types  # a signature by position
    return _spec_of_types(types, shapes)


def _spec_of_types(types: Any, shapes: Any) -> Any:
    if isinstance(types, dict):
        parts = dict.fromkeys(types) if shapes is None else shapes
        if not isinstance(parts, dict) or parts.keys() != types.keys():
            raise ArgumentError(f"output_shapes must have the keys {list(types)}. Got {shapes!r}.")
        return {key: _spec_of_types(types[key], parts[key]) for key in types}
    if isinstance(types, list | tuple):
        parts = [None] * len(types) if shapes is None else shapes
        if not isinstance(parts, list | tuple) or len(parts) != len(types):
            raise ArgumentError(f"output_shapes must have {len(types)} entries. Got {shapes!r}.")
        return tuple(_spec_of_types(one, shape) for one, shape in zip(types, parts))
    return TensorSpec(shapes, types)


class FromGenerator(Plan):
    """The values that a Python generator yields; to resume, the generator runs again."""

    step = "from_generator"

    def __init__(
        self, generator: Callable[..., Iterable[Any]], signature: Any, args: Sequence[Any] | None
    ) -> None:
        if not callable(generator):
            raise ArgumentTypeError(
                "from_generator takes a function that returns a new iterator each time it is "
                f"called. Got {type(generator).__name__}; pass a lambda that returns one."
            )
        for spec in nest.flatten(signature if signature is not None else ()):
            if not isinstance(spec, _SPECS):
                raise ArgumentTypeError(
                    "output_signature must be a structure of tapegrad.TensorSpec(shape, dtype). "
                    f"It holds {type(spec).__name__}."
                )
        self._generator = generator
        self._signature = signature
        self._args = tuple(args or ())

    def open(self, run: Run, state: State | None) -> Source:
        source = _Generated(self._started, self._signature)
        for _ in range(0 if state is None else state["taken"]):
            if source.advanced() is END:
                refuse_beyond(self.step)
        return source

    def _started(self) -> Iterator[Any]:
        return iter(self._generator(*self._args))

    def size(self) -> int:
        return UNKNOWN_CARDINALITY

    def spec(self) -> Any:
        return peek(self) if self._signature is None else self._signature


class _Generated(Source):
    def __init__(self, started: Callable[[], Iterator[Any]], signature: Any) -> None:
        self._started = started
        self._signature = signature
        self._iterator: Iterator[Any] | None = None
        self._taken = 0

    def advanced(self) -> Any:
        with annotate_errors("from_generator"):
            if self._iterator is None:
                self._iterator = self._started()
            value = next(self._iterator, END)
        self._taken += value is not END
        return value

    def next(self) -> Any:
        value = self.advanced()
        if value is END:
            return END
        with annotate_errors("from_generator"):
            if self._signature is None:
                return own_host(value, "from_generator")  # a generator may use an array again
            return _matched(self._signature, value, self._taken - 1)

    def state(self) -> State:
        return {"step": "from_generator", "taken": self._taken}

    def close(self) -> None:
        # Closing a generator closes its files; other iterators have nothing to close.
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def _matched(signature: Any, value: Any, number: int) -> Any:
    """Return the value as a host element that matches the signature, or raise."""
    if isinstance(signature, tuple):
        if not isinstance(value, list | tuple) or len(value) != len(signature):
            raise ArgumentError(_mismatch(number, f"a tuple of {len(signature)} entries", value))
        return tuple(_matched(s, v, number) for s, v in zip(signature, value, strict=True))
    if isinstance(signature, dict):
        if not isinstance(value, dict) or value.keys() != signature.keys():
            raise ArgumentError(_mismatch(number, f"a dictionary with {list(signature)}", value))
        return {key: _matched(signature[key], value[key], number) for key in signature}
    return _matched_leaf(signature, value, number)


def _matched_leaf(spec: Any, value: Any, number: int) -> Any:
    if isinstance(spec, DatasetSpec):
        return value
    if not isinstance(spec, TensorSpec):
        if not spec.is_compatible_with(value):
            raise ArgumentError(_mismatch(number, f"{spec!r}", value))
        return to_host(value, "from_generator")
    has_dtype = hasattr(value, "dtype")
    is_numeric = not has_dtype and spec.dtype.name != "string"
    array = own_leaf(value, "from_generator", spec.dtype if is_numeric else None)
    is_number = spec.dtype.name != "string" and array.dtype.kind != "O"
    if is_number and np.can_cast(array.dtype, spec.dtype.as_numpy_dtype, "same_kind"):
        # NumPy's default dtypes are float64 and int64.
        array = array.astype(spec.dtype.as_numpy_dtype, copy=False)
    if spec.dtype != array.dtype:
        raise DTypeError(_mismatch(number, f"{spec.dtype}", f"{array.dtype}"))
    wanted = spec.shape
    fits = wanted is None or (
        len(wanted) == array.ndim and all(w in (None, n) for w, n in zip(wanted, array.shape))
    )
    if not fits:
        raise ShapeError(_mismatch(number, f"shape {wanted}", f"shape {array.shape}"))
    return array


def _mismatch(number: int, wanted: str, value: Any) -> str:
    got = value if isinstance(value, str) else type(value).__name__
    return f"The output_signature needs {wanted}. Element {number} of the generator is {got}."
