"""Sequences: steps of a program that run in one call give what the steps give one by one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.backend.native_sequences import SequencePlan
from tapegrad_numpy.sequences import calls
from tapegrad_numpy.sequences.blas import blas
from tests.program.native_calls import run_alone, sequences_of

RNG = np.random.default_rng(5)


def matrix(rows: int, columns: int, form: str, dtype: str) -> np.ndarray:
    """Return a matrix that is contiguous, transposed, or a part of a wider one."""
    if form == "transposed":
        return RNG.standard_normal((columns, rows)).astype(dtype).T
    if form == "part":
        return RNG.standard_normal((rows, columns + 3)).astype(dtype)[:, 1 : columns + 1]
    return RNG.standard_normal((rows, columns)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flag_a", [False, True])
@pytest.mark.parametrize("flag_b", [False, True])
def test_products_take_all_layouts(dtype: str, flag_a: bool, flag_b: bool) -> None:
    if blas() is None:
        pytest.fail("The BLAS functions of NumPy were not found.")
    forms = ("whole", "transposed", "part")
    sizes = itertools.product((1, 2, 9), (1, 4, 33), (1, 3, 8))
    for (m, k, n), form_a, form_b in itertools.product(sizes, forms, forms):
        a = matrix(*((k, m) if flag_a else (m, k)), form_a, dtype)
        b = matrix(*((n, k) if flag_b else (k, n)), form_b, dtype)
        params = {"transpose_a": flag_a, "transpose_b": flag_b}
        found = run_alone("matmul", [a, b], params, (m, n))
        expected = (a.T if flag_a else a).astype(float) @ (b.T if flag_b else b)
        assert found is not None
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes", [(16, 16, 16), (40, 64, 33), (20, 64, 64), (17, 65, 63), (300, 12, 5)]
)
@pytest.mark.parametrize("form", ["whole", "part"])
def test_products_with_a_small_transposed_matrix(
    sizes: tuple[int, int, int], form: str, dtype: str
) -> None:
    m, k, n = sizes
    a, b = matrix(m, k, form, dtype), matrix(n, k, form, dtype)
    found = run_alone("matmul", [a, b], {"transpose_a": False, "transpose_b": True}, (m, n))
    terms = np.abs(a.astype(float)) @ np.abs(b.T)
    assert found is not None
    assert (np.abs(found - a.astype(float) @ b.T) <= 8 * np.finfo(dtype).eps * terms).all()


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((3, 4), (5, 4, 2)),
        ((6, 5, 1, 3), (6, 1, 3, 4)),
        ((5, 2, 3), (1, 3, 1)),
    ],
)
def test_stacks_of_products_broadcast(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (RNG.standard_normal(shape) for shape in shapes)
    expected = a @ b
    params = {"transpose_a": False, "transpose_b": False}
    found = run_alone("matmul_stack", [a, b], params, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_copies_of_views(dtype: str) -> None:
    x = (RNG.standard_normal((4, 5, 6)) * 9).astype(dtype)
    part = (slice(1, 3), slice(None), slice(0, 6, 2))
    cases: list[tuple[str, list[Any], dict[str, Any], Any]] = [
        ("slice", [x], {"index": part}, x[part]),
        ("slice", [x], {"index": (2, 3, 1)}, x[2, 3, 1]),
        ("slice", [x], {"index": (slice(None, None, -1),)}, x[::-1]),
        ("unslice", [x[part].copy()], {"index": part, "shape": x.shape}, None),
        ("permute_dims", [x], {"axes": (2, 0, 1)}, x.transpose(2, 0, 1)),
        ("reshape", [x], {"shape": (20, 6)}, x.reshape(20, 6)),
        ("flip", [x], {"axis": (0, 2)}, x[::-1, :, ::-1]),
        ("roll", [x], {"shift": (2,), "axis": (1,)}, np.roll(x, 2, 1)),
        ("concat", [x, x[:2]], {"axis": 0, "sizes": (4, 2)}, np.concatenate([x, x[:2]])),
        ("concat", [x, x], {"axis": 2, "sizes": (6, 6)}, np.concatenate([x, x], 2)),
        ("stack", [x, x], {"axis": 1}, np.stack([x, x], 1)),
        ("full_like", [x], {"shape": (3,), "value": 1, "dtype": dtype}, np.ones(3, dtype)),
    ]
    for name, given, params, result in cases:
        if name == "unslice":
            result = np.zeros_like(x)
            result[part] = x[part]
        found = run_alone(name, given, params, np.shape(result))
        np.testing.assert_array_equal(found, result, err_msg=name)


def step_function() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    w = tf.constant(RNG.standard_normal((6, 6)))
    x = tf.constant(RNG.standard_normal((6, 6)))

    def f(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            h = x
            for k in range(5):
                h = tf.tanh(h @ w) + tf.transpose(h)[k : k + 1]
                h = tf.concat([h[1:], h[:1]], 0)
            loss = tf.reduce_sum(h[:, ::2] ** 2)
        return loss, tape.gradient(loss, [x, w]), tf.transpose(h)

    return f, (x, w)


def test_a_step_is_one_call_and_equals_eager_mode() -> None:
    f, args = step_function()
    compiled = tf.function(f, wait=True)
    for _ in range(3):
        found, expected = tf.nest.flatten(compiled(*args)), tf.nest.flatten(f(*args))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    (sequence,) = sequences_of(compiled, *args)
    assert len(sequence.steps) > 20


def test_arrays_that_do_not_lie_in_order_run_step_by_step() -> None:
    f, (x, w) = step_function()
    compiled = tf.function(f, wait=True)
    expected = tf.nest.flatten(compiled(x, w))
    turned = tf.transpose(tf.constant(np.ascontiguousarray(x.numpy().T)))
    for a, b in zip(tf.nest.flatten(compiled(turned, w)), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_reshapes_that_copy_are_steps_of_a_sequence() -> None:
    def f(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            heads = tf.transpose(tf.reshape(tf.sin(x) @ w, (3, 4, 2)), (1, 0, 2))
            rows = tf.reshape(heads, (4, 6)) @ tf.ones((6, 5), tf.float64)
            loss = tf.reduce_sum(rows * tf.cos(rows))
        return loss, tape.gradient(loss, [x, w]), tf.reshape(heads, (-1,))

    args = [tf.constant(RNG.standard_normal(shape)) for shape in ((3, 5), (5, 8))]
    compiled = tf.function(f, wait=True)
    for _ in range(2):
        found, expected = tf.nest.flatten(compiled(*args)), tf.nest.flatten(f(*args))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert len(sequences_of(compiled, *args)) == 1


def test_results_outlive_later_calls() -> None:
    double = tf.function(lambda x: (tf.sin(x) @ x, tf.cos(x) @ x), wait=True)
    xs = [RNG.standard_normal((8, 8)) for _ in range(5)]
    found = [double(tf.constant(x)) for x in xs]
    for x, (a, b) in zip(xs, found):
        np.testing.assert_allclose(a, np.sin(x) @ x)
        np.testing.assert_allclose(b, np.cos(x) @ x)


def test_threads_share_a_sequence() -> None:
    f = tf.function(lambda x: tf.reduce_sum(tf.sin(x @ x) @ tf.cos(x), 0), wait=True)
    x = RNG.standard_normal((300, 300))
    f(tf.constant(x))
    expected = [(np.sin((k * x) @ (k * x)) @ np.cos(k * x)).sum(0) for k in range(1, 5)]
    wrong: list[int] = []

    def work(k: int) -> None:
        found = [f(tf.constant((k + 1) * x)) for _ in range(5)]
        wrong.extend(k for one in found if not np.allclose(one, expected[k], atol=1e-6))

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_wrong_index_is_an_error_as_in_eager_mode() -> None:
    table = tf.constant(RNG.standard_normal((10, 64)))

    @tf.function(wait=True)
    def rows(at: Any) -> Any:
        return tf.sin(tf.gather(table * 2.0, at)) * 3.0

    good = np.arange(9)
    np.testing.assert_allclose(rows(tf.constant(good)), np.sin(table.numpy()[good] * 2) * 3)
    with pytest.raises((IndexError, tf.errors.InvalidArgumentError)):
        rows(tf.constant(np.array([0, 1, 2, 3, 4, 5, 6, 7, 10])))


@pytest.mark.parametrize("backwards", [False, True])
def test_rounds_run_in_one_call(backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    original = calls.sequence_function

    def watched(plan: SequencePlan) -> Any:
        made.append(plan.rounds)
        return original(plan)

    monkeypatch.setattr(calls, "sequence_function", watched)
    a = tf.constant(RNG.standard_normal((3, 3)) * 0.4)
    rows = tf.constant(RNG.standard_normal((600, 2, 3)))

    @tf.function(wait=True)
    def f(a: Any, rows: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, rows])
            states = tf.scan(
                lambda h, x: (tf.tanh(h[0] @ a + x), h[0]),
                rows,
                (tf.zeros((2, 3), tf.float64), tf.zeros((2, 3), tf.float64)),
                reverse=backwards,
            )
            loss = tf.reduce_sum(states[0] * states[1])
        return states, tape.gradient(loss, [a, rows])

    def by_numpy(a: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = before = np.zeros((2, 3))
        found = np.zeros((2, 600, 2, 3))
        for k in range(600)[:: -1 if backwards else 1]:
            h, before = np.tanh(h @ a + rows[k]), h
            found[:, k] = h, before
        return found[0], found[1]

    f(a, rows)
    states, gradients = f(a, rows)  # the first call may run while it is recorded
    expected = by_numpy(a.numpy(), rows.numpy())
    for found, known in zip(states, expected):
        np.testing.assert_allclose(found, known, rtol=1e-10)
    assert sum(rounds is not None for rounds in made) == 2  # the loop and its gradient
    bump = RNG.standard_normal((3, 3)) * 1e-6
    ends = [np.sum(np.prod(by_numpy(a.numpy() + s * bump, rows.numpy()), 0)) for s in (1, -1)]
    slope = float(tf.reduce_sum(gradients[0] * bump))
    assert slope == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-5)


def test_carried_values_may_change_places() -> None:
    @tf.function(wait=True)
    def fibonacci(n: int) -> Any:
        a, b = tf.constant(0.0), tf.constant(1.0)
        for _ in tf.range(n):
            a, b = b, a + b
        return a, b

    assert [float(x) for x in fibonacci(30)] == [832040.0, 1346269.0]


def test_a_condition_ends_the_rounds() -> None:
    @tf.function(wait=True)
    def collatz(n: Any) -> Any:
        return tf.while_loop(
            lambda n, _: n > 1,
            lambda n, count: (tf.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1),
            (n, 0),
        )

    assert [int(collatz(tf.constant(n))[1]) for n in (1, 7, 27, 97)] == [0, 16, 111, 118]

    @tf.function(wait=True)
    def limited(x: Any) -> Any:
        return tf.while_loop(lambda x: x > 0, lambda x: (x + 1,), (x,), maximum_iterations=9)

    assert int(limited(tf.constant(5))[0]) == 14
