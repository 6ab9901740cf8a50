"""Every public function has an example in its docstring; test_documents.py runs them."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

import tapegrad

FACES = [
    "tapegrad",
    *sorted(
        value.__name__
        for value in (getattr(tapegrad, name) for name in tapegrad.__all__)
        if isinstance(value, ModuleType) and hasattr(value, "__all__")
    ),
]

# Names that have no example, each with its reason.
WITHOUT_EXAMPLE = {
    "tapegrad.extend.Backend": "a protocol; tapegrad_numpy is the example",
    "tapegrad.extend.Primitive": "declares for good; docs/primitives.md shows the forms",
    "tapegrad.extend.binary": "likewise",
    "tapegrad.extend.elementwise": "likewise",
    "tapegrad.extend.linear": "likewise",
    "tapegrad.extend.nondifferentiable": "likewise",
    "tapegrad.extend.unary": "likewise",
    "tapegrad.extend.register_backend": "changes the registry; tests/api/test_extend.py",
    "tapegrad.extend.unregister_backend": "likewise",
}


def public_names(face: str) -> list[str]:
    module = importlib.import_module(face)
    names = [name for name in module.__all__ if _needs_words(getattr(module, name))]
    return [f"{face}.{name}" for name in names]


def _needs_words(value: object) -> bool:
    return inspect.isfunction(value) or (
        inspect.isclass(value) and not issubclass(value, Exception)
    )


def is_row_of_a_table(value: object) -> bool:
    """Elementwise functions are one-line declarations: their sentence is their documentation."""
    return hasattr(value, "primitive")


def lacks(face_name: str) -> list[str]:
    """What the docstring of a public name lacks."""
    face, _, name = face_name.rpartition(".")
    value = getattr(importlib.import_module(face), name)
    words = (value.__doc__ or "").strip()
    lacking = [] if words.split("\n")[0].endswith((".", ":")) else ["a first sentence"]
    if ">>>" not in words and not is_row_of_a_table(value) and face_name not in WITHOUT_EXAMPLE:
        lacking.append("an example")
    return lacking


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_has_a_sentence_and_an_example(face):
    assert {name: lacks(name) for name in public_names(face) if lacks(name)} == {}


def test_no_exception_is_listed_in_vain():
    module_names = {name for face in FACES for name in public_names(face)}

    assert WITHOUT_EXAMPLE.keys() - module_names == set()


def test_a_function_without_words_is_noticed(monkeypatch):
    monkeypatch.setattr(tapegrad.nest, "flatten", lambda x: x)

    assert lacks("tapegrad.nest.flatten") == ["a first sentence", "an example"]
