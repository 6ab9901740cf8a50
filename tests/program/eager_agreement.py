"""Compare recorded functions with the eager runs of the same Python code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf


def _given(args: tuple[Any, ...]) -> list[Any]:
    return [tf.constant(x) if isinstance(x, float | int | list) else x for x in args]


def check(python: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Compare calls of one program with eager calls; return the recorded function."""
    compiled = tf.function(python)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for args in calls:
            given = _given(args)
            found = tf.nest.flatten(compiled(*given))
            wanted = tf.nest.flatten(python(*given))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
                assert np.shape(one) == np.shape(other)
    assert not compiled.explain().eager_calls
    assert len(compiled.explain().recordings) == 1
    return compiled


def check_gradients(python: Callable[[Any], Any], *points: Any) -> None:
    """Compare gradients by tapes inside and outside of a function with eager ones."""

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = python(x)
        return tape.gradient(y, x)

    check(gradient, *[(point,) for point in points])
    compiled = tf.function(python)
    for point in points:
        x = tf.constant(point)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        np.testing.assert_allclose(tape.gradient(y, x), gradient(x), rtol=1e-5, atol=1e-6)
    assert not compiled.explain().eager_calls


def warning_of(python: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """Call a function that runs eagerly twice; return its result and its one warning."""
    function = tf.function(python)
    with pytest.warns(UserWarning, match="it runs eagerly") as caught:
        found, _ = function(*args), function(*args)
    assert len(caught) == 1
    assert sum(function.explain().eager_calls.values()) == 1
    return found, str(caught[0].message)
