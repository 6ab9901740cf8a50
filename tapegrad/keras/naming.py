"""Names of layers and models that were given none: dense, dense_1, dense_2."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tapegrad.errors import ArgumentError

_used: Counter[str] = Counter()


def automatic_name(kind: str) -> str:
    """Return the next free name for an object of a class called `kind`.

    >>> clear_session()
    >>> automatic_name("Conv2D"), automatic_name("Conv2D"), automatic_name("BatchNormalization")
    ('conv2d', 'conv2d_1', 'batch_normalization')
    """
    base = snake_case(kind)
    count = _used[base]
    _used[base] += 1
    return f"{base}_{count}" if count else base


def checked_name(name: Any) -> str:
    """Return a name that a user has given; it becomes part of paths, so it may hold no slash."""
    if not isinstance(name, str) or not name or "/" in name:
        raise ArgumentError(f"The name of a layer is a text without a slash. Got {name!r}.")
    return name


def snake_case(kind: str) -> str:
    """Return a class's name as Keras writes it in names of layers.

    >>> snake_case("MaxPooling2D"), snake_case("LSTM"), snake_case("ReLU")
    ('max_pooling2d', 'lstm', 're_lu')
    """
    split = re.sub(r"([A-Za-z0-9])([A-Z][a-z]+)", r"\1_\2", kind)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", split).lower().lstrip("_")


def clear_session() -> None:
    """Forget all names that were given so far.

    >>> clear_session()
    >>> automatic_name("Dense")
    'dense'
    """
    _used.clear()
