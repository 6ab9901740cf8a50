"""Signatures as Keras compares them: without annotations, and those of its functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any


def declared(function: Callable[..., Any], *required: str, **defaults: Any) -> Callable[..., Any]:
    """Let `inspect.signature` show the parameters that a wrapper passes on.

    >>> inspect.signature(declared(lambda *args, **options: None, "x", k=0))
    <Signature (x, k=0)>
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [inspect.Parameter(name, kind) for name in required]
    last = [inspect.Parameter(name, kind, default=value) for name, value in defaults.items()]
    function.__signature__ = inspect.Signature([*first, *last])  # type: ignore[attr-defined]
    return function


def without_annotations(*modules: ModuleType) -> None:
    """Let `inspect.signature` show the functions of modules without annotations.

    Keras' tests compare the functions of a backend with those of `keras.ops`, which have none.
    """
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and not name.startswith("_"):
                given = inspect.signature(value)
                plain = [
                    parameter.replace(annotation=inspect.Parameter.empty)
                    for parameter in given.parameters.values()
                ]
                value.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
