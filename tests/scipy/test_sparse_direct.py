"""Sparse decompositions, eigenvalues and exponentials against SciPy, with their derivatives."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as reference

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy import sparse
from tapegrad.scipy.sparse.linalg import direct
from tapegrad.testing.sample import Sample, fixed, normal
from tests.scipy.on_devices import check_on_cpu
from tests.scipy.test_sparse_linalg import GENERAL, POSITIVE, SIDE
from tests.scipy.test_stats_gradients import check

RANDOM = np.random.default_rng(0)
ROW, COLUMN = np.nonzero(GENERAL)


@pytest.fixture
def always_sparse(monkeypatch):
    monkeypatch.setattr(direct, "SMALLEST", {"scipy": 1, "cupy": 1})


def matrix_of(data):
    return sparse.coo_array((data, (ROW, COLUMN)), shape=(6, 6))


def moved(change):
    return matrix_of(change + tf.constant(GENERAL[ROW, COLUMN].astype(change.dtype.dtype)))


SMALL = fixed(np.random.default_rng(5).normal(size=len(ROW)) * 0.1)
SAMPLES = [
    Sample("vector", lambda d, b: sparse.linalg.spsolve(moved(d), b), [SMALL, normal(6)]),
    Sample("columns", lambda d, b: sparse.linalg.spsolve(moved(d), b), [SMALL, normal(6, 2)]),
    Sample(
        "transposed", lambda d, b: sparse.linalg.splu(moved(d)).solve(b, "T"), [SMALL, normal(6)]
    ),
    Sample(
        "adjoint", lambda d, b: sparse.linalg.splu(moved(d)).solve(b, "H"), [SMALL, normal(6, 2)]
    ),
]


@pytest.mark.usefixtures("always_sparse")
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_derivatives_batches_and_recordings_of_sparse_solutions(sample):
    check_on_cpu(sample)


def tridiagonal(size, kind):
    lines = [np.full(size - 1, -1.0), 4.0 + np.arange(size) / size, np.full(size - 1, -1.5)]
    return kind(lines, offsets=[-1, 0, 1])


@pytest.mark.parametrize("size", [50, 5000])
def test_large_systems_and_the_gradients_of_their_entries(size):
    A, side = tridiagonal(size, sparse.diags_array), tf.constant(RANDOM.normal(size=size))
    wanted = tridiagonal(size, reference.diags_array).tocsc()

    with tf.GradientTape() as tape:
        tape.watch([A.data, side])
        x = sparse.linalg.spsolve(A, side)
        y = tf.reduce_sum(x * x)
    by_data, by_side = tape.gradient(y, [A.data, side])

    exact = reference.linalg.spsolve(wanted, side.numpy())
    share = reference.linalg.spsolve(wanted.T.tocsc(), 2 * exact)
    np.testing.assert_allclose(x.numpy(), exact, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(by_side.numpy(), share, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        by_data.numpy(), -share[A.row.numpy()] * exact[A.col.numpy()], rtol=1e-9, atol=1e-12
    )


@pytest.mark.usefixtures("always_sparse")
def test_one_decomposition_for_many_right_sides():
    lu, solve = sparse.linalg.splu(GENERAL), sparse.linalg.factorized(GENERAL)
    sides = RANDOM.normal(size=(6, 3))

    assert (lu.shape, lu.nnz) == ((6, 6), len(ROW))
    np.testing.assert_allclose(lu.solve(SIDE).numpy(), np.linalg.solve(GENERAL, SIDE))
    np.testing.assert_allclose(lu.solve(sides, "T").numpy(), np.linalg.solve(GENERAL.T, sides))
    np.testing.assert_allclose(solve(sides).numpy(), np.linalg.solve(GENERAL, sides))


@pytest.mark.usefixtures("always_sparse")
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_complex_systems(trans):
    data = tf.constant(GENERAL[ROW, COLUMN] * (1 + 0.3j) + 0.1j * ROW)
    side = tf.constant(SIDE * (1 + 2j))

    found = []
    for solve in (sparse.linalg.splu(matrix_of(data)).solve, None):
        with tf.GradientTape() as tape:
            tape.watch([data, side])
            if solve is None:
                dense = matrix_of(data).toarray()
                turned = {"N": dense, "T": tf.transpose(dense)}.get(trans, tf.linalg.adjoint(dense))
                x = tf.linalg.solve(turned, tf.reshape(side, (6, 1)))[:, 0]
            else:
                x = sparse.linalg.splu(matrix_of(data)).solve(side, trans)
            y = tf.reduce_sum(tf.abs(x))
        found.append([x, *tape.gradient(y, [data, side])])

    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.usefixtures("always_sparse")
def test_without_scipy_the_system_is_solved_as_a_dense_one(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "scipy" else find(name, *rest),
    )

    x = sparse.linalg.spsolve(sparse.csr_array(GENERAL), SIDE)

    np.testing.assert_allclose(x.numpy(), np.linalg.solve(GENERAL, SIDE), rtol=1e-12)


def test_minres_solves_indefinite_systems():
    matrix = POSITIVE - 6.0 * np.eye(6)
    assert np.linalg.eigvalsh(matrix)[0] < 0 < np.linalg.eigvalsh(matrix)[-1]

    x, info = sparse.linalg.minres(sparse.csr_array(matrix), SIDE, rtol=1e-13)
    wrong, rounds = sparse.linalg.minres(matrix, SIDE, rtol=1e-13, maxiter=2)

    np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, SIDE), rtol=1e-9)
    assert int(info) == 0
    assert int(rounds) == 2
    # Its residual is the least there is within the space.
    theirs, _ = reference.linalg.minres(matrix, SIDE, rtol=1e-13, maxiter=2)
    ours = np.linalg.norm(matrix @ wrong.numpy() - SIDE)
    assert ours == pytest.approx(np.linalg.norm(matrix @ theirs - SIDE), rel=1e-9)


def test_slopes_of_minres():
    matrix = tf.constant(POSITIVE - 6.0 * np.eye(6))
    check(
        lambda b, s: sparse.linalg.minres(lambda v: s * tf.linalg.matvec(matrix, v), b, rtol=1e-14)[
            0
        ],
        {"b": SIDE, "s": np.array(1.3)},
        ["b", "s"],
    )


def laplace(size, kind):
    lines = [np.full(size - 1, -1.0), 2.0 + 0.01 * np.arange(size), np.full(size - 1, -1.0)]
    return kind(lines, offsets=[-1, 0, 1])


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
def test_eigenvalues_of_a_large_matrix(which):
    values, vectors = sparse.linalg.eigsh(laplace(120, sparse.diags_array), 3, which)
    matrix = laplace(120, reference.diags_array).toarray()
    every = np.linalg.eigvalsh(matrix)

    wanted = every[:3] if which == "SA" else every[-3:]
    np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-11)
    np.testing.assert_allclose(matrix @ vectors.numpy(), vectors.numpy() * wanted, atol=1e-10)


def test_eigenvalues_of_operators_small_and_complex_matrices():
    operator = sparse.linalg.aslinearoperator(POSITIVE)
    hermitian = POSITIVE + 1j * (np.triu(POSITIVE, 1) - np.triu(POSITIVE, 1).T)

    found = sparse.linalg.eigsh(operator, 2, "SM", return_eigenvectors=False)
    complex_values, vectors = sparse.linalg.eigsh(hermitian, 2)

    np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(POSITIVE)[:2], rtol=1e-11)
    wanted = np.linalg.eigvalsh(hermitian)
    np.testing.assert_allclose(
        complex_values.numpy(), sorted(sorted(wanted, key=abs)[-2:]), rtol=1e-11
    )
    rest = hermitian @ vectors.numpy() - vectors.numpy() * complex_values.numpy()
    np.testing.assert_allclose(rest, 0, atol=1e-10)


PLACES = np.nonzero(POSITIVE)


def symmetric(change):
    data = change + tf.constant(POSITIVE[PLACES])
    A = sparse.coo_array((data, PLACES), shape=(6, 6))
    return (A + A.T) * 0.5


CHANGE = {"change": RANDOM.normal(size=len(PLACES[0])) * 0.1}


def test_slopes_of_eigenvalues():
    check(lambda change: sparse.linalg.eigsh(symmetric(change), 3)[0], CHANGE, ["change"])


def test_slopes_of_eigenvectors():
    def outer(change):
        vector = sparse.linalg.eigsh(symmetric(change), 2)[1][:, 0]
        return vector[:, None] * vector[None, :] * np.arange(36.0).reshape(6, 6)

    check(outer, CHANGE, ["change"])


def test_second_derivatives_of_an_eigenvalue():
    matrix = tf.constant(POSITIVE)
    other = tf.constant(np.diag(np.arange(6.0)))
    s = tf.constant(np.array(0.3))

    def slopes(largest):
        with tf.GradientTape() as outer:
            outer.watch(s)
            with tf.GradientTape() as inner:
                inner.watch(s)
                y = largest(matrix + s * other)
            slope = inner.gradient(y, s)
        return float(slope), float(outer.gradient(slope, s))

    ours = slopes(
        lambda a: sparse.linalg.eigsh(
            sparse.linalg.LinearOperator((6, 6), lambda v: tf.linalg.matvec(a, v)), 1
        )[0][0]
    )
    wanted = slopes(lambda a: tf.linalg.eigvalsh(a)[-1])

    np.testing.assert_allclose(ours, wanted, rtol=1e-8)


@pytest.mark.parametrize("size", [6, 30])
def test_eigenvalues_inside_vmap(size):
    """Examples that need different numbers of restarts, against dense matrices one by one."""
    random = np.random.default_rng(1)
    rows, columns = np.nonzero(random.uniform(size=(size, size)) < 0.3)
    entries = random.normal(size=(3, len(rows))) * np.array([[1.0], [3.0], [0.1]])

    def matrix(data):
        half = sparse.coo_array((data, (rows, columns)), shape=(size, size))
        return half + half.T + sparse.diags([np.arange(float(size))], [0])

    def largest(data):
        return sparse.linalg.eigsh(matrix(data), 2, "LA", return_eigenvectors=False)

    def dense(data):
        half = np.zeros((size, size))
        half[rows, columns] = data
        return np.linalg.eigvalsh(half + half.T + np.diag(np.arange(float(size))))[-2:]

    found = tf.vmap(largest)(tf.constant(entries))
    np.testing.assert_allclose(found, [dense(one) for one in entries], rtol=1e-10)
    slopes = tf.vmap(tf.grad(lambda data: tf.reduce_sum(largest(data))))(tf.constant(entries))
    for place in ((0, 3), (2, 7)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = entries.copy()
            moved[place] += step
            ends.append(dense(moved[place[0]]).sum())
        assert float(slopes[place]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_singular_values_inside_vmap():
    entries = np.stack([GENERAL[ROW, COLUMN], 2.0 * GENERAL[ROW, COLUMN] + 0.1])
    found = tf.vmap(lambda data: sparse.linalg.svds(matrix_of(data), 2)[1])(tf.constant(entries))
    for one, data in zip(found.numpy(), entries, strict=True):
        full = np.zeros((6, 6))
        full[ROW, COLUMN] = data
        np.testing.assert_allclose(one, np.linalg.svd(full)[1][1::-1], rtol=1e-10)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_singular_values(shape):
    matrix = RANDOM.normal(size=shape)
    u, s, vt = (part.numpy() for part in sparse.linalg.svds(sparse.csr_array(matrix), 3))
    wanted = np.linalg.svd(matrix)

    np.testing.assert_allclose(s, wanted[1][:3][::-1], rtol=1e-11)
    best = (wanted[0][:, :3] * wanted[1][:3]) @ wanted[2][:3]
    np.testing.assert_allclose((u * s) @ vt, best, atol=1e-10)
    only = sparse.linalg.svds(matrix, 3, return_singular_vectors=False)
    np.testing.assert_allclose(only.numpy(), s, rtol=1e-12)


def test_slopes_of_singular_values():
    places = np.nonzero(GENERAL)
    check(
        lambda data: sparse.linalg.svds(sparse.coo_array((data, places), shape=(6, 6)), 2)[1],
        {"data": GENERAL[places]},
        ["data"],
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0])
def test_the_exponential_times_vectors(scale):
    matrix, columns = GENERAL * scale, RANDOM.normal(size=(6, 2))
    exact = scipy.linalg.expm(matrix)

    for right in (SIDE, columns):
        found = sparse.linalg.expm_multiply(sparse.csr_array(matrix), right).numpy()
        np.testing.assert_allclose(found, exact @ right, rtol=1e-11, atol=1e-12 * abs(exact).max())


def test_slopes_of_the_exponential():
    check(
        lambda data, b: sparse.linalg.expm_multiply(matrix_of(0.3 * data), b),
        {"data": GENERAL[ROW, COLUMN], "b": SIDE},
        ["data", "b"],
    )


def test_operators_have_columns_and_adjoints():
    operator = sparse.linalg.LinearOperator(
        (4, 6), lambda v: tf.linalg.matvec(tf.constant(GENERAL[:4]), v), dtype="float64"
    )

    np.testing.assert_allclose((operator @ np.eye(6)).numpy(), GENERAL[:4], rtol=1e-14)
    by_matrix = sparse.linalg.aslinearoperator(GENERAL[:4])
    np.testing.assert_allclose((by_matrix.H @ np.eye(4)).numpy(), GENERAL[:4].T, rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: sparse.linalg.spsolve(np.ones((2, 3)), [1.0]), ShapeError, "a square matrix"),
        (lambda: sparse.linalg.spsolve(np.eye(2), [1.0]), ShapeError, "as many rows"),
        (lambda: sparse.linalg.splu(np.eye(2)).solve([1.0, 2], "C"), ArgumentError, "'N', 'T'"),
        (lambda: sparse.linalg.minres(np.eye(2), [1.0, 2], M=np.eye(2)), ArgumentError, "support"),
        (lambda: sparse.linalg.eigsh(np.eye(3), 3), ArgumentError, "from 1 to 2 eigenvalues"),
        (lambda: sparse.linalg.eigsh(np.eye(3), 1, "BE"), ArgumentError, "LM, SM, LA, SA"),
        (lambda: sparse.linalg.eigsh(np.ones((2, 3)), 1), ShapeError, "a square matrix"),
        (
            lambda: sparse.linalg.eigsh(laplace(300, sparse.diags_array), 4, "SM", maxiter=2),
            ArgumentError,
            "did not converge",
        ),
        (lambda: sparse.linalg.svds(np.eye(3), 1, which="LA"), ArgumentError, "'LM' or 'SM'"),
        (lambda: sparse.linalg.expm_multiply(np.eye(2), [1.0]), ShapeError, "as many rows"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_singular_matrix_is_refused_on_the_cpu():
    size = 200
    with tf.device("cpu"):
        A = sparse.coo_array((np.ones(1), ([0], [0])), (size, size))
        with pytest.raises(ArgumentError, match="sparse matrix is singular"):
            sparse.linalg.spsolve(A, np.ones(size))
