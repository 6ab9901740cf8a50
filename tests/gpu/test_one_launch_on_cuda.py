"""Muon and Adafactor: one step of all variables is one CUDA graph and equals NumPy."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapegrad as tf

pytest.importorskip("cupy")
capture = pytest.importorskip("tapegrad_cupy.graphs.capture")
capture_graph = pytest.importorskip("tapegrad_cupy.graphs.capture_graph")

SHAPES = [(48, 16), (7,), (), (16, 64), (5, 4, 3), (300, 300)]
RULES = {
    "muon": lambda **o: tf.keras.optimizers.Muon(0.1, **o),
    "adafactor": lambda **o: tf.keras.optimizers.Adafactor(0.1, **o),
}
each = pytest.mark.parametrize("name", RULES)
OPTIONS = [
    {},
    {"weight_decay": 0.3, "use_ema": True, "global_clipnorm": 2.0},
    {"gradient_accumulation_steps": 2, "clipvalue": 0.5},
]


class Training:
    """Variables on a device, and an optimizer that moves them by gradients of its own."""

    def __init__(self, place, name, dtype="float32", scaled=False, **options):
        self.place, self.dtype, self.count, self.held = place, dtype, 0, []
        rng = np.random.default_rng(0)
        with tf.device(place):
            self.variables = [tf.Variable(rng.normal(size=s), dtype=dtype) for s in SHAPES]
            self.optimizer = self.inner = RULES[name](**options)
            if scaled:
                self.optimizer = tf.keras.optimizers.LossScaleOptimizer(self.inner, 2.0)

    def step(self, hold=False):
        self.count += 1
        rng = np.random.default_rng(self.count)
        with tf.device(self.place):
            gradients = [tf.constant(rng.normal(size=s), self.dtype) for s in SHAPES]
        self.optimizer.apply_gradients(list(zip(gradients, self.variables)))
        if hold:  # so that the next ones lie elsewhere
            self.held += gradients

    def state(self):
        found = [*self.variables, *self.optimizer.variables]
        return [np.asarray(v.numpy(), np.float64) for v in found]

    def captured(self):
        (entry,) = self.inner._recorded._entries.values()
        return entry.program._run


def assert_same(gpu, cpu, precision):
    for found, wanted in zip(gpu.state(), cpu.state(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=precision, atol=precision)


@pytest.fixture
def launches(monkeypatch):
    """One entry for each launch of a graph."""
    found = []
    launch = capture_graph.Graph.launch

    def counted(self, *args):
        found.append(self)
        return launch(self, *args)

    monkeypatch.setattr(capture_graph.Graph, "launch", counted)
    return found


@each
@pytest.mark.parametrize(("dtype", "precision"), [("float32", 2e-4), ("float64", 1e-11)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_equal_those_on_the_cpu(name, dtype, precision, options):
    gpu, cpu = (Training(place, name, dtype, **options) for place in ("cuda:0", "cpu"))

    for _ in range(5):
        gpu.step()
        cpu.step()

    assert_same(gpu, cpu, precision)


@each
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_step_is_one_graph_and_reads_nothing(name, options, launches):
    training = Training("cuda:0", name, **options)
    for _ in range(4):
        training.step()
    with tf.device("cuda:0"):
        gradients = [tf.zeros(shape) for shape in SHAPES]

    launches.clear()
    with tf.debug.transfers("raise"):
        training.optimizer.apply_gradients(list(zip(gradients, training.variables)))

    assert len(launches) == 1
    assert training.captured().reason == ""


@each
def test_gradients_may_lie_anywhere(name, launches):
    gpu, cpu = (Training(place, name) for place in ("cuda:0", "cpu"))

    for _ in range(20):
        gpu.step(hold=True)
        cpu.step()

    assert_same(gpu, cpu, 1e-3)
    assert len(launches) >= 18
    assert gpu.captured()._captures <= capture.MOST_CAPTURES


@each
def test_loss_scaling_decides_about_recorded_steps(name):
    gpu, cpu = (Training(place, name, scaled=True) for place in ("cuda:0", "cpu"))

    for _ in range(20):
        gpu.step()
        cpu.step()

    assert_same(gpu, cpu, 1e-3)
    assert gpu.captured().reason == ""


@each
def test_values_read_before_a_step_stay(name):
    training = Training("cuda:0", name)
    for _ in range(4):
        before = [(v.value(), v.numpy()) for v in training.variables]
        training.step()
        for value, copied in before:
            np.testing.assert_array_equal(value.numpy(), copied)


@each
def test_graphs_end_with_their_optimizer(name):
    training = Training("cuda:0", name)
    for _ in range(3):
        training.step()
    run = weakref.ref(training.captured())

    del training
    gc.collect()

    assert run() is None
