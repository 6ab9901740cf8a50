"""Results of tests beyond statistic and p-value, and values far from zero or at extreme degrees."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as reference

from tapegrad.scipy import stats
from tests.scipy.test_stats_gradients import check

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=(2, 12))
SIDES = ["two-sided", "less", "greater"]


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-10)


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("length", [2, 3, 12])
def test_intervals_of_correlations(alternative, length):
    found = stats.pearsonr(X[:length], Y[:length], alternative=alternative)
    wanted = reference.pearsonr(X[:length], Y[:length], alternative=alternative)
    close(found.correlation, wanted.correlation)
    close(found.confidence_interval(0.9), wanted.confidence_interval(0.9))


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize(
    "call",
    [
        lambda s, **options: s.ttest_1samp(X, 0.3, **options),
        lambda s, **options: s.ttest_rel(X, Y, **options),
        lambda s, **options: s.ttest_ind(X, Y[:7], **options),
        lambda s, **options: s.ttest_ind(X, Y[:7], equal_var=False, **options),
        lambda s, **options: s.ttest_ind(X, Y[:1], **options),
        lambda s, **options: s.ttest_ind(X, Y[:7], trim=0.2, **options),
        lambda s, **options: s.ttest_ind(X, Y[:9], trim=0.3, equal_var=False, **options),
        lambda s, **options: s.ttest_ind(X.reshape(3, 4), Y.reshape(3, 4), axis=1, **options),
    ],
)
def test_degrees_and_intervals_of_t_tests(call, alternative):
    found, wanted = call(stats, alternative=alternative), call(reference, alternative=alternative)
    close(found, wanted)
    close(found.df, wanted.df)
    close(found.confidence_interval(0.8), wanted.confidence_interval(0.8))
    with pytest.raises(ValueError, match="confidence_level must be a number from 0 to 1"):
        found.confidence_interval(2.0)


def test_intervals_have_gradients():
    check(lambda x, y: stats.ttest_ind(x, y).confidence_interval().low, {"x": X, "y": Y}, ["x"])
    check(lambda x, y: stats.ttest_ind(x, y, trim=0.2).statistic, {"x": X, "y": Y}, ["x"])
    check(lambda x, y: stats.pearsonr(x, y).confidence_interval().high, {"x": X, "y": Y}, ["y"])


@pytest.mark.filterwarnings("ignore")
def test_welch_of_constant_samples():
    close(stats.ttest_ind([0.0] * 3, [1.0] * 3, equal_var=False), [-np.inf, 0.0])
    assert np.isnan(stats.ttest_ind([0.0] * 3, [0.0] * 3, equal_var=False)).all()


def test_variance_of_means_far_from_zero():
    groups = [1e12 + np.array([0.2, 0.4, 0.1]) + k for k in range(3)]  # rounded to 1e-4
    exact = reference.f_oneway(*(group - 1e12 for group in groups))
    close(stats.f_oneway(*groups), exact)


def test_deviations_of_complex_numbers():
    scores, compare = np.arange(1, 5), np.array([1, 1j, -1, -1j])
    close(stats.zmap(scores, compare), scores)


def test_a_circular_mean_of_huge_angles():
    close(
        stats.circmean(1e17, high=np.pi, low=-np.pi),
        np.arctan2(np.sin(1e17), np.cos(1e17)),
    )
    x = RNG.uniform(0, 9, size=8)
    close(stats.circmean(x, high=5, low=2), reference.circmean(x, high=5, low=2))


@pytest.mark.parametrize("df", [3.0, 99.0, 210.0, 1e5, 1e20])
def test_multivariate_t_at_many_degrees(df):
    shape = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.5]])
    found = stats.multivariate_t.entropy(shape=shape, df=df)
    wanted = reference.multivariate_t.entropy(shape=shape, df=df)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    x = np.array([0.3, -1.0, 2.0])
    density = stats.multivariate_t.logpdf(x, [0.0] * 3, shape, df)
    if df < 1e6:
        wanted = reference.multivariate_t.logpdf(x, [0.0] * 3, shape, df)
    else:
        wanted = reference.multivariate_normal.logpdf(x, [0.0] * 3, shape)
    np.testing.assert_allclose(density, wanted, rtol=1e-9)


@pytest.mark.parametrize("df", [20.0, 300.0])
def test_slopes_in_the_degrees(df):
    shape = np.eye(2)
    check(lambda df: stats.multivariate_t.entropy(None, shape, df), {"df": np.array(df)}, ["df"])


def test_distributions_at_extreme_parameters():
    close(stats.chi.mean(1e14), 9999999.999999976)
    close(stats.chi.entropy([1e3, 1e10, 1e100]), [1.0721981095025448] + [1.0723649429247] * 2)
    close(stats.chi.var([3.0, 1e12]), [reference.chi.var(3.0), 0.5])
    close(stats.nakagami.var([3.0, 1e12]), [reference.nakagami.var(3.0), 0.25e-12])
    close(stats.nakagami.entropy([3.0, 250.0]), reference.nakagami.entropy([3.0, 250.0]))
    close(stats.halflogistic.logsf([1e-14, 0.5, 40.0]), [-5e-15, *_half_logistic([0.5, 40.0])])
    assert abs(float(stats.binom.cdf(0, 25e21, 1e-21)) - np.exp(-25.0)) < 1e-15
    close(stats.binom.cdf([0, 3], 10, 0.3), reference.binom.cdf([0, 3], 10, 0.3))


def _half_logistic(x):
    return reference.halflogistic.logsf(x)
