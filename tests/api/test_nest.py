"""Nested structures."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

import tapegrad as tf

Pair = namedtuple("Pair", "b a")


@dataclasses.dataclass
class Record:
    value: float


class Field:
    def __init__(self, name):
        self.name = name


class Attrs:
    """Looks like a class made by attrs, which is not needed here."""

    __attrs_attrs__ = (Field("b"), Field("a"))

    def __init__(self, b, a):
        self.b = b
        self.a = a

    def __eq__(self, other):
        return (self.b, self.a) == (other.b, other.a)

    __hash__ = None


class Hooked:
    """A class with the flatten and unflatten hooks."""

    def __init__(self, label, parts):
        self.label = label
        self.parts = parts

    def __tf_flatten__(self):
        return (self.label,), tuple(self.parts)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(metadata[0], components)

    def __eq__(self, other):
        return (self.label, tuple(self.parts)) == (other.label, tuple(other.parts))

    __hash__ = None


CONTAINERS = {
    "list": ([1, [2, 3]], [1, 2, 3]),
    "tuple": ((1, (2,), 3), [1, 2, 3]),
    "namedtuple": (Pair(1, 2), [1, 2]),
    "dict": ({"b": 2, "a": 1}, [1, 2]),
    "OrderedDict": (OrderedDict(b=2, a=1), [1, 2]),
    "attrs": (Attrs(1, [2, 3]), [1, 2, 3]),
    "hooks": (Hooked("x", [1, [2]]), [1, 2]),
    "empty": ([], []),
}
containers = pytest.mark.parametrize(("structure", "leaves"), CONTAINERS.values(), ids=CONTAINERS)


@containers
def test_S1_containers_are_walked_mappings_in_sorted_order(structure, leaves):
    assert tf.nest.flatten(structure) == leaves
    assert tf.nest.is_nested(structure)


@pytest.mark.parametrize("view", ["keys", "values", "items"])
def test_S1_mapping_views_are_walked(view):
    mapping = {"a": 1, "b": 2}

    assert tf.nest.flatten(getattr(mapping, view)()) == tf.nest.flatten(
        list(getattr(mapping, view)())
    )


ATOMS = {
    "None": None,
    "number": 1.0,
    "text": "abc",
    "set": {1, 2},
    "array": np.ones(2),
    "tensor": tf.constant([1.0, 2.0]),
    "variable": tf.Variable([1.0, 2.0]),
    "dataclass": Record(1.0),
}


@pytest.mark.parametrize("atom", ATOMS.values(), ids=ATOMS)
def test_S1_everything_else_is_an_atom(atom):
    assert len(tf.nest.flatten(atom)) == 1
    assert tf.nest.flatten(atom)[0] is atom
    assert not tf.nest.is_nested(atom)


def test_S1_keys_that_cannot_be_sorted_are_refused():
    with pytest.raises(TypeError, match="sorted"):
        tf.nest.flatten({1: 1, "a": 2})


@containers
def test_S2_packing_keeps_types(structure, leaves):
    packed = tf.nest.pack_sequence_as(structure, leaves)

    assert type(packed) is type(structure)
    assert packed == structure


def test_S2_packing_keeps_the_order_of_keys():
    packed = tf.nest.pack_sequence_as({"b": 0, "a": 0}, [1, 2])

    assert list(packed.items()) == [("b", 2), ("a", 1)]


def test_S2_a_defaultdict_keeps_its_factory():
    packed = tf.nest.pack_sequence_as(defaultdict(list, a=0), [1])

    assert (packed["a"], packed["other"]) == (1, [])


def test_S2_a_read_only_mapping_is_packed_as_its_type():
    packed = tf.nest.pack_sequence_as(MappingProxyType({"a": 0}), [1])

    assert type(packed) is MappingProxyType
    assert packed["a"] == 1


def test_S2_the_wrong_number_of_leaves_is_told():
    with pytest.raises(ValueError, match=r"3 leaves\. Got 2"):
        tf.nest.pack_sequence_as([1, [2, 3]], [1, 2])


def test_S2_map_structure_walks_several_structures():
    mapped = tf.nest.map_structure(lambda a, b: a + b, {"x": [1]}, {"x": [10]})

    assert mapped == {"x": [11]}


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ([1], (1,), TypeError),
        ([1], 1, TypeError),
        ([[1]], [1], TypeError),
        ([1, 2], [1], ValueError),
        ({"a": 1}, {"b": 1}, ValueError),
        ({"a": [1]}, {"a": [1, 2]}, ValueError),
        (Pair(1, 2), (1, 2), TypeError),
    ],
    ids=repr,
)
def test_S3_structures_that_differ_are_told(first, second, error):
    with pytest.raises(error, match="structures differ at structure"):
        tf.nest.assert_same_structure(first, second)


def test_S3_the_place_of_the_difference_is_named():
    with pytest.raises(ValueError, match=r"structure\[1\]\[0\].*2 entries here, 1 entries there"):
        tf.nest.assert_same_structure([0, [[1, 2]]], [0, [[1]]])
