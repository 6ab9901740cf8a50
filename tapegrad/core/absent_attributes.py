"""Attributes that classes of other libraries have: the AttributeError says what to use instead.

    add_absent(Tensor, {"backward": "Use tapegrad.GradientTape."})

`hasattr` stays false for such names, and `dir` of an object does not list them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn


class Absent:
    """A descriptor that raises; attributes that a subclass or an object sets replace it."""

    __slots__ = ("name", "sentence")

    def __init__(self, name: str, sentence: str) -> None:
        self.name = name
        self.sentence = sentence

    def __get__(self, value: Any, owner: type) -> NoReturn:
        raise missing_attribute(owner if value is None else value, self.name)


def add_absent(cls: type, sentences: Mapping[str, str]) -> None:
    """Add names to a class, each with the sentence about it. The keys are names between spaces.

    >>> class Box:
    ...     pass
    >>> add_absent(Box, {"lid cover": "Boxes are open."})
    >>> hasattr(Box(), "lid"), "lid" in dir(Box())
    (False, False)
    >>> Box().cover
    Traceback (most recent call last):
    AttributeError: 'Box' object has no attribute 'cover'. Boxes are open.
    """
    for names, sentence in sentences.items():
        for name in names.split():
            setattr(cls, name, Absent(name, sentence))
    cls.__dir__ = _names_present  # type: ignore[method-assign, assignment]


def missing_attribute(value: Any, name: str) -> AttributeError:
    """Return the error of an object, or of a class, that has no such attribute.

    >>> str(missing_attribute(3, "colour"))
    "'int' object has no attribute 'colour'"
    """
    kind = value if isinstance(value, type) else type(value)
    message = f"{kind.__name__!r} object has no attribute {name!r}"
    for base in kind.__mro__:
        found = vars(base).get(name)
        if type(found) is Absent:
            return AttributeError(f"{message}. {found.sentence}")
    return AttributeError(message, name=name, obj=value)


def _names_present(self: Any) -> Iterable[str]:
    """Return what `dir` lists: all names but those of absent attributes."""
    defined: dict[str, Any] = {}
    for base in reversed(type(self).__mro__):
        defined.update(vars(base))
    defined.update(getattr(self, "__dict__", {}))
    absent = {name for name, found in defined.items() if type(found) is Absent}
    return [name for name in object.__dir__(self) if name not in absent]
