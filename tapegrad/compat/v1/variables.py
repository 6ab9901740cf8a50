"""`get_variable` and the scopes that let calls share variables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.initializers import GlorotUniform, get as initializer_named
from tapegrad.ops.creation import constant

AUTO_REUSE = "AUTO_REUSE"
"""For `variable_scope(reuse=...)`; in code that runs at once, each call makes a variable."""


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = "float32",
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    **others: Any,
) -> Variable:
    """Make a variable; each call makes another one, as it does in TensorFlow without a graph.

    Without an initializer, the values are those of Glorot's uniform one. Numbers are an initializer
    too.

    >>> get_variable("w", [2, 3]).shape, get_variable("b", initializer=[1.0, 2.0]).numpy().tolist()
    ((2, 3), [1.0, 2.0])
    """
    if initializer is None or callable(initializer) or isinstance(initializer, str):
        make = GlorotUniform() if initializer is None else initializer_named(initializer)
        return Variable(make(tuple(shape or ()), dtype=dtype), name=name, trainable=trainable)
    return Variable(constant(initializer, dtype), name=name, trainable=trainable)


@contextlib.contextmanager
def variable_scope(name_or_scope: Any, default_name: Any = None, **others: Any) -> Iterator[Any]:
    """Return a context for names; variables are not shared.

    >>> with variable_scope("layer", reuse=AUTO_REUSE):
    ...     w = get_variable("w", [2])
    """
    yield name_or_scope


def global_variables_initializer() -> None:
    """Do nothing: variables have values from the beginning.

    >>> global_variables_initializer()
    """


def local_variables_initializer() -> None:
    """Do nothing: variables have values from the beginning.

    >>> local_variables_initializer()
    """


def tables_initializer(name: str = "init_all_tables") -> None:
    """Do nothing: tables have entries from the beginning.

    >>> tables_initializer()
    """
