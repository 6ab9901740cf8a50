"""Kernels of the NumPy backend for matrices: against SciPy, LAPACK's answers and identities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tf
from tapegrad.core.backend.registry import get_backend
from tapegrad_numpy.kernels import triangular

K = get_backend("numpy").kernels
RNG = np.random.default_rng(23)


def normal(*shape: int, dtype: str = "float64") -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def near(found, expected, tolerance: float = 1e-11) -> None:
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


# Schur decompositions

MATRICES = {
    "normal": lambda n: normal(n, n),
    "complex": lambda n: normal(n, n, dtype="complex128"),
    "triangular": lambda n: np.triu(normal(n, n)),
    "diagonal": lambda n: np.diag(np.arange(1.0, n + 1)),
    "turns": lambda n: normal(n, n) - normal(n, n).T,
    "shift": lambda n: np.roll(np.eye(n), 1, axis=0),
    "symmetric": lambda n: (lambda x: x + x.T)(normal(n, n)),
    "defective": lambda n: 2 * np.eye(n) + np.eye(n, k=1),
    "graded": lambda n: normal(n, n) * 10.0 ** -np.arange(n)[:, None],
    "zero": lambda n: np.zeros((n, n)),
    "rounding": lambda n: np.eye(n) + 1e-17 * normal(n, n),
}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize("name", MATRICES)
def test_schur_decompositions(name, n):
    x = MATRICES[name](n)

    t, z = K["schur"](x)

    near(z @ t @ adjoint(z), x)
    near(z @ adjoint(z), np.eye(n))
    assert not np.tril(t, -2).any()
    below = np.flatnonzero(np.diag(t, -1))
    if name == "complex":
        assert not below.size
    assert not (np.diff(below) == 1).any()  # blocks are 2 × 2 at most
    for k in below:  # and such a block has a pair of complex eigenvalues, and equal entries
        block = t[k : k + 2, k : k + 2]
        assert block[0, 1] * block[1, 0] < 0
        assert block[0, 0] == pytest.approx(block[1, 1], abs=1e-12)
    expected = np.linalg.eigvals(x)
    if name not in ("defective", "shift"):
        found = np.linalg.eigvals(t)
        distance = np.abs(found[:, None] - expected)
        assert distance.min(1).max(initial=0.0) < 1e-9 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-17, 3e-16, 1e-13, 1e-8, 1e-3])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("n", [3, 8, 20])
def test_schur_decompositions_near_a_multiple_of_the_identity(n, dtype, scale):
    x = (5 * (np.eye(n) + scale * RNG.normal(size=(3, n, n)))).astype(dtype)

    t, z = K["schur"](x)

    tolerance = 1e-4 if dtype == "float32" else 1e-12
    near(z @ t @ adjoint(z), x, tolerance)
    near(z @ adjoint(z), np.broadcast_to(np.eye(n), x.shape), tolerance)
    assert not np.tril(t, -2).any()


def test_a_schur_decomposition_of_infinity_is_nan_and_its_neighbours_are_not():
    x = normal(3, 4, 4)
    x[1, 2, 2] = np.inf

    t, z = K["schur"](x)

    assert np.isnan(t[1]).all()
    near(z[[0, 2]] @ t[[0, 2]] @ adjoint(z[[0, 2]]), x[[0, 2]])


# Triangular systems and LU


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("is_adjoint", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_triangular_solves_on_both_sides_of_the_block_size(n, lower, is_adjoint, dtype):
    a = normal(n, n, dtype=dtype) / n + 2 * np.eye(n)  # the other triangle is not read
    b = normal(n, 3, dtype=dtype)

    found = K["triangular_solve"](a, b, lower=lower, adjoint=is_adjoint)

    trans = "C" if is_adjoint else "N"
    near(found, scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans))


def test_triangular_solves_of_stacks_broadcast():
    a, b = normal(2, 1, 70, 70) / 70 + 2 * np.eye(70), normal(3, 70, 2)

    found = K["triangular_solve"](a, b, lower=True, adjoint=False)

    near(np.tril(a) @ found, np.broadcast_to(b, (2, 3, 70, 2)))


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_pivots_are_lapacks(shape, dtype):
    x = normal(*shape, dtype=dtype)

    order, swap = K["lu_pivots"](x, dtype="int32")

    for matrix, rows, p in zip(x.reshape(-1, *shape[-2:]), order.reshape(-1, shape[-2]),
                               swap.reshape(-1, shape[-2], shape[-2])):  # fmt: skip
        wanted, lower, upper = scipy.linalg.lu(matrix)
        np.testing.assert_array_equal(p, wanted.T)
        np.testing.assert_array_equal(matrix[rows], p @ matrix)
        near(matrix[rows], lower @ upper)
    assert order.dtype == "int32"


def test_lu_without_pivots_and_with_a_pivot_of_zero():
    x = normal(2, 5, 5) + 5 * np.eye(5)

    found = K["lu_unpivoted"](x)

    near((np.tril(found, -1) + np.eye(5)) @ np.triu(found), x)
    same = K["lu_unpivoted"](np.array([[0.0, 2.0], [0.0, 3.0]]))
    np.testing.assert_array_equal(same, [[0.0, 2.0], [0.0, 3.0]])


def test_eigenvalues_are_complex_even_if_all_are_real():
    x = np.diag([1.0, 2.0]).astype("float32")

    values, vectors = K["eig"](x)

    assert values.dtype == vectors.dtype == K["eigvals"](x).dtype == "complex64"
    near(x @ vectors, vectors * values, 1e-6)


# Functions of matrices


@pytest.mark.parametrize("norm", [0.0, 1e-8, 0.1, 5.0, 5.37, 5.38, 10.7, 10.8, 60.0])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_exponentials_of_any_norm(norm, dtype):
    x = normal(6, 6, dtype=dtype)
    x *= norm / np.abs(x).sum(0).max()

    near(K["expm"](x), scipy.linalg.expm(x), 1e-12)


def test_the_exponential_of_what_is_not_finite_is_nan():
    x = np.eye(2)
    x[0, 0] = np.nan

    assert np.isnan(K["expm"](x)).all()


def test_the_exponential_of_a_nilpotent_matrix_is_its_polynomial():
    x = np.triu(normal(4, 4), 1)

    near(K["expm"](x), np.eye(4) + x + x @ x / 2 + x @ x @ x / 6, 1e-14)


POSITIVE = normal(5, 5)
POSITIVE = POSITIVE @ POSITIVE.T + 0.1 * np.eye(5)
COMPLEX = normal(5, 5, dtype="complex128")


@pytest.mark.parametrize(
    "x",
    [
        POSITIVE,
        1e6 * POSITIVE,
        1e-6 * POSITIVE,
        COMPLEX,
        np.diag([-1.0 + 0j, -2.0, 3.0]) + np.triu(np.ones((3, 3)), 1),
        -np.eye(3).astype("complex128"),
        np.eye(4),
        np.array([[4.0 + 0j]]),
    ],
    ids=["positive", "large", "small", "complex", "negative", "minus-one", "one", "number"],
)
def test_roots_and_logarithms_are_inverses(x):
    root, logarithm = K["sqrtm"](x), K["logm"](x)

    size = np.abs(x).max()
    near(root @ root / size, x / size, 1e-9)
    near(scipy.linalg.expm(logarithm) / size, x / size, 1e-9)
    # Principal: eigenvalues in the right half plane, and with angles of at most pi.
    assert (np.linalg.eigvals(root).real > -1e-7 * np.sqrt(size)).all()
    assert (np.abs(np.linalg.eigvals(logarithm).imag) < np.pi + 1e-6).all()


@pytest.mark.parametrize("name", ["sqrtm", "logm", "expm"])
def test_functions_of_stacks_are_those_of_each_matrix(name):
    x = normal(3, 2, 4, 4, dtype="complex128")
    x[1, 0] = np.diag([-1.0, -4.0, 2.0, 3.0]) + np.triu(np.ones((4, 4)), 1)  # on the cut
    x[2, 1] = -np.eye(4)

    found = K[name](x)

    one_by_one = [K[name](matrix) for matrix in x.reshape(-1, 4, 4)]
    near(found.reshape(-1, 4, 4), np.stack(one_by_one), 1e-8)


@pytest.mark.parametrize("name", ["sqrtm", "logm"])
def test_real_matrices_without_real_results_are_refused(name):
    with pytest.raises(tf.errors.ArgumentError, match=f"{name} of this real matrix is not real"):
        K[name](np.diag([1.0, -1.0]))


def test_a_root_of_zero_exists_only_without_a_tie():
    tied, free = np.zeros((2, 2), "complex128"), np.zeros((2, 2), "complex128")
    tied[0, 1] = 1.0

    assert not K["sqrtm"](free).any()
    assert np.isnan(K["sqrtm"](tied)).any()


# Normalisation

CASES = [((4, 6), (1,)), ((4, 6), (0,)), ((3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 2, 3))]


@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
def test_normalisation_and_its_gradient(shape, axes, center, scaled, shifted):
    x, t = normal(*shape) + 3.0, normal(*shape)
    small = tuple(n if i == len(shape) - 1 else 1 for i, n in enumerate(shape))[-2:]
    gain, bias = normal(*small), normal(*small)
    how = {"axes": axes, "epsilon": 0.1, "center": center, "scaled": scaled}

    def value(x, gain, bias):
        mean = x.mean(axes, keepdims=True) if center else 0.0
        y = (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axes, keepdims=True) + 0.1)
        return (y * gain if scaled else y) + (bias if shifted else 0.0)

    y, mean, variance = K["normalize"](x, gain, bias, shifted=shifted, **how)
    found = K["normalize_gradient"](t, x, gain, mean, variance, bias_shape=bias.shape, **how)

    near(y, value(x, gain, bias), 1e-13)
    near(variance.ravel(), (np.var(x, axes) if center else np.mean(x * x, axes)).ravel(), 1e-13)
    for number, (array, slope) in enumerate(zip((x, gain, bias), found)):
        if (number == 1 and not scaled) or (number == 2 and not shifted):
            continue
        direction, step = normal(*array.shape), 1e-6
        ends = [
            value(*[a + sign * step * direction if k == number else a
                    for k, a in enumerate((x, gain, bias))])
            for sign in (1, -1)
        ]  # fmt: skip
        by_difference = ((ends[0] - ends[1]) * t).sum() / (2 * step)
        assert (slope * direction).sum() == pytest.approx(by_difference, rel=1e-6, abs=1e-6)


def test_normalisation_with_a_relu_cuts_values_and_gradients_at_zero():
    x, t, gain, bias = normal(5, 4), normal(5, 4), normal(4), normal(4)
    how = {"axes": (0,), "epsilon": 0.1}
    more = {"center": True, "scaled": True}
    plain, mean, variance = K["normalize"](x, gain, bias, shifted=True, **how, **more)

    y, *moments = K["normalize_relu"](x, gain, bias, **how)
    found = K["normalize_relu_gradient"](t, x, y, gain, *moments, bias_shape=(4,), **how)

    near(y, np.maximum(plain, 0), 1e-15)
    cut = np.where(plain > 0, t, 0)
    expected = K["normalize_gradient"](cut, x, gain, mean, variance, bias_shape=(4,), **how, **more)
    for one, other in zip(found, expected):
        near(one, other, 1e-14)


# Logarithms


@pytest.mark.parametrize(
    ("distance", "most"), [(0.0, 0), (0.2, 0), (0.5, 2), (3.0, 4), (1e3, 13), (1e9, 33)]
)
def test_a_logarithm_takes_no_more_roots_than_bring_it_near_the_identity(
    monkeypatch, distance, most
):
    roots = []
    plain = triangular.triangular_root
    monkeypatch.setattr(triangular, "triangular_root", lambda t: roots.append(1) or plain(t))
    t = np.eye(3) + distance * np.array([[1.0, 0.3, 0.1], [0.0, 0.5, 0.2], [0.0, 0.0, 0.25]])

    found = triangular.triangular_logarithm(t.astype(complex))

    assert len(roots) <= most
    near(scipy.linalg.expm(found), t)


def test_the_logarithm_of_no_rows():
    assert triangular.triangular_logarithm(np.zeros((2, 0, 0), complex)).shape == (2, 0, 0)


def test_matrices_of_a_batch_whose_axes_are_in_another_order_in_memory() -> None:
    x = np.asfortranarray(normal(2, 3, 4, 4) + 6 * np.eye(4))

    t, z = K["schur"](x)
    both = K["lu_unpivoted"](x)

    near(z @ t @ adjoint(z), x)
    near((np.tril(both, -1) + np.eye(4)) @ np.triu(both), x)
