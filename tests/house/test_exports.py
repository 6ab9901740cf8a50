"""`__all__` of each module matches its public names."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import tapegrad
from tests.house.sources import find_modules


def undeclared_names(module: ModuleType) -> set[str]:
    """Public names that `dir` shows to a user but `__all__` does not list.

    The package's own modules do not count: they appear as soon as anything imports them.
    """
    visible = {name for name in dir(module) if not name.startswith("_")}
    undeclared = visible - set(module.__all__)
    return {name for name in undeclared if not is_own_module(vars(module).get(name))}


def is_own_module(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith("tapegrad")


def missing_names(module: ModuleType) -> set[str]:
    """Names that `__all__` lists but the module does not have."""
    return {name for name in module.__all__ if not hasattr(module, name)}


def repeated_names(module: ModuleType) -> set[str]:
    return {name for name in module.__all__ if module.__all__.count(name) > 1}


def modules_with_all() -> list[str]:
    lines = {name: path.read_text(encoding="utf-8") for name, path in find_modules().items()}
    return [name for name, text in lines.items() if "\n__all__" in text]


def test_all_lists_every_public_name_of_the_package():
    assert undeclared_names(tapegrad) == set()


def test_dir_shows_every_public_name_of_the_package():
    assert set(tapegrad.__all__) - set(dir(tapegrad)) == set()


@pytest.mark.parametrize("name", modules_with_all())
def test_every_name_in_all_exists_once(name):
    module = importlib.import_module(name)

    assert (missing_names(module), repeated_names(module)) == (set(), set())


def test_a_wrong_export_list_is_noticed():
    module = ModuleType("made_up")
    vars(module).update(__all__=["there", "gone", "there"], there=1, extra=2, sys=pytest)

    assert undeclared_names(module) == {"extra", "sys"}
    assert missing_names(module) == {"gone"}
    assert repeated_names(module) == {"there"}
