"""The parts of SciPy that HIPS autograd has, against SciPy's values and differences."""

from __future__ import annotations

import importlib
import sys
from functools import partial

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

import tapegrad as tf
import tapegrad.compat.autograd.numpy as np
from tapegrad.compat.autograd import grad
from tapegrad.compat.autograd.scipy import linalg, signal, special, stats
from tapegrad.compat.autograd.test_util import check_grads, combo_check

X = onp.array([0.15, 0.4, 0.85])
RS = onp.random.RandomState(0)
A = RS.randn(3, 3)
P = A @ A.T + 3 * onp.eye(3)


@pytest.mark.parametrize(
    "name",
    [
        *("gamma", "gammaln", "digamma", "psi", "rgamma", "erf", "erfc", "erfinv", "erfcinv"),
        *("expit", "logit", "j0", "j1", "y0", "y1", "i0", "i1"),
    ],
)
def test_special_functions_of_one_argument(name):
    f = getattr(special, name)

    assert type(f(X)) is onp.ndarray
    onp.testing.assert_allclose(f(X), getattr(scipy.special, name)(X), rtol=1e-12)
    check_grads(f)(X)


def test_special_functions_of_several_arguments():
    check_grads(special.beta, (0, 1))(X, X + 1)
    check_grads(special.betaln, (0, 1))(X, X + 1)
    check_grads(partial(special.betainc, 2.0, 3.0))(X)
    check_grads(partial(special.gammainc, 2.0))(X)
    check_grads(partial(special.gammaincc, 2.0))(X)
    check_grads(partial(special.polygamma, 1))(X)
    check_grads(partial(special.jn, 2))(X)
    check_grads(partial(special.yn, 2))(X)
    check_grads(lambda x: special.multigammaln(x, 2))(3.3)
    check_grads(lambda x: special.logsumexp(x, axis=1, b=onp.ones((3, 3)), keepdims=True))(A)


def test_orders_that_are_no_whole_numbers():
    for name in ("iv", "ive"):
        f, theirs = getattr(special, name), getattr(scipy.special, name)
        for order in (1, 2.5):
            onp.testing.assert_allclose(f(order, X), theirs(order, X), rtol=1e-12)
            check_grads(partial(f, order))(X)


def test_error_functions_of_complex_arguments():
    for name in ("erf", "erfc"):
        f = getattr(special, name)
        onp.testing.assert_allclose(f(X + 0.5j), getattr(scipy.special, name)(X + 0.5j))
        check_grads(f)(X + 0.5j)


def test_functions_that_only_scipy_has_work_on_arrays():
    assert special.pro_ang1(1, 1, 0.5, 0.2) == scipy.special.pro_ang1(1, 1, 0.5, 0.2)
    with pytest.raises(NotImplementedError, match="pro_ang1 has no derivative here"):
        grad(lambda x: special.pro_ang1(1, 1, 0.5, x)[0])(0.2)
    with pytest.raises(AttributeError):
        _ = special.nothing


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("norm", (0.2, 1.3)),
        ("t", (3.5, 0.1, 1.2)),
        ("beta", (2.0, 3.0)),
        ("gamma", (2.0,)),
        ("chi2", (3.0,)),
    ],
)
def test_distributions_are_modules_with_their_functions(name, params):
    module = importlib.import_module(f"tapegrad.compat.autograd.scipy.stats.{name}")
    theirs = getattr(scipy.stats, name)

    assert getattr(stats, name) is module
    for function in ("pdf", "logpdf", "cdf"):
        f = getattr(module, function)
        onp.testing.assert_allclose(
            f(X, *params), getattr(theirs, function)(X, *params), rtol=1e-10
        )
        check_grads(lambda x, f=f: f(x, *params))(X)
    check_grads(lambda *p: module.logpdf(X, *p), tuple(range(len(params))), order=1)(*params)


def test_counts_shares_and_vectors():
    check_grads(lambda mu: np.sum(stats.poisson.logpmf(onp.array([0, 2, 5]), mu)))(2.5)
    shares = onp.array([0.2, 0.3, 0.5])
    check_grads(lambda a: stats.dirichlet.logpdf(shares, a))(onp.array([1.0, 2.0, 3.0]))
    check_grads(lambda x, m, c: stats.multivariate_normal.logpdf(x, m, (c + c.T) / 2), (0, 1, 2))(
        A, A[0], P
    )
    onp.testing.assert_allclose(
        stats.multivariate_normal.entropy(A[0], P), scipy.stats.multivariate_normal.entropy(A[0], P)
    )
    assert stats.expon.logpdf(1.0) == -1.0


@pytest.mark.usefixtures("on_the_cpu")  # where somebody looks at values
def test_singular_covariances():
    cov = onp.diag([1.0, 2.0, 0.0])
    mean = onp.array([0.1, -0.2, 0.3])
    flat = onp.array([1.0, 1.0, 0.0])
    x = mean + A * flat
    density = partial(stats.multivariate_normal.logpdf, allow_singular=True)
    theirs = partial(scipy.stats.multivariate_normal.logpdf, allow_singular=True)

    onp.testing.assert_allclose(density(x, mean, cov), theirs(x, mean, cov))
    check_grads(lambda x: density(mean + x * flat, mean, cov), order=1)(A)
    check_grads(lambda m: density(x, mean + m * flat, cov), order=1)(A[0])
    check_grads(lambda d: density(x, mean, np.diag(d * flat)), order=1)(onp.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="positive definite"):
        stats.multivariate_normal.logpdf(x, mean, cov)


@pytest.mark.parametrize(
    "matrix",
    [[[0.25, 0.1], [0.0, 0.81]], [[1.0, -1.0], [1.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]], [[1e-9]]],
)
def test_a_root_that_is_real_needs_no_scipy(monkeypatch, matrix):
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    matrix = onp.array(matrix)

    root = linalg.sqrtm(matrix)

    assert root.dtype == onp.float64
    onp.testing.assert_allclose(root @ root, matrix, atol=1e-14)
    assert onp.all(onp.real(onp.linalg.eigvals(root)) > 0)


@pytest.mark.filterwarnings("ignore:Matrix is singular")
@pytest.mark.parametrize("matrix", [[[4.0, 1.0], [0.0, 0.0]], [[-4.0, 1.0], [0.0, 9.0]]])
def test_other_roots_are_those_of_scipy(matrix):
    with tf.device("cpu"):  # a GPU does not look whether the root is real
        root = linalg.sqrtm(onp.array(matrix))

    onp.testing.assert_allclose(root, scipy.linalg.sqrtm(onp.array(matrix)))


def test_linear_algebra():
    onp.testing.assert_allclose(linalg.sqrtm(P), scipy.linalg.sqrtm(P))
    check_grads(lambda p: linalg.sqrtm((p + p.T) / 2), order=1)(P)
    with tf.device("cpu"):  # a GPU does not look whether the root is complex
        indefinite = A + A.T
        onp.testing.assert_allclose(linalg.sqrtm(indefinite), scipy.linalg.sqrtm(indefinite))
        check_grads(lambda p: linalg.sqrtm((p + p.T) / 2))(indefinite)
    for lower in (True, False):
        check_grads(partial(linalg.solve_triangular, lower=lower), (0, 1))(P, A)
    check_grads(linalg.solve_sylvester, (0, 1, 2), order=1)(P, A, A)
    banded = RS.randn(3, 5) + onp.array([[0.0], [5.0], [0.0]])
    check_grads(lambda b: linalg.solve_banded((1, 1), banded, b))(RS.randn(5))


def test_convolve_slides_sums_and_keeps_axes():
    a, b = RS.randn(2, 5, 4, 3), RS.randn(2, 4, 2, 3, 2)
    found = signal.convolve(a, b, axes=([1, 2], [2, 4]), dot_axes=([0, 3], [0, 3]), mode="valid")
    wanted = sum(
        scipy.signal.convolve(a[i, :, :, j], b[i, 2, :, j, :], "valid")
        for i in range(2)
        for j in range(3)
    )

    assert found.shape == (4, 4, 3)
    onp.testing.assert_allclose(found[2], wanted)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolve_is_that_of_scipy(mode):
    short, long = RS.randn(2, 3), RS.randn(4, 5)

    onp.testing.assert_allclose(
        signal.convolve(long, short, mode=mode), scipy.signal.convolve(long, short, mode)
    )
    combo_check(signal.convolve, (0, 1))([long], [short], mode=[mode])
    check_grads(partial(signal.convolve, axes=([0], [1]), mode=mode), (0, 1))(long, short)


def test_convolve_swaps_the_arrays_where_the_second_is_longer():
    found = signal.convolve(A[:2], RS.randn(4, 5), axes=([1], [1]), mode="valid")

    assert found.shape == (2, 4, 3)


def test_convolve_names_what_is_wrong():
    with pytest.raises(ValueError, match="mode must be 'full', 'valid' or 'same'"):
        signal.convolve(X, X, mode="half")
    with pytest.raises(ValueError, match="axes must pair axes"):
        signal.convolve(A, A, axes=([0, 1], [0]))
    with pytest.raises(ValueError, match="at least as long as the other along all axes"):
        signal.convolve(RS.randn(2, 5), RS.randn(5, 2), mode="valid")
    with pytest.raises(ValueError, match="at most 3 axes"):
        signal.convolve(RS.randn(1, 1, 1, 1), RS.randn(1, 1, 1, 1))
