"""Automatic names of layers and models: dense, dense_1, dense_2."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.errors import ArgumentError

_used: Counter[str] = Counter()


def automatic_name(kind: str) -> str:
    """Return the next unused name for an object of a class called `kind`.

    >>> clear_session()
    >>> automatic_name("Conv2D"), automatic_name("Conv2D"), automatic_name("BatchNormalization")
    ('conv2d', 'conv2d_1', 'batch_normalization')
    """
    base = snake_case(kind)
    count = _used[base]
    _used[base] += 1
    return f"{base}_{count}" if count else base


def checked_name(name: Any) -> str:
    """Check the name of a layer: it is part of paths, so it must not contain a slash."""
    if not isinstance(name, str) or not name or "/" in name:
        raise ArgumentError(
            f"The name of a layer must be a nonempty string without a slash. Got {name!r}."
        )
    return name


def snake_case(kind: str) -> str:
    """Return a class name in the form that Keras uses in layer names.

    >>> snake_case("MaxPooling2D"), snake_case("LSTM"), snake_case("ReLU")
    ('max_pooling2d', 'lstm', 're_lu')
    """
    split = re.sub(r"([A-Za-z0-9])([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", split).lower().lstrip("_")


@contextmanager
def name_scope(name: str, **kwargs: Any) -> Iterator[str]:
    """Accept a name for a part of a program; variables have no paths here, so it has no effect.

    >>> with name_scope("encoder") as name:
    ...     name
    'encoder'
    """
    yield checked_name(name)


def used_names() -> Counter[str]:
    """Return how often each automatic name has been given.

    >>> clear_session()
    >>> name = automatic_name("Dense")
    >>> used_names()
    Counter({'dense': 1})
    """
    return Counter(_used)


def reset_names(used: Counter[str]) -> None:
    """Give automatic names as if those after an earlier `used_names()` had not been given.

    >>> before = used_names()
    >>> first = automatic_name("Dense")
    >>> reset_names(before)
    >>> automatic_name("Dense") == first
    True
    """
    _used.clear()
    _used.update(used)


def clear_session(free_memory: bool = True) -> None:
    """Reset the automatic names. Python frees memory by itself, whatever `free_memory` says.

    >>> clear_session()
    >>> automatic_name("Dense")
    'dense'
    """
    _used.clear()
