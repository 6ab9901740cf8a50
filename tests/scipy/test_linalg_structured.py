"""Bands, named matrices, functions of matrices, subspaces and Riccati equations against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tf
from tapegrad.scipy import linalg
from tests.scipy.test_stats_gradients import check

rng = np.random.default_rng(11)
A = rng.normal(size=(4, 4)) + 3 * np.eye(4)
TALL, OTHER = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
V, W = rng.normal(size=4), rng.normal(size=(4, 2))
UPPER = np.array([[9.0, 9.0, 0.3, 0.2], [9.0, 0.5, -0.4, 0.7], [4.0, 5.0, 6.0, 7.0]])
LOWER = np.array([[4.0, 5.0, 6.0, 7.0], [0.5, -0.4, 0.7, 9.0], [0.3, 0.2, 9.0, 9.0]])
PLANT, INPUT = 0.3 * (A - 3 * np.eye(4)), rng.normal(size=(4, 2))
COST, PRICE = A @ A.T, np.array([[2.0, 0.3], [0.3, 1.0]])

# Functions whose results are the same numbers in both libraries.
ROWS = [
    ("solveh_banded", [UPPER, V], {}),
    ("solveh_banded", [LOWER, W], {"lower": True}),
    ("eigvals_banded", [UPPER], {}),
    ("eigvals_banded", [LOWER], {"lower": True}),
    ("eigvalsh_tridiagonal", [V, W[:3, 0]], {}),
    ("matmul_toeplitz", [V, W], {}),
    ("matmul_toeplitz", [V, V], {}),
    ("solve_lyapunov", [A, COST], {}),
    ("pinvh", [COST], {}),
    ("hessenberg", [A], {}),
    ("cosm", [A], {}),
    ("sinm", [A], {}),
    ("tanm", [0.2 * A], {}),
    ("coshm", [A], {}),
    ("sinhm", [A], {}),
    ("tanhm", [0.3 * A], {}),
    ("signm", [A + A.T - 6 * np.eye(4)], {}),
    ("fractional_matrix_power", [COST], {"t": 0.3}),
    ("fractional_matrix_power", [COST], {"t": -1.5}),
    ("fractional_matrix_power", [A], {"t": 3.0}),
    ("fractional_matrix_power", [COST], {"t": 0.5}),
    ("subspace_angles", [TALL, OTHER], {}),
    ("subspace_angles", [OTHER, TALL], {}),
    ("subspace_angles", [TALL[:, :2], TALL[:, :2] + 0.01 * OTHER], {}),
    ("solve_continuous_are", [PLANT, INPUT, COST, PRICE], {}),
    ("solve_discrete_are", [PLANT, INPUT, COST, PRICE], {}),
    ("leslie", [V, W[:3, 0]], {}),
    ("fiedler", [V], {}),
    ("khatri_rao", [TALL, TALL[:2]], {}),
    ("convolution_matrix", [V], {"n": 3}),
    ("convolution_matrix", [V], {"n": 6, "mode": "valid"}),
    ("convolution_matrix", [V], {"n": 3, "mode": "same"}),
]
HERMITIAN = ("pinvh", "signm", "solve_continuous_are", "solve_discrete_are")


def mirrored(x):
    return 0.5 * (x + tf.transpose(x)) if x.shape[0] == x.shape[-1] else x


@pytest.mark.parametrize(
    ("name", "args", "options"), ROWS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ROWS)]
)
def test_values_and_slopes(name, args, options):
    ours = getattr(linalg, name)

    wanted = getattr(scipy.linalg, name)(*args, **options)
    found = ours(*args, **options)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-10)
    values = {f"x{i}": arg for i, arg in enumerate(args)}

    def call(**values):
        parts = list(values.values())
        if name in ("pinvh", "signm"):
            parts = [mirrored(x) for x in parts]
        elif name in HERMITIAN:
            parts[2:] = [mirrored(x) for x in parts[2:]]
        return ours(*parts, **options)

    check(call, values, list(values))


@pytest.mark.parametrize("lower", [False, True], ids=["upper", "lower"])
def test_factors_of_bands(lower):
    bands = LOWER if lower else UPPER
    is_inside = bands != 9.0
    factor = linalg.cholesky_banded(bands, lower=lower)

    wanted = scipy.linalg.cholesky_banded(bands, lower=lower)
    np.testing.assert_allclose(factor.numpy()[is_inside], wanted[is_inside])
    found = linalg.cho_solve_banded((factor, lower), W)
    np.testing.assert_allclose(found.numpy(), scipy.linalg.cho_solve_banded((wanted, lower), W))
    check(lambda ab: linalg.cholesky_banded(ab, lower=lower), {"ab": bands}, ["ab"])


def test_vectors_of_bands():
    for found, wanted in (
        (linalg.eig_banded(UPPER), scipy.linalg.eig_banded(UPPER)),
        (linalg.eigh_tridiagonal(V, V[:3]), scipy.linalg.eigh_tridiagonal(V, V[:3])),
    ):
        np.testing.assert_allclose(found[0].numpy(), wanted[0])
        np.testing.assert_allclose(abs(found[1].numpy()), abs(wanted[1]), atol=1e-12)


NAMED = [
    *[("hilbert", (n,), {}) for n in (1, 5)],
    *[("invhilbert", (n,), {}) for n in (1, 7)],
    *[("pascal", (5,), {"kind": kind}) for kind in ("symmetric", "lower", "upper")],
    *[("invpascal", (5,), {"kind": kind}) for kind in ("symmetric", "lower", "upper")],
    *[("hadamard", (n,), {}) for n in (1, 8)],
    *[("dft", (6,), {"scale": scale}) for scale in (None, "sqrtn", "n")],
    *[("helmert", (5,), {"full": full}) for full in (False, True)],
]


@pytest.mark.parametrize(("name", "args", "options"), NAMED)
def test_named_matrices(name, args, options):
    found = getattr(linalg, name)(*args, **options).numpy()

    wanted = getattr(scipy.linalg, name)(*args, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


def test_bases_of_what_is_reached_and_annulled():
    thin = TALL @ rng.normal(size=(3, 4))

    for name in ("orth", "null_space"):
        found = getattr(linalg, name)(thin).numpy()
        wanted = getattr(scipy.linalg, name)(thin)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-12)


def test_projections_on_what_is_reached_and_annulled_have_slopes():
    def reached(x):
        basis = linalg.orth(x)
        return tf.matmul(basis, basis, transpose_b=True) * tf.constant(
            np.arange(25.0)[::-1].reshape(5, 5)
        )

    def annulled(x):
        basis = linalg.null_space(x)
        return tf.matmul(basis, basis, transpose_b=True) * tf.constant(
            np.arange(25.0).reshape(5, 5)
        )

    check(reached, {"x": TALL}, ["x"])
    check(annulled, {"x": TALL.T}, ["x"])


def test_the_nearest_rotation():
    found, scale = linalg.orthogonal_procrustes(TALL, TALL @ A[:3, :3])

    wanted, wanted_scale = scipy.linalg.orthogonal_procrustes(TALL, TALL @ A[:3, :3])
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    assert float(scale) == pytest.approx(wanted_scale)
    check(lambda x: linalg.orthogonal_procrustes(x, TALL @ A[:3, :3])[0], {"x": TALL}, ["x"])


@pytest.mark.parametrize("b", [TALL[:, 0], OTHER], ids=["vector", "matrix"])
def test_least_squares(b):
    found, wanted = linalg.lstsq(TALL, b), scipy.linalg.lstsq(TALL, b)

    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-9, atol=1e-12)
    assert linalg.lstsq(TALL.T, V[:3])[1].shape == (0,)
    check(lambda a, b: linalg.lstsq(a, b)[0], {"a": TALL, "b": b}, ["a", "b"])


def test_some_of_the_eigenvalues():
    found = linalg.eigh(COST, subset_by_index=(1, 2))
    wanted = scipy.linalg.eigh(COST, subset_by_index=(1, 2))

    np.testing.assert_allclose(found[0].numpy(), wanted[0])
    np.testing.assert_allclose(abs(found[1].numpy()), abs(wanted[1]), atol=1e-12)
    with_b = linalg.eigvalsh(COST, COST + np.eye(4), subset_by_index=(0, 1))
    np.testing.assert_allclose(
        with_b.numpy(), scipy.linalg.eigvalsh(COST, COST + np.eye(4), subset_by_index=(0, 1))
    )


def test_toeplitz_products_with_a_row_of_their_own():
    found = linalg.matmul_toeplitz((V, W[:3, 0]), W[:3])

    np.testing.assert_allclose(found.numpy(), scipy.linalg.toeplitz(V, W[:3, 0]) @ W[:3])
    turned = linalg.matmul_toeplitz(V + 1j, W)
    np.testing.assert_allclose(turned.numpy(), scipy.linalg.toeplitz(V + 1j) @ W)


def test_riccati_equations_of_complex_matrices():
    a, b = A + 0.5j * A.T, W + 1j * W[::-1]
    for name in ("solve_continuous_are", "solve_discrete_are"):
        found = getattr(linalg, name)(a, b, COST, PRICE).numpy()
        np.testing.assert_allclose(found, getattr(scipy.linalg, name)(a, b, COST, PRICE), rtol=1e-8)


def test_a_riccati_equation_without_a_stabilising_solution_gives_no_number():
    # The input does not reach the second state, which grows. The CPU may say so earlier.
    a, b = np.diag([-1.0, 1.0]), np.array([[1.0], [0.0]])
    try:
        found = linalg.solve_continuous_are(a, b, np.eye(2), [[1.0]]).numpy()
    except np.linalg.LinAlgError:
        return

    assert np.isnan(found).all()


def test_second_derivatives_of_a_riccati_equation():
    # x = p + sqrt(p² + 4) solves 2 p x - x² + 4 = 0.
    p = tf.constant(np.float64(0.7))

    def cost(p):
        return linalg.solve_continuous_are(tf.reshape(p, (1, 1)), [[1.0]], [[4.0]], [[1.0]])[0, 0]

    assert float(tf.grad(cost)(p)) == pytest.approx(1 + 0.7 / np.sqrt(0.49 + 4))
    assert float(tf.grad(tf.grad(cost))(p)) == pytest.approx(4 / (0.49 + 4) ** 1.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linalg.hadamard(6), "hadamard needs a power of 2"),
        (lambda: linalg.hilbert(2.5), "hilbert needs an integer number of rows"),
        (lambda: linalg.pascal(3, "left"), "kind of pascal must be"),
        (lambda: linalg.dft(3, "m"), "scale of dft must be"),
        (lambda: linalg.leslie(V, V), "leslie needs s of shape"),
        (lambda: linalg.convolution_matrix(V, 3, "left"), "mode must be 'full'"),
        (lambda: linalg.convolution_matrix(V, 0), "length n of at least 1"),
        (lambda: linalg.khatri_rao(TALL, OTHER), "same number of columns"),
        (lambda: linalg.subspace_angles(TALL, W), "same number of rows"),
        (lambda: linalg.orthogonal_procrustes(TALL, OTHER), "two matrices of the same shape"),
        (lambda: linalg.orth(V), "orth needs a matrix"),
        (lambda: linalg.solveh_banded(V, V), "solveh_banded needs a 2-D array"),
        (lambda: linalg.eigh_tridiagonal(V, V), "an off-diagonal e with one entry less"),
        (lambda: linalg.eigh(COST, subset_by_index=(2, 4)), "subset_by_index must be"),
        (lambda: linalg.solve_discrete_are(A, V, COST, PRICE), "solve_discrete_are needs square a"),
        (lambda: linalg.schur(A, "both"), "output of schur must be"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(("below", "above", "size"), [(1, 1, 1), (2, 0, 1), (0, 3, 2), (2, 1, 2)])
def test_bands_beyond_the_corners_have_no_entries(below, above, size):
    bands = np.random.default_rng(3).normal(size=(below + 1 + above, size)) + 2.0
    b = np.arange(1.0, size + 1)
    full = np.zeros((size, size))
    for i in range(size):
        for j in range(max(i - below, 0), min(i + above + 1, size)):
            full[i, j] = bands[above + i - j, j]
    found = linalg.solve_banded((below, above), bands, b)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(full, b), rtol=1e-12)


def test_a_tridiagonal_matrix_of_one_element_is_its_eigenvalue():
    values, vectors = linalg.eigh_tridiagonal(tf.constant([2.5]), tf.constant(np.zeros(0, "f4")))
    assert values.tolist() == [2.5]
    assert abs(vectors.numpy()).tolist() == [[1.0]]
    assert linalg.eigvalsh_tridiagonal([1.5], []).tolist() == [1.5]
