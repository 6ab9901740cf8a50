"""The kernels for small matrices, run on the host, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.house.host_cuda import run_kernel

pytest.importorskip("cupy")
small = pytest.importorskip("tapegrad_cupy.kernels.linalg.small")
sources = pytest.importorskip("tapegrad_cupy.kernels.linalg.small_source")

ORDERS = [1, 3, 4, 7, 16, 17, 32]


def source(text, dtype="float64", **macros):
    return small._source(text, dtype, **macros)


def steps(x):
    """The steps in elements from matrix to matrix, row to row and column to column."""
    return tuple(step // x.itemsize for step in x.strides)


def positive(rng, count, n):
    root = rng.normal(size=(count, n, n))
    return root @ root.swapaxes(1, 2) + np.eye(n)


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_cholesky_factors(n, transposed):
    rng = np.random.default_rng(n)
    count = 5
    x = positive(rng, count, n)
    noise = np.triu(np.full((n, n), np.nan), 1)  # the upper triangle is not read
    given = x + noise
    if transposed:
        given = np.ascontiguousarray(given.swapaxes(1, 2)).swapaxes(1, 2)
    order = small._order(n)
    y = np.full((count, n, n), 7.0)
    text = source(sources.CHOLESKY, N=order)
    blocks = -(-count * order // 32)
    run_kernel(text, "small_cholesky", [given, y, n, count, *steps(given)], blocks, 32)
    np.testing.assert_allclose(y, np.linalg.cholesky(x), rtol=1e-12, atol=1e-12)


def test_a_matrix_that_is_not_positive_definite_becomes_nan():
    x = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.diag([1.0, 1.0, 0.0])])
    y = np.full((3, 3, 3), 7.0)
    text = source(sources.CHOLESKY, N=4)
    run_kernel(text, "small_cholesky", [x, y, 3, 3, *steps(x)], 1, 32)
    np.testing.assert_array_equal(y[0], np.eye(3))
    expected = np.where(np.tri(3), np.nan, 0.0)
    np.testing.assert_array_equal(y[1], expected)
    np.testing.assert_array_equal(y[2], expected)


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("width", [1, 3, 33])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_systems(n, width, lower):
    rng = np.random.default_rng(n + width)
    count = 5
    a = rng.normal(size=(count, n, n)) + 3 * np.eye(n)
    used = np.tril(a) if lower else np.triu(a)
    b = rng.normal(size=(count, n, width))
    x = np.full((count, n, width), 7.0)
    columns, matrices = small._sharing("float64", small._order(n), width)
    macros = {"N": small._order(n), "COLUMNS": columns, "MATRICES": matrices}
    views = [a, b, x] if lower else [a[:, ::-1, ::-1], b[:, ::-1], x[:, ::-1]]
    chunks = -(-width // columns)
    numbers = [n, width, count, chunks, 0, *(s for view in views for s in steps(view))]
    blocks = -(-count // matrices) * chunks
    text = source(sources.TRIANGULAR, **macros)
    run_kernel(text, "small_triangular", [*views, *numbers], blocks, matrices * columns)
    np.testing.assert_allclose(used @ x, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("width", [1, 5, 32, 70])
def test_elimination(n, width):
    rng = np.random.default_rng(n + width)
    a, b = rng.normal(size=(3, n, n)), rng.normal(size=(3, n, width))
    a[1, 0, 0] = 0.0  # needs another pivot
    if n == 1:
        a[1] = 2.0
    x = np.full((3, n, width), 7.0)
    columns = small._order(min(width, 32))
    chunks = -(-width // columns)
    text = source(sources.ELIMINATION, N=small._order(n), WIDTH=columns)
    numbers = [0, 0, 0, n, width, chunks, 0, *steps(a), *steps(b)]
    run_kernel(text, "small_elimination", [a, b, x, *numbers], 3 * chunks, 32)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8, atol=1e-8)
    inverse = np.full((3, n, n), 7.0)
    text = source(sources.ELIMINATION, N=small._order(n), WIDTH=small._order(n))
    run_kernel(
        text, "small_elimination", [a, 0, inverse, 0, 0, 0, n, n, 1, 0, *steps(a), 0, 0, 0], 3, 32
    )
    np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", ORDERS)
def test_determinants(n):
    a = np.random.default_rng(n).normal(size=(4, n, n))
    a[3, 0] = 0.0
    signs, logs, dets = np.full(4, 7.0), np.full(4, 7.0), np.full(4, 7.0)
    text = source(sources.ELIMINATION, N=small._order(n), WIDTH=0)
    numbers = [n, 0, 1, 0, *steps(a), 0, 0, 0]
    run_kernel(text, "small_elimination", [a, 0, 0, signs, logs, dets, *numbers], 4, 32)
    expected = np.linalg.slogdet(a)
    np.testing.assert_array_equal(signs, expected[0])
    np.testing.assert_allclose(logs, expected[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dets, np.linalg.det(a), rtol=1e-9, atol=1e-12)


def cofactors(a):
    """The transposed cofactors of one matrix, by determinants of its parts."""
    n = len(a)
    parts = [
        [np.delete(np.delete(a, j, 0), i, 1) for j in range(n)]  # without row j and column i
        for i in range(n)
    ]
    signs = (-1.0) ** np.add.outer(range(n), range(n))
    return signs * np.array([[np.linalg.det(part) for part in row] for row in parts])


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_adjugates(n, transposed):
    a = np.random.default_rng(n).normal(size=(80, n, n))
    a[7] = np.outer(a[7, 0], a[7, 0])  # singular
    given = np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2) if transposed else a
    y = np.full((80, n, n), 7.0)
    text = source(sources.ADJUGATE, N=n)
    run_kernel(text, "small_adjugate", [given, y, y.size, *steps(given)], -(-y.size // 256), 256)
    np.testing.assert_allclose(y, [cofactors(one) for one in a], rtol=1e-10, atol=1e-12)


def test_determinants_of_factors():
    scipy_linalg = pytest.importorskip("scipy.linalg")
    a = np.random.default_rng(0).normal(size=(3, 40, 40))
    found = [scipy_linalg.lu_factor(one) for one in a]
    factors = np.stack([f for f, _ in found])
    pivots = np.stack([p + 1 for _, p in found]).astype(np.int32)
    signs, logs, dets = np.full(3, 7.0), np.full(3, 7.0), np.full(3, 7.0)
    text = source(sources.DETERMINANTS)
    run_kernel(text, "lu_determinants", [factors, pivots, signs, logs, dets, 40], 3, 32)
    expected = np.linalg.slogdet(a)
    np.testing.assert_array_equal(signs, expected[0])
    np.testing.assert_allclose(logs, expected[1], rtol=1e-12)
    np.testing.assert_allclose(dets, np.linalg.det(a), rtol=1e-10)


def test_arrays_around_library_calls():
    x = np.random.default_rng(0).normal(size=(2, 40, 40)).swapaxes(1, 2)
    y = np.full((2, 40, 40), 7.0)
    text = source(sources.AROUND)
    run_kernel(text, "lower_triangles", [x, y, 40, 2, *steps(x)], 2 * 4, 256)
    np.testing.assert_array_equal(y.swapaxes(1, 2), np.tril(x))
    run_kernel(text, "spoil_failed", [y, np.array([0, 3], np.int32), 40, 2], 4, 256)
    np.testing.assert_array_equal(y[0].T, np.tril(x[0]))
    np.testing.assert_array_equal(y[1].T, np.where(np.tri(40), np.nan, 0.0))
    run_kernel(text, "identities", [y, 40, y.size], -(-y.size // 256), 256)
    np.testing.assert_array_equal(y, np.broadcast_to(np.eye(40), y.shape))
    table = np.zeros(6, np.uint64)
    run_kernel(text, "addresses", [x, y, table, 3, 10, 0], 1, 256)
    first, second = x.ctypes.data, y.ctypes.data
    assert table.tolist() == [first, first + 80, first + 160, second, second, second]
