"""Programs on NumPy overwrite variables in place only if no other object holds the array."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy import ownership
from tapegrad_numpy.ownership import capture


def doubled_in_place(inputs: Sequence[Any], variables: Sequence[Any]) -> Any:
    """Double the first variable and add one to the second, both where they are."""
    first, second = variables[:2]
    first *= 2.0
    second += 1.0
    return (first.sum(),), (first, second)


class Replayed:
    """Calls a replay as a program does."""

    def __init__(self, *variables: Any, run: Any = doubled_in_place) -> None:
        self.variables = variables
        self._replay = capture(run, [0, 1], [0, 1])

    def __call__(self) -> Any:
        outputs, held = self._replay([], [variable.array for variable in self.variables])
        for variable, array in zip(self.variables, held):
            variable.array = array
        return outputs


def pair() -> tuple[Any, Any]:
    return tf.Variable(np.arange(6.0).reshape(2, 3)), tf.Variable(np.zeros(2))


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda v: v.value(),
    "a NumPy array of it": lambda v: np.asarray(v.value()),
    "a view of the array": lambda v: v.array[:1],
    "a transposed view": lambda v: v.array.T,
    "a memoryview": lambda v: memoryview(v.array),
    "a DLPack capsule": lambda v: np.from_dlpack(v.value()),
    "another variable": lambda v: tf.Variable(v.value()),
    "a list": lambda v: [v.array],
}


def contents(holder: Any) -> Any:
    holder = holder[0] if type(holder) is list else holder
    return np.array(holder.value() if isinstance(holder, tf.Variable) else holder)


@pytest.mark.parametrize("name", HOLDERS)
def test_what_was_read_keeps_its_value(name: str) -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    holder = HOLDERS[name](first)
    expected = contents(holder).copy()

    step()
    step()

    np.testing.assert_array_equal(contents(holder), expected)
    np.testing.assert_array_equal(first.numpy(), 8.0 * np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(second.numpy(), [3.0, 3.0])


def test_what_nobody_else_holds_is_changed_where_it_is() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    places = [first.array.ctypes.data, second.array.ctypes.data]

    for _ in range(5):
        step()

    assert [first.array.ctypes.data, second.array.ctypes.data] == places


def test_only_what_is_held_moves() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    before, other = first.value(), second.array.ctypes.data

    step()

    assert first.array is not before.array
    assert second.array.ctypes.data == other


def test_a_value_that_is_let_go_again_costs_no_copy() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    place = first.array.ctypes.data

    first.value()
    step()

    assert first.array.ctypes.data == place


@pytest.mark.parametrize(
    "array",
    [
        np.frombuffer(bytearray(np.arange(4.0).tobytes())),
        np.frombuffer(np.arange(4.0).tobytes()),
        np.arange(8.0)[::2] / 2.0,
        np.arange(12.0).reshape(4, 3).T[0],
    ],
    ids=["lent memory", "read-only memory", "every other element of its own", "a column"],
)
def test_memory_that_is_not_the_arrays_own_is_not_written_to(array: Any) -> None:
    first, second = tf.Variable(np.zeros(4)), tf.Variable(np.zeros(2))
    first.array = array
    expected = array.copy()

    Replayed(first, second)()

    np.testing.assert_array_equal(first.numpy(), 2.0 * expected)
    np.testing.assert_array_equal(array, expected)


def test_arrays_out_of_order_are_laid_out_anew() -> None:
    first, second = tf.Variable(np.zeros((3, 2))), tf.Variable(np.zeros(2))
    first.array = np.asfortranarray(np.arange(6.0).reshape(3, 2))

    Replayed(first, second)()

    assert first.array.flags.c_contiguous
    np.testing.assert_array_equal(first.numpy(), 2.0 * np.arange(6.0).reshape(3, 2))


def test_a_number_becomes_an_array() -> None:
    first, second = tf.Variable(1.5), tf.Variable(0.0)
    first.array = np.float32(1.5)
    step = Replayed(first, second)

    step()
    step()

    assert type(first.array) is np.ndarray
    assert float(first) == 6.0


def test_two_variables_with_one_array_part() -> None:
    first, second = pair()
    first.array = np.ones(2)
    second.array = first.array

    Replayed(first, second)()

    np.testing.assert_array_equal(first.numpy(), [2.0, 2.0])
    np.testing.assert_array_equal(second.numpy(), [2.0, 2.0])


def test_an_assignment_between_steps_is_seen() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    value = tf.constant([5.0, 6.0], "float64")

    second.assign(value)
    step()

    np.testing.assert_array_equal(second.numpy(), [6.0, 7.0])
    np.testing.assert_array_equal(value.numpy(), [5.0, 6.0])


def test_what_a_tape_saved_gives_the_gradient_of_then() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(first * first)
    expected = 2.0 * first.numpy()

    step()

    np.testing.assert_array_equal(tape.gradient(y, first).numpy(), expected)


def test_two_programs_change_the_same_variables_without_copies() -> None:
    first, second = pair()
    steps = [Replayed(first, second), Replayed(first, second)]
    steps[0]()
    place = first.array.ctypes.data

    for _ in range(3):
        steps[1]()
        steps[0]()

    assert first.array.ctypes.data == place
    np.testing.assert_array_equal(second.numpy(), [7.0, 7.0])


def test_other_variables_are_passed_as_they_are() -> None:
    first, second = pair()
    third = tf.Variable([1.0])
    seen = []

    def run(inputs: Any, variables: Any) -> Any:
        seen.append(variables[2])
        return doubled_in_place(inputs, variables)

    held = third.value()
    Replayed(first, second, third, run=run)()

    assert seen == [held.array]
    assert seen[0] is held.array


def test_a_run_that_overwrites_nothing_is_returned_as_it_is() -> None:
    assert capture(doubled_in_place, [0, 1], []) is doubled_in_place


def test_a_run_that_fails_can_be_repeated() -> None:
    first, second = pair()
    errors = [ZeroDivisionError()]

    def run(inputs: Any, variables: Any) -> Any:
        if errors:
            raise errors.pop()
        return doubled_in_place(inputs, variables)

    step = Replayed(first, second, run=run)
    with pytest.raises(ZeroDivisionError):
        step()

    step()

    np.testing.assert_array_equal(second.numpy(), [1.0, 1.0])


def test_threads_with_variables_of_their_own_do_not_disturb_each_other() -> None:
    pairs = [pair() for _ in range(4)]
    steps = [Replayed(*each) for each in pairs]

    def work(step: Any) -> None:
        for _ in range(50):
            step()

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for _, second in pairs:
        np.testing.assert_array_equal(second.numpy(), [50.0, 50.0])


def test_a_value_that_another_thread_holds_stays() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    holds, may_end = threading.Event(), threading.Event()
    found = []

    def reader() -> None:
        value = second.value()
        holds.set()
        may_end.wait(10)
        found.append(value.numpy())

    thread = threading.Thread(target=reader)
    thread.start()
    assert holds.wait(10)
    for _ in range(3):
        step()
    may_end.set()
    thread.join()

    np.testing.assert_array_equal(found, [[1.0, 1.0]])
    np.testing.assert_array_equal(second.numpy(), [4.0, 4.0])


def test_one_program_is_replayed_by_one_thread_at_a_time() -> None:
    first, second = pair()
    inside: list[int] = []

    def run(inputs: Any, variables: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        result = doubled_in_place(inputs, variables)
        inside.pop()
        return result

    most: list[int] = []
    step = Replayed(first, second, run=run)
    threads = [threading.Thread(target=lambda: [step() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(most) == 1


def test_a_program_begins_with_arrays_at_lines_of_the_cache() -> None:
    first, second = pair()
    step = Replayed(first, second)

    step()

    assert [variable.array.ctypes.data % 64 for variable in (first, second)] == [0, 0]
    np.testing.assert_array_equal(first.numpy(), 2.0 * np.arange(6.0).reshape(2, 3))


def test_what_is_assigned_later_is_written_to_wherever_it_lies() -> None:
    first, second = pair()
    step = Replayed(first, second)
    step()
    places = []
    for _ in range(20):  # some of them in the middle of a line
        first.assign(np.arange(6.0).reshape(2, 3))
        places.append(first.array.ctypes.data)
        step()
        assert first.array.ctypes.data == places[-1]


def test_arrays_are_let_go_with_the_program() -> None:
    gc.collect()
    before = len(ownership._owners)
    first, second = pair()
    step = Replayed(first, second)
    for _ in range(20):
        first.assign(first.numpy())
        step()
    assert len(ownership._owners) == before + 2

    del step
    gc.collect()

    assert len(ownership._owners) == before
