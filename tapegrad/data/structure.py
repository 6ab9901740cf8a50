"""Elements: tuples and mappings of NumPy arrays on the host, and how they become tensors.

As in TensorFlow's datasets a list is an array, not a container.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core import host, nest
from tapegrad.core.convert import adapted, device_array, to_host_array
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.joining import concat
from tapegrad.program.signature import TensorSpec
from tapegrad.program.turns import working


class Nested(ABC):
    """What may stand in an element besides arrays: a dataset (see Dataset.window).

    A class of its own, so that elements need not know what a dataset is.
    """

    @property
    @abstractmethod
    def nested_spec(self) -> Any:
        """The spec of the elements inside."""


class DatasetSpec:
    """Stands in an `element_spec` for a dataset, whose elements are of this spec."""

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


def mapped(function: Callable[[Any], Any], element: Any) -> Any:
    """Return an element with each leaf replaced by what a function makes of it.

    Elements are tuples and dictionaries only, which is less to ask about than `nest` has to.
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
    """Return what a user gave as an element: arrays of the host in tuples and mappings."""
    if isinstance(value, tuple):
        parts = [to_host(part, how) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        return {key: to_host(part, how) for key, part in value.items()}
    return value if isinstance(value, Nested) else leaf_to_host(value, how)


def leaf_to_host(value: Any, how: str, dtype: Any = None) -> np.ndarray:
    """Return a number, list, array or tensor as an array of the host, not copied if it is one."""
    if isinstance(value, np.ndarray) and dtype is None:
        return to_host_array(value)  # type: ignore[no-any-return]  # refuses text and objects
    value = adapted(value)
    if isinstance(value, Variable):
        value = value.value()
    if isinstance(value, Tensor):
        array = value.array
    else:
        array = device_array(value)
        if array is None:
            array = to_host_array(value, dtype)
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    return host.fetch(array, None, how)


# To the device


def to_tensors(element: Any, like: Any) -> Any:
    """Return a host element as tensors where the array `like` is; tensors stay as they are."""
    return mapped(lambda leaf: _placed(leaf, like), element)


def to_host_tensors(element: Any) -> Any:
    """Return a host element as tensors that share its memory, for functions run on the host."""
    return mapped(lambda leaf: wrap(leaf) if isinstance(leaf, np.ndarray) else leaf, element)


def to_numpy(element: Any) -> Any:
    """Return a host element as arrays that the user may change, and NumPy numbers."""
    return mapped(
        lambda leaf: np.array(leaf)[()] if isinstance(leaf, np.ndarray) else leaf, element
    )


def _placed(leaf: Any, like: Any) -> Any:
    return wrap(host.place_like(leaf, like)) if isinstance(leaf, np.ndarray) else leaf


# Several elements


def stacked(elements: Sequence[Any], step: str) -> Any:
    """Return one element whose leaves have the given elements' leaves along a new first axis."""
    return combined(elements, step, lambda leaves: _stack(leaves, step))


def concatenated(blocks: Sequence[Any], step: str) -> Any:
    """Return one block with the rows of several, one block alone as it is."""
    if len(blocks) == 1:
        return blocks[0]

    def join(leaves: Sequence[Any]) -> Any:
        if isinstance(leaves[0], Tensor):  # rows of one array on a device (see resident.py)
            with working():
                return concat(leaves)
        _refuse_differing([leaf[0] for leaf in leaves], step)
        return np.concatenate(leaves)

    return combined(blocks, step, join)


def combined(elements: Sequence[Any], step: str, join: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the element whose leaves are joined from those of equally built elements."""
    first = elements[0]
    if isinstance(first, tuple):
        _refuse_unlike(elements, step, lambda e: type(e) is type(first) and len(e) == len(first))
        parts = [combined(column, step, join) for column in zip(*elements)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, dict):
        _refuse_unlike(elements, step, lambda e: type(e) is dict and e.keys() == first.keys())
        # In the order of `nest`, which those who join by turns count on.
        found = {key: combined([e[key] for e in elements], step, join) for key in sorted(first)}
        return {key: found[key] for key in first}
    if isinstance(first, Nested):
        raise ArgumentError(
            f"{step} joins arrays, but an element holds a dataset, as window makes them. Turn "
            "it into arrays before: dataset.flat_map(lambda window: window.batch(size))."
        )
    _refuse_unlike(elements, step, lambda e: isinstance(e, np.ndarray | Tensor))
    return join(elements)


def _refuse_unlike(elements: Sequence[Any], step: str, fits: Callable[[Any], bool]) -> None:
    for element in elements:
        if not fits(element):
            raise ArgumentTypeError(
                f"{step} needs elements that are built alike. Got {_built(elements[0])} and "
                f"{_built(element)}."
            )


def _built(element: Any) -> str:
    if isinstance(element, tuple):
        return f"a {type(element).__name__} of {len(element)} entries"
    if isinstance(element, dict):
        return f"a dictionary with {list(element)}"
    return "an array" if isinstance(element, np.ndarray) else "a dataset"


def _stack(leaves: Sequence[np.ndarray], step: str) -> np.ndarray:
    _refuse_differing(leaves, step)
    return np.stack(leaves)


def _refuse_differing(leaves: Sequence[Any], step: str) -> None:
    first = leaves[0]
    for leaf in leaves:
        if leaf.shape != first.shape or leaf.dtype != first.dtype:
            raise ShapeError(
                f"{step} needs elements of one shape and dtype. Got {first.dtype}"
                f"{list(first.shape)} and {leaf.dtype}{list(leaf.shape)}. Use padded_batch for "
                "shapes that differ, and map with tapegrad.cast for dtypes."
            )


# Specs


def spec_of(element: Any) -> Any:
    """Return the structure of TensorSpecs that describes one host element."""
    return mapped(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if isinstance(leaf, Nested):
        return DatasetSpec(leaf.nested_spec)
    return TensorSpec(leaf.shape, leaf.dtype)


def map_spec(function: Callable[[TensorSpec], TensorSpec], spec: Any) -> Any:
    """Return a structure of specs with each one changed; specs of datasets stay."""
    leaves = [
        function(leaf) if isinstance(leaf, TensorSpec) else leaf for leaf in nest.flatten(spec)
    ]
    return nest.pack_sequence_as(spec, leaves)
