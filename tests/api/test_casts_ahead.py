"""Casts of variables ahead of their use never return an outdated value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.engine import batched_casts


class Group:
    """Casts NumPy arrays, and records the number per call."""

    made: ClassVar[list[int]] = []

    def __init__(self, arrays: Sequence[Any], dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        Group.made.append(len(arrays))
        return [array.astype(self.dtype) for array in arrays]


@pytest.fixture(autouse=True)
def groups(monkeypatch) -> Iterator[list[int]]:
    monkeypatch.setitem(batched_casts._preparers, np.ndarray, Group)
    monkeypatch.setattr(batched_casts, "_current", batched_casts._TapeCasts())
    with tf.device("cpu"):
        for dtype in ("float16", "bfloat16"):
            tf.cast(tf.zeros([1]), dtype)  # the first cast to a dtype goes a longer way
        Group.made = []
        yield Group.made


def variables(count: int = 3) -> list[tf.Variable]:
    return [tf.Variable([float(k + 1), 2.0]) for k in range(count)]


def cast_all(chosen: Sequence[tf.Variable], dtype: str = "float16") -> list[Any]:
    with tf.GradientTape():
        return [tf.cast(variable, dtype) for variable in chosen]


def values(tensors: Sequence[Any]) -> list[float]:
    return [float(tensor.numpy()[0]) for tensor in tensors]


@pytest.mark.engine
def test_from_the_second_tape_on_all_are_cast_together(groups):
    chosen = variables()
    cast_all(chosen)
    assert groups == []

    for _ in range(2):
        assert values(cast_all(chosen)) == [1.0, 2.0, 3.0]
    assert groups == [3, 3]


@pytest.mark.engine
def test_gradients_come_in_the_dtype_of_the_variables(groups):
    chosen = variables()
    for _ in range(3):
        with tf.GradientTape() as tape:
            halves = [tf.cast(variable, "float16") for variable in chosen]
            loss = tf.add_n([tf.reduce_sum(half * half) for half in halves])
        assert [v.number for v in tape.watched_variables()] == [v.number for v in chosen]
        gradients = tape.gradient(loss, chosen)

        assert [g.dtype for g in gradients] == [tf.float32] * 3
        assert values(gradients) == [2.0, 4.0, 6.0]
    assert groups == [3, 3]


def halves_and_product(chosen: Sequence[tf.Variable]) -> tuple[Any, Any, Any]:
    """Return a tape that is not persistent, for which casts are not made ahead; and what it saw."""
    with tf.GradientTape() as tape:
        halves = [tf.cast(variable, "float16") for variable in chosen]
        product = halves[0] * halves[1]
    return tape, halves, product


@pytest.mark.engine
def test_variables_and_their_casts_are_sources_beside_each_other(groups):
    chosen = variables(2)
    for _ in range(3):
        tape, halves, product = halves_and_product(chosen)
        of_halves, of_chosen = tape.gradient(product, (halves, chosen))
        assert [g.dtype for g in of_halves + of_chosen] == [tf.float16] * 2 + [tf.float32] * 2
        assert values(of_halves) == values(of_chosen) == [2.0, 1.0]

        tape, halves, _ = halves_and_product(chosen)
        itself = tape.gradient(halves[0], chosen[0])
        assert (itself.dtype, itself.tolist()) == (tf.float32, [1.0, 1.0])
    assert len(groups) == 5


@pytest.mark.engine
def test_jacobians_by_casts_have_the_dtype_of_the_casts(groups):
    chosen = [tf.Variable([[1.0, 2.0]]), tf.Variable([[3.0, 4.0]])]
    for _ in range(3):
        for number, dtype in ((0, tf.float16), (1, tf.float32)):
            for method in ("jacobian", "batch_jacobian"):
                tape, halves, product = halves_and_product(chosen)
                found = getattr(tape, method)(product, (halves[0], chosen[0])[number])
                assert found.dtype == dtype
                assert found.numpy().reshape(2, 2).tolist() == [[3.0, 0.0], [0.0, 4.0]]
    assert len(groups) == 11


@pytest.mark.engine
def test_a_variable_does_not_depend_on_its_cast(groups):
    chosen = variables(2)
    for _ in range(3):
        tape, halves, _ = halves_and_product(chosen)
        itself, by_cast = tape.gradient(chosen[0], [chosen[0], halves[0]])
        assert (itself.dtype, itself.tolist(), by_cast) == (tf.float32, [1.0, 1.0], None)
    assert len(groups) == 2


@pytest.mark.engine
def test_variables_that_no_tape_follows_have_casts_that_none_follows(groups):
    chosen = [tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0], trainable=False)]
    for reads_first in (False, False, True, True):
        with tf.GradientTape() as tape:
            if reads_first:
                assert chosen[1].value().tolist() == [3.0, 4.0]
            halves = [tf.cast(variable, "float16") for variable in chosen]
            product = 2.0 * halves[1]
        assert tape.gradient(product, halves[1]) is None
    assert len(groups) == 3


def test_one_tape_may_see_a_variable_cast_to_two_dtypes(groups):
    chosen = variables(2)
    for _ in range(3):
        with tf.GradientTape() as tape:
            first = tf.cast(chosen[0], "float16")
            other, second = (tf.cast(chosen[1], dtype) for dtype in ("bfloat16", "float16"))
            assert (other.dtype, second.dtype) == (tf.bfloat16, tf.float16)
            loss = tf.reduce_sum(first + second) + tf.cast(tf.reduce_sum(other), "float16")
        assert values(tape.gradient(loss, chosen)) == [1.0, 2.0]


@pytest.mark.parametrize("reads_first", [True, False])
def test_what_comes_by_casts_and_by_reads_is_added_up(reads_first):
    chosen = variables(2)
    # In half precision 2048 + 1 is 2048: sums are those of the variables' precision.
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(chosen[0]) if reads_first else 0.0
            for factor in (2048.0, 1.0, 1.0):
                halves = [tf.cast(variable, "float16") for variable in chosen]
                loss += tf.reduce_sum(tf.cast(factor * halves[0] + halves[1], "float32"))
            loss += 0.0 if reads_first else tf.reduce_sum(chosen[0])
        first, second = tape.gradient(loss, chosen)
        assert first.tolist() == [2051.0, 2051.0]
        assert second.tolist() == [3.0, 3.0]


def test_rows_and_a_cast_of_one_table_make_one_gradient():
    chosen = variables(2)
    for _ in range(3):
        with tf.GradientTape() as tape:
            halves = [tf.cast(variable, "float16") for variable in chosen]
            row = tf.gather(chosen[0], [1])
            loss = tf.reduce_sum(tf.cast(halves[0] + halves[1], "float32")) + tf.reduce_sum(row)
        found = tf.convert_to_tensor(tape.gradient(loss, chosen[0]))
        assert (found.dtype, found.tolist()) == (tf.float32, [1.0, 2.0])


def test_second_derivatives_go_through_casts_ahead():
    chosen = variables(2)
    for _ in range(3):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                halves = [tf.cast(variable, "float16") for variable in chosen]
                loss = tf.reduce_sum(halves[0] ** 3 * halves[1])
            slope = inner.gradient(loss, chosen[0])
        assert slope.dtype == tf.float32
        curves = outer.gradient(slope, chosen)
        assert [g.dtype for g in curves] == [tf.float32] * 2
        assert [g.tolist() for g in curves] == [[12.0, 24.0], [3.0, 12.0]]


def test_a_value_that_changed_meanwhile_is_cast_again():
    chosen = variables()
    cast_all(chosen)
    with tf.GradientTape():
        first = tf.cast(chosen[0], "float16")
        chosen[2].assign([10.0, 0.0])
        chosen[1].assign_add([1.0, 0.0])
        rest = [tf.cast(variable, "float16") for variable in chosen[1:]]

    assert values([first, *rest]) == [1.0, 3.0, 10.0]


def test_an_optimizer_between_two_casts_is_noticed():
    chosen = variables()
    optimizer = tf.optimizers.SGD(0.5)
    cast_all(chosen)
    with tf.GradientTape():
        tf.cast(chosen[0], "float16")
        optimizer.apply_gradients([(tf.ones([2]), variable) for variable in chosen])

        assert values([tf.cast(variable, "float16") for variable in chosen]) == [0.5, 1.5, 2.5]


@pytest.mark.engine
def test_what_is_cast_twice_under_one_tape_is_right_both_times(groups):
    chosen = variables()
    order = [*chosen, chosen[0]]
    for _ in range(3):
        assert values(cast_all(order)) == [1.0, 2.0, 3.0, 1.0]
    assert groups == [3, 3]


@pytest.mark.engine
def test_what_is_not_asked_for_any_more_is_not_cast_for_long(groups):
    chosen = variables()
    cast_all(chosen)
    cast_all(chosen[:2])
    cast_all(chosen[:2])

    assert groups == [3, 2]


@pytest.mark.engine
def test_steps_in_turns_keep_their_groups(groups):
    generator, critic = variables(2), variables(3)
    for _ in range(3):
        cast_all(generator)
        cast_all(critic)

    assert groups == [2, 3, 2, 3]


def test_other_dtypes_are_other_groups():
    chosen = variables()
    for _ in range(2):
        for dtype in ("float16", "bfloat16", "float64"):
            assert [t.dtype.name for t in cast_all(chosen, dtype)] == [dtype] * 3


def test_variables_that_are_gone_take_their_group_along(groups):
    chosen = variables()
    cast_all(chosen)
    del chosen[1]

    assert values(cast_all(chosen)) == [1.0, 3.0]
    assert groups == []


def test_variables_without_gradient_are_cast_too():
    chosen = variables()
    chosen[1] = tf.Variable([5.0, 0.0], trainable=False)
    for _ in range(3):
        with tf.GradientTape() as tape:
            halves = [tf.cast(variable, "float16") for variable in chosen]
            loss = tf.add_n([tf.reduce_sum(half) for half in halves])

        assert values(halves) == [1.0, 5.0, 3.0]
        assert tape.gradient(loss, chosen)[1] is None


def test_memory_that_does_not_suffice_for_all_leaves_each_alone(monkeypatch):
    def full(self, arrays):
        raise MemoryError

    chosen = variables()
    cast_all(chosen)
    monkeypatch.setattr(Group, "__call__", full)

    assert values(cast_all(chosen)) == [1.0, 2.0, 3.0]


def test_inside_transformations_nothing_is_cast_ahead(groups):
    chosen = variables()
    for _ in range(2):
        with tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(chosen, chosen) as forward:
            halves = [tf.cast(variable, "float16") for variable in chosen]
        assert values([forward.jvp(half) for half in halves]) == [1.0, 2.0, 3.0]
        assert float(tape.gradient(halves[2], chosen[2])[0]) == 1.0

    def total(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.cast(chosen[0], "float16") * tf.cast(x, "float16"))
        return tape.gradient(y, chosen[0])

    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(2):
        assert tf.vectorized_map(total, rows).numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert groups == []


def test_a_recorded_step_casts_what_the_variables_hold_then():
    chosen = variables()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.cast(v, "float16")) for v in chosen])
        for variable, gradient in zip(chosen, tape.gradient(loss, chosen)):
            variable.assign_sub(gradient)
        return loss

    for expected in (12.0, 6.0, 0.0):
        cast_all(chosen)
        assert float(step()) == expected
