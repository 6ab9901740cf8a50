"""keras.tree: nested structures."""

from __future__ import annotations

from collections import namedtuple

import pytest

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras import tree

Pair = namedtuple("Pair", "a b")  # a plain one, as programs have it
NESTED = {"b": [1, (2, 3)], "a": Pair(4, None)}


def test_leaves_and_their_paths():
    assert tree.flatten(NESTED) == [4, None, 1, 2, 3]
    assert tree.flatten_with_path(NESTED) == [
        (("a", 0), 4),
        (("a", 1), None),
        (("b", 0), 1),
        (("b", 1, 0), 2),
        (("b", 1, 1), 3),
    ]
    assert tree.flatten_with_path(5) == [((), 5)]
    assert tree.pack_sequence_as(NESTED, tree.flatten(NESTED)) == NESTED


def test_functions_of_leaves():
    assert tree.map_structure(lambda x, y: x * y, [1, (2,)], [3, (4,)]) == [3, (8,)]
    assert tree.map_structure(lambda x: x is None, NESTED)["a"] == Pair(False, True)
    doubled = tree.map_structure(lambda x: 2 * x, NESTED, none_is_leaf=False)
    assert doubled == {"b": [2, (4, 6)], "a": Pair(8, None)}
    with pytest.raises(ArgumentTypeError, match="differ"):
        tree.map_structure(lambda x, y: x, [1], (1,))


def test_functions_of_parts():
    shallow = {"x": 0, "y": (0, 0)}
    deep = {"x": [1, 2], "y": ([3], [4, 5, 6])}

    assert tree.map_structure_up_to(shallow, len, deep) == {"x": 2, "y": (1, 3)}
    joined = tree.map_structure_up_to((0, 0), lambda a, b: a + b, ([1], [2]), ([3], [4]))
    assert joined == ([1, 3], [2, 4])
    with pytest.raises(ArgumentError, match="2 entries where the shallow structure has 1"):
        tree.map_structure_up_to([0], len, [1, 2])
    with pytest.raises(ArgumentTypeError, match="int where the shallow structure has list"):
        tree.map_structure_up_to([0], len, 3)


def test_functions_of_shapes():
    shapes = {"x": (None, 3), "y": [(2, 2), [4]]}

    assert tree.map_shape_structure(len, shapes) == {"x": 2, "y": [2, 1]}
    with pytest.raises(ArgumentError, match="holds tuples of sizes"):
        tree.map_shape_structure(len, {"x": "text"})


def test_same_structures_and_same_paths():
    tree.assert_same_structure(NESTED, NESTED)
    tree.assert_same_paths([1, (2,)], (3, [4]))
    with pytest.raises(ArgumentTypeError, match="differ"):
        tree.assert_same_structure([1, (2,)], (3, [4]))
    with pytest.raises(ArgumentError, match=r"Only one of them has \(1, 0\)"):
        tree.assert_same_paths([1, (2,)], [1])


def test_walks_from_the_top_and_from_the_bottom():
    seen = []
    tree.traverse(lambda x: seen.append(x), {"b": (1,), "a": 2})
    assert seen == [{"b": (1,), "a": 2}, 2, (1,), 1]

    def total(x):
        return sum(x) if isinstance(x, list) else None

    assert tree.traverse(total, [1, [2, [3]]], top_down=False) == 6
    assert tree.traverse(total, {"x": [1, 2]}) == {"x": 3}
    with pytest.raises(TypeError):
        tree.traverse(total, [1, [2]])  # from the top, the inner list is not a number yet
    nothing = tree.traverse(lambda x: tree.MAP_TO_NONE if x == 2 else None, Pair(1, (2,)))
    assert nothing == Pair(1, (None,))
    assert tree.lists_to_tuples({"x": [1, [2, 3]]}) == {"x": (1, (2, 3))}
