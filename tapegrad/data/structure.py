"""Elements: tuples and mappings of NumPy arrays on the host, and their conversion to tensors.

As in TensorFlow's datasets, a list is an array, not a container.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import host, nest
from tapegrad.core.values.convert import TextFoundError, adapted, device_array, to_host_array
from tapegrad.core.values.dtypes import is_text_type
from tapegrad.core.values.strings import StringTensor, is_text, text_array
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.ops.shape.joining import concat
from tapegrad.program.record.recording_lock import working
from tapegrad.program.record.signature import TensorSpec


class Nested(ABC):
    """Base class of objects other than arrays in an element: datasets (see Dataset.window).

    It exists so that this module need not import Dataset.
    """

    @property
    @abstractmethod
    def nested_spec(self) -> Any:
        """The spec of the elements of this dataset."""


class DatasetSpec:
    """Represents a dataset in an `element_spec`; holds the spec of its elements."""

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


class Composite(ABC):
    """An entry of an element that consists of several arrays, such as a sparse tensor."""

    @abstractmethod
    def tensors(self) -> Any:
        """Return the value that users see."""

    def numpy(self) -> Any:
        """Return the value on the host."""
        return self.tensors()

    def dense(self) -> Any:
        """Return the array that can be padded, or this entry if there is none."""
        return self

    @property
    @abstractmethod
    def spec(self) -> Any:
        """The spec of the value."""

    @abstractmethod
    def rows(self) -> list[Any]:
        """Return the slices along the first axis, as entries of elements."""

    @classmethod
    @abstractmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        """Return several entries as one, along a new first axis."""


_composite: list[Callable[[Any], Composite | None]] = []


def register_composite(function: Callable[[Any], Composite | None]) -> None:
    """Let a function recognize values that become a `Composite` (see composites.py)."""
    _composite[:] = [function]


def is_class_of_tensors(value: Any) -> bool:
    """Return whether a value is of a user's class that `nest` flattens."""
    return hasattr(type(value), "__tf_flatten__")


_PLAIN = (np.ndarray, Tensor, StringTensor, Variable, list, int, float, bool, str, bytes)


def _as_composite(value: Any) -> Any:
    """Return the entry for a sparse or ragged tensor and the like, or None."""
    if type(value) in _PLAIN:
        return None
    return value if isinstance(value, Composite) else _composite[0](value)


def mapped(function: Callable[[Any], Any], element: Any) -> Any:
    """Apply a function to each leaf of an element.

    Faster than `nest.map_structure`, because elements contain only tuples and dictionaries.
    """
    kind = type(element)
    if kind is tuple:
        return tuple([mapped(function, part) for part in element])
    if kind is dict:
        return {key: mapped(function, part) for key, part in element.items()}
    if isinstance(element, tuple):
        return kind(*[mapped(function, part) for part in element])
    return function(element)


# To the host


def to_host(value: Any, how: str) -> Any:
    """Convert a user's value to an element: host arrays in tuples and mappings."""
    if isinstance(value, tuple):
        parts = [to_host(part, how) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        return {key: to_host(part, how) for key, part in value.items()}
    if isinstance(value, Nested):
        return value
    found = _as_composite(value)
    return leaf_to_host(value, how) if found is None else found


def leaf_to_host(value: Any, how: str, dtype: Any = None) -> np.ndarray:
    """Convert a number, list, array or tensor to a host array; host arrays are not copied."""
    if isinstance(value, np.ndarray) and dtype is None:
        return _host_array(value)
    value = adapted(value)
    if isinstance(value, StringTensor):
        return value.array
    if isinstance(value, Variable):
        value = value.read_value()
    if isinstance(value, Tensor):
        array = value.array
    else:
        array = device_array(value)
        if array is None:
            array = _host_array(value, dtype)
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    return host.fetch(array, None, how)


def _host_array(value: Any, dtype: Any = None) -> np.ndarray:
    """Convert a host value to an array of numbers, or of bytes objects if it is text."""
    try:
        return to_host_array(value, dtype)  # type: ignore[no-any-return]
    except (TextFoundError, DTypeError):
        if not is_text(value) and not (dtype is not None and is_text_type(dtype)):
            raise
        return text_array(value)


def own_host(value: Any, how: str, are_new: tuple[type, ...] = ()) -> Any:
    """Convert a user's value to an element that later writes to the value do not change.

    Values of the types `are_new` have no other owner.
    """
    if isinstance(value, tuple):
        parts = [own_host(part, how, are_new) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        return {key: own_host(part, how, are_new) for key, part in value.items()}
    if isinstance(value, (Nested, *are_new)):
        return to_host(value, how)
    found = _as_composite(value)
    return own_leaf(value, how) if found is None else found


def own_leaf(value: Any, how: str, dtype: Any = None) -> np.ndarray:
    """Convert a value to a new host array; a memory-mapped file stays where it is."""
    array = leaf_to_host(value, how, dtype)
    is_kept = isinstance(value, list | float | int | complex | str | bytes | np.memmap)
    return array if is_kept else array.copy()


# To the device


def to_tensors(element: Any, like: Any) -> Any:
    """Convert a host element to tensors on the device of `like`; tensors are returned as is."""
    if isinstance(like, np.ndarray):
        return mapped(lambda leaf: _placed(leaf, like), element)
    hosts: list[np.ndarray] = []

    def note(leaf: Any) -> None:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind != "O":
            hosts.append(leaf)

    mapped(note, element)
    placed = iter(host.place_together(hosts, like) if hosts else ())

    def to_tensor(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return _public(leaf)
        # Text stays on the host.
        return StringTensor(leaf) if leaf.dtype.kind == "O" else wrap(next(placed))

    return mapped(to_tensor, element)


def to_host_tensors(element: Any) -> Any:
    """Convert a host element to tensors that share its memory, for functions on the host."""
    return mapped(
        lambda leaf: _shared(leaf) if isinstance(leaf, np.ndarray) else _public(leaf), element
    )


def to_numpy(element: Any) -> Any:
    """Convert a host element to writable arrays and NumPy scalars."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, Composite):
            leaf = leaf.numpy()
        return np.array(leaf)[()] if isinstance(leaf, np.ndarray) else leaf

    return mapped(convert, element)


def _public(leaf: Any) -> Any:
    return leaf.tensors() if isinstance(leaf, Composite) else leaf


def _shared(leaf: np.ndarray) -> Any:
    return wrap(leaf) if leaf.dtype.kind != "O" else StringTensor(leaf)


def _placed(leaf: Any, like: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return _public(leaf)
    # Text stays on the host.
    return wrap(host.place_like(leaf, like)) if leaf.dtype.kind != "O" else StringTensor(leaf)


# Joining elements


def stacked(elements: Sequence[Any], step: str) -> Any:
    """Stack the leaves of several elements along a new first axis."""
    return combined(elements, step, lambda leaves: _stack(leaves, step))


def concatenated(blocks: Sequence[Any], step: str) -> Any:
    """Concatenate blocks along their first axis; a single block is returned as is."""
    if len(blocks) == 1:
        return blocks[0]

    def join(leaves: Sequence[Any]) -> Any:
        if isinstance(leaves[0], Composite):
            return leaves[0].joined([row for leaf in leaves for row in leaf.rows()], step)
        if isinstance(leaves[0], Tensor):  # rows of one array on a device (see resident.py)
            with working():
                return concat(leaves)
        _refuse_differing([leaf[0, ...] for leaf in leaves], step)
        return np.concatenate(leaves)

    return combined(blocks, step, join)


def combined(elements: Sequence[Any], step: str, join: Callable[[Sequence[Any]], Any]) -> Any:
    """Join the leaves of several elements of one structure."""
    first = elements[0]
    if isinstance(first, tuple):
        _refuse_unlike(elements, step, lambda e: type(e) is type(first) and len(e) == len(first))
        parts = [combined(column, step, join) for column in zip(*elements)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, dict):
        _refuse_unlike(elements, step, lambda e: type(e) is dict and e.keys() == first.keys())
        # In the order of `nest`, because `join` may depend on the order of its calls.
        found = {key: combined([e[key] for e in elements], step, join) for key in sorted(first)}
        return {key: found[key] for key in first}
    if isinstance(first, Nested):
        raise ArgumentError(
            f"{step} joins arrays, but an element holds a dataset, as window returns them. Convert "
            "it to arrays first: dataset.flat_map(lambda window: window.batch(size))."
        )
    if isinstance(first, Composite):
        _refuse_unlike(elements, step, lambda e: type(e) is type(first))
        return join(elements)
    _refuse_unlike(elements, step, lambda e: isinstance(e, np.ndarray | Tensor))
    return join(elements)


def has_composite(element: Any) -> bool:
    """Return whether an entry of an element is a sparse or ragged tensor or the like."""
    return any(isinstance(leaf, Composite) for leaf in nest.flatten(element))


def concatenated_rows(element: Any) -> list[Any]:
    """Return the slices of an element along the first axis of all its entries."""
    leaves = nest.flatten(element)
    columns = [leaf.rows() if isinstance(leaf, Composite) else list(leaf) for leaf in leaves]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) > 1:
        raise ShapeError(
            "The slices of several tensors need equal numbers of rows. Got "
            f"{' and '.join(map(str, lengths))} rows."
        )
    return [
        nest.pack_sequence_as(element, [_as_leaf(entry) for entry in row]) for row in zip(*columns)
    ]


def _as_leaf(entry: Any) -> Any:
    return entry if isinstance(entry, Composite) else np.asarray(entry)


def _refuse_unlike(elements: Sequence[Any], step: str, fits: Callable[[Any], bool]) -> None:
    for element in elements:
        if not fits(element):
            raise ArgumentTypeError(
                f"{step} needs elements of one structure. Got {_described_as(elements[0])} and "
                f"{_described_as(element)}."
            )


def _described_as(element: Any) -> str:
    if isinstance(element, tuple):
        return f"a {type(element).__name__} of {len(element)} entries"
    if isinstance(element, dict):
        return f"a dictionary with {list(element)}"
    if isinstance(element, Composite):
        return f"a {type(element.tensors()).__name__}"
    return "an array" if isinstance(element, np.ndarray) else "a dataset"


def _stack(leaves: Sequence[Any], step: str) -> Any:
    if isinstance(leaves[0], Composite):
        return leaves[0].joined(leaves, step)
    _refuse_differing(leaves, step)
    return np.stack(leaves)


def _refuse_differing(leaves: Sequence[Any], step: str) -> None:
    first = leaves[0]
    for leaf in leaves:
        if leaf.shape != first.shape or leaf.dtype != first.dtype:
            raise ShapeError(
                f"{step} needs elements of one shape and dtype. Got {first.dtype}"
                f"{list(first.shape)} and {leaf.dtype}{list(leaf.shape)}. Use padded_batch for "
                "different shapes, and map with tapegrad.cast for different dtypes."
            )


# Specs


def spec_of(element: Any) -> Any:
    """Return the TensorSpecs of one host element."""
    return mapped(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if isinstance(leaf, Nested):
        return DatasetSpec(leaf.nested_spec)
    if isinstance(leaf, Composite):
        return leaf.spec
    return TensorSpec(leaf.shape, leaf.dtype)


def map_spec(
    function: Callable[[TensorSpec], TensorSpec],
    spec: Any,
    axes: Callable[[Any], Any] | None = None,
) -> Any:
    """Apply a function to each TensorSpec of a structure, and `axes` to other specs.

    Specs of datasets stay unchanged.
    """

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, TensorSpec):
            return function(leaf)
        return leaf if axes is None or isinstance(leaf, DatasetSpec) else axes(leaf)

    return nest.pack_sequence_as(spec, [changed(leaf) for leaf in nest.flatten(spec)])
