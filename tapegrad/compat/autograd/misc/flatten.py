"""Flattening of containers of arrays to one vector, and unflattening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.compat.autograd import numpy as anp
from tapegrad.compat.autograd.tracing import Recording
from tapegrad.compat.autograd.values import map_leaves
from tapegrad.core.values import nest


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return all numbers in a structure as one vector, and the inverse function.

    >>> vector, unflatten = flatten({"b": 3.0, "a": (1.0, np.array([[2.0]]))})
    >>> vector.tolist()
    [1.0, 2.0, 3.0]
    >>> unflatten(vector * 10.0)["b"]
    np.float64(30.0)
    """
    recording = Recording(_joined, map_leaves(_as_float, value), persistent=True)
    return recording.value, recording.vjp


def _as_float(leaf: Any) -> Any:
    """Unflattening returns integers as floats, like all numbers of the vector."""
    return float(leaf) if isinstance(leaf, int | np.integer) else leaf


def _joined(value: Any) -> Any:
    parts = [anp.ravel(leaf) for leaf in nest.flatten(value)]
    return anp.concatenate(parts) if parts else np.array([])


def flatten_func(
    func: Callable[..., Any], example: Any
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Return `func` on flattened arguments and results, `unflatten`, and the flattened example.

    >>> f, unflatten, x = flatten_func(lambda pair: (pair[1], pair[0]), (1.0, 2.0))
    >>> f(x).tolist()
    [2.0, 1.0]
    """
    vector, unflatten = flatten(example)

    def of_vectors(x: Any, *args: Any) -> Any:
        return flatten(func(unflatten(x), *args))[0]

    return of_vectors, unflatten, vector
