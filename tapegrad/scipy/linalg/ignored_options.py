"""Options of SciPy that say how LAPACK computes: they are accepted and change nothing here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def ignoring(*names: str) -> Callable[[Function], Function]:
    """Let a function take keyword arguments that it ignores.

    >>> @ignoring("check_finite")
    ... def twice(x: float) -> float:
    ...     return 2 * x
    >>> twice(1.5, check_finite=False), str(inspect.signature(twice))
    (3.0, "(x: 'float', *, check_finite: 'Any' = None) -> 'float'")
    """
    known = frozenset(names)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not options.keys().isdisjoint(known):
                options = {key: value for key, value in options.items() if key not in known}
            return function(*args, **options)

        own = inspect.signature(function)
        ignored = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
            for name in names
        ]
        call.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*own.parameters.values(), *ignored]
        )
        return call  # type: ignore[return-value]

    return decorate
