"""Sparse systems: solutions, and gradients by an adjoint solve."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as reference

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy import sparse
from tapegrad.testing.sample import Sample, fixed, normal
from tests.scipy.on_devices import check_on_cpu, check_on_strict_device

RANDOM = np.random.default_rng(0)


def dense(size=6, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(size, size)) * (random.uniform(size=(size, size)) < 0.5)


POSITIVE = (lambda a: a @ a.T + 5 * np.eye(6))(dense())
GENERAL = dense() + 4 * np.eye(6)
SIDE = RANDOM.normal(size=6)


@pytest.mark.parametrize("form", ["coo_array", "csr_array", "csc_array"])
def test_solvers(form):
    for name, matrix in (("cg", POSITIVE), ("bicgstab", GENERAL), ("gmres", GENERAL)):
        solver = getattr(sparse.linalg, name)
        wanted = np.linalg.solve(matrix, SIDE)
        jacobi = sparse.diags([1.0 / np.diagonal(matrix)], [0])
        for options in ({}, {"M": jacobi}, {"x0": np.ones(6)}):
            x, info = solver(getattr(sparse, form)(matrix), SIDE, rtol=1e-13, **options)
            np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-10)
            assert int(info) == 0
    np.testing.assert_allclose(
        sparse.linalg.spsolve(getattr(sparse, form)(GENERAL), SIDE).numpy(),
        np.linalg.solve(GENERAL, SIDE),
        rtol=1e-12,
    )
    sides = RANDOM.normal(size=(6, 2))
    np.testing.assert_allclose(
        sparse.linalg.spsolve(getattr(sparse, form)(GENERAL), sides).numpy(),
        np.linalg.solve(GENERAL, sides),
        rtol=1e-12,
    )


def test_a_solver_that_runs_out_of_rounds_says_how_many_there_were():
    x, info = sparse.linalg.cg(sparse.csr_array(POSITIVE), SIDE, rtol=1e-13, maxiter=2)

    assert int(info) == 2
    assert np.isfinite(x.numpy()).all()


def test_a_right_side_of_zeros_is_solved_by_zeros():
    for name in ("cg", "bicgstab", "gmres"):
        x, info = getattr(sparse.linalg, name)(sparse.csr_array(POSITIVE), np.zeros(6))

        assert x.numpy().tolist() == [0.0] * 6
        assert int(info) == 0


def test_gmres_with_restarts_solves_a_larger_system():
    random = np.random.default_rng(3)
    matrix = dense(60, seed=3) * 0.1 + np.diag(random.uniform(1, 3, size=60))
    side = random.normal(size=60)

    x, info = sparse.linalg.gmres(sparse.csr_array(matrix), side, rtol=1e-12, restart=8)

    np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, side), rtol=1e-9, atol=1e-10)
    assert int(info) == 0


def test_complex_systems():
    matrix = POSITIVE + 1j * (np.triu(POSITIVE, 1) - np.triu(POSITIVE, 1).T)
    side = SIDE * (1 + 2j)
    for name in ("cg", "bicgstab", "gmres"):
        x, _ = getattr(sparse.linalg, name)(sparse.csr_array(matrix), side, rtol=1e-13)

        np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, side), rtol=1e-9)


def test_gradients_of_complex_systems():
    side = tf.constant(SIDE * (1 + 2j))
    data = tf.constant(GENERAL[GENERAL != 0] * (1 + 0.1j))
    places = np.nonzero(GENERAL)

    found = []
    for name in ("spsolve", "gmres"):
        with tf.GradientTape() as tape:
            tape.watch([data, side])
            A = sparse.coo_array((data, places), shape=(6, 6))
            options = {} if name == "spsolve" else {"rtol": 1e-14}
            x = getattr(sparse.linalg, name)(A, side, **options)
            y = tf.abs(x if name == "spsolve" else x[0])
        found.append(tape.gradient(y, [data, side]))

    for direct, implicit in zip(*found, strict=True):
        np.testing.assert_allclose(implicit.numpy(), direct.numpy(), rtol=1e-9, atol=1e-12)


def test_operators_and_their_preconditioners():
    for name, matrix in (("cg", POSITIVE), ("bicgstab", GENERAL), ("gmres", GENERAL)):
        tensor, inverse = tf.constant(matrix), tf.constant(1.0 / np.diagonal(matrix))
        A = sparse.linalg.LinearOperator((6, 6), lambda v, a=tensor: tf.linalg.matvec(a, v))
        x, info = getattr(sparse.linalg, name)(A, SIDE, rtol=1e-13, M=lambda v, m=inverse: m * v)

        np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, SIDE), rtol=1e-10)
        assert int(info) == 0


def test_variables_that_a_function_reads_get_gradients():
    scale = tf.Variable(np.array(2.0))

    with tf.GradientTape() as tape:
        x, _ = sparse.linalg.cg(lambda v: scale * v, [2.0, 4.0])
    gradient = tape.gradient(x, scale)

    np.testing.assert_allclose(gradient.numpy(), -(1.0 + 2.0) / 2.0)


def test_the_iterations_are_not_on_the_tape():
    A, b = sparse.csr_array(POSITIVE), tf.Variable(SIDE)

    with tf.GradientTape() as tape:
        x, _ = sparse.linalg.cg(A, b, rtol=1e-12)
    gradient = tape.gradient(x, b)

    np.testing.assert_allclose(gradient.numpy(), np.linalg.solve(POSITIVE.T, np.ones(6)), rtol=1e-9)


@pytest.mark.parametrize("ord", [None, "fro", 1, np.inf])
def test_norms(ord):
    found = sparse.linalg.norm(sparse.csr_array(dense()), ord)

    np.testing.assert_allclose(
        found.numpy(), reference.linalg.norm(reference.csr_array(dense()), ord), rtol=1e-13
    )


ROW, COLUMN = np.nonzero(POSITIVE)


def solution(name, **options):
    """A solver as a function of the entries of a positive definite matrix and the right side."""

    def solve(change, b):
        data = POSITIVE[ROW, COLUMN].astype(change.dtype.dtype)
        entries = change + tf.constant(data)
        A = sparse.coo_array((entries, (ROW, COLUMN)), shape=(6, 6))
        # Entries move one by one, and conjugate gradients need a symmetric matrix.
        A = (A + A.T) * 0.5 if name == "cg" else A
        found = getattr(sparse.linalg, name)(A, b, **options)
        return found[0] if isinstance(found, tuple) else found

    return solve


def by_function(name, **options):
    """The same with the matrix as a function of a vector."""

    def solve(matrix, b):
        matrix = matrix + tf.constant(POSITIVE.astype(matrix.dtype.dtype))
        A = (matrix + tf.transpose(matrix)) * 0.5 if name == "cg" else matrix
        return getattr(sparse.linalg, name)(lambda v: tf.linalg.matvec(A, v), b, **options)[0]

    return solve


SMALL = fixed(np.random.default_rng(5).normal(size=len(ROW)) * 0.1)
SAMPLES = [
    Sample("spsolve", solution("spsolve"), [SMALL, normal(6)]),
    Sample("cg", solution("cg", rtol=1e-14, maxiter=12), [SMALL, normal(6)]),
    Sample("bicgstab", solution("bicgstab", rtol=1e-14, maxiter=10), [SMALL, normal(6)]),
    *[
        Sample(
            f"{name}-by-function",
            by_function(name, rtol=1e-14, maxiter=rounds),
            [fixed(np.random.default_rng(6).normal(size=(6, 6)) * 0.1), normal(6)],
        )
        for name, rounds in (("cg", 12), ("bicgstab", 10), ("gmres", 2))
    ],
    Sample("gmres", solution("gmres", rtol=1e-14, maxiter=2), [SMALL, normal(6)]),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_derivatives_batches_and_recordings(sample):
    check_on_cpu(sample)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_nothing_is_read_back_from_a_device(sample):
    check_on_strict_device(sample)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: sparse.linalg.cg(np.ones((2, 3)), [1.0]), ShapeError, "a square matrix"),
        (lambda: sparse.linalg.cg(np.eye(2), [1.0]), ShapeError, "as many rows"),
        (lambda: sparse.linalg.cg(np.eye(2), [1.0, 2], callback=print), ArgumentError, "callback"),
        (lambda: sparse.linalg.cg(lambda v: v[:1], [1.0, 2]), ArgumentError, "returns vectors of"),
        (lambda: sparse.linalg.LinearOperator((2,), abs), ShapeError, "two sizes"),
        (
            lambda: sparse.linalg.cg(sparse.linalg.LinearOperator((2, 3), abs), [1.0]),
            ShapeError,
            "square operator",
        ),
        (lambda: sparse.linalg.norm(np.eye(2), 3), ArgumentError, "'fro', 1 or inf"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
