"""keras.tree: nested structures of lists, tuples and dictionaries, whose leaves are the rest.

Dictionaries are walked in the order of their sorted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values import nest
from tapegrad.core.values.nest import flatten, is_nested, pack_sequence_as
from tapegrad.errors import ArgumentError, ArgumentTypeError


class MAP_TO_NONE:  # noqa: N801  # the name in Keras
    """The result of a function of `traverse` that means None; None itself means "go on".

    >>> traverse(lambda x: MAP_TO_NONE if x == 2 else None, [1, 2])
    [1, None]
    """


def assert_same_structure(a: Any, b: Any, check_types: bool | None = None) -> None:
    """Raise an error unless two structures have the same containers; leaves may differ.

    `check_types` is accepted for Keras and ignored.

    >>> assert_same_structure([1, (2,)], ["a", ("b",)])
    """
    nest.assert_same_structure(a, b)


def assert_same_paths(a: Any, b: Any) -> None:
    """Raise an error unless two structures have leaves at the same paths, in whatever containers.

    >>> assert_same_paths([1, (2, 3)], (4, [5, 6]))
    """
    ours, theirs = ({path for path, _ in flatten_with_path(x)} for x in (a, b))
    if ours != theirs:
        differing = sorted(ours ^ theirs, key=repr)
        raise ArgumentError(
            f"The structures have leaves at different paths. Only one of them has {differing[0]}."
        )


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs of the path to a leaf, its keys and indices, and the leaf.

    >>> flatten_with_path({"a": [5, 6]})
    [(('a', 0), 5), (('a', 1), 6)]
    """
    return list(_leaves(structure, ()))


def _leaves(structure: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not is_nested(structure):
        yield path, structure
        return
    parts = nest.children(structure)
    keys = sorted(structure) if isinstance(structure, Mapping) else range(len(parts))
    for key, part in zip(keys, parts, strict=True):
        yield from _leaves(part, (*path, key))


def map_structure(func: Callable[..., Any], *structures: Any, none_is_leaf: bool = True) -> Any:
    """Apply a function to the leaves at the same places of structures.

    With `none_is_leaf=False`, None stays None and the function does not see it.

    >>> map_structure(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}])
    [11, {'x': 22}]
    """
    if not none_is_leaf:
        given = func

        def func(*leaves: Any) -> Any:
            return None if all(leaf is None for leaf in leaves) else given(*leaves)

    return nest.map_structure(func, *structures)


def map_structure_up_to(shallow_structure: Any, func: Callable[..., Any], *structures: Any) -> Any:
    """Apply a function to the parts of structures at the leaves of a shallower structure.

    >>> map_structure_up_to((0, 0), len, ([1, 2], [3]))
    (2, 1)
    """
    if not structures:
        raise ArgumentError("map_structure_up_to needs at least one structure. Got none.")
    columns = [list(_parts_at(shallow_structure, one)) for one in structures]
    return pack_sequence_as(shallow_structure, [func(*parts) for parts in zip(*columns)])


def _parts_at(shallow: Any, structure: Any) -> Iterator[Any]:
    if not is_nested(shallow):
        yield structure
        return
    if not is_nested(structure):
        raise ArgumentTypeError(
            f"A structure has {type(structure).__name__} where the shallow structure has "
            f"{type(shallow).__name__}."
        )
    ours, theirs = nest.children(shallow), nest.children(structure)
    if len(ours) != len(theirs):
        raise ArgumentError(
            f"A structure has {len(theirs)} entries where the shallow structure has {len(ours)}."
        )
    for one, other in zip(ours, theirs):
        yield from _parts_at(one, other)


def map_shape_structure(func: Callable[[Any], Any], structure: Any) -> Any:
    """Apply a function to each shape, a tuple or list of sizes and None, of a structure.

    >>> map_shape_structure(lambda shape: shape[0], {"x": (2, None), "y": [(3,)]})
    {'x': 2, 'y': [3]}
    """
    if isinstance(structure, list | tuple) and all(
        n is None or isinstance(n, int) for n in structure
    ):
        return func(structure)
    if not is_nested(structure):
        raise ArgumentError(f"A structure of shapes holds tuples of sizes. Got {structure!r}.")
    if isinstance(structure, Mapping):
        return {key: map_shape_structure(func, part) for key, part in structure.items()}
    parts = [map_shape_structure(func, part) for part in structure]
    return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)


def lists_to_tuples(structure: Any) -> Any:
    """Return the structure with tuples in place of lists.

    >>> lists_to_tuples([1, {"x": [2, 3]}])
    (1, {'x': (2, 3)})
    """
    return traverse(lambda x: tuple(x) if isinstance(x, list) else None, structure, top_down=False)


def traverse(func: Callable[[Any], Any], structure: Any, top_down: bool = True) -> Any:
    """Apply a function to each container and leaf; None as its result keeps what is there.

    With `top_down`, the parts of a container are visited if the function returns None for it.
    Otherwise the function sees a container after its parts are replaced.

    >>> traverse(lambda x: sum(x) if isinstance(x, tuple) else None, [1, (2, 3)])
    [1, 5]
    """
    if top_down:
        found = func(structure)
        if found is not None:
            return None if found is MAP_TO_NONE else found
    made = structure
    if is_nested(structure):
        parts = [traverse(func, part, top_down) for part in nest.children(structure)]
        made = _with_parts(structure, parts)
    if top_down:
        return made
    found = func(made)
    return made if found is None else None if found is MAP_TO_NONE else found


def _with_parts(structure: Any, parts: Sequence[Any]) -> Any:
    """Return a container like `structure` with other entries, which may be containers."""
    kind: Any = type(structure)
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), parts, strict=True))
        return kind({key: found[key] for key in structure})
    return kind(*parts) if hasattr(structure, "_fields") else kind(parts)


__all__ = [
    "MAP_TO_NONE",
    "assert_same_paths",
    "assert_same_structure",
    "flatten",
    "flatten_with_path",
    "is_nested",
    "lists_to_tuples",
    "map_shape_structure",
    "map_structure",
    "map_structure_up_to",
    "pack_sequence_as",
    "traverse",
]

_check_calls(globals(), __all__)
