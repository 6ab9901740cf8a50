"""Plans of one block of memory: values that live at once lie apart, and little is wasted."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings, strategies as st

from tapegrad.core.arena import ALIGNMENT, Plan, Request, check, plan
from tapegrad.errors import ArgumentError

REQUESTS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 12)).map(
        lambda drawn: Request(drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=40,
)


def bytes_at(requests: list[Request], step: int) -> int:
    return sum(
        -(-request.size // ALIGNMENT) * ALIGNMENT
        for request in requests
        if request.first <= step <= request.last
    )


@settings(deadline=None, max_examples=150)
@given(REQUESTS)
def test_what_lives_at_once_never_overlaps(requests: list[Request]) -> None:
    found = plan(requests)

    for k, (one, at) in enumerate(zip(requests, found.offsets, strict=True)):
        assert at % ALIGNMENT == 0
        assert at + one.size <= found.size
        for other, there in zip(requests[k + 1 :], found.offsets[k + 1 :], strict=True):
            if one.first <= other.last and other.first <= one.last and one.size and other.size:
                assert at + one.size <= there or there + other.size <= at
    check(requests, found)


@settings(deadline=None, max_examples=100)
@given(REQUESTS)
def test_the_lower_bound_is_the_most_that_lives_at_once(requests: list[Request]) -> None:
    steps = {request.first for request in requests}

    found = plan(requests)

    assert found.lower_bound == max((bytes_at(requests, step) for step in steps), default=0)
    assert found.size >= found.lower_bound


def random_requests(seed: int, count: int) -> list[Request]:
    """Sizes from bytes to megabytes; most values die soon, some live long."""
    rng = random.Random(seed)
    requests = []
    for step in range(count):
        last = step + (rng.randint(1, 8) if rng.random() < 0.8 else rng.randint(8, count))
        requests.append(Request(int(2 ** rng.uniform(2, 22)), step, min(last, count)))
    return requests


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_not_much_larger_than_it_must_be(seed: int) -> None:
    requests = random_requests(seed, 200)

    found = plan(requests)

    check(requests, found)
    assert found.size <= 1.3 * found.lower_bound


def test_a_stack_of_layers_is_planned_without_waste() -> None:
    """Forward values are read again in the opposite order, as a gradient does."""
    layers = 50
    forward = [Request(4096, k, 2 * layers - k) for k in range(layers)]
    backward = [Request(4096, layers + k, layers + k + 1) for k in range(layers)]

    found = plan([*forward, *backward])

    assert found.size == found.lower_bound


def test_values_that_follow_each_other_share_a_place() -> None:
    found = plan([Request(100, k, k) for k in range(10)])

    assert found == Plan((0,) * 10, ALIGNMENT, ALIGNMENT)


def test_a_step_that_reads_one_value_and_makes_another_needs_both() -> None:
    found = plan([Request(100, 0, 1), Request(100, 1, 2)])

    assert found.size == 2 * ALIGNMENT


def test_nothing_needs_nothing() -> None:
    assert plan([]) == Plan((), 0, 0)
    assert plan([Request(0, 0, 3)]) == Plan((0,), 0, 0)


def fastest(requests: list[Request]) -> float:
    """The seconds of the fastest of a few plans."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        found = plan(requests)
        times.append(time.process_time() - begin)
    check(requests, found)
    return min(times)


def test_eight_times_as_many_values_take_far_less_than_their_square() -> None:
    few, many = fastest(random_requests(0, 375)), fastest(random_requests(0, 3000))

    assert many < 32 * few  # of the usual 11; the square is 64


def test_a_wrong_plan_is_noticed() -> None:
    requests = [Request(300, 0, 2), Request(300, 1, 3)]

    with pytest.raises(ArgumentError, match="live at once, and lie at 0 and 256"):
        check(requests, Plan((0, 256), 1024, 1024))
    with pytest.raises(ArgumentError, match="cannot lie at 100"):
        check(requests, Plan((0, 100), 1024, 1024))
    with pytest.raises(ArgumentError, match="cannot lie at 512 in a block of 512"):
        check(requests, Plan((0, 512), 512, 1024))


@pytest.mark.parametrize("request_", [Request(-1, 0, 0), Request(8, 3, 2)])
def test_a_request_that_makes_no_sense_is_refused(request_: Request) -> None:
    with pytest.raises(ArgumentError, match="A request needs a size"):
        plan([request_])
