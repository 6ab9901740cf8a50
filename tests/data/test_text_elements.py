"""Elements of a dataset that hold text beside numbers, for another device than the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad.core.values import host
from tapegrad.data.structure import to_tensors


def test_text_stays_on_the_host_and_numbers_are_placed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed: list[str] = []

    def place_together(values: Any, like: Any) -> list[np.ndarray]:
        placed.extend(str(value.dtype) for value in values)
        return [value + 1 for value in values]

    monkeypatch.setattr(host, "place_together", place_together)
    words = np.array([b"a", b"b"], object)
    element = {"text": words, "x": np.zeros(2), "y": np.zeros(3, np.int32)}
    found = to_tensors(element, object())

    assert placed == ["float64", "int32"]
    assert found["text"].numpy().tolist() == [b"a", b"b"]
    assert (found["x"].numpy().tolist(), found["y"].numpy().tolist()) == ([1.0, 1.0], [1, 1, 1])


def test_an_element_of_text_alone_needs_no_device() -> None:
    found = to_tensors(np.array([b"a"], object), object())
    assert found.numpy().tolist() == [b"a"]
