"""Where a sequence repeats itself, against the definition."""

from __future__ import annotations

import itertools
import random
from itertools import pairwise

import pytest

from tapegrad.program.graph.repetition import LEAST_ROUNDS, Repetition, repetitions


def is_repetition(symbols: list[int], found: Repetition) -> bool:
    start, length, period = found
    return all(symbols[k] == symbols[k + period] for k in range(start, start + length - period))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_found_repeats_is_long_enough_and_does_not_overlap(seed: int) -> None:
    rng = random.Random(seed)
    symbols: list[int] = []
    for _ in range(rng.randint(1, 6)):
        body = [rng.randrange(5) for _ in range(rng.randint(1, 30))]
        symbols += body * rng.choice([1, 1, 2, 5, 20])

    found = repetitions(symbols)

    assert all(is_repetition(symbols, one) for one in found)
    assert all(one.length >= LEAST_ROUNDS * one.period for one in found)
    assert all(one.stop <= other.start for one, other in itertools.pairwise(found))


@pytest.mark.parametrize("period", [8, 9, 31, 200])
@pytest.mark.parametrize("rounds", [3, 4, 50])
def test_an_unrolled_loop_is_found_whole(period: int, rounds: int) -> None:
    before, after = [*range(1000, 1100)], [*range(2000, 2050)]

    found = repetitions(before + [*range(period)] * rounds + after)

    assert found == [Repetition(100, period * rounds, period)]


def test_several_loops_and_the_shortest_period_of_each() -> None:
    first, second = [*range(20)] * 10, [*range(50, 80)] * 6

    assert repetitions([*first, -1, *second]) == [
        Repetition(0, 200, 20),
        Repetition(201, 180, 30),
    ]


@pytest.mark.parametrize("inner", [3, 7])
def test_rounds_of_an_outer_loop_are_found_if_the_inner_one_is_short(inner: int) -> None:
    body = [*range(5)] * inner + [90, 91, 92]

    found = repetitions(body * 20, shortest=16)

    assert [one.period for one in found] == [len(body)]
    assert found[0].length >= 19 * len(body)


def test_long_inner_loops_are_found_instead_of_the_outer_one() -> None:
    body = [*range(5)] * 40 + [90, 91, 92]

    found = repetitions(body * 10, shortest=16)

    assert [one.period for one in found] == [5] * 10


def test_a_round_that_differs_ends_a_repetition() -> None:
    symbols = [*range(16)] * 12
    symbols[100] = -1

    found = repetitions(symbols)

    assert [one.period for one in found] == [16, 16]
    assert sum(one.length for one in found) >= 191 - 16


@pytest.mark.parametrize("symbols", [[], [1], [1, 2, 3], [*range(500)]])
def test_sequences_without_repetition(symbols: list[int]) -> None:
    assert repetitions(symbols) == []


def test_runs_of_one_period_do_not_overlap() -> None:
    """From one round on, a symbol is another one: the last round before it belongs to one run."""
    first = [*range(16)]
    second = [*first[:5], -1, *first[6:]]

    found = repetitions(first * 5 + second * 5)

    assert sum(one.length for one in found) >= 150
    for one, other in pairwise(found):
        assert one.stop <= other.start
