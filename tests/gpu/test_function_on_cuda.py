"""Recorded functions on the GPU: replays and CUDA graphs equal eager calls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad_cupy.graphs import capture, capture_memory
from tests.steps import STEPS


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with tf.device("cuda:0"):
        yield


def host(values: Any) -> list[Any]:
    return [np.asarray(value.numpy()) for value in nest.flatten(values)]


def captures_of(function: Any) -> Any:
    (entry,) = function._entries.values()
    return entry.program._run


@pytest.mark.parametrize("name", STEPS)
def test_a_recorded_step_equals_an_eager_one(name: str) -> None:
    tf.random.set_seed(1)
    eager = STEPS[name]()
    expected = [host(eager()) for _ in range(6)]

    tf.random.set_seed(1)
    recorded = tf.function(STEPS[name]())
    found = [host(recorded()) for _ in range(6)]

    for one, other in zip(found, expected):
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def training(size: int = 32) -> tuple[Callable[..., Any], list[Any]]:
    w = tf.Variable(np.linspace(-1, 1, size * size, dtype="float32").reshape(size, size))
    optimizer = tf.optimizers.Adam(0.01)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w)))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step, [w]


def test_a_training_step_becomes_one_graph() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))

    losses = [float(step(x)) for _ in range(8)]

    run = captures_of(step)
    assert len(run._graphs) == 1
    assert run._captures == 1
    assert losses == pytest.approx(eager_losses(8), rel=1e-5)


def eager_losses(count: int) -> list[float]:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    return [float(step.python_function(x)) for _ in range(count)]


def test_a_graph_reads_new_inputs() -> None:
    step = tf.function(lambda x: tf.reduce_sum(x * 2.0))

    results = [float(step(tf.constant(np.full(5, k, "float32")))) for k in range(6)]

    assert results == [10.0 * k for k in range(6)]
    assert captures_of(step)._captures <= 2


def test_large_inputs_are_read_where_they_lie() -> None:
    size = capture.SMALL
    x, y = (tf.convert_to_tensor(cupy.full(size, k, "float32")) for k in (1, 2))
    step = tf.function(lambda x: tf.reduce_sum(x))

    results = [float(step(value)) for value in (x, x, x, x, y, y, x)]

    assert results == [size, size, size, size, 2 * size, 2 * size, size]
    assert captures_of(step)._captures == 1


def test_a_value_read_before_a_step_keeps_its_value() -> None:
    step, (w,) = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    for _ in range(4):
        step(x)
    before = w.value()
    expected = before.numpy()

    step(x)
    step(x)

    np.testing.assert_array_equal(before.numpy(), expected)
    assert not np.array_equal(w.numpy(), expected)


def test_large_results_may_be_kept() -> None:
    x = tf.convert_to_tensor(cupy.arange(capture.SMALL, dtype="float32"))
    scale = tf.Variable(1.0)

    @tf.function
    def step() -> Any:
        scale.assign_add(1.0)
        return x * scale

    kept = [step() for _ in range(7)]

    for k, result in enumerate(kept):
        assert float(result[1]) == 2.0 + k


def test_an_assignment_outside_is_seen() -> None:
    w = tf.Variable(2.0)
    step = tf.function(lambda x: x * w)
    x = tf.constant(3.0)
    assert [float(step(x)) for _ in range(4)] == [6.0] * 4

    w.assign(5.0)

    assert [float(step(x)) for _ in range(4)] == [15.0] * 4


def test_exchanged_variables() -> None:
    a, b = tf.Variable([1.0]), tf.Variable([2.0])

    @tf.function
    def swap() -> None:
        first, second = a.value(), b.value()
        a.assign(second)
        b.assign(first)

    seen = []
    for _ in range(6):
        swap()
        seen.append((float(a[0]), float(b[0])))

    assert seen == [(2.0, 1.0), (1.0, 2.0)] * 3


def test_what_cannot_be_captured_runs_all_the_same() -> None:
    a = np.diag(np.arange(1.0, 5.0))
    step = tf.function(lambda x: tf.linalg.eigh(x)[0])

    for _ in range(5):
        np.testing.assert_allclose(step(tf.constant(a)).numpy(), np.arange(1.0, 5.0), atol=1e-12)


def with_eigenvalues(w: Any) -> Callable[[Any], Any]:
    """A training step with an eigenvalue problem, which CuPy does not capture, in its middle."""
    optimizer = tf.optimizers.SGD(0.01, momentum=0.9)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            values, vectors = tf.linalg.eigh(w + tf.transpose(w))
            y = (vectors * tf.tanh(values)) @ tf.transpose(vectors) @ tf.tanh(x)
            loss = tf.reduce_sum(tf.square(y))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss, y

    return step


def test_what_cannot_be_captured_runs_between_graphs() -> None:
    start = np.random.default_rng(0).normal(size=(8, 8))
    ours, theirs = tf.Variable(start), tf.Variable(start)
    recorded, eager = tf.function(with_eigenvalues(ours)), with_eigenvalues(theirs)
    inputs = [tf.constant(np.random.default_rng(k).normal(size=(8, 3))) for k in range(12)]
    for k, x in enumerate(inputs):
        for one, other in zip(host(recorded(x)), host(eager(x))):
            np.testing.assert_allclose(one, other, rtol=1e-10, err_msg=f"call {k}")

    run = captures_of(recorded)
    assert run.reason == ""
    assert set(run.uncaptured) == {"eigh"}
    graphs = [part for part in run.runs if hasattr(part, "memory")]
    assert len(graphs) >= 2
    assert all(part._graphs for part in graphs)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.roll(x, 3, 0) + tf.roll(x, [-1, 2], [1, 0]),
        lambda x: tf.searchsorted(tf.sort(x, axis=1), x),
        lambda x: tf.cumsum(x, axis=1),
    ],
    ids=["roll", "searchsorted", "cumsum"],
)
def test_a_graph_holds_what_reads_nothing_on_the_host(function: Any) -> None:
    step = tf.function(lambda x: function(tf.tanh(x)))
    x = tf.constant(np.random.default_rng(0).normal(size=(20, 30)))

    results = [step(x).numpy() for _ in range(4)]

    run = captures_of(step)
    assert run.reason == ""
    assert not getattr(run, "uncaptured", [])
    for result in results:
        np.testing.assert_allclose(result, function(tf.tanh(x)).numpy(), rtol=1e-12)


def test_a_print_leaves_the_rest_in_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    w = tf.Variable(np.linspace(0, 1, 64, dtype="float32").reshape(8, 8))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        tf.print("loss", loss)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    x = tf.constant(np.ones((4, 8), "float32"))
    losses = [float(step(x)) for _ in range(6)]

    written = capsys.readouterr()
    lines = [line for line in (written.out + written.err).split("\n") if line.startswith("loss")]
    assert len(lines) == 6
    assert losses == sorted(losses, reverse=True)
    run = captures_of(step)
    assert run.reason == ""
    assert [bool(part._graphs) for part in run.runs if hasattr(part, "memory")] == [True, True]


def live_bytes() -> tuple[int, int]:
    """Bytes in CuPy's pool, and in pools of graphs that are gone."""
    gc.collect()
    capture_memory.free_retired()
    gone = sum(pool.total_bytes() for _, pool in capture_memory._retired)
    return cupy.get_default_memory_pool().used_bytes(), gone


def test_nothing_piles_up_over_ten_thousand_steps() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    for _ in range(10):
        loss = step(x)
    before, memory = live_bytes(), captures_of(step).memory

    for _ in range(10_000):
        loss = step(x)

    assert np.isfinite(float(loss))
    assert live_bytes() == before
    assert captures_of(step).memory == memory
    assert captures_of(step)._captures == 2


def test_the_memory_of_graphs_goes_with_their_function() -> None:
    x = tf.constant(np.ones((256, 256), "float32"))
    step = tf.function(lambda x: tf.reduce_sum(tf.tanh(x @ x) @ x))
    float(step(x))
    del step
    before = live_bytes()

    for _ in range(40):
        step = tf.function(lambda x: tf.reduce_sum(tf.tanh(x @ x) @ x))
        for _ in range(4):
            float(step(x))
        assert captures_of(step).memory > 0
        del step

    assert live_bytes() == before


def test_a_result_outlives_its_function() -> None:
    step = tf.function(lambda x: x * 2.0)
    x = tf.constant([1.0, 2.0])
    for _ in range(4):
        y = step(x)

    del step
    gc.collect()
    others = [tf.function(lambda x, k=k: x + float(k)) for k in range(3)]
    for other in others:
        for _ in range(4):
            other(x)

    np.testing.assert_array_equal(y.numpy(), [2.0, 4.0])


def test_a_loop_that_keeps_all_losses() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))

    losses = [step(x) for _ in range(20)]

    run = captures_of(step)
    assert [float(loss) for loss in losses] == pytest.approx(eager_losses(20), rel=1e-5)
    assert run._captures == 3
    assert run.reason == ""


def test_a_loop_that_keeps_the_last_loss_needs_two_graphs_and_no_copies() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    found = []

    for _ in range(12):
        loss = step(x)
        found.append(float(loss))

    run = captures_of(step)
    assert found == pytest.approx(eager_losses(12), rel=1e-5)
    assert run._captures == 2
    assert [graph._copied for graph in run._graphs] == [[], []]


def test_a_loop_that_keeps_the_last_large_result_copies_nothing_either() -> None:
    x = tf.convert_to_tensor(cupy.ones(1 << 25, "float32"))
    scale = tf.Variable(0.0)

    @tf.function
    def step() -> Any:
        scale.assign_add(1.0)
        return x * scale

    for number in range(1, 9):
        result = step()
        assert float(result[number]) == number

    run = captures_of(step)
    assert run._captures == 2
    assert [graph._copied for graph in run._graphs] == [[], []]


@pytest.mark.parametrize("columns", [4096, 16384])
def test_results_of_more_memory_than_the_rest_are_not_copied(columns: int) -> None:
    x = tf.convert_to_tensor(cupy.ones((5120, 5120), "float32"))
    y = tf.convert_to_tensor(cupy.ones((5120, columns), "float32"))

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return tf.tanh(x @ x) @ y  # 100 MiB that are no result

    for _ in range(6):
        result = step(x, y)

    assert float(result[1, 2]) == 5120
    is_copied = [bool(graph._copied) for graph in captures_of(step)._graphs]
    assert is_copied == ([True] if columns == 4096 else [False, False])


@pytest.mark.parametrize("size", [8, 1 << 19], ids=["small", "large"])
def test_inputs_that_alternate_between_two_arrays(size: int) -> None:
    x, y = (tf.convert_to_tensor(cupy.full(size, k, "float32")) for k in (1, 2))
    step = tf.function(lambda x: tf.reduce_sum(x) * 3.0)

    results = [float(step(x if k % 2 else y)) for k in range(12)]

    assert results == [3.0 * size if k % 2 else 6.0 * size for k in range(12)]
    assert captures_of(step)._captures <= 2


def test_inputs_that_are_new_at_each_step() -> None:
    step, kept = tf.function(lambda x: tf.reduce_sum(x) * 3.0), []

    results = []
    for k in range(30):
        kept.append(tf.constant(np.full(1 << 19, k, "float32")))
        results.append(float(step(kept[-1])))

    assert results == [3.0 * k * (1 << 19) for k in range(30)]
    assert captures_of(step)._captures <= capture.MOST_CAPTURES
    assert captures_of(step).reason == ""


def test_inputs_in_one_place_with_another_order() -> None:
    x = tf.convert_to_tensor(cupy.arange(9, dtype="float32").reshape(3, 3))
    y = tf.convert_to_tensor(x.array.T)
    step = tf.function(lambda x: x[0] * 1.0)
    for _ in range(4):
        step(x)

    np.testing.assert_array_equal(step(y).numpy(), [0.0, 3.0, 6.0])
    np.testing.assert_array_equal(step(x).numpy(), [0.0, 1.0, 2.0])


def test_values_read_at_each_step_stay() -> None:
    step, (w,) = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    twin, (v,) = training()

    kept = []
    for _ in range(20):
        step(x)
        kept.append(w.value())

    for value in kept:
        twin.python_function(x)
        np.testing.assert_allclose(value.numpy(), v.numpy(), rtol=2e-5, atol=2e-6)
    assert captures_of(step)._captures <= capture.MOST_CAPTURES


def test_a_trained_variable_that_is_assigned_between_steps() -> None:
    w = tf.Variable([1.0, 2.0])
    rate = tf.Variable(1.0)
    step = tf.function(lambda: w.assign_sub(rate * w * 0.5).value())
    for _ in range(5):
        step()

    for k in range(20):
        w.assign([4.0 + k, 8.0])
        rate.assign(0.5)
        np.testing.assert_allclose(step().numpy(), [0.75 * (4.0 + k), 6.0])

    assert captures_of(step)._captures <= 4


def test_a_program_that_trains_and_one_that_reads_do_not_disturb_each_other() -> None:
    step, (w,) = training()
    read = tf.function(lambda: tf.reduce_sum(w))
    x = tf.constant(np.ones((8, 32), "float32"))

    for _ in range(20):
        float(step(x))
        assert float(read()) == pytest.approx(float(tf.reduce_sum(w.value())), rel=1e-4, abs=1e-4)

    assert captures_of(step)._captures == 1
    assert captures_of(read)._captures == 1


def replays(run: Callable[..., Any]) -> Any:
    replay = capture.capture(run, [], [])
    x = cupy.arange(3.0)
    for _ in range(4):
        (y,), _ = replay([x], [])
        np.testing.assert_array_equal(cupy.asnumpy(y), [0.0, 2.0, 4.0])
    return replay


def read_on_the_host(x: Any) -> Any:
    return x * float(x[2])


def waited_for(x: Any) -> Any:
    cupy.cuda.get_current_stream().synchronize()
    return x * 2.0


def chosen_by_a_mask(x: Any) -> Any:
    return x * float(len(x[x > 0.0]))


@pytest.mark.parametrize("function", [read_on_the_host, waited_for, chosen_by_a_mask])
def test_what_needs_the_host_is_not_captured_and_says_why(function: Any) -> None:
    replay = replays(lambda inputs, variables: ((function(inputs[0]),), ()))

    assert replay.reason.startswith("It cannot be captured as a CUDA graph: ")
    assert replay.memory == 0
    # The next program can be captured.
    assert replays(lambda inputs, variables: ((inputs[0] * 2.0,), ())).reason == ""


def test_mistakes_during_a_capture_are_raised() -> None:
    def run(inputs: Any, variables: Any) -> Any:
        if cupy.cuda.get_current_stream().is_capturing():
            raise KeyError("a mistake")
        return (inputs[0] * 2.0,), ()

    with pytest.raises(KeyError, match="a mistake"):
        replays(run)

    assert replays(lambda inputs, variables: ((inputs[0] * 2.0,), ())).reason == ""


def test_a_capture_without_memory_is_tried_once_more_and_then_given_up() -> None:
    failures = []

    def run(inputs: Any, variables: Any) -> Any:
        if cupy.cuda.get_current_stream().is_capturing():
            failures.append(1)
            raise MemoryError("no room")
        return (inputs[0] * 2.0,), ()

    with pytest.warns(UserWarning, match="could not become a CUDA graph"):
        replay = replays(run)

    assert len(failures) == 2
    assert replay.reason == "There is no memory for a CUDA graph: no room"


def many_sizes(x: Any) -> Any:
    """Temporaries that grow, so that none fits where one before it was."""
    total = tf.reduce_sum(x)
    for k in range(2, 9):
        total = tf.reduce_mean(tf.tile(x + total, [k, 1]) @ x)
    return total, x + total


def test_planned_places_take_less_memory_and_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = tf.constant(np.linspace(0, 1, 1 << 16).reshape(256, 256) / 100)
    taken, values = [], []
    for worth in (1 << 60, 0):
        monkeypatch.setattr(capture_memory, "WORTH", worth)
        step = tf.function(many_sizes)
        for _ in range(5):
            total, y = step(x)
        taken.append(captures_of(step).memory)
        values.append((float(total), y.numpy()))

    assert captures_of(step).reason == ""
    assert 0 < taken[1] < taken[0]
    assert values[1][0] == values[0][0]
    np.testing.assert_allclose(values[1][0], float(many_sizes(x)[0]), rtol=1e-12)
    np.testing.assert_array_equal(values[1][1], values[0][1])


def test_results_of_planned_programs_outlive_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_memory, "WORTH", -(1 << 60))
    x = tf.constant(np.linspace(0, 1, 1 << 16).reshape(256, 256) / 100)
    step = tf.function(many_sizes)
    kept = [step(x)[1] for _ in range(6)]
    expected = kept[0].numpy()
    del step
    live_bytes()  # frees what nobody holds

    for _ in range(3):
        float(tf.function(many_sizes)(x)[0])

    for y in kept:
        np.testing.assert_array_equal(y.numpy(), expected)


def test_a_run_that_allocates_otherwise_each_time_is_captured_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture_memory, "WORTH", -(1 << 60))
    sizes = iter(range(1000, 100_000, 1000))

    def run(inputs: Any, variables: Any) -> Any:
        other = cupy.ndarray((next(sizes),), inputs[0].dtype)
        other[:3] = inputs[0]
        return (other[:3] * 2.0,), ()

    assert replays(run).reason == ""


def test_work_on_a_stream_of_the_user() -> None:
    step, _ = training()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = tf.constant(np.ones((8, 32), "float32"))
        losses = [float(step(x)) for _ in range(6)]
    assert losses == pytest.approx(eager_losses(6), rel=1e-5)


def test_a_function_on_several_streams_in_turn() -> None:
    step, _ = training()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    x = tf.constant(np.ones((8, 32), "float32"))
    losses = [step(x) for _ in range(3)]  # from then on graphs are launched, in their order
    cupy.cuda.Device().synchronize()

    for k in range(9):
        with streams[k % 2]:
            losses.append(step(x))
    cupy.cuda.Device().synchronize()

    assert [float(loss) for loss in losses] == pytest.approx(eager_losses(12), rel=1e-5)
