"""Rounds of a loop change rows of carried arrays in place, and compute what eager code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted, native_rounds, recorded
from tapegrad.program.loops.rows_in_place import Changes

Function = Callable[..., Any]
ROUNDS = 6


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record short loops as one call, too, so that eager code is quick."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many carried values each loop in C changes in place."""
    found: list[int] = []

    class Noted(Changes):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            found.append(len(self.values))

    monkeypatch.setattr(native_rounds, "Changes", Noted)
    return found


def gradient(f: Function) -> Function:
    def both(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = f(*inputs)
        return [y, *tape.gradient(y, inputs)]

    return both


def rows(count: int = ROUNDS + 1, width: int = 3) -> Any:
    return tf.constant(np.random.default_rng(count).normal(size=(count, width)))


def written(x: Any, k: Any, row: Any) -> Any:
    return tf.tensor_scatter_nd_update(x, [[k]], [row])


def while_rounds(body: Function, x: Any, *more: Any) -> Any:
    """Run rounds 0 to 5; a condition that is a tensor ends them."""
    end = tf.cast(tf.reduce_sum(x) * 0.0, "int32") + ROUNDS
    values = (tf.constant(0), x, *more)
    return tf.while_loop(lambda k, *_: k < end, lambda k, *v: (k + 1, *body(k, *v)), values)[1:]


def counted_rounds(body: Function, x: Any, *more: Any) -> Any:
    return tf.foldl(lambda values, k: tuple(body(k, *values)), tf.range(ROUNDS), (x, *more))


def each_row_from_the_last(loop: Function, x: Any, w: Any) -> Any:
    (y,) = loop(lambda k, y: (written(y, k + 1, tf.sin(y[k]) * w[k] + y[k + 1]),), x)
    return tf.reduce_sum(y * y)


def elements_of_a_table(loop: Function, x: Any, w: Any) -> Any:
    def body(k: Any, y: Any) -> Any:
        total = tf.sin(y[k] * y[k + 1]) + y[2 * k + 1] * w[k, 0]
        return (tf.tensor_scatter_nd_update(y, [[k + 2]], [total]),)

    (y,) = loop(body, tf.reshape(x, [-1]))
    return tf.reduce_sum(y * y)


def two_writes_and_a_read_between(loop: Function, x: Any, w: Any) -> Any:
    def body(k: Any, y: Any) -> Any:
        old = y[k + 1]
        y = written(y, k + 1, y[k] * 0.5)
        return (written(y, k, tf.cos(y[k + 1]) * w[k] + old),)

    (y,) = loop(body, x)
    return tf.reduce_sum(y * y)


def two_arrays_that_read_each_other(loop: Function, x: Any, w: Any) -> Any:
    def body(k: Any, y: Any, z: Any) -> Any:
        return written(y, k + 1, z[k] * 0.5), written(z, k + 1, tf.sin(y[k + 1]) + y[k])

    y, z = loop(body, x, w)
    return tf.reduce_sum(y * y) + tf.reduce_sum(z * y)


def arrays_that_change_places(loop: Function, x: Any, w: Any) -> Any:
    y, z = loop(lambda k, y, z: (z, written(y, k, tf.sin(z[k]))), x, w)
    return tf.reduce_sum(y * y) + tf.reduce_sum(z)


def equal_rows(loop: Function, x: Any, w: Any) -> Any:
    def body(k: Any, y: Any) -> Any:
        at = tf.stack([k, k + 1, k])
        new = tf.gather(y, at) * tf.gather(w, at)
        return (tf.tensor_scatter_nd_update(y, at[:, None], tf.sin(new)),)

    (y,) = loop(body, x)
    return tf.reduce_sum(y * y)


def a_fixed_row(loop: Function, x: Any, w: Any) -> Any:
    (y,) = loop(lambda k, y: (written(written(y, 2, y[2] * w[k]), k, tf.sin(y[2])),), x)
    return tf.reduce_sum(y * y)


PROGRAMS = (
    each_row_from_the_last, elements_of_a_table, two_writes_and_a_read_between,
    two_arrays_that_read_each_other, arrays_that_change_places, equal_rows, a_fixed_row,
)  # fmt: skip


@pytest.mark.parametrize("loop", [while_rounds, counted_rounds])
@pytest.mark.parametrize("program", PROGRAMS)
def test_loops_that_write_rows_equal_eager_code(
    program: Function, loop: Function, changed: list[int]
) -> None:
    x, w = rows(), tf.cos(rows())
    before = [array.numpy().copy() for array in (x, w)]
    wanted = gradient(lambda x, w: program(loop, x, w))(x, w)
    f = tf.function(gradient(lambda x, w: program(loop, x, w)), wait=True)

    for _ in range(2):
        for found, expected in zip(f(x, w), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)

    for array, old in zip((x, w), before):
        np.testing.assert_array_equal(array, old)
    assert changed  # the loops run in C


@pytest.mark.parametrize("loop", [while_rounds, counted_rounds])
@pytest.mark.parametrize("program", [each_row_from_the_last, elements_of_a_table])
def test_the_array_and_its_cotangent_are_changed_in_place(
    program: Function, loop: Function, changed: list[int]
) -> None:
    x, w = rows(), rows()
    tf.function(gradient(lambda x, w: program(loop, x, w)), wait=True)(x, w)

    forward, backward = changed[0], changed[-1]
    assert forward >= 1
    assert backward >= 2  # the cotangent of the array, and that of `w`


def test_an_array_that_a_later_step_reads_is_not_changed(changed: list[int]) -> None:
    def f(x: Any) -> Any:
        def body(k: Any, y: Any) -> Any:
            new = written(y, k, tf.sin(y[k + 1]))
            return (tf.where(tf.reduce_sum(new) > 0.0, new, y),)

        return while_rounds(body, x)[0]

    x = rows()
    np.testing.assert_allclose(tf.function(f, wait=True)(x), f(x), rtol=1e-14)
    assert changed
    assert not any(changed)


def test_a_write_that_depends_on_what_the_old_array_becomes(changed: list[int]) -> None:
    """The old row is read with a value that only exists after the write."""

    def f(x: Any) -> Any:
        def body(k: Any, y: Any) -> Any:
            new = written(y, k, tf.sin(y[k + 1]))
            at = tf.cast(tf.reduce_sum(new) > 0.0, "int32")
            return new, y[at]

        return while_rounds(lambda k, y, _: body(k, y), x, x[0])

    x = rows()
    for found, expected in zip(tf.function(f, wait=True)(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert changed
    assert not any(changed)


@pytest.mark.parametrize("loop", [while_rounds, counted_rounds])
def test_loops_inside_of_loops_fill_one_table(loop: Function, changed: list[int]) -> None:
    """A table of alignments, whose cells depend on three neighbours."""

    def f(costs: Any) -> Any:
        def row(i: Any, table: Any) -> Any:
            def cell(j: Any, table: Any) -> Any:
                near = tf.stack([table[i, j], table[i, j + 1], table[i + 1, j]])
                best = costs[i, j] - tf.reduce_logsumexp(-near)
                return (tf.tensor_scatter_nd_update(table, [[i + 1, j + 1]], [best]),)

            return loop(cell, table)

        size = ROUNDS + 1
        start = tf.where(tf.range(size)[:, None] + tf.range(size) > 0, 50.0, 0.0)
        return loop(row, tf.cast(start, "float64"))[0][-1, -1]

    costs = tf.abs(rows(ROUNDS, ROUNDS))
    table = np.full((ROUNDS + 1, ROUNDS + 1), 50.0)
    table[0, 0] = 0.0
    for i, j in np.ndindex(ROUNDS, ROUNDS):
        near = -np.array([table[i, j], table[i, j + 1], table[i + 1, j]])
        table[i + 1, j + 1] = costs.numpy()[i, j] - np.logaddexp.reduce(near)
    wanted = gradient(f)(costs)
    found = tf.function(gradient(f), wait=True)(costs)

    np.testing.assert_allclose(found[0], table[-1, -1], rtol=1e-13)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-11, atol=1e-14)
    assert len(changed) >= 4
    assert all(changed)  # in both directions, in the inner and the outer loops


def test_a_wrong_index_leaves_the_operands_as_they_were() -> None:
    @tf.function(wait=True)
    def f(x: Any, shift: Any) -> Any:
        return while_rounds(lambda k, y: (written(y, k + shift, y[k] + 1.0),), x)

    x = rows()
    old = x.numpy().copy()
    f(x, tf.constant(1))
    with pytest.raises(IndexError, match="out of bounds"):
        f(x, tf.constant(4))
    np.testing.assert_array_equal(x, old)
    (found,) = f(x, tf.constant(0))
    np.testing.assert_array_equal(found, np.concatenate([old[:ROUNDS] + 1.0, old[ROUNDS:]]))


def test_a_loop_without_rounds_returns_what_it_is_given() -> None:
    @tf.function(wait=True)
    def f(x: Any, end: Any) -> Any:
        body = lambda k, y: (k + 1, written(y, k, y[k + 1]))  # noqa: E731
        return tf.while_loop(lambda k, _: k < end, body, (tf.constant(0), x))[1]

    x = rows()
    np.testing.assert_array_equal(f(x, tf.constant(0)), x)
    np.testing.assert_array_equal(f(x, tf.constant(2))[:2], x[1:3])


@pytest.mark.parametrize("loop", [while_rounds, counted_rounds])
def test_the_memory_of_a_value_is_kept_for_a_view_that_is_carried(loop: Function) -> None:
    """The new array is a view of a value that no later step of the round reads."""

    def f(x: Any, m: Any) -> Any:
        def views(k: Any, y: Any, z: Any) -> Any:
            total = tf.cumsum(tf.reshape(y * 0.1, [-1]))
            return tf.reshape(total, y.shape), ((z @ m) @ m) @ m

        return [tf.reduce_sum(value * value) for value in loop(views, x, x)]

    x, m = rows(4, 4), rows(4, 4) * 0.4
    for found, expected in zip(tf.function(f, wait=True)(x, m), f(x, m), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
