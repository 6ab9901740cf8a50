"""Loops read rows through index arrays, so that gathered rows are never stored."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.kernels.loops import schedule
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tests import capabilities
from tests.house.host_cuda import HostLoops
from tests.program.reference_loops import Reference
from tests.program.test_windows import check, steps_of

rng = np.random.default_rng(5)


_COMPILERS = {"reference": Reference, "cuda": HostLoops, "c": CLoopCompiler}


@pytest.fixture(params=["reference", "cuda", "c"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of compilers that gather: the reference, and CUDA kernels that run on the host."""
    if request.param != "reference" and shutil.which("g++") is None:
        pytest.skip("Needs a C++ compiler.")
    made = _COMPILERS[request.param]()
    capabilities.use(monkeypatch, loops=made, specializer=None)


@pytest.fixture
def adds_rows(request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["loops"] == "c":
        pytest.skip("Loops in C add no rows.")


def array(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape))


def places(size: int, *shape: int) -> Any:
    return tf.constant(rng.integers(-size, size, shape))


def forward(function: Any, *args: Any) -> Any:
    """Compare a program with eager code, and return it."""
    expected = tf.nest.flatten(function(*args))
    compiled = tf.function(function)
    for _ in range(3):
        for one, other in zip(tf.nest.flatten(compiled(*args)), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
    return compiled.program(*args)


def test_rows_are_read_through_their_index() -> None:
    index = places(9, 20)
    program = check(lambda x, w: tf.gather(x, index) * w[:, None], array(9, 6), array(20))

    assert "gather_rows" not in steps_of(program)


def test_a_table_of_scalars_and_an_index_of_rank_two() -> None:
    x, index = array(7), places(7, 4, 5)

    program = forward(lambda x, i: tf.exp(tf.gather(x, i)) + tf.cast(i, "float64"), x, index)

    assert steps_of(program) == []


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_is_gathered(axis: int) -> None:
    index = places(4, 6)

    program = check(lambda x: tf.sin(tf.gather(x, index, axis=axis)), array(4, 5, 4)[:, :4])

    assert "take" not in steps_of(program)


def test_two_axes_are_gathered() -> None:
    rows, columns = places(5, 3), places(6, 4)

    def function(x: Any) -> Any:
        return tf.cos(tf.gather(tf.gather(x, rows), columns, axis=1))

    program = forward(function, array(5, 6))

    assert steps_of(program) == []


def test_parts_and_views_of_tables_are_gathered() -> None:
    index = places(4, 7)

    def function(x: Any) -> Any:
        return tf.exp(tf.gather(x[2:6, ::2], index))[:, None] * 2.0

    program = forward(function, array(8, 6))

    assert steps_of(program) in ([], ["reshape"])


def test_the_index_may_be_gathered_too() -> None:
    kinds, index, table = places(3, 9), places(9, 12), array(3)

    def function(kinds: Any, index: Any, table: Any) -> Any:
        return tf.exp(tf.gather(table, tf.gather(kinds, index)))

    program = forward(function, kinds, index, table)

    assert steps_of(program) == []


def test_rows_of_segments_are_zeros_for_negative_ids() -> None:
    ids = tf.constant([0, -1, 2, 2, 1, -3, 0])

    def function(x: Any) -> Any:
        return tf.math.unsorted_segment_sum(tf.exp(x) * 2.0, ids, 3)

    program = check(function, array(7, 4))

    assert "segment_take" not in steps_of(program)


def test_rows_that_another_step_reads_are_stored() -> None:
    index = places(9, 20)

    def function(x: Any) -> Any:
        rows = tf.gather(x, index)
        return tf.exp(rows), tf.cumsum(rows)

    program = forward(function, array(9, 6))

    assert "gather_rows" in steps_of(program)


def test_a_softmax_of_gathered_rows_is_one_loop() -> None:
    index = places(9, 20)

    program = forward(lambda x, i: tf.nn.softmax(tf.gather(x, i) * 2.0), array(9, 6), index)

    assert len(program.steps) == 1


def test_a_reduction_along_the_gathered_axis() -> None:
    index = places(9, 20, 3)

    program = forward(lambda x, i: tf.reduce_sum(tf.gather(x, i) ** 2, axis=1), array(9, 6), index)

    assert len(program.steps) == 1


def test_gathered_rows_are_not_counted_as_stored_bytes() -> None:
    index, rows, width = places(50, 1000), 1000, 16

    def function(x: Any, w: Any) -> Any:
        return tf.reduce_sum(tf.gather(x, index) * w[:, None], axis=1)

    x, w = array(50, width), array(rows)
    program = forward(function, x, w)
    cost = program.cost()

    assert len(program.steps) == 1
    assert cost.bytes_written == 8 * rows
    assert cost.bytes_read <= 8 * (50 * width + 2 * rows)


# Sums of rows


@pytest.mark.usefixtures("adds_rows")
def test_rows_are_added_by_the_loop_that_computes_them() -> None:
    ids = tf.constant(rng.integers(-2, 7, 30))

    program = forward(lambda x: tf.math.unsorted_segment_sum(tf.exp(x) * 2.0, ids, 7), array(30, 6))

    assert steps_of(program) == []
    assert len(program.steps) == 1


@pytest.mark.usefixtures("adds_rows")
@pytest.mark.parametrize("width", [1, 3, 8])
def test_messages_along_edges_are_never_stored(width: int) -> None:
    source, target = places(12, 50), tf.constant(np.sort(rng.integers(0, 12, 50)))

    def layer(x: Any, w: Any) -> Any:
        return tf.math.unsorted_segment_sum(tf.gather(x, source) * w[:, None], target, 12)

    x, w = array(12, width), array(50)
    program = forward(layer, x, w)

    assert [*steps_of(program)] in ([], ["reshape"])
    assert program.cost().bytes_written == 8 * 12 * width

    def gradient(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(layer(x, w)))
        return tape.gradient(loss, x)

    backward = forward(gradient, x, w)
    # The sums of the layer, and those of the gradient; the index of sources is made once.
    assert backward.cost().bytes_written <= 8 * (2 * 12 * width + 12 * width + 50)


@pytest.mark.usefixtures("adds_rows")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_along_any_axis(axis: int) -> None:
    index = places(5, 4)

    def gradient(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(tf.gather(x, index, axis=axis)) * w)
        return tape.gradient(loss, x)

    shape = [5, 5, 5]
    taken = [*shape[:axis], 4, *shape[axis + 1 :]]
    program = forward(gradient, array(*shape), array(*taken))

    assert "take_add" not in steps_of(program)


@pytest.mark.usefixtures("adds_rows")
def test_an_index_of_rank_two_adds_rows() -> None:
    index = places(9, 6, 4)

    def gradient(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            loss = tf.reduce_sum(tf.sin(tf.gather(x, index)) * w)
        return tape.gradient(loss, (x, w))

    program = forward(gradient, array(9, 8), array(6, 4, 8))

    assert "take_add" not in steps_of(program)


@pytest.mark.usefixtures("adds_rows")
def test_rows_and_one_value_per_row_are_added_after_a_reduction() -> None:
    users, items = places(9, 40), places(7, 40)

    def gradient(u: Any, v: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((u, v, b))
            rows, others = tf.gather(u, users), tf.gather(v, items)
            error = tf.reduce_sum(rows * others, axis=1) + tf.gather(b, items)
            loss = tf.reduce_sum(error**2)
        return loss, *tape.gradient(loss, (u, v, b))

    program = forward(gradient, array(9, 6), array(7, 6), array(7))

    assert not {"take_add", "take", "gather_rows"} & {*steps_of(program)}


def test_an_index_out_of_range_adds_nothing() -> None:
    ids = tf.constant([0, -1, 1, 0, -5])
    x = tf.constant(np.arange(10.0).reshape(5, 2))

    found = tf.function(lambda x: tf.math.unsorted_segment_sum(x + 1.0, ids, 2))(x)

    np.testing.assert_array_equal(found.numpy(), [[8.0, 10.0], [5.0, 6.0]])


def test_the_array_of_sums_is_not_that_of_a_value_which_the_loop_reads() -> None:
    ids = tf.constant(rng.permutation(8))

    def function(x: Any) -> Any:
        y = tf.cumsum(x)
        return tf.math.unsorted_segment_sum(tf.exp(y), ids, 8) * 2.0

    forward(function, array(8, 4))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("count", [1, 7, 8, 41])
def test_threads_add_up_neighbouring_rows(
    monkeypatch: pytest.MonkeyPatch, count: int, ordered: bool
) -> None:
    monkeypatch.setattr(schedule, "ENOUGH_THREADS", 1)
    ids = rng.integers(-1, 5, count)
    ids = tf.constant(np.sort(ids) if ordered else ids)

    def function(x: Any, w: Any) -> Any:
        return tf.math.unsorted_segment_sum(x * w[:, None] + 1.0, ids, 5), x * 2.0

    forward(function, array(count, 12), array(count))


@pytest.mark.usefixtures("adds_rows")
@pytest.mark.parametrize("width", [1, 6])
def test_sorted_rows_have_the_same_sums(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    for compiler in (Reference, HostLoops):
        monkeypatch.setattr(compiler, "sorts", True)
    source, target = places(12, 50), tf.constant(rng.integers(-1, 12, 50))

    def layer(x: Any, w: Any, source: Any, target: Any) -> Any:
        messages = tf.gather(x, source) * w[:, None] + tf.cumsum(w)[:, None]
        return tf.math.unsorted_segment_sum(messages, target, 12)

    def gradient(x: Any, *given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(layer(x, *given)) + layer(2.0 * x, *given))
        return loss, tape.gradient(loss, x)

    program = forward(gradient, array(12, width), array(50), source, target)

    # One sort for the targets and one for the sources, each for two sums.
    assert steps_of(program).count("argsort") == 2
    assert not {"take_add", "segment_sum"} & {*steps_of(program)}
    # Only positions and numbers per edge are stored, but no messages.
    assert all(50 * width not in (v.size for v in s.results) for s in program.steps if width > 1)


def test_entries_of_each_example_are_gathered_by_one_loop() -> None:
    index = places(6, 3, 4)

    def function(x: Any, index: Any) -> Any:
        return tf.exp(tf.vectorized_map(lambda pair: tf.gather(*pair), (x, index)))

    program = forward(function, array(3, 6), index)

    assert not {"offset_index", "take"} & {*steps_of(program)}


def test_an_entry_that_one_index_selects_is_read_by_the_loop() -> None:
    def function(x: Any, table: Any, index: Any) -> Any:
        return x * tf.exp(tf.gather(table, index))

    forward(function, array(8, 3), array(5), tf.constant(-2))


def test_only_the_selected_rows_of_a_large_table_count_as_read() -> None:
    index = places(500, 4)

    program = forward(lambda x, i: tf.exp(tf.gather(x, i)), array(500, 16), index)

    assert program.cost().bytes_read == 8 * (4 * 16 + 4)


@pytest.mark.parametrize("width", [1, 8])
def test_numbers_that_many_calls_read_are_gathered_once(width: int) -> None:
    def function(x: Any, index: Any) -> Any:
        rows, total = tf.gather(x, index), 0.0
        for k in range(6):
            total = tf.sin(total + rows * (k + 2.0))
        return total

    program = forward(function, array(7, width), places(7, 30))

    assert ("gather_rows" in steps_of(program)) == (width == 1)
