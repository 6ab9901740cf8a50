"""Every name that users could import from the revision that wrote `public_names.txt` exists."""

from __future__ import annotations

import importlib
from operator import attrgetter
from pathlib import Path

import pytest

NAMES = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").split()
MODULES = sorted({line.partition(":")[0] for line in NAMES})


def missing_names(module: str) -> list[str]:
    """The names of a module that are not there; all of them if it cannot be imported."""
    names = [line.partition(":")[2] for line in NAMES if line.startswith(f"{module}:")]
    try:
        found = importlib.import_module(module)
    except ImportError:
        return names
    return [name for name in names if not has(found, name)]


def has(place: object, name: str) -> bool:
    try:
        attrgetter(name)(place)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_still_there(module: str) -> None:
    assert missing_names(module) == []


def test_the_list_is_complete_and_sorted() -> None:
    assert len(NAMES) > 4000
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize("name", ["nothing", "nn.nothing", "nothing.relu"])
def test_a_missing_name_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NAMES", [f"tapegrad:{name}", "tapegrad:nn.relu"])

    assert missing_names("tapegrad") == [name]


def test_a_missing_module_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NAMES", ["tapegrad.nothing:a", "tapegrad.nothing:b"])

    assert missing_names("tapegrad.nothing") == ["a", "b"]
