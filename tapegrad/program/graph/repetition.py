"""Find where a sequence of symbols repeats itself, as the calls of an unrolled loop do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

WINDOW = 8
"""How many symbols in a row must be equal for their distance to be a possible period."""

MOST_PERIODS = 32
"""How many periods are tried, those that explain most symbols first."""

LEAST_ROUNDS = 3
"""A repetition has at least so many rounds."""


class Repetition(NamedTuple):
    """Symbols from `start` on, `length` of them, that repeat after each `period`."""

    start: int
    length: int
    period: int

    @property
    def stop(self) -> int:
        return self.start + self.length


def repetitions(
    symbols: Sequence[int], shortest: int = 1, least_rounds: int = LEAST_ROUNDS
) -> list[Repetition]:
    """Return repetitions that do not overlap, in order.

    There are at least `least_rounds` of them. Rounds of fewer than `shortest` symbols are taken
    several at a time. A short loop inside another one has too few of them then, so that the rounds
    of the outer loop are found. The time is n log n for n symbols.

    >>> repetitions([9] + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] * 4 + [8, 8])
    [Repetition(start=1, length=40, period=10)]
    """
    sequence = np.asarray(symbols, np.int64)
    is_free = np.ones(len(sequence), bool)
    found: list[Repetition] = []
    for period in _periods(sequence):
        least = least_rounds * period * -(-shortest // period)
        end = 0
        for first, stop in _equal_runs(sequence, is_free, period):
            # A run may begin in the last round of the one before it.
            start = max(first, end)
            length = stop + period - start
            if length >= least:
                found.append(Repetition(start, length, period))
                end = start + length
                is_free[start:end] = False
    return sorted(found)


def _periods(sequence: np.ndarray) -> list[int]:
    """Return the distances of equal windows that occur often enough to be periods."""
    count = len(sequence) - WINDOW + 1
    if count < 2:
        return []
    hashes = np.zeros(count, np.uint64)
    for place in range(WINDOW):
        following = sequence[place : place + count].astype(np.uint64)
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + following
    order = np.argsort(hashes, kind="stable")  # equal windows side by side, in their order
    is_equal = hashes[order[1:]] == hashes[order[:-1]]
    distances, counts = np.unique(np.diff(order)[is_equal], return_counts=True)
    # Inside of an inner loop, windows of an outer round are equal at shorter distances.
    is_period = counts >= (LEAST_ROUNDS - 1) * np.minimum(distances, WINDOW) - WINDOW
    distances, counts = distances[is_period], counts[is_period]
    return [int(p) for p in distances[np.argsort(-counts, kind="stable")][:MOST_PERIODS]]


def _equal_runs(
    sequence: np.ndarray, is_free: np.ndarray, period: int
) -> Iterator[tuple[int, int]]:
    """Yield the ranges in which each symbol equals that one period later, both free."""
    is_equal = (sequence[:-period] == sequence[period:]) & is_free[:-period] & is_free[period:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_equal, [False]])))
    for start, stop in zip(edges[::2], edges[1::2]):
        yield int(start), int(stop)
