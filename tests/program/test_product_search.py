"""The fastest algorithm of a product is found once and remembered; no GPU is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tapegrad as tf

pytest.importorskip("cupy")

import cupy

from tapegrad_cupy import switches
from tapegrad_cupy.library_calls import cublaslt, product_search
from tapegrad_cupy.library_calls.product_search import LARGE, find_fastest, is_searched, key_of
from tapegrad_cupy.library_calls.product_steps import Gemm


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


class _Library:
    """Stands in for cuBLASLt: it recommends three algorithms and notes which of them are used."""

    def __init__(self) -> None:
        self.used: list[int] = []

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:  # noqa: N802
        most, choices, count = arguments[-3], arguments[-2]._obj, arguments[-1]._obj
        count.value = min(3, most)
        for number in range(count.value):
            choices[number].algorithm[0] = number
            choices[number].workspace = 0
        return 0

    def multiply(self, *arguments: Any) -> int:
        algorithm = ctypes.cast(arguments[12], ctypes.POINTER(ctypes.c_uint64))
        self.used.append(int(algorithm[0]))
        return 0

    def cublasLtGetVersion(self) -> int:  # noqa: N802
        return 130000

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> _Library:
    made = _Library()
    monkeypatch.setattr(cublaslt, "LIBRARY", made)
    monkeypatch.setattr(cublaslt, "_multiply", made.multiply)
    monkeypatch.setattr(cublaslt, "_destroy", lambda kind, made: None)
    monkeypatch.setattr(cublaslt, "_handles", {0: 1})
    monkeypatch.setattr(cublaslt, "workspace_of", lambda device, stream: 256)
    properties = {"name": b"a device"}
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lambda device: properties)
    monkeypatch.setattr(switches, "LIBRARY_REPLAY", False)
    return made


def test_a_product_uses_the_fastest_algorithm_after_its_first_call(
    library: _Library, timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed([1.0, 0.5, 0.7])
    captures = [True, False]
    monkeypatch.setattr(cublaslt, "is_capturing", lambda: captures.pop(0))
    product = cublaslt.Product(
        Gemm(1024, 1024, 1024, False, False, 1024, 1024), "float32", False, 0
    )

    product(256, 512, 768, 0)
    assert library.used == [0]  # nothing is timed during a capture
    product(256, 512, 768, 0, 768)
    assert library.used == [0, 0]  # nor if the product is added to its result
    library.used.clear()
    product(256, 512, 768, 0)
    assert library.used == [0, 1, 2, 1]
    product(256, 512, 768, 0)
    assert library.used[4:] == [1]


def test_a_small_product_uses_the_first_recommendation(library: _Library) -> None:
    product = cublaslt.Product(Gemm(64, 64, 64, False, False, 64, 64), "float32", False, 0)

    product(256, 512, 768, 0)

    assert library.used == [0]
