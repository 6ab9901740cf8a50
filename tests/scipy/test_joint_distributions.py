"""Distributions of several variables against SciPy, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tapegrad as tf
from tapegrad.scipy import stats
from tests.scipy.test_stats_gradients import check

ALPHA = np.array([0.7, 2.0, 3.5])
SHARES = np.array([[0.2, 0.1], [0.3, 0.6], [0.5, 0.3]])
MEAN = np.array([0.5, -1.0, 2.0])
ROOT = np.array([[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 1.5]])
COV = ROOT @ ROOT.T
P = np.array([0.2, 0.5, 0.3])


@pytest.mark.parametrize("method", ["pdf", "logpdf"])
def test_dirichlet_densities_are_scipys(method):
    ours, theirs = getattr(stats.dirichlet, method), getattr(scipy.stats.dirichlet, method)

    np.testing.assert_allclose(ours(SHARES, ALPHA).numpy(), theirs(SHARES, ALPHA), rtol=1e-13)
    np.testing.assert_allclose(ours(SHARES[:2], ALPHA).numpy(), theirs(SHARES, ALPHA), rtol=1e-13)
    frozen = getattr(stats.dirichlet(ALPHA), method)
    np.testing.assert_allclose(frozen(SHARES[:, 0]).numpy(), theirs(SHARES[:, 0], ALPHA))


@pytest.mark.parametrize("method", ["mean", "var", "cov", "entropy"])
def test_dirichlet_moments_are_scipys(method):
    wanted = getattr(scipy.stats.dirichlet, method)(ALPHA)

    np.testing.assert_allclose(getattr(stats.dirichlet, method)(ALPHA).numpy(), wanted)
    np.testing.assert_allclose(getattr(stats.dirichlet(ALPHA), method)().numpy(), wanted)


def test_dirichlet_is_nothing_off_the_simplex():
    off = np.array([[0.5, 1.2], [0.4, -0.4], [0.4, 0.2]])

    assert stats.dirichlet.logpdf(off, ALPHA).numpy().tolist() == [-np.inf, -np.inf]
    assert stats.dirichlet.pdf(off, ALPHA).numpy().tolist() == [0.0, 0.0]
    assert np.isnan(float(stats.dirichlet.logpdf(SHARES[:, 0], -ALPHA)))


def test_dirichlet_slopes():
    def density(alpha, logits):
        return stats.dirichlet.logpdf(tf.math.softmax(logits, 0), alpha)

    def moments(alpha):
        return stats.dirichlet.entropy(alpha) + tf.reduce_sum(stats.dirichlet.cov(alpha)[0])

    check(density, {"alpha": ALPHA, "logits": np.log(SHARES)}, ["alpha", "logits"])
    check(moments, {"alpha": ALPHA}, ["alpha"])


def test_dirichlet_samples_have_their_mean():
    sample = stats.dirichlet.rvs(ALPHA, size=20_000, random_state=1).numpy()

    assert sample.shape == (20_000, 3)
    np.testing.assert_allclose(sample.sum(1), 1.0)
    np.testing.assert_allclose(sample.mean(0), ALPHA / ALPHA.sum(), atol=0.01)
    np.testing.assert_allclose(np.cov(sample.T), scipy.stats.dirichlet.cov(ALPHA), atol=0.002)


@pytest.mark.parametrize(
    ("mean", "cov", "shape"),
    [
        (MEAN, COV, (3,)),
        (MEAN, COV, (4, 3)),
        (MEAN, COV, (2, 4, 3)),
        (MEAN, 2.0, (4, 3)),
        (np.zeros(3), np.array([1.0, 2.0, 3.0]), (4, 3)),
        (None, COV, (4, 3)),
        (0.5, 2.0, ()),
        (0.5, 2.0, (5,)),
        (None, 1, (5, 1)),
    ],
)
@pytest.mark.parametrize("method", ["pdf", "logpdf"])
def test_normal_vectors_have_scipys_density(mean, cov, shape, method):
    x = np.random.default_rng(0).normal(size=shape)
    ours = getattr(stats.multivariate_normal, method)(x, mean, cov).numpy()
    theirs = np.asarray(getattr(scipy.stats.multivariate_normal, method)(x, mean, cov))

    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert ours.shape == theirs.shape
    frozen = getattr(stats.multivariate_normal(mean, cov), method)(x).numpy()
    np.testing.assert_array_equal(frozen, ours)


def test_normal_vectors_have_scipys_entropy():
    wanted = scipy.stats.multivariate_normal(MEAN, COV).entropy()

    assert float(stats.multivariate_normal.entropy(MEAN, COV)) == pytest.approx(wanted)
    assert float(stats.multivariate_normal(MEAN, COV).entropy()) == pytest.approx(wanted)


def test_normal_vectors_slopes():
    x = np.random.default_rng(0).normal(size=(4, 3))

    def density(x, mean, root):
        return stats.multivariate_normal.logpdf(x, mean, tf.matmul(root, root, transpose_b=True))

    def slope(x, mean, root):
        with tf.GradientTape() as tape:
            tape.watch([mean, root])
            y = density(x, mean, root)
        by_mean, by_root = tape.gradient(y, [mean, root])
        return tf.reduce_sum(by_mean) + 2 * tf.reduce_sum(by_root)

    values = {"x": x, "mean": MEAN, "root": ROOT}
    check(density, values, list(values))
    check(slope, values, list(values))


def test_normal_vectors_are_drawn_with_their_covariances():
    sample = stats.multivariate_normal.rvs(MEAN, COV, size=20_000, random_state=2).numpy()

    np.testing.assert_allclose(sample.mean(0), MEAN, atol=0.04)
    np.testing.assert_allclose(np.cov(sample.T), COV, atol=0.08)
    assert stats.multivariate_normal.rvs(MEAN, COV).shape == (3,)
    assert stats.multivariate_normal(0.0, 1.0).rvs(size=5, random_state=1).shape == (5,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stats.multivariate_normal.logpdf([1.0, 2.0], MEAN, COV), "x with 3 components"),
        (lambda: stats.multivariate_normal.logpdf(MEAN, MEAN[:2], COV), "as many means as rows"),
        (lambda: stats.multivariate_normal.logpdf(MEAN, MEAN, COV[:2]), "square matrix cov"),
        (lambda: stats.dirichlet.logpdf(SHARES[:1], ALPHA), "x with 3 components"),
        (lambda: stats.dirichlet.logpdf(SHARES, ALPHA[None]), "a vector alpha"),
    ],
)
def test_wrong_shapes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_multinomial_probabilities_are_scipys():
    x = np.array([[1, 3, 1], [5, 0, 0], [2, 2, 2], [-1, 5, 1]])
    for method in ("pmf", "logpmf"):
        wanted = getattr(scipy.stats.multinomial, method)(x, 5, P)
        np.testing.assert_allclose(getattr(stats.multinomial, method)(x, 5, P).numpy(), wanted)
        np.testing.assert_allclose(getattr(stats.multinomial(5, P), method)(x).numpy(), wanted)
    np.testing.assert_allclose(stats.multinomial.cov(5, P), scipy.stats.multinomial.cov(5, P))
    assert np.isnan(float(stats.multinomial.pmf([1, 1], 2, [-0.5, 1.5])))


def test_multinomial_slopes():
    x = np.array([[1.0, 3.0, 1.0], [5.0, 0.0, 0.0], [2.0, 2.0, 2.0]])

    check(lambda x, p: stats.multinomial.pmf(x, 5, p), {"x": x, "p": P}, ["p"])


def test_multinomial_samples_have_their_moments():
    sample = stats.multinomial.rvs(12, P, size=20_000, random_state=3).numpy()

    assert sample.dtype == np.int64
    assert (sample.sum(1) == 12).all()
    np.testing.assert_allclose(sample.mean(0), 12 * P, atol=0.05)
    np.testing.assert_allclose(np.cov(sample.T), scipy.stats.multinomial.cov(12, P), atol=0.1)
