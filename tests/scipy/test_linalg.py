"""Linear algebra against SciPy, and its derivatives by differences."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tf
from tapegrad.scipy import linalg
from tests.scipy.test_stats_gradients import check

rng = np.random.default_rng(3)
A = rng.normal(size=(4, 4)) + 3 * np.eye(4)
B = rng.normal(size=(4, 4)) - 4 * np.eye(4)
TALL = rng.normal(size=(5, 3))
SYMMETRIC = A @ A.T
V, W = rng.normal(size=4), rng.normal(size=(4, 2))
BANDS = np.array(
    [[0.0, 0.3, -0.2, 0.5], [4.0, 5.0, 6.0, 7.0], [1.0, 0.5, 0.2, 0.0], [0.4, 0.1, 0, 0]]
)

# Functions of matrices whose results are the same numbers in both libraries.
ROWS = [
    ("solve", [A, V], {}),
    ("solve", [A, W], {"transposed": True}),
    ("solve", [SYMMETRIC, V], {"assume_a": "pos"}),
    ("solve", [A, V], {"assume_a": "gen"}),
    ("solve", [np.triu(A), V], {"assume_a": "upper triangular"}),
    ("solve", [np.tril(A), W], {"assume_a": "lower triangular", "transposed": True}),
    ("solve_triangular", [A, V], {}),
    ("solve_triangular", [A, W], {"lower": True, "trans": 1}),
    ("solve_triangular", [A, W], {"lower": True, "trans": "C", "unit_diagonal": True}),
    ("inv", [A], {}),
    ("pinv", [TALL], {}),
    ("det", [A], {}),
    ("cholesky", [SYMMETRIC], {}),
    ("cholesky", [SYMMETRIC], {"lower": True}),
    ("solve_sylvester", [A, A.T, W @ W.T], {}),
    ("solve_continuous_lyapunov", [A, SYMMETRIC], {}),
    ("solve_discrete_lyapunov", [0.1 * A, SYMMETRIC], {}),
    ("solve_circulant", [np.array([4.0, 1.0, 0.5, -1.0]), V], {}),
    ("solve_circulant", [np.array([4.0, 1.0, 0.5, -1.0]), W], {}),
    ("svdvals", [TALL], {}),
    ("eigvalsh", [SYMMETRIC], {}),
    ("eigvalsh", [SYMMETRIC, B @ B.T], {}),
    ("expm", [0.3 * A], {}),
    ("logm", [np.eye(4) + 0.02 * SYMMETRIC], {}),
    ("sqrtm", [SYMMETRIC], {}),
    ("norm", [A], {}),
    ("norm", [A], {"ord": "nuc"}),
    ("norm", [A], {"ord": 1, "axis": 0}),
    ("norm", [V], {"ord": 3}),
    ("toeplitz", [V], {}),
    ("toeplitz", [V, V[:3]], {}),
    ("circulant", [V], {}),
    ("hankel", [V], {}),
    ("hankel", [V, W[:, 0]], {}),
    ("companion", [V], {}),
    ("block_diag", [A, V, TALL], {}),
]
# Functions with several results, reduced to what does not depend on signs.
JOINT = [
    ("lu", lambda f, x: f(x)[2], A),
    ("lu", lambda f, x: f(x)[1], TALL),
    ("lu", lambda f, x: f(x, permute_l=True)[0], A),
    ("qr", lambda f, x: abs(f(x, mode="economic")[1]), TALL),
    ("qr", lambda f, x: abs(f(x, mode="r")[0]), A),
    ("polar", lambda f, x: f(x)[0], A),
    ("polar", lambda f, x: f(x)[1], TALL),
    ("polar", lambda f, x: f(x, side="left")[1], A),
    ("svd", lambda f, x: abs(f(x, full_matrices=False)[0]), TALL),
    ("eigh", lambda f, x: abs(f(x)[1]), SYMMETRIC),
    ("eigh", lambda f, x: abs(f(x, SYMMETRIC + 2 * np.eye(4))[1]), B @ B.T),
    ("eigh", lambda f, x: abs(f(x, lower=False)[1]), SYMMETRIC),
    ("expm_frechet", lambda f, x: f(x, W @ W.T)[1], 0.2 * A),
    ("lu_factor", lambda f, x: f(x)[0], A),
]


def ids(rows):
    return [f"{row[0]}-{i}" for i, row in enumerate(rows)]


@pytest.mark.parametrize(("name", "args", "options"), ROWS, ids=ids(ROWS))
def test_values_and_slopes(name, args, options):
    ours = getattr(linalg, name)

    wanted = getattr(scipy.linalg, name)(*args, **options)
    np.testing.assert_allclose(ours(*args, **options).numpy(), wanted, rtol=1e-10, atol=1e-11)
    values = {f"x{i}": arg for i, arg in enumerate(args)}
    is_symmetric = name in ("cholesky", "eigvalsh") or options.get("assume_a") == "pos"

    def call(**values):
        # These read one triangle; the gradient is that of a matrix that stays symmetric.
        return ours(*(_mirrored(x) if is_symmetric else x for x in values.values()), **options)

    check(call, values, list(values))


def _mirrored(x):
    return 0.5 * (x + tf.transpose(x)) if len(x.shape) == 2 else x


@pytest.mark.parametrize(("name", "part", "x"), JOINT, ids=ids(JOINT))
def test_parts_of_decompositions(name, part, x):
    ours = getattr(linalg, name)

    wanted = part(getattr(scipy.linalg, name), x)
    np.testing.assert_allclose(part(ours, x).numpy(), wanted, rtol=1e-9, atol=1e-11)
    check(lambda x: part(ours, _mirrored(x) if name == "eigh" else x), {"x": x}, ["x"])


def test_banded_systems():
    values = {"ab": BANDS, "b": V}
    wanted = scipy.linalg.solve_banded((2, 1), BANDS, V)

    np.testing.assert_allclose(linalg.solve_banded((2, 1), BANDS, V).numpy(), wanted, rtol=1e-12)
    check(lambda ab, b: linalg.solve_banded((2, 1), ab, b), values, ["ab", "b"])
    np.testing.assert_allclose(linalg.solve_banded((0, 0), [V], V).numpy(), np.ones(4))


def test_toeplitz_systems():
    column, row = np.array([4.0, 1.0, 0.5, -1.0]), np.array([4.0, 0.3, 0.1, 0.7])
    wanted = scipy.linalg.solve_toeplitz((column, row), V)

    np.testing.assert_allclose(linalg.solve_toeplitz((column, row), V).numpy(), wanted)
    np.testing.assert_allclose(
        linalg.solve_toeplitz(column, V).numpy(), scipy.linalg.solve_toeplitz(column, V)
    )


@pytest.mark.parametrize("lower", [False, True])
def test_solving_with_a_cholesky_factor(lower):
    found = linalg.cho_solve(linalg.cho_factor(SYMMETRIC, lower), W)

    np.testing.assert_allclose(found.numpy(), np.linalg.solve(SYMMETRIC, W), rtol=1e-10)
    check(
        lambda a, b: linalg.cho_solve(linalg.cho_factor(_mirrored(a), lower), b),
        {"a": SYMMETRIC, "b": W},
        ["a", "b"],
    )


@pytest.mark.parametrize("trans", [0, 1, 2])
def test_solving_with_an_lu_factor(trans):
    matrix = A if trans == 0 else A.T
    found = linalg.lu_solve(linalg.lu_factor(A), V, trans)

    np.testing.assert_allclose(found.numpy(), np.linalg.solve(matrix, V), rtol=1e-10)
    check(lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, trans), {"a": A, "b": V}, ["a", "b"])


def test_eigenvalues_of_a_general_matrix():
    values, vectors = linalg.eig(A)

    np.testing.assert_allclose(A @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-12)
    np.testing.assert_allclose(
        np.sort_complex(linalg.eigvals(A).numpy()), np.sort_complex(scipy.linalg.eigvals(A))
    )


def test_complex_triangular_systems():
    a, b = A + 1j * B, W + 0.5j
    for trans in (0, 1, 2):
        np.testing.assert_allclose(
            linalg.solve_triangular(a, b, trans=trans).numpy(),
            scipy.linalg.solve_triangular(a, b, trans=trans),
            rtol=1e-9,
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linalg.solve_triangular(A, V, trans=3), "trans must be one of"),
        (lambda: linalg.lu_solve(linalg.lu_factor(A), V, 5), "trans must be 0, 1 or 2"),
        (lambda: linalg.solve_banded((1, 1), BANDS, V), "diagonals as rows"),
        (lambda: linalg.qr(A, mode="raw"), "mode of qr must be"),
        (lambda: linalg.solve(A, V, assume_a="nice"), "assume_a must be one of"),
        (lambda: linalg.polar(A, side="up"), "side must be 'left' or 'right'"),
        (lambda: linalg.toeplitz(A), "toeplitz needs vectors"),
        (lambda: linalg.block_diag(np.ones((2, 2, 2))), "block_diag needs matrices"),
        (lambda: linalg.norm(np.ones((2, 2, 2)), 2), "norm with ord needs"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


TURN = np.eye(3) + 0.4 * np.triu(np.ones((3, 3)), 1)
AWKWARD = {
    "a negative eigenvalue": TURN @ np.diag([-4.0, 1.0, 9.0]) @ np.linalg.inv(TURN),
    "two equal negative ones": np.array([[-2.0, 1.0], [0.0, -2.0]]),
    "complex ones on the left": TURN @ np.diag([-4 + 0.1j, -1 - 2j, 1j]) @ np.linalg.inv(TURN),
    "no right angles": A + 1j * B,
    "Hermitian and indefinite": A + A.T + 1j * (B - B.T),
}


@pytest.mark.parametrize("name", ["sqrtm", "logm"])
@pytest.mark.parametrize("x", AWKWARD.values(), ids=AWKWARD)
def test_roots_and_logarithms_of_complex_matrices_are_those_of_scipy(name, x):
    found = getattr(linalg, name)(x.astype(complex)).numpy()

    np.testing.assert_allclose(found, getattr(scipy.linalg, name)(x), rtol=1e-11, atol=1e-12)


def _is_on_the_cpu(x):
    return "cpu" in str(x.device).lower()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["sqrtm", "logm", "fractional_matrix_power"])
@pytest.mark.parametrize(
    "x", [np.diag([-4.0, 1.0]), np.array([[1.0, 2.0], [2.0, 1.0]])], ids=["diagonal", "full"]
)
def test_real_matrices_without_a_real_root_raise_or_give_nan(name, x):
    options = (0.3,) if name == "fractional_matrix_power" else ()
    given = tf.constant(x)
    if _is_on_the_cpu(given):
        with pytest.raises(ValueError, match="an eigenvalue is negative or 0"):
            getattr(linalg, name)(given, *options)
        return

    assert np.isnan(getattr(linalg, name)(given, *options).numpy()).all()


@pytest.mark.parametrize("name", ["sqrtm", "logm"])
def test_slopes_of_functions_on_their_branch_cut(name):
    """Along directions that keep the negative eigenvalue real: the branch does not change."""
    x, direction = AWKWARD["a negative eigenvalue"], TURN @ np.diag([1.0, 0.5, -2.0])
    weights = A[:3, :3] + 1j * B[:3, :3]

    def along(step):
        moved = tf.constant(x) + step * tf.constant(direction @ np.linalg.inv(TURN))
        y = getattr(linalg, name)(tf.cast(moved, "complex128"))
        return tf.reduce_sum(tf.math.real(y * tf.constant(weights)))

    check(lambda step: along(step), {"step": np.float64(0.0)}, ["step"])


def test_second_derivatives_of_complex_roots():
    x = AWKWARD["complex ones on the left"][:2, :2]

    def slope(step):
        def root(s):
            y = linalg.sqrtm(
                tf.constant(x) + tf.cast(s, "complex128") * tf.constant(A[:2, :2] + 0j)
            )
            return tf.math.real(tf.reduce_sum(y * (1 + 2j)))

        return tf.grad(root)(step)

    check(slope, {"step": np.float64(0.1)}, ["step"])


@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_real_schur_forms(size):
    x = np.random.default_rng(size).normal(size=(2, size, size))
    t, z = (part.numpy() for part in linalg.schur(x))

    np.testing.assert_allclose(z @ t @ z.swapaxes(-1, -2), x, atol=1e-12)
    np.testing.assert_allclose(z @ z.swapaxes(-1, -2), [np.eye(size)] * 2, atol=1e-12)
    assert not np.tril(t, -2).any()
    below = np.diagonal(t, -1, -2, -1) != 0
    assert not (below[:, 1:] & below[:, :-1]).any()
    for one, given in zip(t, x, strict=True):
        assert (np.diag(one, -1) != 0).sum() == (scipy.linalg.eigvals(given).imag > 0).sum()
        for k in np.flatnonzero(np.diag(one, -1)):
            assert one[k, k] == pytest.approx(one[k + 1, k + 1])
            assert one[k, k + 1] * one[k + 1, k] < 0


SCHUR = {
    "real": A,
    "complex": A + 1j * B,
    "a triple eigenvalue": np.array([[-1.0, 1.0, 0.0], [-1.0, -1.0, -1.0], [0.0, -1.0, -1.0]]),
    "a permutation": np.eye(5)[[4, 0, 1, 2, 3]],
    "triangular": np.triu(A),
    "zero": np.zeros((3, 3)),
}


@pytest.mark.parametrize("x", SCHUR.values(), ids=SCHUR)
def test_complex_schur_forms(x):
    t, z = (part.numpy() for part in linalg.schur(x, "complex"))

    np.testing.assert_allclose(z @ t @ z.conj().T, x, atol=1e-12)
    np.testing.assert_allclose(z @ z.conj().T, np.eye(len(x)), atol=1e-12)
    assert not np.tril(t, -1).any()


@pytest.mark.parametrize("part", [0, 1], ids=["t", "z"])
def test_sizes_of_entries_of_schur_forms_have_slopes(part):
    check(lambda x: abs(linalg.schur(x, "complex")[part]), {"x": A}, ["x"])


def test_the_schur_form_of_what_is_no_number_is_none():
    t, z = linalg.schur(np.where(np.eye(3) > 0, np.nan, A[:3, :3]))

    assert np.isnan(t.numpy()).all()
    assert np.isnan(z.numpy()).all()


def test_every_name_is_scipys():
    assert [name for name in linalg.__all__ if not hasattr(scipy.linalg, name)] == []


OF_LAPACK = {"check_finite", "driver", "lapack_driver", "lwork", "workers"}


@pytest.mark.parametrize("name", [name for name in linalg.__all__ if hasattr(scipy.linalg, name)])
def test_options_of_lapack_are_accepted(name):
    ours, theirs = (inspect.signature(getattr(lib, name)) for lib in (linalg, scipy.linalg))
    options = {k for k in theirs.parameters if k in OF_LAPACK or k.startswith("overwrite")}

    assert options <= ours.parameters.keys()


def test_options_of_lapack_change_nothing():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    positive = a @ a.T + np.eye(3)
    for call in (
        lambda lib: lib.solve(a, b, overwrite_a=False, check_finite=False),
        lambda lib: lib.cho_solve(
            lib.cho_factor(positive, check_finite=False), b, check_finite=False
        ),
        lambda lib: lib.eigh(positive, check_finite=False, driver="evr", eigvals_only=True),
        lambda lib: lib.svd(a, compute_uv=False, lapack_driver="gesvd"),
        lambda lib: lib.lstsq(a, b, lapack_driver="gelsy", overwrite_b=False)[0],
    ):
        np.testing.assert_allclose(call(linalg), call(scipy.linalg), rtol=1e-9, atol=1e-12)

    # SciPy 1.18 warns of `lwork`, so the result is compared with that of a call without it.
    np.testing.assert_array_equal(linalg.qr(a, mode="r", lwork=30)[0], linalg.qr(a, mode="r")[0])
    with pytest.raises(tf.errors.ArgumentTypeError, match="check_infinite"):
        linalg.solve(a, b, check_infinite=False)


def test_an_ignored_option_leaves_the_derivative():
    a = tf.constant([[2.0, 0.5], [0.0, 4.0]], "float64")

    slope = tf.grad(lambda a: tf.reduce_sum(linalg.inv(a, check_finite=False)))(a)

    inverse = np.linalg.inv(a.numpy())
    np.testing.assert_allclose(slope, -(inverse.T @ np.ones((2, 2)) @ inverse.T))
