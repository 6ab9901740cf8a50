"""Random draws in C have the bits of those in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad_numpy.kernels import philox_words
from tapegrad_numpy.kernels.philox import KERNELS
from tapegrad_numpy.loops import compiler, draws

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

STATES = ([5, 7], [2**63 + 12345, 2**64 - 1], [0, 2**32])
DRAWS: list[tuple[str, dict[str, Any]]] = [
    ("random_uniform", {"dtype": "float32"}),
    ("random_uniform", {"dtype": "float64"}),
    ("random_uniform", {"dtype": "float16"}),
    ("random_normal", {"dtype": "float32"}),
    ("random_normal", {"dtype": "float64"}),
    ("random_truncated_normal", {"dtype": "float32"}),
    ("random_bernoulli", {"rate": 0.0}),
    ("random_bernoulli", {"rate": 0.3}),
    ("random_bernoulli", {"rate": 1.0}),
    ("random_integers", {"dtype": "int64", "low": -3, "high": 1000}),
]


def drawn(name: str, params: dict[str, Any], size: int) -> list[bytes]:
    states = [np.array(state, np.uint64) for state in STATES]
    return [KERNELS[name](state, shape=(size,), **params).tobytes() for state in states]


@pytest.mark.parametrize("size", [511, 512, 1023, 8192, 20_001, 32_769])
def test_draws_have_the_same_bits(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_WORTH_COMPILING", 1)
    compiled = [drawn(name, params, size) for name, params in DRAWS]
    monkeypatch.setattr(philox_words, "LEAST_COMPILED", 1 << 62)
    plain = [drawn(name, params, size) for name, params in DRAWS]

    for one, other, call in zip(compiled, plain, DRAWS):
        assert one == other, call


def test_words_from_a_later_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_WORTH_COMPILING", 1)
    words = philox_words.random_bits(3, 4, 6000)

    np.testing.assert_array_equal(philox_words.random_bits(3, 4, 2000, start=1000), words[4000:])


def test_an_element_does_not_depend_on_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_WORTH_COMPILING", 1)
    state = np.array([1, 2], np.uint64)
    short, long = [
        KERNELS["random_normal"](state, shape=(n,), dtype="float32") for n in (600, 9001)
    ]

    np.testing.assert_array_equal(short, long[:600])
