"""Linear algebra in sequences gives what NumPy's functions give, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.linalg.determinants import adjugate_p
from tapegrad.program.loops.native_rounds import LoopKind
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.sequences.lapack import LETTERS, lapack
from tests.program.native_calls import check_native, items_of, run_native

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

RNG = np.random.default_rng(11)
SIZES = (1, 2, 5, 30, 70)


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    x = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(dtype)


def matrices(n: int, dtype: str) -> list[np.ndarray]:
    """Return matrices that lie in memory in different ways, alone and in stacks."""
    stack = numbers((3, 2, n, n), dtype)
    wide = numbers((n, n + 4), dtype)
    return [numbers((n, n), dtype), numbers((n, n), dtype).T, wide[:, 1 : n + 1], stack, stack[1:]]


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(x).swapaxes(-1, -2)


def test_the_functions_of_lapack_are_found() -> None:
    assert lapack() is not None


@pytest.mark.parametrize("dtype", LETTERS)
@pytest.mark.parametrize("n", SIZES)
def test_results_have_the_bits_of_numpy(n: int, dtype: str) -> None:
    for a in matrices(n, dtype):
        b = numbers((*a.shape[:-1], 3), dtype)
        check_native("solve", [a, b], {"adjoint": False}, np.linalg.solve(a, b))
        check_native("solve", [a, b], {"adjoint": True}, np.linalg.solve(adjoint(a), b))
        check_native("inv", [a], {}, np.linalg.inv(a))
        if np.dtype(dtype).kind != "c":
            check_native("slogdet", [a], {}, *np.linalg.slogdet(a))
        positive = a @ adjoint(a) + n * np.eye(n, dtype=dtype)
        check_native("cholesky", [positive], {}, np.linalg.cholesky(positive))
        rows = np.ascontiguousarray(a)
        for low, high in ((None, 0), (0, None), (-1, 1), (1, None), (None, -2)):
            kept = rows if low is None else np.triu(rows, low)
            kept = kept if high is None else np.tril(kept, high)
            check_native("band_part", [rows], {"low": low, "high": high}, kept)


@pytest.mark.parametrize("dtype", LETTERS)
@pytest.mark.parametrize("n", SIZES)
def test_determinants_and_triangular_systems(n: int, dtype: str) -> None:
    tolerance = 1e-6 if np.finfo(dtype).eps > 1e-10 else 1e-10
    for a in matrices(n, dtype):
        a /= n**0.5  # the determinant of 70 rows would be too large
        found = run_native("det", [a], {}, [(a.shape[:-2], dtype)])
        assert found is not None
        np.testing.assert_allclose(found[0], np.linalg.det(a), rtol=1e-5)
        sign, log = np.linalg.slogdet(a)
        split = run_native("slogdet", [a], {}, [(sign.shape, sign.dtype), (log.shape, log.dtype)])
        assert split is not None
        np.testing.assert_allclose(split[0], sign, rtol=tolerance)
        np.testing.assert_allclose(split[1], log, rtol=tolerance, atol=tolerance)
        a += 4 * np.eye(n, dtype=dtype)
        b = numbers((n, 3), dtype)
        for lower in (True, False):
            triangle = np.tril(a) if lower else np.triu(a)
            for is_turned in (False, True):
                params = {"lower": lower, "adjoint": is_turned}
                shape = (*a.shape[:-1], 3)
                solved = run_native("triangular_solve", [a, b], params, [(shape, dtype)])
                assert solved is not None
                expected = np.linalg.solve(adjoint(triangle) if is_turned else triangle, b)
                np.testing.assert_allclose(solved[0], expected, rtol=tolerance, atol=tolerance)


def test_stacks_broadcast() -> None:
    a, b = numbers((4, 1, 3, 3), "float64"), numbers((5, 3, 2), "float64")
    check_native("solve", [a, b], {"adjoint": False}, np.linalg.solve(a, b))


def test_products_of_complex_matrices() -> None:
    for dtype in ("complex64", "complex128"):
        for turned_a in (False, True):
            for turned_b in (False, True):
                a = numbers((6, 5, 3) if turned_a else (6, 3, 5), dtype)
                b = numbers((4, 5) if turned_b else (5, 4), dtype)
                params = {"transpose_a": turned_a, "transpose_b": turned_b}
                found = run_native("matmul_stack", [a, b], params, [((6, 3, 4), dtype)])
                assert found is not None
                left = a.swapaxes(1, 2) if turned_a else a
                expected = left.astype("complex128") @ (b.T if turned_b else b)
                np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)


def message_of(function: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(np.linalg.LinAlgError) as caught:
        function(*args)
    return str(caught.value)


ONES = np.ones((3, 3))
CASES: list[tuple[str, Callable[[Any], Any], np.ndarray]] = [
    ("solve", lambda a: tf.linalg.solve(a * 1.0, a) + 1.0, ONES),
    ("inv", lambda a: tf.linalg.inv(a * 1.0) + 1.0, ONES),
    ("cholesky", lambda a: tf.linalg.cholesky(a * 1.0) + 1.0, -np.eye(3)),
    (
        "triangular_solve",
        lambda a: tf.linalg.triangular_solve(a * 1.0, tf.ones((3, 1), tf.float64)) + 1.0,
        np.zeros((3, 3)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_wrong_matrices_raise_the_error_of_eager_mode(case: Any) -> None:
    _, python, wrong = case
    compiled = tf.function(python, wait=True)
    good = tf.constant(np.eye(3) + 0.1)

    for _ in range(2):
        np.testing.assert_allclose(compiled(good), python(good), rtol=1e-12)

    # A program says where the call is.
    message = message_of(compiled, tf.constant(wrong))
    assert message.rpartition(": ")[2] in message_of(python, tf.constant(wrong))
    np.testing.assert_allclose(compiled(good), python(good), rtol=1e-12)


def test_a_singular_matrix_has_no_logarithm_but_a_sign() -> None:
    check_native("slogdet", [ONES], {}, np.float64(0), np.float64(-np.inf))
    check_native("det", [ONES], {}, np.float64(0))


def test_a_wrong_matrix_in_a_round_of_a_loop() -> None:
    @tf.function(wait=True)
    def scaled(a: Any, factor: Any) -> Any:
        for _ in tf.range(600):
            a = tf.linalg.solve(a, tf.eye(2, dtype=tf.float64)) * factor
        return a

    good = tf.constant(np.eye(2))
    np.testing.assert_allclose(scaled(good, tf.constant(1.0, tf.float64)), np.eye(2))
    assert "Singular matrix" in message_of(scaled, good, tf.constant(0.0, tf.float64))


def kalman(a: Any, observed: Any) -> Any:
    """The negative log-likelihood of a filter, and its gradient."""
    h = tf.constant(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]))
    one, noise = tf.eye(3, dtype=tf.float64), 0.5 * tf.eye(2, dtype=tf.float64)

    def step(carried: Any, y: Any) -> Any:
        m, s, _ = carried
        m, s = tf.linalg.matvec(a, m), a @ s @ tf.transpose(a) + 0.1 * one
        e, v = y - tf.linalg.matvec(h, m), h @ s @ tf.transpose(h) + noise
        gain = tf.transpose(tf.linalg.solve(v, h @ s))
        cost = tf.linalg.logdet(v) + tf.reduce_sum(e * tf.linalg.solve(v, e[:, None])[:, 0])
        return m + tf.linalg.matvec(gain, e), s - gain @ h @ s, cost

    with tf.GradientTape() as tape:
        tape.watch(a)
        first = (tf.zeros(3, tf.float64), one, tf.zeros((), tf.float64))
        cost = tf.reduce_sum(tf.scan(step, observed, first)[2])
    return cost, tape.gradient(cost, a)


def test_a_filter_runs_without_python_between_its_rounds() -> None:
    a = tf.constant(0.9 * np.eye(3) + 0.05 * RNG.standard_normal((3, 3)))
    observed = tf.constant(RNG.standard_normal((300, 2)))
    compiled = tf.function(kalman, wait=True)

    for _ in range(2):
        for found, expected in zip(compiled(a, observed), kalman(a, observed)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    program = compiled.program(a, observed)
    bodies = [
        step.params["body"] for step in program.steps if "body" in getattr(step, "params", {})
    ]
    assert bodies
    assert all(body.form.native(LoopKind(300, False)) is not None for body in bodies)


def test_a_process_is_one_sequence_in_both_directions() -> None:
    @tf.function(wait=True)
    def likelihood(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            distance = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
            root = tf.linalg.cholesky(tf.exp(-0.5 * distance) + 0.1 * tf.eye(9, dtype=tf.float64))
            weights = tf.linalg.cholesky_solve(root, y)
            value = tf.reduce_sum(y * weights) + tf.linalg.slogdet(root)[1]
        return value, tape.gradient(value, x)

    x, y = RNG.standard_normal((9, 2)), RNG.standard_normal((9, 1))

    def by_numpy(x: np.ndarray) -> float:
        distance = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = np.exp(-0.5 * distance) + 0.1 * np.eye(9)
        return float((y * np.linalg.solve(k, y)).sum() + 0.5 * np.linalg.slogdet(k)[1])

    value, slope = likelihood(tf.constant(x), tf.constant(y))
    value, slope = likelihood(tf.constant(x), tf.constant(y))

    assert float(value) == pytest.approx(by_numpy(x))
    bump = 1e-6 * RNG.standard_normal(x.shape)
    expected = (by_numpy(x + bump) - by_numpy(x - bump)) / 2
    assert float(tf.reduce_sum(slope * bump)) == pytest.approx(expected, rel=1e-5)
    assert len(items_of(likelihood, tf.constant(x), tf.constant(y))) == 1


@pytest.mark.parametrize("dtype", LETTERS)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_adjugates(n: int, dtype: str) -> None:
    for a in matrices(n, dtype):
        found = run_native("adjugate", [a], {}, [(a.shape, dtype)])
        assert found is not None
        product = np.asarray(a) @ found[0]
        expected = np.linalg.det(a)[..., None, None] * np.eye(n)
        np.testing.assert_allclose(product, expected, atol=1e-4)
    singular = np.arange(9.0).reshape(3, 3)
    cofactors = np.array([[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]])
    check_native("adjugate", [singular], {}, cofactors)


@pytest.mark.parametrize("dtype", LETTERS)
def test_adjugates_of_larger_matrices_that_may_be_singular(dtype: str) -> None:
    a = numbers((5, 6, 6), dtype)
    a[1, 2] = a[1, 3]
    a[2] = 0
    a[3, :, 0] *= 1e-7
    found = adjugate_p.kernel(np.ndarray)(a)
    assert found.shape == a.shape
    assert found.dtype == a.dtype
    for one, adjugate in zip(a.astype(complex), found, strict=True):
        minors = [[np.delete(np.delete(one, i, 0), j, 1) for i in range(6)] for j in range(6)]
        signs = (-1.0) ** np.add.outer(np.arange(6), np.arange(6))
        expected = signs * np.linalg.det(np.array(minors))
        tolerance = 1e-5 if a.itemsize // (1 + (a.dtype.kind == "c")) == 4 else 1e-11
        np.testing.assert_allclose(adjugate, expected, atol=tolerance * np.abs(expected).max())


def test_the_gradient_of_determinants_of_small_matrices_is_one_sequence() -> None:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.linalg.det(x) ** 2)
        return tape.gradient(y, x)

    x = RNG.standard_normal((20, 3, 3))
    function = tf.function(step)
    function(tf.constant(x))
    expected = 2 * (np.linalg.det(x) ** 2)[:, None, None] * np.linalg.inv(x).transpose(0, 2, 1)
    np.testing.assert_allclose(function(tf.constant(x)).numpy(), expected, rtol=1e-8, atol=1e-12)
    assert len(items_of(function, tf.constant(x))) == 1


def test_adjugates_of_matrices_that_are_not_finite_are_left_to_python() -> None:
    x = np.full((2, 2), np.nan)
    assert run_native("adjugate", [x], {}, [(x.shape, x.dtype)], code=3) is not None
