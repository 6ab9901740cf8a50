"""Paddings, gathers of a few runs and small stencils are read in place, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.trace.loop import INSIDE, PIECES, WRAPS, ZEROS, Along, Piece
from tapegrad.ops.indexing.runs import runs_of, take_runs_add_p, take_runs_p
from tapegrad.program.graph.pieces import along, composed, pieces_of
from tests.program.test_windows import array, check, steps_of
from tests.seeds import SEED

MODES = ("REFLECT", "SYMMETRIC", "EDGE", "WRAP")


def positions(runs: Any) -> list[int]:
    return [first + step * k for first, step, count in runs for k in range(count)]


@pytest.mark.parametrize("mode", MODES)
def test_runs_are_the_positions_of_a_padding(mode: str) -> None:
    for length, before, after in np.ndindex(6, 8, 8):
        wanted = np.pad(np.arange(length + 1), (before, after), mode=mode.lower())  # type: ignore[call-overload]

        assert positions(runs_of(wanted, 99)) == wanted.tolist()


def test_runs_of_any_positions() -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(300):
        wanted = rng.integers(0, 4, rng.integers(1, 12))

        found = runs_of(wanted, 99)

        assert found is not None
        assert positions(found) == wanted.tolist()
    assert runs_of([]) is None
    assert runs_of(np.arange(100) ** 2) is None


def test_a_gather_of_runs_and_its_transpose_agree_with_numpy() -> None:
    runs = ((2, -1, 2), (0, 1, 5), (4, 0, 3), (0, 2, 2))
    x, t = array(3, 5, 2), tf.round(8.0 * array(3, 12, 2))  # sums of whole numbers are exact
    places = positions(runs)

    taken = take_runs_p(x, axis=1, runs=runs)
    total = take_runs_add_p(t, axis=1, runs=runs, size=5)

    np.testing.assert_array_equal(taken.numpy(), x.numpy()[:, places])
    expected = np.zeros((3, 5, 2))
    for k, place in enumerate(places):
        expected[:, place] += t.numpy()[:, k]
    np.testing.assert_array_equal(total.numpy(), expected)


def values(one: Along, length: int, size: int) -> list[int | None]:
    """Return the positions that a loop reads, None where it reads zeros."""
    found = pieces_of(one, length)
    assert found is not None
    ends = [*[piece.begin for piece in found[1:]], length]
    return [
        None if piece.first is None else piece.first + piece.step * (i - piece.begin)
        for piece, end in zip(found, ends, strict=True)
        for i in range(piece.begin, end)
    ]


def random_pieces(rng: np.random.Generator, length: int, size: int) -> list[Piece]:
    """Return pieces that show `length` positions of an axis of `size`."""
    begins = sorted({0, *rng.integers(0, length, 3).tolist()})
    found = []
    for begin, end in zip(begins, [*begins[1:], length], strict=True):
        step = int(rng.integers(-1, 2))
        room = size - ((end - begin) if step else 1)
        if rng.random() < 0.2:
            found.append(Piece(begin, None))
        elif room >= 0:
            first = int(rng.integers(0, room + 1))
            found.append(Piece(begin, first if step >= 0 else first + end - begin - 1, step))
        else:
            found.append(Piece(begin, int(rng.integers(0, size)), 0))
    return found


def test_compositions_of_pieces_show_what_both_show() -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(500):
        length, middle, size = rng.integers(2, 12, 3).tolist()
        outer, inner = random_pieces(rng, length, middle), random_pieces(rng, middle, size)
        shown = values(Along(0, 0, 1, PIECES, 0, middle, pieces=tuple(outer)), length, middle)
        behind = values(Along(0, 0, 1, PIECES, 0, size, pieces=tuple(inner)), middle, size)

        found = composed(outer, inner, length)

        assert found is not None
        simplest = along(0, found, length, size)
        expected = [None if place is None else behind[place] for place in shown]
        assert values(simplest, length, size) == expected


def test_simple_pieces_have_a_simple_form() -> None:
    assert along(1, [Piece(0, 2, 1)], 4, 6) == Along(1, 2)
    assert along(1, [Piece(0, 2, 0)], 4, 6) == Along(None, 2)
    assert along(0, [Piece(0, 2), Piece(4, 0)], 6, 6) == Along(0, 0, 1, WRAPS, 2, 6)
    assert along(0, [Piece(0, None), Piece(2, 0)], 6, 4) == Along(0, 0, 1, ZEROS, -2, 4)
    assert along(0, [Piece(0, 5, -1)], 6, 6) == Along(0, 5, -1, INSIDE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(5, 7), (16, 16), (40, 300)])
def test_a_stencil_on_a_padded_array_copies_nothing(mode: str, shape: tuple[int, int]) -> None:
    def function(u: Any) -> Any:
        for _ in range(3):
            p = tf.pad(u, [[1, 1], [1, 1]], mode=mode)
            around = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
            u = u + 0.2 * (around - 4.0 * u)
        return u

    program = check(function, array(*shape))

    assert steps_of(program) == []


@pytest.mark.parametrize("mode", MODES)
def test_the_bytes_of_a_padded_stencil(mode: str) -> None:
    """A step reads and writes one array; its gradient also stores the sums of two paddings."""
    n, steps = 64, 5

    def function(u: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(u)
            v = u
            for _ in range(steps):
                p = tf.pad(v, [[1, 1], [1, 1]], mode=mode)
                v = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * v
            loss = tf.reduce_sum(v)
        return loss, tape.gradient(loss, u)

    compiled = tf.function(function)
    u = array(n, n)
    compiled(u)
    cost = compiled.program(u).cost()

    whole = n * n * 8
    assert cost.bytes_written <= (steps + 4 * steps) * whole
    assert cost.bytes_read <= (steps + 6 * steps) * whole


def test_gathers_by_known_indices_are_windows() -> None:
    index = np.array([3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 5])

    program = check(
        lambda x: tf.gather(x, index, axis=1) * 2.0 + tnp.take(x, index, 1), array(4, 6)
    )

    if array(1).device == "cpu":  # the values of indices on other devices are not read
        assert steps_of(program) == []


@pytest.mark.parametrize("window", [(3, 3), (1, 5), (2, 2)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_small_convolutions_of_one_channel_are_loops(window: Any, padding: str) -> None:
    weights = array(*window, 1, 1)

    def function(x: Any) -> Any:
        for _ in range(2):
            x = tf.sin(tf.nn.conv2d(x, weights, 1, padding))
        return x

    program = check(function, array(2, 9, 11, 1), rtol=1e-10)

    assert steps_of(program) == []


def test_fields_that_are_stacked_stay_planes() -> None:
    """Two fields are stacked, spread by a depthwise convolution, and unstacked, several times."""
    weights = array(3, 3, 2, 1)

    def function(state: Any, rate: Any) -> Any:
        for _ in range(4):
            padded = tf.pad(state, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="SYMMETRIC")
            spread = tf.nn.depthwise_conv2d(padded, weights, [1, 1, 1, 1], "VALID")
            u, v = tf.unstack(state, axis=-1)
            state = state + 0.01 * (rate * spread + tf.stack([u * v, u - v[:, ::-1]], axis=-1))
        return tf.reduce_sum(state, axis=(0, 1)) + state[0, 0]

    program = check(function, array(2, 30, 40, 2), array(2), rtol=1e-9)

    names = steps_of(program)
    assert names.count("stack") <= 2  # of which one is a result, the gradient of the state
    assert not {"conv", "conv_input_gradient", "take_runs", "unstack"} & {*names}


def test_a_stack_that_others_need_stays_one() -> None:
    def function(x: Any, w: Any) -> Any:
        a, b = tf.unstack(x, axis=-1)
        return tf.reshape(tf.stack([a * b, a + b], axis=-1), (64, -1)) @ w

    program = check(function, array(64, 40, 2), array(80, 3), rtol=1e-10)

    assert steps_of(program).count("stack") >= 1


@pytest.mark.parametrize("mode", [*MODES, "CONSTANT"])
@pytest.mark.parametrize("channels", [2, 3, 5])
def test_channels_are_folded_into_the_columns_of_an_image(mode: str, channels: int) -> None:
    """The innermost loop runs over columns and channels; sums keep or reduce both."""

    def function(x: Any) -> Any:
        p = tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]], mode=mode)
        y = p[:, :-3, 1:-2] * 2.0 - p[:, 3:, 3:] + tnp.roll(x, (1, -2), (1, 2)) * p[:, 1:-2, :-3]
        rows = tf.reduce_mean(y * y, axis=(2, 3))
        return tf.reduce_mean(y, axis=(0, 1)) + tf.reduce_mean(rows) + y[0, 0]

    check(function, array(2, 7, 9, channels), rtol=1e-10)


def test_the_gradient_of_a_column_at_a_number_is_compiled() -> None:
    place = tf.constant(2)

    check(lambda x: x[:, place] * x[:, place + 1], array(3, 5))
