"""Options of `scipy.linalg` beside the plain call: structures, tolerances, pivots, two matrices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.scipy import linalg
from tests.scipy.test_stats_gradients import check

RNG = np.random.default_rng(5)
A, B, C = (RNG.normal(size=(4, 4)) + 2 * np.eye(4) for _ in range(3))
SYMMETRIC = B @ B.T + np.eye(4)
TALL = RNG.normal(size=(6, 4))
LOW = TALL[:, :2] @ RNG.normal(size=(2, 4))  # rank 2
STACK = RNG.normal(size=(3, 4, 4))


def close(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(
    "form", ["gen", "sym", "her", "pos", "diagonal", "upper triangular", "lower triangular"]
)
def test_inverses_of_structured_matrices(form, lower):
    close(
        linalg.inv(SYMMETRIC, assume_a=form, lower=lower),
        scipy.linalg.inv(
            np.diag(np.diag(SYMMETRIC)) if form == "diagonal" else SYMMETRIC,
            assume_a=None if form == "diagonal" else form,
            lower=lower,
        ),
    )
    check(lambda a: linalg.inv(0.5 * (a + tf.transpose(a)), assume_a=form), {"a": SYMMETRIC}, ["a"])


@pytest.mark.parametrize(
    "options", [{}, {"atol": 0.5}, {"rtol": 0.2}, {"atol": 0.3, "rtol": 0.1}, {"atol": 100.0}]
)
def test_tolerances_of_pseudoinverses(options):
    for x in (A, TALL, LOW):
        found, rank = linalg.pinv(x, return_rank=True, **options)
        wanted, count = scipy.linalg.pinv(x, return_rank=True, **options)
        close(found, wanted)
        assert int(rank) == count
        close(linalg.pinv(x, **options), wanted)
    found, rank = linalg.pinvh(SYMMETRIC, return_rank=True, **options)
    wanted, count = scipy.linalg.pinvh(SYMMETRIC, return_rank=True, **options)
    close(found, wanted)
    assert int(rank) == count
    check(lambda x: linalg.pinv(x, **options), {"x": TALL}, ["x"])


def test_an_absolute_tolerance_needs_one_matrix():
    with pytest.raises(ValueError, match="pinv with atol needs a single matrix"):
        linalg.pinv(STACK, atol=0.1)


@pytest.mark.parametrize("x", [A, TALL, TALL.T, A + 1j * B], ids=["square", "tall", "wide", "z"])
@pytest.mark.parametrize("mode", ["full", "economic", "r"])
def test_qr_with_pivots(x, mode):
    *parts, order = linalg.qr(x, mode=mode, pivoting=True)
    *wanted, places = scipy.linalg.qr(x, mode=mode, pivoting=True)

    np.testing.assert_array_equal(order.numpy(), places)
    for found, value in zip(parts, wanted, strict=True):
        np.testing.assert_allclose(abs(found).numpy(), abs(value), rtol=1e-9, atol=1e-10)
    if mode == "economic":
        q, r = parts
        close(q @ r, x[:, places])
        assert (np.diff(abs(np.diag(r.numpy()))) <= 0).all()


def test_qr_with_pivots_of_a_stack_and_its_gradient():
    q, r, order = linalg.qr(STACK, pivoting=True)
    close(q @ r, np.take_along_axis(STACK, order.numpy()[:, None, :], -1))
    check(lambda x: abs(linalg.qr(x, mode="economic", pivoting=True)[1]), {"x": TALL}, ["x"])
    compiled = tf.function(lambda x: linalg.qr(x, pivoting=True)[2])
    np.testing.assert_array_equal(compiled(tnp.asarray(STACK)).numpy(), order.numpy())


def _by_value(values):
    return np.sort_complex(np.asarray(values).round(9))


def test_eigenvalues_of_two_matrices():
    wanted = _by_value(scipy.linalg.eigvals(A, B))
    np.testing.assert_allclose(_by_value(linalg.eigvals(A, B)), wanted)
    w, left, right = (x.numpy() for x in linalg.eig(A, B, left=True))

    np.testing.assert_allclose(A @ right, B @ right * w, atol=1e-10)
    np.testing.assert_allclose(left.conj().T @ A, w[:, None] * (left.conj().T @ B), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1.0)
    top, bottom = linalg.eigvals(A, B, homogeneous_eigvals=True).numpy()
    np.testing.assert_allclose(_by_value(top / bottom), wanted)
    check(lambda a, b: tnp.sum(tnp.abs(linalg.eigvals(a, b))), {"a": A, "b": B}, ["a", "b"])


def test_left_vectors_of_one_matrix():
    w, left = (x.numpy() for x in linalg.eig(A, left=True, right=False))
    np.testing.assert_allclose(left.conj().T @ A, w[:, None] * left.conj().T, atol=1e-10)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_types_of_hermitian_problems(kind):
    a = A + A.T
    values, vectors = linalg.eigh(a, SYMMETRIC, type=kind)
    wanted, columns = scipy.linalg.eigh(a, SYMMETRIC, type=kind)
    close(values, wanted)
    close(abs(vectors), abs(columns))
    check(
        lambda a, b: linalg.eigvalsh(a + tf.transpose(a), b + tf.transpose(b), type=kind),
        {"a": A, "b": SYMMETRIC},
        ["a", "b"],
    )


def test_ranges_of_eigenvalues():
    wanted = scipy.linalg.eigvalsh(SYMMETRIC, subset_by_value=(2.0, 9.0))
    close(linalg.eigvalsh(SYMMETRIC, subset_by_value=(2.0, 9.0)), wanted)
    assert linalg.eigh(SYMMETRIC, subset_by_value=(2.0, 9.0))[1].shape == (4, len(wanted))
    with pytest.raises(ValueError, match="two rising values"):
        linalg.eigh(SYMMETRIC, subset_by_value=(2.0, 1.0))


@pytest.mark.parametrize("x", [A[::-1], TALL, TALL.T, A + 1j * B], ids=["a", "tall", "wide", "z"])
def test_lu_has_the_swaps_of_scipy(x):
    packed, swaps = linalg.lu_factor(x)
    wanted, piv = scipy.linalg.lu_factor(x)
    close(packed, wanted)
    np.testing.assert_array_equal(swaps.numpy(), piv)
    found, wanted = linalg.lu(x, p_indices=True), scipy.linalg.lu(x, p_indices=True)
    for ours, theirs in zip(found, wanted, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("trans", [0, 1, 2])
def test_systems_with_the_factor_of_scipy(trans):
    x = A[::-1] + 1j * B
    right = C[:, :2]
    factor = scipy.linalg.lu_factor(x)
    close(linalg.lu_solve(factor, right, trans), scipy.linalg.lu_solve(factor, right, trans))
    compiled = tf.function(lambda x, b: linalg.lu_solve(linalg.lu_factor(x), b, trans))
    close(compiled(tnp.asarray(x), tnp.asarray(right)), scipy.linalg.lu_solve(factor, right, trans))


def test_stacks_of_systems():
    right = RNG.normal(size=(4, 2))
    wanted = np.linalg.solve(STACK, right)
    close(linalg.lu_solve(linalg.lu_factor(STACK), right), wanted)
    close(linalg.lu_solve(linalg.lu_factor(STACK), right[:, 0]), wanted[..., 0])
    hermitian = STACK @ STACK.swapaxes(1, 2) + np.eye(4)
    for form in (None, "pos", "sym", "lower triangular"):
        close(
            linalg.solve(hermitian, right[:, 0], assume_a=form),
            scipy.linalg.solve(hermitian, right[:, 0], assume_a=form),
        )


def test_numbers_as_systems():
    close(linalg.solve(4.0, [1.0, 2.0]), scipy.linalg.solve(4.0, [1.0, 2.0]))
    close(linalg.solve([[4.0]], np.ones((3, 2))), scipy.linalg.solve([[4.0]], np.ones((3, 2))))


def test_axes_of_circulant_systems():
    c, b = RNG.normal(size=(2, 1, 5)), RNG.normal(size=(3, 5))
    options = {"baxis": -1, "outaxis": -1}
    close(linalg.solve_circulant(c, b, **options), scipy.linalg.solve_circulant(c, b, **options))
    check(lambda c, b: linalg.solve_circulant(c, b, **options), {"c": c, "b": b}, ["c", "b"])


def test_singular_circulant_systems():
    c, b = np.ones(4), np.arange(4.0)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        linalg.solve_circulant(c, b)
    close(
        linalg.solve_circulant(c, b, singular="lstsq"),
        scipy.linalg.solve_circulant(c, b, singular="lstsq"),
    )


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
def test_general_riccati_equations(name):
    a, b, e = 0.2 * A, 0.3 * TALL[:4, :2], np.eye(4) + 0.1 * C
    q, r, s = 3 * np.eye(4), np.array([[2.0, 0.3], [0.3, 1.0]]), 0.05 * TALL[2:, 2:]
    solve = getattr(linalg, name)

    def residual(x, e, s):
        if name == "solve_continuous_are":
            flow, seen = a.T @ x @ e, e.T @ x @ b + s
            return flow + flow.T - seen @ np.linalg.solve(r, seen.T) + q
        seen = a.T @ x @ b + s
        gain = np.linalg.solve(r + b.T @ x @ b, seen.T)
        return a.T @ x @ a - e.T @ x @ e - seen @ gain + q

    for e1, s1 in ((e, None), (None, s), (e, s)):
        x = solve(a, b, q, r, e1, s1).numpy()
        left = residual(x, np.eye(4) if e1 is None else e1, np.zeros((4, 2)) if s1 is None else s1)
        np.testing.assert_allclose(left, 0.0, atol=1e-9)
        assert np.linalg.eigvalsh(x).min() > 0
    check(lambda e, s: solve(a, b, q, r, e, s), {"e": e, "s": s}, ["e", "s"])
    plain = getattr(scipy.linalg, name)(a, b, q, r, s=s)
    np.testing.assert_allclose(solve(a, b, q, r, s=s).numpy(), plain, rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_empty_matrices(dtype):
    x = np.zeros((0, 0), dtype)
    packed, swaps = linalg.lu_factor(x)
    assert packed.shape == (0, 0)
    assert swaps.shape == (0,)
    assert [part.shape for part in linalg.schur(x)] == [(0, 0), (0, 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert linalg.lu(np.zeros((0, 3), dtype))[2].shape == (0, 3)
