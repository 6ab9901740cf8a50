"""NumPy arrays that a function gets are placed on the device together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values.tensor import wrap
from tests import capabilities


class Batches:
    """Notes the shapes of the arrays that are placed together."""

    def __init__(self) -> None:
        self.placed: list[list[tuple[int, ...]]] = []

    def place(self, values: Sequence[np.ndarray], device: str, as_one: bool) -> list[Any]:
        self.placed.append([value.shape for value in values])
        return [value.copy() for value in values]


def test_the_arrays_of_a_call_are_placed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches()
    capabilities.use(monkeypatch, batches=batches)
    add = tf.function(lambda x, y: x + y)
    for k in range(3):
        np.testing.assert_array_equal(add(np.full((2, 3), k), np.ones(3)), np.full((2, 3), k + 1.0))
    assert batches.placed == [[(2, 3), (3,)]] * 3


def test_a_conversion_of_the_user_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches()
    capabilities.use(monkeypatch, batches=batches)
    monkeypatch.setattr("tapegrad.core.values.convert._adapters", {np.ndarray: doubled})
    double = tf.function(lambda x: x + 0)
    np.testing.assert_array_equal(double(np.ones(3)), np.full(3, 2.0))
    assert not batches.placed


def doubled(value: np.ndarray) -> Any:
    return wrap(2 * value)
