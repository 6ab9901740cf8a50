"""Objects that store their constructor arguments, and lookup tables."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.configured import Configured, Table


class Scale(Configured):
    def __init__(self, factor=2.0, name=None):
        self.factor, self.name = factor, name


class Pair(Configured):
    def __init__(self, first, second=(1, 2), **rest):
        self.first, self.second, self.rest = first, second, rest


class Doubled(Scale):
    """Has arguments of its own, unlike those of its base."""

    def __init__(self, half=1.0):
        super().__init__(2 * half)


def shout(text):
    return text.upper()


@pytest.fixture
def table():
    return Table("thing", {"scale": Scale, "pair_of_things": Pair, "shout": shout})


@pytest.mark.parametrize(
    ("made", "config"),
    [
        (Scale(), {"factor": 2.0, "name": None}),
        (Scale(3.0), {"factor": 3.0, "name": None}),
        (Scale(name="a", factor=4.0), {"factor": 4.0, "name": "a"}),
        (Doubled(5.0), {"half": 5.0}),
    ],
)
def test_a_configuration_holds_every_argument_by_name(made, config):
    assert made.get_config() == config


def test_further_keyword_arguments_stand_beside_the_others():
    config = Pair(1, kind="x", size=3).get_config()

    assert config == {"first": 1, "second": [1, 2], "kind": "x", "size": 3}


def test_an_object_made_from_a_configuration_has_the_same():
    config = Pair(1, (3, 4), kind="x").get_config()

    again = Pair.from_config(config)

    assert (again.first, again.second, again.rest) == (1, [3, 4], {"kind": "x"})
    assert again.get_config() == config


def test_objects_lists_and_functions_inside_are_written_so_that_json_takes_them():
    config = Pair(Scale(3.0), [shout, (Doubled(), 1)], table={"a": Scale()}).get_config()

    scale = {"class_name": "Scale", "config": {"factor": 2.0, "name": None}}
    assert config == {
        "first": {"class_name": "Scale", "config": {"factor": 3.0, "name": None}},
        "second": ["shout", [{"class_name": "Doubled", "config": {"half": 1.0}}, 1]],
        "table": {"a": scale},
    }
    assert json.loads(json.dumps(config)) == config


def test_what_happens_to_an_object_later_does_not_change_its_configuration():
    scale = Scale(3.0)

    scale.factor = 7.0

    assert scale.get_config()["factor"] == 3.0


def test_two_objects_remember_their_own_arguments():
    first, second = Scale(1.0), Scale(2.0)

    assert (first.get_config()["factor"], second.get_config()["factor"]) == (1.0, 2.0)


@pytest.mark.parametrize(
    "call", [lambda: Pair(), lambda: Scale(1, 2, 3), lambda: Scale(size=1)], ids=[0, 3, "unknown"]
)
def test_wrong_arguments_are_refused_by_the_constructor_itself(call):
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        call()


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_and_pickles_keep_the_configuration(again):
    scale = again(Scale(3.0, name="a"))

    assert (scale.factor, scale.get_config()) == (3.0, {"factor": 3.0, "name": "a"})


@pytest.mark.parametrize("name", ["scale", "Scale", "SCALE", "sc_ale"])
def test_capitals_and_underscores_do_not_matter(table, name):
    assert isinstance(table.get(name), Scale)


def test_a_class_is_made_and_a_function_returned_as_it_is(table):
    assert isinstance(table.get("scale"), Scale)
    assert table.get("shout") is shout


def test_a_class_that_is_in_no_table_is_made_as_well(table):
    assert isinstance(table.get(Doubled), Doubled)


@pytest.mark.parametrize("thing", [Scale(3.0), shout, str.lower])
def test_objects_and_functions_stand_for_themselves(table, thing):
    assert table.get(thing) is thing


def test_none_stands_for_the_default(table):
    assert table.get(None) is None
    assert table.get(None, shout) is shout


@pytest.mark.parametrize("name", ["Pair_of_things", "PairOfThings"])
def test_a_configuration_leads_to_an_object(table, name):
    pair = table.get({"class_name": name, "config": {"first": 5, "kind": "x"}})

    assert (pair.first, pair.rest) == (5, {"kind": "x"})


def test_a_configuration_may_leave_out_its_arguments(table):
    assert table.get({"class_name": "Scale"}).factor == 2.0


def test_the_configuration_of_a_function_is_its_name(table):
    assert table.get({"class_name": "shout", "config": {}}) is shout


def test_what_get_config_writes_of_an_object_inside_can_be_read(table):
    written = Pair(Scale(3.0)).get_config()["first"]

    assert table.get(written).factor == 3.0


def test_a_configuration_without_a_class_is_refused(table):
    with pytest.raises(ArgumentError, match=r"thing needs a 'class_name'\. Got {'factor': 1}"):
        table.get({"factor": 1})


def test_an_unknown_name_is_refused_with_a_hint_and_a_list(table):
    with pytest.raises(ArgumentError) as caught:
        table.get("scala")

    assert str(caught.value) == (
        "There is no thing 'scala'. Did you mean 'scale'? Known: pair_of_things, scale, shout."
    )


def test_a_name_that_is_like_no_other_gets_no_hint(table):
    with pytest.raises(ArgumentError, match=r"There is no thing 'q'\. Known: "):
        table.get("q")


def test_an_unknown_class_in_a_configuration_is_refused(table):
    with pytest.raises(ArgumentError, match=r"There is no thing 'Elsewhere'\."):
        table.get({"class_name": "Elsewhere", "config": {}})


@pytest.mark.parametrize("value", [3, 1.5, ["scale"]])
def test_what_is_neither_name_nor_object_is_refused(table, value):
    with pytest.raises(ArgumentTypeError, match=r"thing must be a name.*Got (int|float|list)"):
        table.get(value)


def test_a_table_is_a_mapping_of_its_names(table):
    assert list(table) == ["scale", "pair_of_things", "shout"]
    assert len(table) == 3
    assert table["Pair_Of_Things"] is Pair
    assert dict(table) == {"scale": Scale, "pair_of_things": Pair, "shout": shout}


def test_names_can_be_added(table):
    table.add("Doubled", Doubled)

    assert isinstance(table.get("doubled"), Doubled)
    assert "Doubled" in list(table)


def test_a_table_does_not_change_with_what_it_was_made_from():
    entries = {"scale": Scale}
    table = Table("thing", entries)

    entries["shout"] = shout

    with pytest.raises(ArgumentError, match="no thing 'shout'"):
        table.get("shout")
