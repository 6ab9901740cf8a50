"""Candidate sampling: classes drawn by their rank, for losses over many classes. On the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values import host
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.random.generator import get_global_generator


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw classes below `range_max`, small ones more often, as words in the order of frequency.

    Class k has the probability log(1 + 1 / (k + 1)) / log(range_max + 1). Returns the drawn
    classes, and how often the true and the drawn classes are expected among them. Draws depend on
    the global generator, or on `seed`.

    >>> drawn, _, expected = log_uniform_candidate_sampler([[3]], 1, 4, True, 100, seed=1)
    >>> len(set(drawn.tolist())), expected.shape
    (4, (4,))
    """
    if range_max < 1 or num_sampled < 1 or (unique and num_sampled > range_max):
        raise ArgumentError(
            "log_uniform_candidate_sampler needs num_sampled of at least 1, and of at most "
            f"range_max if unique. Got num_sampled={num_sampled} and range_max={range_max}."
        )
    given = np.asarray(read_on_host(true_classes, "log_uniform_candidate_sampler"), np.int64)
    if given.ndim != 2 or given.shape[1] != num_true:
        raise ShapeError(f"true_classes must have shape (batch, {num_true}). Got {given.shape}.")
    generator = np.random.default_rng(_seed() if seed is None else seed)
    drawn, tries = _draw(generator, num_sampled, unique, range_max)
    expected = [_expected(one, num_sampled, tries, unique, range_max) for one in (given, drawn)]
    arrays = (drawn, *[one.astype(np.float32) for one in expected])
    first, second, third = [wrap(host.place(array)) for array in arrays]
    return first, second, third


def _seed() -> int:
    return int(get_global_generator().uniform((), 0, 2**31 - 1, dtype="int64"))


def _draw(
    generator: np.random.Generator, count: int, unique: bool, range_max: int
) -> tuple[np.ndarray, int]:
    """Return the drawn classes and the number of draws that they took."""

    def draws(number: int) -> np.ndarray:
        exponents = generator.random(number) * np.log1p(range_max)
        found: np.ndarray = np.minimum(np.exp(exponents).astype(np.int64) - 1, range_max - 1)
        return found

    if not unique:
        return draws(count), count
    kept: dict[int, None] = {}
    tries = 0
    while len(kept) < count:
        for one in draws(count).tolist():
            tries += 1
            kept[one] = None
            if len(kept) == count:
                break
    return np.array(list(kept), np.int64), tries


def _expected(
    classes: np.ndarray, count: int, tries: int, unique: bool, range_max: int
) -> np.ndarray:
    chance = np.log1p(1 / (classes + 1.0)) / np.log1p(range_max)
    found: np.ndarray = -np.expm1(tries * np.log1p(-chance)) if unique else chance * count
    return found
