"""Collective calls through NCCL: one process, and two processes on one GPU where NCCL allows it.

In a world of one process each call returns its operand or one row of it, but takes the whole way:
through NCCL, its stream and the CUDA graph of a step.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad import distribute
from tapegrad.compat import horovod
from tapegrad.core.backend.communication import World
from tapegrad.core.world import close_communicators, communicator_of, current_world, enter_world
from tapegrad.ops.collective import functions as collective
from tapegrad.testing.samples.collective import SAMPLES
from tapegrad_cupy.graphs import capture_graph

DEVICE = os.environ.get("TAPEGRAD_TEST_DEVICE", "cuda:0")
PROGRAMS = Path(__file__).parents[1] / "distribute" / "programs"
INTEGERS = ["bool", "int8", "uint8", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
DTYPES = [*INTEGERS, *FLOATS]


class Solo:
    """The control channel of a process that is alone; it keeps the calls that it is told about."""

    def __init__(self) -> None:
        self.calls: list[str | None] = []
        self.texts: dict[str, str] = {}

    def begin(self, call: str | None, is_new: bool = True) -> None:
        if is_new:
            self.calls.append(call)

    def poll(self) -> None:
        pass

    def end(self) -> None:
        pass

    def publish(self, key: str, value: str) -> None:
        self.texts[key] = value

    def look_up(self, key: str) -> str:
        return self.texts[key]


@pytest.fixture(autouse=True)
def solo() -> Iterator[Solo]:
    """A world of one process that calls NCCL."""
    peers = Solo()
    enter_world(World(peers=peers, calls_alone=True))
    with tf.device(DEVICE):
        yield peers
    close_communicators()
    enter_world(World())


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for each launch of a graph."""
    found: list[Any] = []
    launch = capture_graph.Graph.launch

    def counted(self: Any, *args: Any) -> Any:
        found.append(self)
        return launch(self, *args)

    monkeypatch.setattr(capture_graph.Graph, "launch", counted)
    return found


def nccl() -> Any:
    from cupy.cuda import nccl

    return nccl


def say(text: str) -> None:
    """Print a figure; `pytest -s` shows it."""
    sys.stdout.write(f"\n{text}\n")


def host(x: Any) -> np.ndarray:
    return np.asarray(x.numpy())


def is_whole(function: Any, *args: Any) -> bool:
    """Return whether a recorded function has become CUDA graphs without steps between them."""
    run = function.program(*args)._run
    return not getattr(run, "uncaptured", []) and not getattr(run, "reason", "")


CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": collective.all_reduce,
    "max": lambda x: collective.all_reduce(x, "max"),
    "min": lambda x: collective.all_reduce(x, "min"),
    "reduce_scatter": lambda x: collective.reduce_scatter(x, axis=1),
    "all_gather": collective.all_gather,
    "broadcast": collective.broadcast,
    "all_to_all": collective.all_to_all,
}


def test_the_world_of_one_process_calls_nccl() -> None:
    communicator = communicator_of(cupy.ndarray)

    assert type(communicator).__name__ == "NcclCommunicator"
    say(f"NCCL {nccl().get_version()}")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_call_takes_each_dtype(name: str, dtype: str, solo: Solo) -> None:
    x = tf.cast(tf.constant([[1, 0, 3], [4, 5, 100]]), dtype)
    is_sum = name in ("sum", "reduce_scatter")
    if (dtype == "bool" and is_sum) or (dtype.startswith("complex") and name in ("max", "min")):
        with pytest.raises(TypeError, match=f"cannot compute the .* of {dtype} arrays"):
            CALLS[name](x)
        return

    y = CALLS[name](x)

    assert y.dtype == x.dtype
    assert len(solo.calls) == 1
    np.testing.assert_array_equal(host(y), host(x))
    transposed = tf.transpose(x)  # not contiguous
    if name != "reduce_scatter":
        np.testing.assert_array_equal(host(CALLS[name](transposed)), host(transposed))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_samples_and_their_gradients(sample: Any) -> None:
    rng = np.random.default_rng(5)
    (draw,) = sample.args
    x = tf.constant(draw(rng))
    expected = sample.reference(host(x))

    def with_gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sample.function(x)
            target = tf.reduce_sum(y * y)
        return y, tape.gradient(target, x)

    calls = [with_gradient] + 4 * [tf.function(with_gradient)]
    for call in calls if sample.differentiable else 2 * [lambda x: (sample.function(x), None)]:
        y, slope = call(x)
        made = y if isinstance(y, tuple) else (y,)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for one, other in zip(made, wanted, strict=True):
            np.testing.assert_allclose(host(one), other)
        if slope is not None:
            np.testing.assert_allclose(host(slope).ravel(), 2 * expected.ravel())


def test_calls_without_axes_and_without_elements() -> None:
    assert float(collective.all_reduce(tf.constant(3.0))) == 3.0
    assert collective.all_reduce(tf.zeros([0, 3])).shape == (0, 3)
    assert collective.all_gather(tf.zeros([0, 3])).shape == (0, 3)


def test_sends_meet_receives() -> None:
    x = tf.constant(np.arange(2_000_000, dtype="float32"))
    for k in range(3):
        # NCCL refuses groups in which a process sends more often to itself than it receives.
        collective.send(x + k, to=0)
        np.testing.assert_array_equal(host(collective.recv(x, source=0)), host(x) + k)


def test_calls_are_part_of_the_graph(launches: list[Any], solo: Solo) -> None:
    def several(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = collective.all_reduce(tf.tanh(x))
            y = collective.all_gather(y) + collective.broadcast(2 * y)
            y = collective.all_to_all(y) * collective.reduce_scatter(x)
            loss = tf.reduce_sum(y)
        return loss, tape.gradient(loss, x)

    recorded = tf.function(several)
    rng = np.random.default_rng(0)
    kept = [tf.constant(rng.normal(size=(64, 32)), "float32") for _ in range(8)]
    solo.calls.clear()
    several(kept[0])
    in_one_call, solo.calls[:] = list(solo.calls), []

    for x in kept:  # each at another address
        for found, expected in zip(recorded(x), several(x)):
            np.testing.assert_allclose(host(found), host(expected), rtol=1e-5, atol=1e-6)

    assert is_whole(recorded, kept[0])
    assert len(launches) >= 6
    # The others are told about a call whenever it is made, and in the same order.
    assert [*dict.fromkeys(solo.calls)] == [*dict.fromkeys(in_one_call)]
    assert len(solo.calls) == 16 * len(in_one_call)


def test_a_large_input_of_a_call_may_move() -> None:
    recorded = tf.function(lambda x: 2 * collective.all_reduce(x))
    given = [tf.constant(np.full(1_000_000, k, "float32")) for k in range(10)]

    for _ in range(2):
        for k, x in enumerate(given):
            assert host(recorded(x))[[0, -1]].tolist() == [2 * k, 2 * k]


def test_exchanges_with_itself_in_a_graph_may_move() -> None:
    recorded = tf.function(lambda x: 2 * collective.all_to_all(x))  # a kernel of NCCL
    given = [tf.constant(np.full((1, 1_000_000), k, "float32")) for k in range(10)]

    for _ in range(2):
        for k, x in enumerate(given):
            assert host(recorded(x))[0, [0, -1]].tolist() == [2 * k, 2 * k]


def training(
    joint: bool, width: int = 64, layers: int = 3, shard: str = "", **options: Any
) -> tuple[Callable[..., Any], Any]:
    """A recorded step of a dense model, with or without sums over all processes.

    Its states or its weights may be sharded.
    """
    tf.keras.utils.set_random_seed(0)
    hidden = [tf.keras.layers.Dense(width, "relu") for _ in range(layers)]
    model = tf.keras.Sequential([tf.keras.Input((width,)), *hidden, tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.001, **options)
    if joint:
        optimizer = horovod.DistributedOptimizer(optimizer)
    if shard == "states":
        optimizer = distribute.shard_states(optimizer)
    if shard == "weights":
        distribute.fully_shard(model)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step, model


def batches(count: int, rows: int, width: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    return [
        (
            tf.constant(rng.normal(size=(rows, width)), "float32"),
            tf.constant(rng.normal(size=(rows, 1)), "float32"),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    "options", [{}, {"global_clipnorm": 1.0}, {"gradient_accumulation_steps": 2}]
)
def test_a_step_with_sums_is_one_graph_and_equals_one_without(
    options: dict[str, Any], launches: list[Any], solo: Solo
) -> None:
    data = batches(8, 32, 64)
    trained = []
    for joint in (False, True):
        step, model = training(joint, **options)
        launches.clear()
        losses = [float(step(x, y)) for x, y in data]
        trained.append([losses, *[host(w) for w in model.trainable_variables]])
    sums = [call for call in solo.calls if call is not None and "all_reduce" in call]

    for alone, joint in zip(*trained):
        np.testing.assert_allclose(joint, alone, rtol=2e-6, atol=2e-7)
    if not options.get("gradient_accumulation_steps"):  # its sums depend on a counter
        assert len(launches) <= len(data)
        assert is_whole(step, *data[0])
        assert len(sums) == len(data)
        assert {"start_sum", "wait"} <= set(str(step.program(*data[0]).source()).split())


@pytest.mark.parametrize(
    ("shard", "starts"),
    [
        ("states", {"start_reduce_scatter", "start_all_gather"}),
        ("weights", {"start_gather_shards", "start_scatter_shards"}),
    ],
)
def test_a_sharded_step_is_one_graph_and_equals_one_without(
    shard: str, starts: set[str], launches: list[Any]
) -> None:
    data = batches(8, 32, 64)
    trained = []
    for how in ("", shard):
        step, model = training(False, shard=how)
        launches.clear()
        losses = [float(step(x, y)) for x, y in data]
        with distribute.whole_weights(model):
            trained.append([losses, *[host(w) for w in model.trainable_variables]])

    for alone, sharded in zip(*trained):
        np.testing.assert_allclose(sharded, alone, rtol=2e-5, atol=2e-6)
    assert len(launches) <= len(data)
    assert is_whole(step, *data[0])
    assert starts <= set(str(step.program(*data[0]).source()).split())


def test_sums_overwrite_gradients_that_nothing_else_reads() -> None:
    step = training(True, 512, 2)[0]
    data = batches(4, 32, 512)
    for x, y in data:
        step(x, y)

    program = step.program(*data[0])
    sums = [k for k, one in enumerate(program.steps) if "start_sum" in str(one)]
    assert sums
    assert set(sums) <= program._over


def test_fit_with_the_averages_of_horovod() -> None:
    x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
    found = []
    for joint in (False, True):
        tf.keras.utils.set_random_seed(3)
        model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.SGD(0.01)
        model.compile(horovod.DistributedOptimizer(optimizer) if joint else optimizer, "mse")
        model.fit(x, x[:, :1], batch_size=32, epochs=2, verbose=0)
        found.append(host(model.trainable_variables[0]))

    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_the_time_of_a_step_is_reported() -> None:
    data = batches(4, 1024, 2048)
    steps = [training(joint, 2048, 8)[0] for joint in (False, True)]
    best = [float("inf"), float("inf")]
    for _ in range(12):
        for k, step in enumerate(steps):
            for x, y in data:
                step(x, y)
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            for _ in range(5):
                for x, y in data:
                    step(x, y)
            cupy.cuda.Device().synchronize()
            best[k] = min(best[k], (time.perf_counter() - start) / 20)
    alone, joint = best
    say(f"step {alone * 1e6:.1f} us, with NCCL {joint * 1e6:.1f} us: {joint / alone - 1:+.2%}")

    assert is_whole(steps[1], *data[0])


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TAPEGRAD_WAIT": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        cwd=Path(__file__).parents[2],
    )


ENDS = """
import tapegrad as tf
from tapegrad.core.backend.communication import World
from tapegrad.core.world import close_communicators, enter_world
from tapegrad.ops.collective import functions as collective
from tests.gpu.test_nccl_on_cuda import Solo

enter_world(World(peers=Solo(), calls_alone=True))
step = tf.function(lambda x: collective.all_to_all(x) + collective.all_reduce(x))
with tf.device("cuda:0"):
    for _ in range(4):
        y = step(tf.ones([1, 1000]))
print(float(y[0, 0]))
close_communicators()
print("closed")
"""


def test_a_process_ends_although_its_graphs_hold_the_communicator() -> None:
    done = run(ENDS)

    assert (done.returncode, done.stdout) == (0, "2.0\nclosed\n"), done.stderr


def test_several_processes_on_one_gpu_agree_with_numpy() -> None:
    if nccl().get_version() < 23000:
        pytest.skip(f"NCCL {nccl().get_version()} has no two ranks on one GPU; 2.30 has.")
    command = [sys.executable, "-m", "tapegrad", "run", "-n", "2"]
    env = {
        **os.environ,
        "TAPEGRAD_WAIT": "1",
        "TAPEGRAD_DEVICE": "cuda:0",
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_CTAS": "4",
    }
    for program in ("collectives.py", "nccl.py"):
        done = subprocess.run(
            [*command, str(PROGRAMS / program)],
            capture_output=True,
            text=True,
            timeout=240,
            env=env,
        )
        say(f"{done.stdout}{done.stderr[-2000:]}")
        assert done.returncode == 0, done.stderr
        assert "[0] done 0 2" in done.stdout


def test_strategies_and_ranks_are_those_of_one_process() -> None:
    assert (distribute.rank(), distribute.size(), current_world().is_alone) == (0, 1, False)
    distribute.barrier()
