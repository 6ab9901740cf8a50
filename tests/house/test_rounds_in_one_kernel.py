"""The kernel that runs all rounds of an elementwise body, run on the host."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.kernels.loops.rounds import rounds_plan
from tapegrad_cupy.kernels.loops.rounds_source import rounds_source
from tests.house.host_cuda import run_kernel

rng = np.random.default_rng(8)
THREADS = 32


def loops_of(function, *arrays):
    """Return the calls of loops in the program of a function, with what they are given."""
    recorded = tf.function(function)
    recorded(*map(tf.constant, arrays))
    graph = recorded.program(*map(tf.constant, arrays)).graph
    return [call for call in graph.calls if call.primitive.name == "counted_loop"]


def in_one_kernel(call, operands):
    """Return what the kernel writes: the last carried values, then the stacks."""
    body, length = call.params["body"], call.params["length"]
    body.compile()
    plan = rounds_plan(body.form, call.params["backwards"])
    assert plan is not None
    layout, outputs = body.layout, body.form.graph.outputs
    first = {"entry": layout.carried, "shared": layout.carried + layout.entries}
    constants = body.form.graph.constants
    read = [
        constants[o.position] if o.kind == "constant" else operands[first[o.kind] + o.position]
        for o in plan.inputs
        if o.kind != "carried"
    ]
    results = [
        np.empty(v.shape if k < layout.carried else (length, *v.shape), v.dtype)
        for k, v in enumerate(outputs)
    ]
    blocks = -(-plan.walk.count(combined=False) // THREADS)
    arguments = [length, *operands[: layout.carried], *read, *results]
    run_kernel(rounds_source(plan, THREADS), "rounds", arguments, blocks, THREADS)
    return results


def random_operands(call):
    """Return random arrays in the shapes of what a loop is given."""
    return [np.asarray(rng.standard_normal(v.shape), "float32").astype(v.dtype) for v in call.reads]


def check(call, tolerance):
    operands = random_operands(call)
    expected = call.primitive.kernel(np.ndarray)(*operands, **call.params)
    for one, other in zip(in_one_kernel(call, operands), expected, strict=True):
        assert one.shape == other.shape
        one, other = (np.asarray(x, "float64") for x in (one, other))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [400, 407, 408, 409])  # shorter loops are no calls
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_and_its_gradient(length, reverse):

    def step(x, h, w):
        with tf.GradientTape() as tape:
            tape.watch([x, h, w])
            states = tf.scan(lambda s, y: 0.3 * tf.sin(w * s) + y, x, h, reverse=reverse)
            loss = tf.reduce_sum(states * states)
        return tape.gradient(loss, [x, h, w])

    calls = loops_of(step, np.ones((length, 3, 5)), np.ones((3, 5)), np.ones(5))
    assert len(calls) == 2
    for call in calls:
        check(call, 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64"])
def test_carried_values_are_rounded_in_every_round(dtype):
    def step(x, h):
        return tf.scan(lambda s, y: s * tf.cast(1.01, x.dtype) + y, x, h)

    first = np.ones(100), np.ones(())
    calls = loops_of(lambda x, h: step(tf.repeat(tf.cast(x, dtype), 10), tf.cast(h, dtype)), *first)
    (call,) = calls
    check(call, {"bfloat16": 0.0, "int64": 0.0, "float32": 1e-5, "float64": 1e-12}[dtype])


def test_several_carried_values_move_on_together():
    def step(x, a, b):
        return tf.scan(lambda s, y: (s[1] + y, s[0] * 0.5), x, (a, b))

    (call,) = loops_of(step, np.ones((300, 6)), np.ones(6), np.ones(6))
    check(call, 1e-10)


def test_bodies_with_products_sums_or_windows_have_no_such_kernel():
    bodies = [
        lambda s, y: tf.linalg.matvec(tf.ones([6, 6], "float64"), tf.tanh(s)) / 9 + tf.sin(y),
        lambda s, y: s / tf.reduce_sum(s) + y,
        lambda s, y: tf.sin(tf.roll(s, 1, 0)) / 2 + y,
    ]
    for body in bodies:
        (call,) = loops_of(lambda x, h: tf.scan(body, x, h), np.ones((300, 6)), np.ones(6))  # noqa: B023
        call.params["body"].compile()
        assert rounds_plan(call.params["body"].form, False) is None
