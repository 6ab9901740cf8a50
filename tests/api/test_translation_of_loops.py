"""Recorded loops in each library that is installed: scans, loops with a condition, gradients."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.program.loops import counted, recorded
from tapegrad_bench.scripts.captured import Captured, Part, all_calls, pack, unpack, widened
from tapegrad_bench.translation import LIBRARIES, Peer, translated

pytest.importorskip("scipy")

PACKAGES = {"numpy": ("numpy",), "jax": ("jax",), "torch": ("torch", "array_api_compat")}
INSTALLED = [n for n in LIBRARIES if all(map(importlib.util.find_spec, PACKAGES[n]))]

rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch):
    """Record short loops as one call, too."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


def array(*shape):
    return tf.constant(rng.standard_normal(shape))


WEIGHTS = array(3, 3)


def scan(x, h):
    return tf.scan(lambda state, y: tf.tanh(state @ WEIGHTS + y), x, h)


def reversed_scan(x, h):
    return tf.scan(lambda state, y: tf.tanh(state @ WEIGHTS + y), x, h, reverse=True)


def scan_in_a_scan(x, h):
    def outer(state, y):
        inner = tf.scan(lambda total, row: total * 0.5 + tf.sin(row), y, state[0])
        return tf.tanh(state + inner)

    return tf.scan(outer, x, h)


def fold(x, h):
    return tf.foldl(lambda total, y: total * 0.9 + tf.sin(y), x, h)


def forty_rounds(x, h):
    def body(k, state):
        return k + 1, tf.tanh(state @ WEIGHTS) + x[0]

    def always(k, state):
        return tf.reduce_sum(state * state) < 1e3

    return tf.while_loop(always, body, [tf.constant(0), h], maximum_iterations=40)[1]


def grow(x, h):
    return tf.while_loop(lambda s: tf.reduce_sum(s * s) < 500.0, lambda s: [1.5 * s + x[0]], [h])[0]


def gradients_of(function):
    def value_and_gradients(x, h):
        with tf.GradientTape() as tape:
            tape.watch([x, h])
            y = function(x, h)
        return y, tape.gradient(y, [x, h])

    value_and_gradients.__name__ = f"gradients_of_{function.__name__}"
    return value_and_gradients


def second_gradients(x, h):
    with tf.GradientTape() as tape:
        tape.watch(h)
        _, (_, first) = gradients_of(scan)(x, h)
    return tape.gradient(first, h)


COUNTED = [scan, reversed_scan, scan_in_a_scan, fold]
CONDITIONAL = [forty_rounds, grow]


def recorded_once(function, *arguments):
    """Return the results of a function and its program."""
    compiled = tf.function(function)
    expected = [y.numpy() for y in tf.nest.flatten(compiled(*arguments))]
    return expected, compiled.program(*arguments)


def loops_of(graph):
    return [c.primitive.name for c in all_calls(graph) if "loop" in c.primitive.name]


def run_in(library, program, arguments):
    peer = Peer(library)
    found, _ = translated(program.recorded, peer)([peer.array(x.numpy()) for x in arguments], [])
    return [peer.host(y) for y in found]


def check(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


NAMES = {"ids": lambda value: getattr(value, "__name__", value)}


@pytest.mark.parametrize(
    "function",
    [*COUNTED, *CONDITIONAL, *map(gradients_of, COUNTED), second_gradients],
    **NAMES,
)
@pytest.mark.parametrize("library", INSTALLED)
def test_loops_give_the_same_values(library, function):
    arguments = array(6, 2, 3), array(2, 3)
    expected, program = recorded_once(function, *arguments)

    assert loops_of(program.recorded)
    check(run_in(library, program, arguments), expected)


@pytest.mark.parametrize("function", CONDITIONAL, **NAMES)
@pytest.mark.parametrize("library", [name for name in INSTALLED if name != "jax"])
def test_gradients_of_loops_with_a_condition(library, function):
    arguments = array(6, 2, 3), array(2, 3)
    expected, program = recorded_once(gradients_of(function), *arguments)

    assert "conditional_loop_gradient" in loops_of(program.recorded)
    check(run_in(library, program, arguments), expected)


@pytest.mark.skipif("jax" not in INSTALLED, reason="JAX is not installed")
def test_jax_refuses_the_gradient_of_a_loop_with_a_condition():
    _, program = recorded_once(gradients_of(grow), array(6, 2, 3), array(2, 3))

    with pytest.raises(ArgumentError, match=r"^jax has no translation of cond.*gradient"):
        translated(program.recorded, Peer("jax"))


@pytest.mark.parametrize("library", INSTALLED)
def test_a_recurrent_layer_is_trained_as_here(library):
    model = tf.keras.Sequential([tf.keras.layers.LSTM(4), tf.keras.layers.Dense(1)])
    x = array(2, 7, 3)
    model(x)
    variables = model.trainable_variables

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        return loss, tape.gradient(loss, variables)

    expected, program = recorded_once(step, x)
    peer = Peer(library)
    known = {v.number: v.numpy() for v in model.variables}
    given = [peer.array(known[number]) for number in program.recorded.variables]

    found, _ = translated(program.recorded, peer)([peer.array(x.numpy())], given)

    assert loops_of(program.recorded).count("counted_loop") == 2
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(peer.host(one), other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("library", [name for name in INSTALLED if name != "numpy"])
def test_a_library_differentiates_a_scan_itself(library):
    arguments = array(6, 2, 3), array(2, 3)
    (_, *expected), _ = recorded_once(gradients_of(scan), *arguments)
    peer, run = (
        Peer(library),
        translated(recorded_once(scan, *arguments)[1].recorded, Peer(library)),
    )
    x, h = [peer.array(a.numpy()) for a in arguments]

    if library == "jax":
        import jax

        found = jax.grad(lambda given: run(given, [])[0][0].sum())([x, h])
    else:
        import torch

        x.requires_grad_()
        h.requires_grad_()
        found = torch.autograd.grad(run([x, h], [])[0][0].sum(), [x, h])

    check([peer.host(g) for g in found], expected)


def test_a_scan_of_no_rounds_makes_empty_stacks():
    arguments = array(6, 2, 3), array(2, 3)
    _, program = recorded_once(scan, *arguments)
    peer = Peer("numpy")
    (call,) = [c for c in program.recorded.calls if c.primitive.name == "counted_loop"]
    body = peer.param(call.params["body"])
    given = [np.zeros(spec.shape) for spec in body.inputs]

    results = peer.named("counted_loop")(*given, body=body, length=0, backwards=False)

    assert [y.shape[0] for y in results[body.layout.carried :]] == [0] * body.layout.made


@pytest.mark.parametrize("function", [scan_in_a_scan, gradients_of(grow)], **NAMES)
def test_bodies_travel_between_processes_and_become_wide(function):
    arguments = [tf.cast(x, "float32") for x in (array(6, 2, 3), array(2, 3))]
    expected, program = recorded_once(function, *arguments)
    part = Part(program.recorded, [], expected)

    captured = unpack(pack(Captured("f", (), {"whole": part})))

    wide = widened(captured.parts["whole"])
    assert loops_of(wide.graph) == loops_of(program.recorded)
    kinds = {y.dtype.name for call in all_calls(wide.graph) for y in call.results}
    assert "float32" not in kinds
    found, _ = translated(wide.graph, Peer("numpy"))([x.numpy() for x in arguments], [])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
