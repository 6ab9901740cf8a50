"""The fastest algorithm of a product is found once and remembered; no GPU is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tapegrad as tf

pytest.importorskip("cupy")

from tapegrad_cupy import switches
from tapegrad_cupy.library_calls import product_search
from tapegrad_cupy.library_calls.product_search import LARGE, find_fastest, is_searched, key_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], list[int]]:
    """Let algorithms take given times, and return the numbers of those that were timed."""

    def set_times(times: list[float]) -> list[int]:
        asked: list[int] = []

        def measure(run: Any, number: int) -> float:
            asked.append(number)
            return times[number]

        monkeypatch.setattr(product_search, "_milliseconds", measure)
        return asked

    return set_times


def test_the_fastest_is_found_once(timed: Any) -> None:
    asked = timed([1.0, 0.7, 0.5, 0.9])

    assert find_fastest(4, lambda number: True, key_of("a")) == 2
    assert set(asked) == {0, 1, 2, 3}
    asked.clear()
    assert find_fastest(4, lambda number: True, key_of("a")) == 2
    assert not asked
    timed([0.1, 0.7, 0.5, 0.9])
    assert find_fastest(4, lambda number: True, key_of("b")) == 0


def test_the_first_recommendation_stays_unless_another_is_clearly_faster(timed: Any) -> None:
    timed([1.0, 0.98, 0.99])

    assert find_fastest(3, lambda number: True, key_of("a")) == 0


def test_algorithms_that_the_library_refuses_are_left_out(timed: Any) -> None:
    asked = timed([1.0, 0.1, 0.5])

    assert find_fastest(3, lambda number: number != 1, key_of("a")) == 2
    assert 1 not in asked
    assert find_fastest(3, lambda number: False, key_of("b")) == 0


def test_a_stored_choice_that_no_longer_exists_is_replaced(timed: Any, folder: Path) -> None:
    timed([1.0, 0.7, 0.5])
    assert find_fastest(3, lambda number: True, key_of("a")) == 2

    assert len(list(folder.glob("*.algorithm"))) == 1
    assert find_fastest(2, lambda number: True, key_of("a")) == 1


def test_only_large_products_are_timed_and_never_if_bits_must_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_searched(LARGE)
    assert not is_searched(LARGE - 1)
    tf.config.experimental.enable_op_determinism()
    try:
        assert not is_searched(LARGE)
    finally:
        tf.config.experimental.disable_op_determinism()
    monkeypatch.setattr(switches, "PRODUCT_SEARCH", False)
    assert not is_searched(LARGE)
