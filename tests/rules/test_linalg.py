from __future__ import annotations

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.fourier import functions as spectra, transforms as fft
from tapegrad.ops.linalg import decompositions, determinants, eigen, functions, norms, solve
from tapegrad.ops.linalg.common import as_row
from tapegrad.ops.products import einsum as einsums, functions as products


def gradient_of(function, value):
    x = tapegrad.constant(np.asarray(value))
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("ord", [2, 1, 3, 1.5, np.inf])
def test_the_gradient_of_a_norm_at_zero_is_zero(ord):
    assert gradient_of(lambda x: norms.norm(x, ord), np.zeros(3)).tolist() == [0, 0, 0]


def test_the_gradient_of_a_global_norm_of_zeros_is_zero():
    gradient = gradient_of(lambda x: norms.global_norm([x, None, x]), np.zeros(2))

    assert gradient.tolist() == [0, 0]


def test_global_norm_counts_the_rows_of_indexed_slices():
    table = tapegrad.Variable(np.zeros((3, 2)))
    rows = tapegrad.core.values.indexed_slices.IndexedSlices(
        tapegrad.constant([[3.0, 0.0], [0.0, 4.0]]), tapegrad.constant([0, 0]), table.shape
    )

    assert float(norms.global_norm([rows])) == 5.0


def test_equal_eigenvalues_give_finite_and_right_gradients():
    def cube(x):
        values, vectors = eigen.eigh(x)
        return products.matmul(vectors * as_row(values * values), vectors, transpose_b=True)

    gradient = gradient_of(cube, 2 * np.eye(3))

    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient_of(eigen.eigvalsh, 2 * np.eye(3)), np.eye(3))


def test_equal_singular_values_give_finite_and_right_gradients():
    np.testing.assert_allclose(gradient_of(eigen.svdvals, 2 * np.eye(3)), np.eye(3), atol=1e-15)
    spread = gradient_of(lambda x: eigen.svd(x)[1], 2 * np.eye(3))
    np.testing.assert_allclose(spread, np.eye(3), atol=1e-15)


def test_eigenvalues_equal_up_to_rounding_count_as_equal():
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = q @ np.diag([1.0, 1.0, 2.0, 2.0]) @ q.T

    gradient = gradient_of(lambda x: sum(eigen.eigh(x)), (matrix + matrix.T) / 2)

    assert np.abs(gradient).max() < 100


def test_det_of_a_singular_matrix_has_its_cofactors_as_gradient():
    gradient = gradient_of(determinants.det, [[1.0, 2.0], [2.0, 4.0]])

    np.testing.assert_allclose(gradient, [[4, -2], [-2, 1]], atol=1e-14)


def test_triangular_solve_does_not_read_the_other_triangle():
    matrix = np.tril(np.random.default_rng(0).normal(size=(150, 150))) + 20 * np.eye(150)
    rhs = np.ones((150, 2))
    garbage = matrix + np.triu(np.full((150, 150), np.nan), 1)

    for adjoint in (False, True):
        wanted = np.linalg.solve(matrix.T if adjoint else matrix, rhs)
        found = solve.triangular_solve(garbage, rhs, adjoint=adjoint).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_eig_of_real_matrices_is_complex_even_if_the_eigenvalues_are_real():
    values, vectors = eigen.eig(np.diag([1.0, 2.0]).astype("float32"))

    assert (values.dtype, vectors.dtype) == ("complex64", "complex64")


def test_svd_orders():
    x = np.random.default_rng(0).normal(size=(3, 2))

    u, s, vh = eigen.svd(x)
    s2, u2, v2 = eigen.tf_svd(x)

    np.testing.assert_allclose((u.numpy() * s.numpy()) @ vh.numpy(), x)
    np.testing.assert_allclose((u2.numpy() * s2.numpy()) @ v2.numpy().T, x)


def test_lu_rebuilds_its_input():
    x = np.random.default_rng(0).normal(size=(4, 4))

    packed, p = decompositions.lu(x)

    rebuilt = (np.tril(packed.numpy(), -1) + np.eye(4)) @ np.triu(packed.numpy())
    np.testing.assert_allclose(rebuilt, x[p.numpy()])


def test_expm_of_an_empty_matrix_is_empty():
    assert functions.expm(np.zeros((0, 0))).shape == (0, 0)


def test_transforms_keep_single_precision():
    assert fft.fft(tapegrad.constant([1.0, 2.0])).dtype == "complex64"
    assert fft.irfft(tapegrad.constant([1.0, 2.0])).dtype == "float32"
    assert spectra.dct(tapegrad.constant([1.0, 2.0])).dtype == "float32"


def test_operators_multiply_matrices_from_both_sides():
    a, b = np.ones((2, 3)), tapegrad.Variable(np.ones((3, 2)))

    assert (a @ b).numpy().tolist() == [[3, 3], [3, 3]]
    assert (b @ a).shape == (3, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: solve.solve(np.ones((2, 3)), np.ones((2, 1))), ShapeError, "square matrices"),
        (lambda: solve.solve(np.eye(2), np.ones((3, 1))), ShapeError, "2 rows"),
        (lambda: products.matmul(np.ones((2, 3)), np.ones((2, 3))), ShapeError, "matmul cannot"),
        (lambda: products.matmul(1.0, np.ones((2, 3))), ShapeError, "use multiply"),
        (lambda: products.matmul(np.eye(2), np.eye(2), True, False, True), ArgumentError, "both"),
        (lambda: products.tensordot(np.ones((2, 3)), np.ones((2, 3)), 1), ShapeError, "equal"),
        (lambda: einsums.einsum("ij,jk", np.eye(2)), ArgumentError, "names 2 operands"),
        (lambda: einsums.einsum("ij->ijk", np.eye(2)), ArgumentError, "each label once"),
        (lambda: einsums.einsum("ij,jk", np.eye(2), np.eye(3)), ShapeError, "lengths 2 and 3"),
        (lambda: einsums.einsum("ijk", np.eye(2)), ShapeError, "'ijk' for an operand"),
        (lambda: einsums.einsum("i!", np.eye(2)), ArgumentError, "consist of letters"),
        (lambda: norms.norm(np.eye(2), "what"), ArgumentError, "must be a number"),
        (lambda: norms.matrix_norm(np.eye(2), 3), ArgumentError, "'nuc'"),
        (lambda: norms.global_norm([None]), ArgumentError, "at least one"),
        (lambda: fft.rfft(np.ones(3) * 1j), ArgumentTypeError, "real values"),
        (lambda: fft.fft(np.ones(3), norm="x"), ArgumentError, "'ortho'"),
        (lambda: spectra.dct(np.ones(3), 7), ArgumentError, "1, 2, 3 or 4"),
    ],
)
def test_messages_say_what_is_allowed(call, error, words):
    with pytest.raises(error, match=words):
        call()


def _half_filled(is_complex):
    """Hermitian matrices of both signs, and the same with nonsense in the upper triangle."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 4, 4)) + (1j * rng.normal(size=(2, 4, 4)) if is_complex else 0)
    whole = x + np.swapaxes(x.conj(), -1, -2)
    return whole, whole + np.triu(rng.normal(size=(4, 4)), 1)


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_the_svd_of_a_hermitian_matrix_reads_the_lower_triangle(is_complex):
    whole, half = _half_filled(is_complex)

    u, s, vh = (part.numpy() for part in tnp.linalg.svd(half, hermitian=True))
    alone = tnp.linalg.svd(half, compute_uv=False, hermitian=True).numpy()

    np.testing.assert_allclose((u * s[:, None, :]) @ vh, whole, atol=1e-12)
    np.testing.assert_allclose(vh @ np.swapaxes(vh.conj(), -1, -2), [np.eye(4)] * 2, atol=1e-12)
    np.testing.assert_allclose(s, np.linalg.svd(whole, compute_uv=False))
    np.testing.assert_allclose(alone, s)


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_inverse_and_rank_of_a_hermitian_matrix_read_the_lower_triangle(is_complex):
    whole, half = _half_filled(is_complex)
    thin = whole @ np.diag([1.0, 1.0, 0.0, 0.0]) @ whole

    np.testing.assert_allclose(
        tnp.linalg.pinv(half, hermitian=True).numpy(), np.linalg.inv(whole), rtol=1e-9, atol=1e-12
    )
    assert tnp.linalg.matrix_rank(np.tril(thin), hermitian=True).tolist() == [2, 2]
    assert tnp.linalg.matrix_rank(np.tril(thin)).tolist() == [4, 4]


def test_the_slope_of_the_inverse_of_a_hermitian_matrix_is_that_of_its_lower_triangle():
    whole, half = (x[0] for x in _half_filled(False))

    found = gradient_of(lambda x: tnp.linalg.pinv(x, hermitian=True), half)

    full = -np.linalg.inv(whole) @ np.ones((4, 4)) @ np.linalg.inv(whole)
    wanted = np.tril(full, -1) + np.triu(full, 1).T + np.diag(np.diag(full))
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_vectors_of_numbers_that_are_not_finite_are_refused(bad, dtype):
    # LAPACK computes for ever with the infinity at some of these places, on x86-64.
    for place in range(12):
        x = np.arange(1.0, 13.0, dtype=dtype)
        x[place] = bad
        for function in (tapegrad.linalg.svd, tapegrad.linalg.pinv):
            with pytest.raises(np.linalg.LinAlgError, match="infinite or NaN elements"):
                function(x.reshape(4, 3))
