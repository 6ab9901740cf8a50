"""Tridiagonal matrices and packed factors beyond the table of samples."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import linalg
from tapegrad.errors import ArgumentError, ShapeError


def test_long_tridiagonal_systems_exchange_rows():
    banded = pytest.importorskip("scipy.linalg").solve_banded
    bands = np.random.default_rng(0).normal(size=(3, 500))
    bands[1, ::3] = 0.0
    rhs = np.random.default_rng(1).normal(size=(500, 2))
    rows = [np.append(0.0, bands[0, :-1]), bands[1], np.append(bands[2, 1:], 0.0)]

    found = linalg.tridiagonal_solve(bands, rhs).numpy()

    np.testing.assert_allclose(found, banded((1, 1), rows, rhs), rtol=1e-9, atol=1e-12)


def test_unused_entries_of_bands_are_not_read():
    bands = np.array([[1.0, np.nan], [2.0, 2.0], [np.nan, 0.0]])

    assert linalg.tridiagonal_solve(bands, [4.0, 2.0]).tolist() == [1.5, 1.0]


def test_a_singular_tridiagonal_matrix_can_be_perturbed():
    bands = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])

    assert np.isfinite(linalg.tridiagonal_solve(bands, np.ones(3), perturb_singular=True)).all()


def test_a_matrix_of_one_row_is_tridiagonal():
    assert linalg.tridiagonal_solve([[2.0]], [[4.0]], "matrix").tolist() == [[2.0]]
    assert linalg.eigh_tridiagonal([2.0], np.zeros(0)).tolist() == [2.0]


@pytest.mark.parametrize(
    ("select", "ends"), [("i", (1, 2)), ("v", (0.0, 3.0))], ids=["indices", "interval"]
)
def test_eigenvalues_of_tridiagonal_matrices_are_selected_as_in_scipy(select, ends):
    eigh = pytest.importorskip("scipy.linalg").eigh_tridiagonal
    alpha, beta = np.arange(5.0), np.linspace(0.5, 1.5, 4)

    values, vectors = linalg.eigh_tridiagonal(alpha, beta, False, select, ends)
    wanted, columns = eigh(alpha, beta, select=select, select_range=ends)

    np.testing.assert_allclose(values, wanted)
    np.testing.assert_allclose(np.abs(vectors), np.abs(columns), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linalg.tridiagonal_solve(np.ones((2, 3)), np.ones(3)), ShapeError, "3, n"),
        (lambda: linalg.tridiagonal_solve(np.ones((3, 3)), np.ones(2)), ShapeError, "3 rows"),
        (lambda: linalg.tridiagonal_matmul(np.ones((3, 3)), np.ones(3)), ShapeError, "3 rows"),
        (lambda: linalg.tridiagonal_solve([], [1.0], "rows"), ArgumentError, "'sequence'"),
        (lambda: linalg.tridiagonal_solve([1.0], [1.0], "sequence"), ArgumentError, "list of"),
        (lambda: linalg.eigh_tridiagonal([1.0], [1.0]), ShapeError, "one entry less"),
        (lambda: linalg.eigh_tridiagonal([1.0], [], select="i"), ArgumentError, "select_range"),
        (lambda: linalg.banded_triangular_solve(np.ones((4, 3)), [1.0]), ShapeError, "1 to n"),
        (lambda: linalg.lu_solve(np.eye(2), [1, 0, 2], np.ones((2, 1))), ShapeError, "of 2 rows"),
    ],
)
def test_wrong_arguments_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_tridiagonal_systems_in_a_function_have_the_gradients_of_eager_mode():
    bands = tf.constant(np.array([[0.7, -0.4, 0.9], [3.0, -2.5, 4.0], [0.6, -0.8, 0.5]]))

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(linalg.tridiagonal_solve(x, tf.ones([3], tf.float64)) ** 2)
        return tape.gradient(y, x)

    np.testing.assert_allclose(tf.function(gradient)(bands), gradient(bands), rtol=1e-12)
