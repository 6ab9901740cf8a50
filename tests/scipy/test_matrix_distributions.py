"""Distributions of matrices and heavy-tailed vectors against SciPy, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.scipy import stats
from tests.scipy.test_stats_gradients import check

ROOT = np.array([[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 1.5]])
SCALE = ROOT @ ROOT.T
OTHER = np.array([[1.0, 0.2], [0.2, 0.7]])
POINTS = np.stack([SCALE + np.eye(3), 2 * SCALE - 0.3 * np.eye(3)], -1)
MEAN = np.array([0.5, -1.0, 2.0])
X = np.random.default_rng(0).normal(size=(4, 3))
SINGULAR = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])

each_wishart = pytest.mark.parametrize("name", ["wishart", "invwishart"])


@each_wishart
@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_wishart_densities_are_scipys(name, method):
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)

    for x, df, scale in [(POINTS, 5.5, SCALE), (SCALE, 4, SCALE), (1.3, 2.5, 0.7)]:
        wanted = getattr(theirs, method)(x, df, scale)
        np.testing.assert_allclose(getattr(ours, method)(x, df, scale).numpy(), wanted, rtol=1e-12)
        np.testing.assert_allclose(getattr(ours(df, scale), method)(x).numpy(), wanted, rtol=1e-12)
    assert np.isnan(float(ours.logpdf(SCALE, 1.5, SCALE)))


@each_wishart
@pytest.mark.parametrize("method", ["mean", "var", "mode"])
def test_wishart_moments_are_scipys(name, method):
    wanted = getattr(getattr(scipy.stats, name), method)(8.5, SCALE)

    np.testing.assert_allclose(getattr(getattr(stats, name), method)(8.5, SCALE).numpy(), wanted)
    np.testing.assert_allclose(getattr(getattr(stats, name)(8.5, SCALE), method)().numpy(), wanted)


def test_the_entropy_of_wishart_is_scipys():
    wanted = scipy.stats.wishart.entropy(5.5, SCALE)

    assert float(stats.wishart(5.5, SCALE).entropy()) == pytest.approx(wanted)


@each_wishart
def test_entropies_are_the_mean_of_the_log_density(name):
    dist = getattr(stats, name)(6.5, OTHER)

    sample = np.moveaxis(dist.rvs(size=40_000, random_state=1).numpy(), 0, -1)

    assert float(dist.entropy()) == pytest.approx(-dist.logpdf(sample).numpy().mean(), abs=0.03)


@each_wishart
def test_wishart_samples_have_their_mean(name):
    sample = getattr(stats, name).rvs(9.5, SCALE, size=20_000, random_state=3).numpy()

    wanted = getattr(scipy.stats, name).mean(9.5, SCALE)
    np.testing.assert_allclose(sample.mean(0), wanted, atol=0.03 * np.abs(wanted).max())
    assert sample.shape == (20_000, 3, 3)


@each_wishart
def test_wishart_slopes(name):
    def density(df, root):
        scale = tf.matmul(root, root, transpose_b=True)
        return getattr(stats, name).logpdf(POINTS, df, scale)

    def moments(df, root):
        dist = getattr(stats, name)(df, tf.matmul(root, root, transpose_b=True))
        return dist.entropy() + tf.reduce_sum(dist.var())

    values = {"df": np.array(8.5), "root": ROOT}
    check(density, values, list(values))
    check(moments, values, list(values))


@pytest.mark.parametrize("df", [0.7, 4.5, np.inf])
def test_heavy_vectors_have_scipys_density(df):
    for x, loc, shape in [(X, MEAN, SCALE), (X[0], MEAN, 2.0), (X[:, 0], 0.3, 1.7)]:
        theirs = scipy.stats.multivariate_t(loc, shape, df)
        ours = stats.multivariate_t(loc, shape, df)
        np.testing.assert_allclose(ours.logpdf(x).numpy(), theirs.logpdf(x), rtol=1e-12)
        np.testing.assert_allclose(ours.pdf(x).numpy(), theirs.pdf(x), rtol=1e-12)
        assert float(ours.entropy()) == pytest.approx(float(theirs.entropy()))


def test_heavy_vectors_slopes():
    def density(x, loc, root, df):
        shape = tf.matmul(root, root, transpose_b=True)
        y = stats.multivariate_t.logpdf(x, loc, shape, df)
        return y + stats.multivariate_t.entropy(loc, shape, df)

    values = {"x": X, "loc": MEAN, "root": ROOT, "df": np.array(4.5)}
    check(density, values, list(values))


def test_heavy_vectors_are_drawn_with_their_covariances():
    sample = stats.multivariate_t.rvs(MEAN, SCALE, 8.0, size=40_000, random_state=2).numpy()

    np.testing.assert_allclose(sample.mean(0), MEAN, atol=0.05)
    np.testing.assert_allclose(np.cov(sample.T), SCALE * 8 / 6, atol=0.15)


def test_normal_matrices_have_scipys_density():
    x = np.random.default_rng(0).normal(size=(5, 2, 3))
    mean = x[0] + 1

    for given, rows in [(mean, OTHER), (None, 1.5), (mean, np.array([1.0, 2.0]))]:
        theirs = scipy.stats.matrix_normal(given, _matrix(rows, 2), SCALE)
        ours = stats.matrix_normal(given, rows, SCALE)
        np.testing.assert_allclose(ours.logpdf(x).numpy(), theirs.logpdf(x), rtol=1e-12)
        np.testing.assert_allclose(ours.pdf(x[1]).numpy(), theirs.pdf(x[1]), rtol=1e-12)
    wanted = scipy.stats.matrix_normal.entropy(rowcov=OTHER, colcov=SCALE)
    assert float(stats.matrix_normal(mean, OTHER, SCALE).entropy()) == pytest.approx(wanted)


def _matrix(value, size):
    return value * np.eye(size) if np.ndim(value) < 2 else value


def test_normal_matrices_slopes():
    x = np.random.default_rng(0).normal(size=(2, 2, 3))

    def density(x, mean, root):
        columns = tf.matmul(root, root, transpose_b=True)
        y = stats.matrix_normal.logpdf(x, mean, OTHER, columns)
        return y + stats.matrix_normal.entropy(mean, OTHER, columns)

    values = {"x": x, "mean": x[0] + 1, "root": ROOT}
    check(density, values, list(values))


def test_normal_matrices_are_drawn_with_their_covariances():
    mean = np.arange(6.0).reshape(2, 3)
    sample = stats.matrix_normal.rvs(mean, OTHER, SCALE, size=20_000, random_state=2).numpy()

    flat = sample.reshape(-1, 6)
    np.testing.assert_allclose(flat.mean(0), mean.ravel(), atol=0.05)
    np.testing.assert_allclose(np.cov(flat.T), np.kron(OTHER, SCALE), atol=0.15)


def test_mixed_counts_have_scipys_probabilities():
    alpha, x = np.array([0.5, 2.0, 3.0]), np.array([[1, 2, 3], [0, 6, 0], [1, 1, 1]])
    theirs = scipy.stats.dirichlet_multinomial(alpha, 6)
    ours = stats.dirichlet_multinomial(alpha, 6)

    np.testing.assert_allclose(ours.pmf(x).numpy(), theirs.pmf(x), rtol=1e-12)
    np.testing.assert_allclose(ours.logpmf(x).numpy(), theirs.logpmf(x), rtol=1e-12)
    for method in ("mean", "var", "cov"):
        np.testing.assert_allclose(getattr(ours, method)().numpy(), getattr(theirs, method)())
    check(lambda alpha: stats.dirichlet_multinomial.pmf(x, alpha, 6), {"alpha": alpha}, ["alpha"])


def test_a_singular_normal_distribution_is_scipys():
    x = np.array([[1.0, 1.0, 2.0], [1.0, 2.0, 0.0], [-0.5, -0.5, 0.3]])
    theirs = scipy.stats.multivariate_normal(np.zeros(3), SINGULAR, True)
    ours = stats.multivariate_normal(np.zeros(3), SINGULAR, True)

    np.testing.assert_allclose(ours.logpdf(x).numpy(), theirs.logpdf(x), rtol=1e-12)
    assert ours.logpdf(x).numpy()[1] == -np.inf
    assert float(ours.entropy()) == pytest.approx(theirs.entropy(), rel=1e-14)
    sample = ours.rvs(size=20_000, random_state=1).numpy()
    np.testing.assert_allclose(np.cov(sample.T), SINGULAR, atol=0.06)
    np.testing.assert_allclose(sample[:, 0], sample[:, 1], atol=1e-6)


def test_a_singular_normal_distribution_has_slopes():
    x = np.array([[1.0, 1.0, 2.0], [-0.5, -0.5, 0.3]])
    # Through a scale and a shift that keep the points where there is a density.
    values = {"size": np.array(1.3), "shift": np.array(0.4)}

    def density(size, shift):
        move = shift * tf.constant([1.0, 1.0, 0.0], tf.float64)
        return stats.multivariate_normal.logpdf(x, move, size * tf.constant(SINGULAR), True)

    check(density, values, list(values))


CALLS = {
    "wishart": lambda a: stats.wishart.logpdf(a, 4.5, a),
    "wishart.rvs": lambda a: stats.wishart.rvs(4.5, a, random_state=1),
    "invwishart": lambda a: stats.invwishart.logpdf(a, 4.5, a),
    "matrix_normal": lambda a: stats.matrix_normal.logpdf(a, None, a, 1.0),
    "multivariate_t": lambda a: stats.multivariate_t.logpdf(a, None, a, 3.0),
    "multivariate_t.rvs": lambda a: stats.multivariate_t.rvs(None, a, 3.0, random_state=1),
    "dirichlet_multinomial": lambda a: stats.dirichlet_multinomial.logpmf([1, 1], a, 2),
    "singular": lambda a: stats.multivariate_normal.logpdf(a, None, a, True),
}


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_read_on_the_host(name):
    register_backend(strict.StrictBackend())
    try:
        with device("strict:0"), strict.forbidding_reads():
            y = CALLS[name](tf.constant(OTHER))
            assert y.device == "strict:0"
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stats.wishart.logpdf(SCALE, 5, np.ones((2, 3))), "vector or square matrix"),
        (lambda: stats.wishart.logpdf(OTHER, 5, SCALE), "3 by 3 matrices along its first"),
        (lambda: stats.invwishart.logpdf(np.ones(3), 5, SCALE), "3 by 3 matrices"),
        (lambda: stats.matrix_normal.logpdf(1.0), "matrices along the last two axes"),
        (lambda: stats.matrix_normal.logpdf(X, None, OTHER, SCALE), "that match the matrices"),
        (lambda: stats.multivariate_t.logpdf(X, MEAN[:2], SCALE), "as many means as rows"),
        (lambda: stats.dirichlet_multinomial.pmf([1, 1], [1.0] * 3, 2), "as many counts as"),
    ],
)
def test_wrong_shapes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
