"""Linear algebra on the GPU against NumPy, launch by launch and in CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.gpu.test_function_on_cuda import captures_of

pytest.importorskip("cupy")

PRECISION = {"float32": 2e-4, "float64": 1e-9, "complex64": 2e-4, "complex128": 1e-9}
STACKS = [(), (1,), (3,), (2, 40)]
ORDERS = [1, 5, 16, 32, 33, 70]


def draw(rng: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def well_conditioned(rng: Any, stack: tuple[int, ...], n: int, dtype: str) -> np.ndarray:
    return (draw(rng, (*stack, n, n), dtype) + 3 * n**0.5 * np.eye(n)).astype(dtype)


def positive(rng: Any, stack: tuple[int, ...], n: int, dtype: str) -> np.ndarray:
    root = draw(rng, (*stack, n, n), dtype)
    return (root @ root.conj().swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def check(found: Any, expected: Any, dtype: str) -> None:
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    bound = PRECISION[dtype]
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * np.abs(expected).max())


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("stack", STACKS)
def test_factors_inverses_and_determinants(stack: tuple[int, ...], n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    a, s = well_conditioned(rng, stack, n, dtype), positive(rng, stack, n, dtype)
    with tf.device("cuda:0"):
        check(tf.linalg.cholesky(s), np.linalg.cholesky(s), dtype)
        # A transposed array has other steps. The factor of the conjugate is the conjugate.
        turned = tf.linalg.matrix_transpose(tf.constant(s))
        check(tf.linalg.cholesky(turned), np.linalg.cholesky(s).conj(), dtype)
        check(tf.linalg.inv(a), np.linalg.inv(a), dtype)
        sign, logarithm = tf.linalg.slogdet(a)
        expected = np.linalg.slogdet(a)
        check(sign, np.asarray(expected[0]), dtype)
        check(logarithm, np.asarray(expected[1]), dtype)
        if n <= 16:
            check(tf.linalg.det(a), np.asarray(np.linalg.det(a)), dtype)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_slopes_of_determinants(n: int, dtype: str) -> None:
    a = well_conditioned(np.random.default_rng(n), (50,), n, dtype)
    with tf.device("cuda:0"), tf.GradientTape() as tape:
        x = tf.constant(a)
        tape.watch(x)
        found = tf.linalg.det(x)
    expected = np.linalg.det(a)[:, None, None] * np.linalg.inv(a).swapaxes(-1, -2)
    check(tape.gradient(found, x), np.conj(expected), dtype)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_singular_matrix_has_a_slope_of_its_determinant(n: int) -> None:
    a = np.diag([*range(1, n), 0.0])
    with tf.device("cuda:0"), tf.GradientTape() as tape:
        x = tf.constant(a)
        tape.watch(x)
        found = tf.linalg.det(x)
    expected = np.zeros((n, n))
    expected[-1, -1] = np.prod(range(1, n))
    np.testing.assert_array_equal(tape.gradient(found, x).numpy(), expected)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize("stacks", [((), ()), ((3,), (3,)), ((12, 1), (9,)), ((), (20,))])
def test_systems(stacks: Any, width: int, n: int, dtype: str) -> None:
    rng = np.random.default_rng(n + width)
    a, b = well_conditioned(rng, stacks[0], n, dtype), draw(rng, (*stacks[1], n, width), dtype)
    by_columns = np.ascontiguousarray(b.swapaxes(-1, -2))
    a_by_columns = np.ascontiguousarray(a.swapaxes(-1, -2))
    with tf.device("cuda:0"):
        turn = tf.linalg.matrix_transpose
        given = [(tf.constant(a), tf.constant(b)), (turn(a_by_columns), turn(by_columns))]
        for matrix, rhs in given:
            for adjoined in (False, True):
                used = adjoint(a) if adjoined else a
                found = tf.linalg.solve(matrix, rhs, adjoint=adjoined)
                check(found, np.linalg.solve(used, b), dtype)
                for lower in (False, True):
                    half = np.tril(a) if lower else np.triu(a)
                    half = adjoint(half) if adjoined else half
                    found = tf.linalg.triangular_solve(matrix, rhs, lower, adjoined)
                    check(found, np.linalg.solve(half, b), dtype)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("stack", [(), (5,), (70,)])
def test_a_matrix_without_a_factor_becomes_nan(stack: tuple[int, ...], n: int) -> None:
    x = np.broadcast_to(np.eye(n), (*stack, n, n)).copy()
    x[(-1,) * len(stack)][1, 1] = -1.0
    with tf.device("cuda:0"):
        found = tf.linalg.cholesky(x).numpy().reshape(-1, n, n)
    np.testing.assert_array_equal(found[-1], np.where(np.tri(n), np.nan, 0.0))
    np.testing.assert_array_equal(found[:-1], x.reshape(-1, n, n)[:-1])


def test_empty_stacks_and_matrices() -> None:
    with tf.device("cuda:0"):
        assert tf.linalg.cholesky(np.zeros((0, 4, 4))).shape == (0, 4, 4)
        assert tf.linalg.inv(np.zeros((2, 0, 0))).shape == (2, 0, 0)
        assert tf.linalg.solve(np.zeros((0, 4, 4)), np.zeros((0, 4, 2))).shape == (0, 4, 2)
        assert tf.linalg.triangular_solve(np.eye(4), np.zeros((4, 0))).shape == (4, 0)
        assert tf.linalg.slogdet(np.zeros((3, 0, 0)))[1].numpy().tolist() == [0.0] * 3


def likelihood(x: Any, y: Any) -> Any:
    """The logarithm of a Gaussian density up to a constant."""
    factor = tf.linalg.cholesky(x)
    white = tf.linalg.triangular_solve(factor, y)
    spread = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
    return tf.reduce_sum(white * white) / 2 + spread


def other_functions(x: Any, y: Any) -> Any:
    solved = tf.linalg.solve(x, y)
    return tf.reduce_sum(solved * solved) + tf.reduce_sum(
        tf.linalg.logdet(x) + tf.linalg.trace(tf.linalg.inv(x))
    )


@pytest.mark.parametrize("function", [likelihood, other_functions])
@pytest.mark.parametrize("shape", [(4, 4), (40, 40), (9, 8, 8), (12, 48, 48), (2, 300, 300)])
def test_programs_are_captured_as_a_whole(function: Any, shape: tuple[int, ...]) -> None:
    gradients = tf.value_and_grad(function, argnums=(0, 1))
    recorded = tf.function(gradients)
    with tf.device("cuda:0"):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            x = tf.constant(positive(rng, shape[:-2], shape[-1], "float64"))
            y = tf.constant(draw(rng, (*shape[:-1], 3), "float64"))
            found, expected = recorded(x, y), gradients(x, y)
            np.testing.assert_allclose(found[0].numpy(), expected[0].numpy(), rtol=1e-10)
            for one, other in zip(found[1], expected[1], strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-8, atol=1e-9)
    run = captures_of(recorded)
    assert run.reason == ""
    assert not getattr(run, "uncaptured", [])
