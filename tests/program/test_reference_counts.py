"""Reference counts decide whether an array may be overwritten; without them all are copied."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core import ownership
from tapegrad.core.ownership import Owners, count_for, reference_counts
from tapegrad_numpy.loops.recycling import recycled
from tapegrad_numpy.ownership import capture, check_views


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_reasons", ["a test turns them off"])


# Counting


def test_every_holder_adds_one() -> None:
    thing = object()
    watched = [thing]
    holders: list[Any] = [[thing], (thing,), {"thing": thing}]

    assert reference_counts(watched) == [count_for(2 + len(holders))]
    holders.pop()
    assert reference_counts(watched) == [count_for(4)]


def test_counts_that_are_not_used_match_no_expectation(uncounted: None) -> None:
    assert reference_counts([object(), object()]) == [ownership.UNKNOWN] * 2
    assert ownership.UNKNOWN not in [count_for(holders) for holders in range(1, 9)]


def test_owners_are_counted_until_they_are_removed() -> None:
    owners, first, second = Owners(), object(), object()
    ids = [id(first)]

    owners.add([id(first), id(second)])
    owners.add(ids)
    assert owners.counts([first, second, object()]) == [2, 1, 0]
    owners.remove(ids)
    owners.remove(ids)

    assert owners.counts([first, second]) == [1, 1]
    assert (len(owners), owners.changes, ids) == (2, 4, [])


# The self-check

INTERPRETERS: dict[str, tuple[Callable[[Any], int], str]] = {
    "immortal objects": (lambda thing: 2**32 - 1, "every holder of an object once"),
    "one count for all": (lambda thing: 2, "every holder of an object once"),
    "every holder twice": (
        lambda thing, count=sys.getrefcount: 2 * count(thing),  # type: ignore[misc]
        "every holder of an object once",
    ),
}


@pytest.mark.parametrize("name", INTERPRETERS)
def test_an_interpreter_that_counts_in_another_way_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, reason = INTERPRETERS[name]
    monkeypatch.setattr(sys, "getrefcount", count)
    monkeypatch.setattr(ownership, "_COUNT_FOR_ONE", ownership._count_for_one())

    assert reason in ownership._reason()


def test_an_interpreter_that_adds_a_constant_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of CPython differ by a constant; only differences between counts matter."""
    before = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda thing: before(thing) + 5)
    monkeypatch.setattr(ownership, "_COUNT_FOR_ONE", ownership._count_for_one())

    assert ownership._reason() == ""


def test_python_without_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "getrefcount")

    assert ownership._count_for_one() == 0
    assert ownership._reason() == "this Python does not count references"


def test_python_without_a_global_lock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)

    assert "without a global lock" in ownership._reason()


def test_the_environment_variable_turns_counts_off() -> None:
    code = "from tapegrad.core import ownership as o; print(o.why_not_used(), o._reasons)"
    environment = {**os.environ, "TAPEGRAD_REFERENCE_COUNTS": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert "TAPEGRAD_REFERENCE_COUNTS turns them off" in done.stdout
    assert ownership.why_not_used() == ""


def test_views_that_are_not_counted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_reasons", [])
    monkeypatch.setattr("tapegrad_numpy.ownership.memoryview", lambda array: None, raising=False)
    check_views.cache_clear()
    try:
        check_views()
        assert "does not count a view" in ownership.why_not_used()
    finally:
        check_views.cache_clear()


# Without counts


def doubled(inputs: Any, variables: Any) -> Any:
    variables[0] *= 2.0
    return (), (variables[0],)


def test_a_program_copies_what_it_overwrites(uncounted: None) -> None:
    variable = tf.Variable(np.ones(3))
    step, seen = capture(doubled, [0], [0]), []

    for _ in range(3):
        seen.append(variable.array)
        _, (variable.array,) = step([], [variable.array])

    assert [array.tolist() for array in seen] == [[1.0] * 3, [2.0] * 3, [4.0] * 3]
    assert variable.numpy().tolist() == [8.0] * 3


def test_training_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> tuple[list[Any], Any]:
        w = tf.Variable(np.linspace(-1.0, 1.0, 12).reshape(4, 3))
        optimizer = tf.optimizers.Adam(0.1)

        @tf.function
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tanh(x @ w) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            return loss

        values = []
        for number in range(5):
            step(tf.constant(np.full((2, 4), 0.1 * number)))
            values.append(w.value())
        return [value.numpy() for value in values], w.numpy()

    values, last = trained()
    monkeypatch.setattr(ownership, "_reasons", ["a test turns them off"])
    copied_values, copied_last = trained()

    np.testing.assert_array_equal(values, copied_values)
    np.testing.assert_array_equal(last, copied_last)
    assert len({value.tobytes() for value in values}) == 5


def test_memory_of_results_is_not_reused(uncounted: None) -> None:
    assert recycled((1 << 18,), np.float64) is None


# On CuPy's arrays, without a device


@pytest.fixture
def made() -> Iterator[Callable[[], Any]]:
    """Make arrays of CuPy at addresses that are never read."""
    cupy = pytest.importorskip("cupy")
    references = pytest.importorskip("tapegrad_cupy.runtime.array_references")

    def allocate(size: int) -> Any:
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(512, max(size, 1), None, 0), 0)

    cached = (references._counts_of_one, references._own_memory)
    with cupy.cuda.using_allocator(allocate):
        for function in cached:
            function.cache_clear()
        yield lambda: cupy.ndarray((4,), "f4")
    for function in cached:
        function.cache_clear()


VIEWS: dict[str, Callable[[Any], Any]] = {
    "the array": lambda array: array,
    "a slice": lambda array: array[1:],
    "another shape": lambda array: array.reshape(2, 2),
    "the pointer": lambda array: array.data,
    "the memory": lambda array: array.data.mem,
}


@pytest.mark.parametrize("name", VIEWS)
def test_holders_of_a_cuda_array_are_counted(made: Callable[[], Any], name: str) -> None:
    from tapegrad_cupy.runtime.array_references import expected_counts, watched

    arrays = [made(), made()]
    seen = watched(arrays)
    alone = expected_counts(arrays, [1, 1], [0, 0])
    assert reference_counts(seen) == alone

    holder = VIEWS[name](arrays[1])
    assert reference_counts(seen) != alone
    del holder
    assert reference_counts(seen) == alone


def test_a_view_of_a_cuda_array_does_not_own_its_memory(made: Callable[[], Any]) -> None:
    from tapegrad_cupy.runtime.array_references import owns_memory

    array = made()

    assert owns_memory(array)
    assert not owns_memory(array[:2])
    assert not owns_memory(array.reshape(2, 2))


def test_a_program_knows_which_cuda_arrays_it_may_overwrite(made: Callable[[], Any]) -> None:
    from tapegrad_cupy.graphs.ownership import OwnedArrays

    variables = [tf.Variable(0.0), tf.Variable(0.0)]
    for variable in variables:
        variable.array = made()
    owner, other = OwnedArrays([0, 1]), OwnedArrays([0, 1])
    places = [id(variable.array) for variable in variables]

    for each in (owner, other, owner):
        arrays = [variable.array for variable in variables]
        each.own(arrays)
        assert [id(array) for array in arrays] == places
        del arrays

    held = variables[0].array[1:]
    assert not owner._is_unchanged([variable.array for variable in variables])
    del held
    assert owner._is_unchanged([variable.array for variable in variables])
