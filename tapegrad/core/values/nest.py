"""Nested structures: flatten them to lists and pack lists back (TensorFlow's `nest` rules).

Containers are lists, tuples, named tuples, mappings (walked in sorted key order), mapping views,
attrs classes and objects with the `__tf_flatten__` / `__tf_unflatten__` pair. Everything else,
sets and plain dataclasses included, is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError

LEAF_TYPES: set[type] = {bool, int, float, str, type(None)}
"""Types known to be leaves; checked first because they are the most frequent."""

_VIEWS = (KeysView, ItemsView, ValuesView)
_CONTAINERS = (list, tuple, Mapping, *_VIEWS)


def is_nested(structure: Any) -> bool:
    """Return whether `structure` is a container that these functions traverse.

    >>> is_nested([1, 2]), is_nested({1, 2})
    (True, False)
    """
    if type(structure) in LEAF_TYPES:
        return False
    return (
        isinstance(structure, _CONTAINERS)
        or hasattr(type(structure), "__attrs_attrs__")
        or hasattr(type(structure), "__tf_flatten__")
    )


def flatten(structure: Any) -> list[Any]:
    """Return the leaves of `structure` in order; a single leaf gives a list of one.

    >>> flatten({"b": 2, "a": [0, (1,)]})
    [0, 1, 2]
    """
    if type(structure) in LEAF_TYPES:
        return [structure]
    leaves: list[Any] = []
    _collect(structure, leaves)
    return leaves


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Return a structure like `structure` with the leaves `flat_sequence`.

    >>> pack_sequence_as((1, [2, 3]), "abc")
    ('a', ['b', 'c'])
    """
    if type(structure) in LEAF_TYPES and len(flat_sequence) == 1:
        return flat_sequence[0]
    if type(structure) is list and _is_flat(structure) and len(structure) == len(flat_sequence):
        return list(flat_sequence)
    expected = len(flatten(structure))
    if len(flat_sequence) != expected:
        raise ArgumentError(
            f"The structure has {expected} leaves. Got {len(flat_sequence)} values to fill it."
        )
    return _rebuild(structure, iter(flat_sequence))


def _is_flat(entries: list[Any]) -> bool:
    return all([type(entry) in LEAF_TYPES for entry in entries])


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """Apply `func` to corresponding leaves of structures.

    >>> map_structure(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    if not structures:
        raise ArgumentError("map_structure needs at least one structure. Got none.")
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    results = [func(*leaves) for leaves in zip(*map(flatten, structures), strict=True)]
    return pack_sequence_as(structures[0], results)


def assert_same_structure(nest1: Any, nest2: Any, path: str = "structure") -> None:
    """Raise TypeError for containers of different types, ValueError for different lengths.

    >>> assert_same_structure([1, (2, 3)], ["a", ("b", "c")])
    """
    if is_nested(nest1) != is_nested(nest2) or (is_nested(nest1) and not _same_kind(nest1, nest2)):
        raise ArgumentTypeError(
            f"The structures differ at {path}: "
            f"{type(nest1).__name__} here, {type(nest2).__name__} there."
        )
    if not is_nested(nest1):
        return
    ours, theirs = children(nest1), children(nest2)
    if len(ours) != len(theirs) or (isinstance(nest1, Mapping) and set(nest1) != set(nest2)):
        raise ArgumentError(
            f"The structures differ at {path}: {_describe(nest1)} here, {_describe(nest2)} there."
        )
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert_same_structure(one, other, f"{path}[{index}]")


def _describe(container: Any) -> str:
    if isinstance(container, Mapping):
        return f"keys {sorted(container, key=repr)}"
    return f"{len(children(container))} entries"


def _same_kind(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping):
        return isinstance(second, Mapping)
    return type(first) is type(second)


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError as error:
        raise ArgumentTypeError(
            f"A nested mapping needs keys that can be sorted. Got {list(mapping)!r}."
        ) from error


def children(container: Any) -> list[Any]:
    """Return the entries of a container in the order of traversal."""
    if isinstance(container, Mapping):
        return [container[key] for key in _sorted_keys(container)]
    if isinstance(container, _VIEWS):
        return list(container)
    if hasattr(type(container), "__tf_flatten__"):
        return list(container.__tf_flatten__()[1])
    if hasattr(type(container), "__attrs_attrs__"):
        return [getattr(container, field.name) for field in type(container).__attrs_attrs__]
    return list(container)


def _collect(structure: Any, leaves: list[Any]) -> None:
    kind = type(structure)
    if kind in LEAF_TYPES:
        leaves.append(structure)
    elif kind is list or kind is tuple:
        for child in structure:
            _collect(child, leaves)
    elif is_nested(structure):
        for child in children(structure):
            _collect(child, leaves)
    else:
        leaves.append(structure)


def _rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    parts = [_rebuild(child, leaves) for child in children(structure)]
    kind = type(structure)
    if isinstance(structure, Mapping):
        return _rebuild_mapping(structure, parts)
    if isinstance(structure, _VIEWS):
        return parts
    if hasattr(kind, "__tf_flatten__"):
        return kind.__tf_unflatten__(structure.__tf_flatten__()[0], tuple(parts))
    if hasattr(kind, "__attrs_attrs__"):
        return kind(*parts)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return kind(*parts)
    return kind(parts)


def _rebuild_mapping(mapping: Mapping[Any, Any], children: list[Any]) -> Any:
    by_key = dict(zip(_sorted_keys(mapping), children, strict=True))
    in_order = {key: by_key[key] for key in mapping}
    if hasattr(mapping, "default_factory"):
        return type(mapping)(mapping.default_factory, in_order)  # type: ignore[call-arg]
    return type(mapping)(in_order)  # type: ignore[call-arg]  # any Mapping class takes a mapping
