"""Functions of samples: values against SciPy's, and every check of the battery."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.stats as reference

import tapegrad as tf
from tapegrad.scipy import stats
from tapegrad.testing.battery import check_sample
from tapegrad.testing.sample import Sample, distinct, fixed, normal, uniform
from tests.scipy.on_devices import check_on_cpu, check_on_strict_device

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

GAPS = np.array([[1.0, np.nan, 3.0], [2.0, 0.5, np.nan], [4.0, 1.5, 7.0], [1.2, 2.5, 2.0]])


def same(name, axis=0, **options):
    """A row in which both libraries are called alike, on positive numbers."""
    return Sample(
        name,
        lambda x: getattr(stats, name)(x, axis=axis, **options),
        [uniform(0.3, 3.0, 6, 2)],
        lambda x: getattr(reference, name)(x, axis=axis, **options),
    )


def line_of(library, x, y):
    line = library.linregress(x, y)
    return (*line, line.intercept_stderr)


SUMMARIES = [
    same("gmean"),
    same("gmean", None),
    same("hmean", 1),
    same("skew"),
    same("skew", bias=False),
    same("kurtosis"),
    same("kurtosis", 0, fisher=False, bias=False),
    same("moment", 0, order=3),
    same("moment", 1, order=2, center=0.7),
    same("variation", 0, ddof=1),
    same("sem"),
    same("zscore", 0, ddof=1),
    same("zscore", None),
    same("gzscore", axis=0),
    same("tmean", 0, limits=(0.5, 2.5)),
    same("tvar", 0, limits=(0.4, 2.9)),
    same("tstd", None, limits=(0.4, None), inclusive=(False, True)),
    same("tsem", 0, limits=(None, 2.9)),
    same("trim_mean", 0, proportiontocut=0.2),
    same("iqr", 0),
    same("median_abs_deviation", 0, scale="normal"),
    same("entropy", 0, base=2),
    same("circmean", 0, high=3.5, low=0.1),
    same("circvar", 0),
    same("circstd", 0, high=3.5, low=0.1),
    Sample(
        "pmean",
        lambda x, w: stats.pmean(x, 1.7, weights=w),
        [uniform(0.5, 2.0, 4, 2), uniform(0.5, 2.0, 4, 2)],
        lambda x, w: reference.pmean(x, 1.7, weights=w),
    ),
    Sample(
        "zmap",
        lambda x, y: stats.zmap(x, y, axis=1),
        [normal(2, 3), normal(2, 5)],
        lambda x, y: reference.zmap(x, y, axis=1),
    ),
    Sample(
        "tmin", lambda x: stats.tmin(x, 0.0), [distinct(6, 2)], lambda x: reference.tmin(x, 0.0)
    ),
    Sample(
        "tmax", lambda x: stats.tmax(x, 0.0), [distinct(6, 2)], lambda x: reference.tmax(x, 0.0)
    ),
    Sample(
        "entropy-relative",
        stats.entropy,
        [uniform(0.2, 1.0, 4, 2), uniform(0.2, 1.0, 4, 2)],
        reference.entropy,
    ),
]

RELATIONS = [
    Sample(
        "pearsonr",
        lambda x, y: tuple(stats.pearsonr(x, y)),
        [normal(6), normal(6)],
        lambda x, y: tuple(reference.pearsonr(x, y)),
    ),
    Sample(
        "linregress",
        lambda x, y: line_of(stats, x, y),
        [normal(6), normal(6)],
        lambda x, y: line_of(reference, x, y),
    ),
    Sample(
        "ttest_1samp",
        lambda x: tuple(stats.ttest_1samp(x, 0.4)),
        [normal(6, 2)],
        lambda x: tuple(reference.ttest_1samp(x, 0.4)),
    ),
    Sample(
        "ttest_rel",
        lambda x, y: tuple(stats.ttest_rel(x, y, alternative="less")),
        [normal(6), normal(6)],
        lambda x, y: tuple(reference.ttest_rel(x, y, alternative="less")),
    ),
    Sample(
        "ttest_ind",
        lambda x, y: tuple(stats.ttest_ind(x, y)),
        [normal(6), normal(4)],
        lambda x, y: tuple(reference.ttest_ind(x, y)),
    ),
    Sample(
        "ttest_ind-welch",
        lambda x, y: tuple(stats.ttest_ind(x, y, equal_var=False, alternative="greater")),
        [normal(6), normal(4)],
        lambda x, y: tuple(reference.ttest_ind(x, y, equal_var=False, alternative="greater")),
    ),
    Sample(
        "f_oneway",
        lambda x, y, z: tuple(stats.f_oneway(x, y, z)),
        [normal(5), normal(4), normal(6)],
        lambda x, y, z: tuple(reference.f_oneway(x, y, z)),
    ),
    Sample(
        "wasserstein_distance",
        stats.wasserstein_distance,
        [distinct(5), normal(4), uniform(0.5, 2.0, 5), uniform(0.5, 2.0, 4)],
        reference.wasserstein_distance,
    ),
    Sample(
        "energy_distance",
        stats.energy_distance,
        [distinct(5), normal(4)],
        reference.energy_distance,
    ),
]

TRANSFORMS = [
    Sample(
        "boxcox_llf",
        stats.boxcox_llf,
        [fixed(0.6), uniform(0.3, 3.0, 6)],
        reference.boxcox_llf,
    ),
    Sample(
        "boxcox_llf-logarithm",
        stats.boxcox_llf,
        [fixed(0.0), uniform(0.3, 3.0, 6)],
        reference.boxcox_llf,
    ),
    Sample("boxcox", stats.boxcox, [uniform(0.3, 3.0, 6), fixed(0.6)], reference.boxcox),
    Sample(
        "yeojohnson_llf", stats.yeojohnson_llf, [fixed(0.6), normal(6)], reference.yeojohnson_llf
    ),
    Sample("yeojohnson", stats.yeojohnson, [normal(6), fixed(0.6)], reference.yeojohnson),
    Sample(
        "differential_entropy-ebrahimi",
        stats.differential_entropy,
        [distinct(12)],
        reference.differential_entropy,
    ),
    Sample(
        "differential_entropy-vasicek",
        lambda x: stats.differential_entropy(x, method="vasicek", axis=1, keepdims=True),
        [distinct(2, 7)],
        lambda x: reference.differential_entropy(x, method="vasicek", axis=1, keepdims=True),
    ),
    Sample(
        "differential_entropy-van-es",
        lambda x: stats.differential_entropy(x, window_length=2, base=2),
        [distinct(9, 2)],
        lambda x: reference.differential_entropy(x, window_length=2, base=2, method="van es"),
    ),
    Sample(
        "gaussian_kde",
        lambda data, x: stats.gaussian_kde(data)(x),
        [normal(2, 6), normal(2, 3)],
        lambda data, x: reference.gaussian_kde(data)(x),
    ),
    Sample(
        "gaussian_kde-weights",
        lambda data, x, w: stats.gaussian_kde(data, "silverman", w).logpdf(x),
        [normal(6), normal(3), uniform(0.5, 2.0, 6)],
        lambda data, x, w: reference.gaussian_kde(data, "silverman", w).logpdf(x),
    ),
]

ALL = [*SUMMARIES, *RELATIONS, *TRANSFORMS]
each_sample = pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)


@each_sample
def test_every_check_holds(sample):
    check_sample_quietly(check_on_cpu if _is_single(sample) else check_sample, sample)


def _is_single(sample):
    return not isinstance(sample.function(*(tf.constant(x) for x in sample.make())), tuple)


def check_sample_quietly(check, sample):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="scipy")
        check(sample)


@each_sample
def test_nothing_is_read_on_the_host(sample):
    check_sample_quietly(check_on_strict_device, sample)


@pytest.mark.parametrize(
    "name", ["gmean", "hmean", "skew", "kurtosis", "variation", "sem", "zscore", "circmean"]
)
def test_values_that_are_missing_are_left_out(name):
    x = tf.constant(GAPS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = getattr(stats, name)(x, nan_policy="omit", axis=0)
        total = tf.reduce_sum(tf.where(tf.math.is_nan(y), 0.0, y))
    wanted = getattr(reference, name)(GAPS, nan_policy="omit", axis=0)
    slope = tape.gradient(total, x).numpy()

    np.testing.assert_allclose(y.numpy(), np.asarray(wanted), rtol=1e-12)
    assert (slope[np.isnan(GAPS)] == 0).all()
    assert np.isfinite(slope).all()


def test_what_lies_outside_of_limits_gets_no_gradient():
    x = tf.constant(np.array([1.0, 2.0, 4.0, np.inf, 90.0]))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        mean = stats.tmean(x, (0, 10))
        var = stats.tvar(x, (0, 10))

    np.testing.assert_allclose(tape.gradient(mean, x).numpy(), [1 / 3, 1 / 3, 1 / 3, 0, 0])
    np.testing.assert_allclose(tape.gradient(var, x).numpy(), [-4 / 3, -1 / 3, 5 / 3, 0, 0])


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_ranks_are_scipys(method):
    x = np.array([[3.0, 1.0, 3.0, 2.0], [5.0, 5.0, 5.0, 0.0]])
    for axis in (None, 0, 1):
        wanted = reference.rankdata(x, method, axis=axis)
        np.testing.assert_array_equal(stats.rankdata(x, method, axis=axis).numpy(), wanted)


def test_the_correlation_of_ranks_is_scipys():
    x, y = np.random.default_rng(0).integers(0, 6, (2, 12)).astype(float)

    found, wanted = stats.spearmanr(x, y), reference.spearmanr(x, y)

    assert float(found.statistic) == pytest.approx(wanted.statistic)
    assert float(found.pvalue) == pytest.approx(wanted.pvalue)


@pytest.mark.parametrize("name", ["boxcox", "yeojohnson"])
def test_the_likeliest_transform_is_scipys(name):
    x = np.random.default_rng(0).gamma(2.0, size=40)

    values, lmbda = getattr(stats, name)(x)

    wanted, best = getattr(reference, name)(x)
    assert float(lmbda) == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-5)


def test_a_density_integrates_to_its_share():
    data = np.random.default_rng(0).normal(size=9)

    found = float(stats.gaussian_kde(data, 0.4).integrate_box_1d(-0.5, 1.0))

    assert found == pytest.approx(reference.gaussian_kde(data, 0.4).integrate_box_1d(-0.5, 1.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stats.gmean([1.0], nan_policy="raise"), "nan_policy of gmean must be"),
        (lambda: stats.moment([1.0], 1.5), "non-negative integer order"),
        (lambda: stats.trim_mean([1.0, 2.0], 0.6), "must be below 0.5"),
        (lambda: stats.pearsonr([1.0, 2.0], [1.0]), "two samples of the same shape"),
        (lambda: stats.ttest_1samp([1.0, 2.0], 0, alternative="more"), "alternative of ttest"),
        (lambda: stats.rankdata([1.0], "first"), "method of rankdata must be"),
        (lambda: stats.linregress([1.0], [1.0]), "at least two points"),
        (lambda: stats.f_oneway([1.0]), "at least two samples"),
        (lambda: stats.energy_distance([[1.0]], [1.0]), "non-empty vectors"),
        (lambda: stats.entropy([1.0], base=-1), "positive base"),
        (lambda: stats.differential_entropy([1.0, 2.0, 3.0], window_length=2), "window_length of"),
        (lambda: stats.differential_entropy(np.arange(9.0), method="x"), "must be one of"),
        (lambda: stats.gaussian_kde([1.0]), "at least two points"),
        (lambda: stats.gaussian_kde([1.0, 2.0], "wide"), "bw_method must be"),
        (lambda: stats.gaussian_kde([1.0, 2.0], weights=[1.0]), "one weight for each"),
        (lambda: stats.gaussian_kde(np.eye(3)).pdf(np.eye(2)), "3 coordinates"),
        (lambda: stats.gaussian_kde(np.eye(3)).integrate_box_1d(0, 1), "one-dimensional data"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_ranks_of_long_rows_are_exact_in_small_dtypes(dtype):
    x = np.random.default_rng(5).integers(-100, 100, size=5000).astype(dtype)
    exact = x.astype("float64")  # newer versions of SciPy round ranks to the dtype of `x`
    found = stats.rankdata(tf.constant(x), "ordinal")
    assert found.dtype == "float64"
    np.testing.assert_array_equal(found.numpy(), reference.rankdata(exact, "ordinal"))
    wanted = reference.rankdata(exact)
    np.testing.assert_array_equal(stats.rankdata(tf.constant(x)).numpy(), wanted)
