"""The older sparse matrices beside SciPy's: products, powers, sums, formats and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy import sparse

reference = pytest.importorskip("scipy.sparse")

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
KINDS = ["coo_matrix", "csr_matrix", "csc_matrix"]


def pair(kind: str, dense: np.ndarray = DENSE) -> tuple[Any, Any]:
    return getattr(sparse, kind)(dense), getattr(reference, kind)(dense)


@pytest.mark.parametrize("kind", KINDS)
def test_the_star_is_the_matrix_product(kind: str) -> None:
    ours, theirs = pair(kind)
    vector, matrix = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(3, 2)

    np.testing.assert_allclose(ours * vector, theirs * vector)
    np.testing.assert_allclose(ours * matrix, theirs * matrix)
    np.testing.assert_allclose((ours * ours).toarray(), (theirs * theirs).toarray())
    np.testing.assert_allclose((ours * 2.0).toarray(), (2.0 * theirs).toarray())
    np.testing.assert_allclose((2.0 * ours).toarray(), (2.0 * theirs).toarray())
    np.testing.assert_allclose(vector * ours, vector * theirs)
    np.testing.assert_allclose(tf.constant(vector) @ ours, vector @ theirs)
    assert sparse.isspmatrix(ours * ours)
    assert (ours * 2.0).format == theirs.format


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [0, 1, 3])
def test_powers_of_the_matrix(kind: str, power: int) -> None:
    ours, theirs = pair(kind)

    np.testing.assert_allclose((ours**power).toarray(), (theirs**power).toarray())
    assert sparse.isspmatrix(ours**power)


def test_powers_are_refused_in_words() -> None:
    with pytest.raises(ShapeError, match="Powers need a square matrix"):
        _ = sparse.csr_matrix(np.ones((2, 3))) ** 2
    with pytest.raises(ArgumentError, match="The power of a sparse matrix must be a count"):
        _ = sparse.csr_matrix(DENSE) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sums_have_two_axes(kind: str, axis: int | None) -> None:
    ours, theirs = pair(kind)

    for name in ("sum", "mean"):
        found = getattr(ours, name)(axis).numpy()
        expected = np.asarray(getattr(theirs, name)(axis))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected)


def test_formats_stay_matrices() -> None:
    made = sparse.csr_matrix((np.array([1.0, 2.0]), ([0, 1], [1, 0])), shape=(2, 2))

    for changed in (made.tocsc(), made.tocoo(), made.T, made.astype("float32"), made + made, -made):
        assert sparse.isspmatrix(changed)
    assert not sparse.isspmatrix(sparse.csr_array((2, 2)).tocsc())
    assert repr(made) == "<csr_matrix of 2 x 2, 2 entries, float64>"
    assert (made.get_shape(), made.getnnz()) == ((2, 2), 2)


def test_the_conjugate_transpose() -> None:
    ours, theirs = pair("csr_matrix", DENSE * (1.0 + 2.0j))
    np.testing.assert_allclose(ours.getH().toarray(), theirs.conj().T.toarray())


def test_gradients_flow_to_the_entries() -> None:
    data, x = tf.constant([1.0, 2.0, 3.0], "float64"), np.array([1.0, -1.0])
    with tf.GradientTape() as tape:
        tape.watch(data)
        matrix = sparse.csr_matrix((data, ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
        loss = tf.reduce_sum((matrix * matrix * x) ** 2)
    slope = tape.gradient(loss, data).numpy()

    def value(entries: np.ndarray) -> float:
        a = np.array([[entries[0], entries[1]], [0.0, entries[2]]])
        return float(np.sum((a @ a @ x) ** 2))

    steps = 1e-6 * np.eye(3)
    here = np.array([1.0, 2.0, 3.0])
    expected = [(value(here + step) - value(here - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_ones_on_a_diagonal_and_the_nonzero_elements() -> None:
    for arguments in ((3,), (2, 4), (3, 3, 1), (3, 3, -1)):
        expected = reference.eye(*arguments).toarray()
        np.testing.assert_array_equal(sparse.eye(*arguments).toarray(), expected)
    assert sparse.eye(2, format="csr").format == "csr"
    for found, expected in zip(
        sparse.find(sparse.csr_matrix(DENSE)),
        reference.find(reference.csr_matrix(DENSE)),
        strict=True,
    ):
        assert sorted(found.tolist()) == sorted(expected.tolist())
    rows, columns, values = (part.numpy() for part in sparse.find(sparse.csc_matrix(DENSE)))
    rebuilt = np.zeros((3, 3))
    rebuilt[rows, columns] = values
    np.testing.assert_array_equal(rebuilt, DENSE)


def test_systems_take_matrices() -> None:
    a = sparse.csc_matrix(DENSE)
    b = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(sparse.linalg.spsolve(a, b), np.linalg.solve(DENSE, b))
