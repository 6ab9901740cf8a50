"""One module per evaluation; `FUNCTIONS` has its functions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad

NAMES = (
    "hello",
    "gmm",
    "ba",
    "kmeans",
    "ht",
    "lse",
    "lstm",
    "ode",
    "llsq",
    "det",
    "particle",
    "saddle",
)


def compiled(f: Callable[..., Any]) -> Any:
    """Return `f` as a function whose first call waits until the program is compiled.

    The time of that call then contains the compilation, as with other compiled tools.
    """
    return tapegrad.function(f, wait=True)


def tensor(value: Any) -> Any:
    """Return a tensor in double precision, which all evaluations use."""
    return tapegrad.constant(value, dtype="float64")


def to_list(x: Any) -> Any:
    """Return the elements of a tensor as nested lists."""
    return x.numpy().tolist()
