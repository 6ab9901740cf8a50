"""Programs with steps that cannot be captured run in parts, with the same results.

The device is simulated: a capture runs the program on copies, and refuses some primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.ops.indexing.sorting
import tapegrad.ops.reduction.cumulative
from tapegrad import distribute
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.emit.graph_parts import MAX_UNCAPTURED, PartitionedRun
from tests import capabilities
from tests.program.test_random_programs import check_against_eager
from tests.seeds import program_seeds

Run = Callable[..., Any]


class RefusedError(Exception):
    """The error of a kernel that cannot be captured."""


class Device:
    """Captures runs on their second call; `graphs` are the captured ones."""

    def __init__(self) -> None:
        self.is_capturing = False
        self.graphs: list[Captured] = []

    def refuse(self, kernel: Run) -> Run:
        def refusing(*arguments: Any, **params: Any) -> Any:
            if self.is_capturing:
                raise RefusedError
            return kernel(*arguments, **params)

        return refusing

    def capture(self, run: Run, written: Sequence[int], in_place: Sequence[int]) -> Captured:
        return Captured(self, run, written, in_place)


class Captured:
    """A run that is captured on its second call: it runs again on copies, without the host."""

    def __init__(
        self, device: Device, run: Run, written: Sequence[int], in_place: Sequence[int]
    ) -> None:
        self.reason, self.refused_at, self.calls = "", None, 0
        self._device, self._run = device, run
        self.written, self.in_place = list(written), list(in_place)

    def __call__(self, inputs: Sequence[Any], variables: list[Any]) -> Any:
        self.calls += 1
        if self.calls == 2:
            self._try([np.array(a) for a in inputs], [np.array(a) for a in variables])
        own = [np.array(a) if k in self.in_place else a for k, a in enumerate(variables)]
        return self._run(inputs, own)

    def _try(self, inputs: list[Any], variables: list[Any]) -> None:
        self._device.is_capturing = True
        try:
            self._run(inputs, variables)
            self._device.graphs.append(self)
        except RefusedError as error:
            self.reason, trace = "It was refused.", error.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code is self._run.__code__:
                    self.refused_at = trace.tb_lineno
                trace = trace.tb_next
        finally:
            self._device.is_capturing = False


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    capabilities.use(monkeypatch, capture=capabilities.Capture(made.capture))
    return made


@pytest.fixture
def without(device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Device]:
    """Returns a function that sets the primitives that captures refuse."""

    def refuse(*names: str) -> Device:
        for name in names:
            kernel = PRIMITIVES[name].kernel(np.ndarray)
            monkeypatch.setitem(PRIMITIVES[name].kernels, np.ndarray, device.refuse(kernel))
        return device

    return refuse


@pytest.fixture
def without_sort(without: Callable[..., Device]) -> Device:
    return without("sort", "argsort")  # a program that needs values and order sorts once


def run_of(function: Any) -> Any:
    (entry,) = function._entries.values()
    return entry.program._run


def training(apart: Callable[[Any], Any]) -> Callable[..., Any]:
    w = tf.Variable(np.linspace(-1.0, 1.0, 12).reshape(4, 3))
    optimizer = tf.optimizers.SGD(0.1, momentum=0.9)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = apart(tf.tanh(x @ w))
            loss = tf.reduce_mean(tf.square(y - 0.3) * tf.constant([1.0, 2.0, 3.0], tf.float64))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss, w.value(), y

    return step


def check_equal(make: Callable[[], Any], calls: int = 6) -> Any:
    """Compare a function with eager calls; return the function."""
    x = tf.constant(np.random.default_rng(0).normal(size=(5, 4)))
    eager, recorded = make(), tf.function(make())
    for _ in range(calls):
        for one, other in zip(recorded(x), eager(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    return recorded


def test_a_program_without_such_steps_is_one_graph(device: Device) -> None:
    recorded = check_equal(lambda: training(lambda y: y))

    assert device.graphs == [run_of(recorded)]


def test_what_a_capture_refuses_runs_between_two_graphs(without_sort: Device) -> None:
    recorded = check_equal(lambda: training(tf.sort))

    run = run_of(recorded)
    assert isinstance(run, PartitionedRun)
    assert run.uncaptured == ["argsort"]
    assert len(without_sort.graphs) == 2
    assert run.reason == ""


def test_variables_are_written_by_the_last_graph_alone(without_sort: Device) -> None:
    check_equal(lambda: training(tf.sort))

    first, last = without_sort.graphs
    assert first.written == []
    assert len(last.written) == len(last.in_place) + 1  # but for the number of steps
    assert len(last.in_place) == 2


def test_the_text_names_what_runs_between_graphs(without_sort: Device) -> None:
    recorded = check_equal(lambda: training(tf.sort))
    x = tf.constant(np.random.default_rng(0).normal(size=(5, 4)))

    assert "runs as CUDA graphs, with argsort between them" in str(recorded.program(x))


def test_several_steps_of_different_kinds(without: Callable[..., Device]) -> None:
    without("argsort", "cumulative_sum")

    recorded = check_equal(lambda: training(lambda y: tf.sort(tf.exp(tf.cumsum(y)))), calls=8)

    assert sorted(run_of(recorded).uncaptured) == ["argsort", "cumulative_sum"]
    assert run_of(recorded).reason == ""


def test_steps_at_the_beginning_and_at_the_end(without_sort: Device) -> None:
    def make() -> Any:
        return lambda x: (tf.sort(x), tf.sort(tf.exp(tf.sort(x) * 2.0)))

    recorded = check_equal(make)

    assert isinstance(run_of(recorded), PartitionedRun)


def test_too_many_such_steps_run_as_before(without_sort: Device) -> None:
    def many(y: Any) -> Any:
        for k in range(MAX_UNCAPTURED + 1):
            y = tf.sort(tf.sin(y + float(k)))
        return y

    recorded = check_equal(lambda: training(many))

    assert not isinstance(run_of(recorded), PartitionedRun)
    assert run_of(recorded).reason == "It was refused."


def test_prints_come_between_graphs_at_every_call(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(y: Any) -> Any:
        tf.print("sum", tf.reduce_sum(y))
        return y

    x = tf.constant(np.ones((5, 4)))
    recorded = tf.function(training(shown))
    for _ in range(4):
        recorded(x)
    lines = capsys.readouterr().err.split("\n") + capsys.readouterr().out.split("\n")

    assert len([line for line in lines if line.startswith("sum")]) == 4
    assert len(device.graphs) == 2


def test_a_check_that_fails_leaves_variables_as_they_were(device: Device) -> None:
    w = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x: Any) -> Any:
        w.assign_add(x)
        tf.debugging.assert_positive(w.value())
        w.assign(w * 2.0)
        return tf.reduce_sum(w)

    for _ in range(3):
        step(tf.constant([1.0, 1.0]))
    before = w.numpy()
    with pytest.raises(tf.errors.ArgumentError):
        step(tf.constant([-1000.0, 0.0]))

    np.testing.assert_array_equal(w.numpy(), before)
    step(tf.constant([1.0, 1.0]))
    np.testing.assert_allclose(w.numpy(), (before + 1) * 2)


def test_values_read_from_a_variable_stay(without_sort: Device) -> None:
    step = tf.function(training(tf.sort))
    x = tf.constant(np.random.default_rng(0).normal(size=(5, 4)))
    seen = [step(x)[1] for _ in range(5)]
    copies = [value.numpy().copy() for value in seen]

    for _ in range(3):
        step(x)

    for value, copy in zip(seen, copies):
        np.testing.assert_array_equal(value.numpy(), copy)


REFUSED = ("matmul", "sum", "reshape", "take", "concat", "broadcast_to", "stack", "sort")


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("seed", program_seeds(100, most=300))
def test_a_random_program_in_parts(seed: int, without: Callable[..., Device]) -> None:
    chosen = np.random.default_rng(seed).choice(len(REFUSED), 2, replace=False)
    without(*[REFUSED[k] for k in chosen])

    check_against_eager(seed, calls=6, precision=1e-11)


def test_collective_calls_are_part_of_the_graph(device: Device) -> None:
    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = distribute.all_gather(distribute.all_reduce(tf.tanh(x)))
            y = distribute.broadcast(distribute.all_to_all(y)) * distribute.reduce_scatter(x)
            loss = tf.reduce_sum(distribute.all_reduce(y, "max"))
        return loss, tape.gradient(loss, x)

    for _ in range(3):
        step(tf.constant([1.0, 2.0]))

    assert isinstance(run_of(step), Captured)
    assert len(device.graphs) == 1


def test_sends_are_not_part_of_a_graph(device: Device) -> None:
    @tf.function
    def exchanged(x: Any) -> Any:
        receipt = distribute.send(x * 2, to=0)
        return distribute.recv(x, source=0) + receipt

    for _ in range(3):
        assert exchanged(tf.constant([1.0, 2.0])).tolist() == [2.0, 4.0]

    assert set(run_of(exchanged).uncaptured) == {"send", "recv"}
