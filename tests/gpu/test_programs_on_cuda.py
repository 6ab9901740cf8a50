"""Programs on the GPU, with fused loops and CUDA graphs, equal eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.program.passes import pipeline
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.program.test_programs_equal_eager import value_and_gradients
from tests.program.test_random_programs import check_against_eager
from tests.steps import STEPS

pytest.importorskip("cupy")
capture_memory = pytest.importorskip("tapegrad_cupy.graphs.capture_memory")

PROGRAMS = 200
CALLS = 4
"""The first is recorded, the second runs launch by launch, the others as a graph."""


def assert_close(found: Any, expected: Any, precision: float) -> None:
    found, expected = nest.flatten(found), nest.flatten(expected)
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
            continue
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=precision, atol=precision)


@pytest.mark.filterwarnings("ignore:.*depends on values")  # nonzero and the like run eagerly
@pytest.mark.parametrize("sample", all_samples(), ids=repr)
def test_a_sample_with_its_gradients(sample: Sample) -> None:
    eager = value_and_gradients(sample)
    recorded = tf.function(eager)
    with tf.device("cuda:0"):
        for seed in (0, 0, 0, 1):
            tensors = [tf.constant(array) for array in sample.make(seed)]
            assert_close(recorded(*tensors), eager(*tensors), 1e-11)


@pytest.mark.parametrize("name", STEPS)
def test_training_steps(name: str) -> None:
    results = []
    for wrap in (lambda step: step, tf.function):
        tf.random.set_seed(5)
        with tf.device("cuda:0"):
            step = wrap(STEPS[name]())
            results.append([[np.asarray(v) for v in nest.flatten(step())] for _ in range(6)])

    # In float32, and fused loops round at other places than separate kernels.
    assert_close(results[1], results[0], 1e-5)


@pytest.mark.parametrize("seed", range(2000, 2000 + PROGRAMS))
def test_a_random_program(seed: int) -> None:
    with tf.device("cuda:0"):
        check_against_eager(seed, CALLS, precision=1e-10)


@pytest.mark.parametrize("seed", range(2000, 2000 + PROGRAMS // 4))
def test_a_random_program_in_planned_places(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_memory, "WORTH", -(1 << 60))
    with tf.device("cuda:0"):
        check_against_eager(seed, CALLS, precision=1e-10)


@pytest.mark.parametrize("name", STEPS)
def test_training_steps_whose_products_sum_up_operands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "LEAST_WITH_SUMS", 0)
    test_training_steps(name)


@pytest.mark.parametrize("seed", range(2000, 2000 + PROGRAMS // 4))
def test_a_random_program_whose_products_sum_up_operands(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "LEAST_WITH_SUMS", 0)
    test_a_random_program(seed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradients_of_a_large_layer_come_from_one_product(dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((512, 256), (256, 384), (384,), (512, 384))]

    @tf.function
    def gradients(x: Any, w: Any, b: Any, target: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            loss = tf.reduce_sum((x @ w + b) * target)
        return tape.gradient(loss, [w, b])

    with tf.device("cuda:0"):
        x, w, b, target = [tf.cast(tf.constant(array), dtype) for array in arrays]
        for _ in range(CALLS):
            for_w, for_b = gradients(x, w, b, target)
        calls = gradients.program(x, w, b, target).graph.calls

    assert "matmul_with_sums" in [call.primitive.name for call in calls]
    x, target = [np.asarray(tf.cast(one, "float64")) for one in (x, target)]
    # A sum of 512 random terms of about 1 is about 23, rounded once to its dtype.
    precision = 23 * 4 * (2.0**-8 if dtype == "bfloat16" else 2.0**-20)
    np.testing.assert_allclose(tf.cast(for_w, "float64"), x.T @ target, rtol=0, atol=precision)
    np.testing.assert_allclose(tf.cast(for_b, "float64"), target.sum(0), rtol=0, atol=precision)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_attention_that_is_spelled_out_runs_in_its_kernels(dtype: Any) -> None:
    """The gradients are as accurate as those of separate products, against float64."""

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            heads = tf.transpose(tf.reshape(rows, (2, 37, 3, 4, 16)), (2, 0, 3, 1, 4))
            q, k, v = tf.unstack(heads)
            weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.25)
            mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3)), (74, 64))
            loss = tf.reduce_sum(tf.cast(mixed, tf.float64) ** 2)
        return mixed, tape.gradient(loss, rows)

    recorded = tf.function(step)
    errors: dict[Any, list[float]] = {step: [], recorded: []}
    for seed in range(CALLS):
        rows = np.random.default_rng(seed).normal(size=(74, 192))
        with tf.device("cuda:0"):
            half = tf.cast(tf.constant(rows), dtype)
            exact = step(tf.cast(half, tf.float64))
            for function, found in errors.items():
                pairs = zip(function(half), exact, strict=True)
                found += [float(tf.norm(tf.cast(x, tf.float64) - y)) for x, y in pairs]

    with tf.device("cuda:0"):
        names = [call.primitive.name for call in recorded.program(half).graph.calls]
    assert names.count("attention") == names.count("attention_gradient") == 1
    assert np.all(np.array(errors[recorded]) <= 1.2 * np.array(errors[step]))


def test_loops_are_compiled_before_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = pytest.importorskip("tapegrad_cupy.kernels.loops.loops")
    compile_kernels, scheduled_source = loops.compile_kernels, loops.scheduled_source
    kernels: list[Any] = []
    late: list[Any] = []

    def compiled(given: Any) -> None:
        compile_kernels(given)
        kernels.extend(given)

    def written(loop: Any, *arguments: Any) -> Any:
        late.append(loop)
        return scheduled_source(loop, *arguments)

    monkeypatch.setattr(loops, "compile_kernels", compiled)
    with tf.device("cuda:0"):
        w = tf.Variable(np.linspace(-1, 1, 91).reshape(7, 13).astype("float32"))
        x = tf.constant(np.linspace(0, 1, 91).reshape(13, 7).astype("float32"))

        @tf.function(wait=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            z = tf.tanh(tf.transpose(x) * 3.0 + w)
            z = z - tf.reduce_mean(z, -1, keepdims=True)
            w.assign_sub(0.1 * z)
            return tf.sqrt(z * z + 1.0)[:, ::2]

        step(x)
        assert kernels
        assert all(kernel.is_compiled(0) for kernel in kernels)
        monkeypatch.setattr(loops, "scheduled_source", written)
        for _ in range(3):
            step(x)
    assert not late
