"""Options and edges that SciPy has an answer for: each row is one call in both libraries."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

import tapegrad as tf
import tapegrad.scipy as ours

inf, nan = np.inf, np.nan
RNG = np.random.default_rng(3)
A = RNG.gamma(2.0, size=(4, 5))
GAPS = np.where(A[1, 2] == A, nan, A)
SIGNED = RNG.normal(size=(4, 5))
CONSTANT = np.ones((4, 5))
V, W = RNG.normal(size=(2, 6))
SHARES = np.array([1e-20, 1e-3, 0.5, 0.999, 1 - 1e-10, 1 - 1e-16])

SAMPLES = {
    "gmean of negatives": lambda lib: lib.stats.gmean(SIGNED),
    "gmean of all with weights": lambda lib: lib.stats.gmean(A, axis=None, weights=A),
    "hmean in float32": lambda lib: lib.stats.hmean(A, dtype=np.float32),
    "moment of order 0 of NaN": lambda lib: lib.stats.moment(GAPS, 0),
    "skew of two": lambda lib: lib.stats.skew(A[:2], bias=False),
    "kurtosis of three": lambda lib: lib.stats.kurtosis(A[:3], bias=False),
    "kurtosis of few that are there": lambda lib: lib.stats.kurtosis(
        GAPS, bias=False, nan_policy="omit"
    ),
    "sem without degrees": lambda lib: lib.stats.sem(A, ddof=4),
    "variation of fewer than none": lambda lib: lib.stats.variation(A, ddof=5),
    "keepdims of all axes": lambda lib: lib.stats.circmean(A, keepdims=True),
    "two axes": lambda lib: lib.stats.skew(A, axis=(0, 1), keepdims=True),
    "circstd of equal angles": lambda lib: lib.stats.circstd(CONSTANT),
    "circvar of equal angles": lambda lib: lib.stats.circvar(CONSTANT, axis=0),
    "entropy that leaves out": lambda lib: lib.stats.entropy(GAPS, nan_policy="omit"),
    "entropy of negatives": lambda lib: lib.stats.entropy(SIGNED),
    "tmean with NaN": lambda lib: lib.stats.tmean(GAPS, (0.1, 3), axis=1),
    "tmean that leaves out": lambda lib: lib.stats.tmean(GAPS, (0.1, 3), nan_policy="omit"),
    "tmin with NaN": lambda lib: lib.stats.tmin(GAPS, 0.1, axis=1),
    "tmax of infinity": lambda lib: lib.stats.tmax([inf, 1.0], inf),
    "trim_mean with NaN": lambda lib: lib.stats.trim_mean(GAPS, 0.3, axis=1),
    "iqr with NaN": lambda lib: lib.stats.iqr(GAPS, 1),
    "iqr that leaves out": lambda lib: lib.stats.iqr(GAPS, 1, nan_policy="omit"),
    "iqr the other way round": lambda lib: lib.stats.iqr(A, 0, (75, 25), "normal"),
    "iqr between": lambda lib: lib.stats.iqr(A, 0, interpolation="midpoint"),
    "deviation with NaN": lambda lib: lib.stats.median_abs_deviation(GAPS),
    "deviation by position": lambda lib: lib.stats.median_abs_deviation(A, 1, None, 2.0),
    "pearsonr of tiny": lambda lib: tuple(lib.stats.pearsonr(V * 1e-170, W * 1e170)),
    "rankdata of all": lambda lib: lib.stats.rankdata(A),
    "rankdata with NaN": lambda lib: lib.stats.rankdata(GAPS, axis=0),
    "rankdata that leaves out": lambda lib: lib.stats.rankdata(GAPS, axis=0, nan_policy="omit"),
    "spearmanr with NaN": lambda lib: tuple(lib.stats.spearmanr(GAPS[1], A[1])),
    "spearmanr of columns": lambda lib: tuple(lib.stats.spearmanr(A)),
    "spearmanr by position": lambda lib: tuple(lib.stats.spearmanr(V, W, 0, "propagate", "less")),
    "linregress unpacks": lambda lib: tuple(lib.stats.linregress(V, W)),
    "ttest_ind with one": lambda lib: tuple(lib.stats.ttest_ind(V[:1], W)),
    "ttest_ind far out": lambda lib: tuple(
        lib.stats.ttest_ind(np.arange(600.0), 100 + np.arange(600.0))
    ),
    "boxcox at the ends": lambda lib: lib.special.boxcox([0.0, 0.0, inf, inf], [2.0, -1, -2, 0.5]),
    "boxcox of infinity and 0": lambda lib: lib.special.boxcox([inf, 0.0], [0.0, 0.0]),
    "boxcox1p at the ends": lambda lib: lib.special.boxcox1p(
        [-1.0, -1.0, -1.0, inf, inf, inf], [2.0, -1.0, 0.0, -2.0, 0.0, 0.5]
    ),
    "boxcox_llf of large powers": lambda lib: lib.stats.boxcox_llf(30.0, A[0] * 1e5),
    "boxcox_llf of small ones": lambda lib: lib.stats.boxcox_llf(-3.3, A[0] * 1e5),
}

T_PLACES = np.array([-30.0, -10, -3, 0, 1e-9, 2, 10, 30])
DISTRIBUTIONS = {
    **{
        f"t.{method} with {df} degrees": lambda lib, m=method, df=df: getattr(lib.stats.t, m)(
            T_PLACES, df
        )
        for method in ("cdf", "sf", "logsf", "logpdf")
        for df in (2.5, 1e3, 1e7, inf)
    },
    **{
        f"t.{method} of many degrees": lambda lib, m=method: getattr(lib.stats.t, m)([1e10, inf])
        for method in ("mean", "var", "entropy")
    },
    "t.ppf of many degrees": lambda lib: lib.stats.t.ppf([[1e-9], [0.3]], [1e3, 1e10, inf]),
    "gamma.ppf near 1": lambda lib: lib.stats.gamma.ppf(SHARES, [[0.4], [2.3], [50.0]]),
    "gamma.isf near 1": lambda lib: lib.stats.gamma.isf(SHARES, [[0.4], [2.3], [50.0]]),
    "beta.ppf near 1": lambda lib: lib.stats.beta.ppf(SHARES, [[0.01], [1.0], [50.0]], 200.0),
    "beta.sf next to 0": lambda lib: lib.stats.beta.sf([1e-300, 1e-10, 0.3], 0.001, [[1.0], [3]]),
    "cauchy.ppf near 1": lambda lib: lib.stats.cauchy.ppf(SHARES),
    "cauchy.logpdf far out": lambda lib: lib.stats.cauchy.logpdf([1e300, -1e9, 3.0]),
    "truncnorm.ppf near 1": lambda lib: lib.stats.truncnorm.ppf(SHARES, 0.0, inf),
    "gumbel_r.logpdf far out": lambda lib: lib.stats.gumbel_r.logpdf([-300.0, -100.0]),
    "triang.cdf next to 0": lambda lib: lib.stats.triang.cdf([1e-300, 1e-12, 0.9], 0.0),
    "nbinom.isf of little": lambda lib: lib.stats.nbinom.isf([1e-300, 1e-20, 0.3], 2.5, 0.3),
    "randint.ppf of little": lambda lib: lib.stats.randint.ppf([1e-300, 0.2], -2, 7),
    "poisson.pmf of NaN": lambda lib: lib.stats.poisson.pmf([nan, 1.0], 2.0),
    "bernoulli.cdf of NaN": lambda lib: lib.stats.bernoulli.cdf([nan, 0.0], 0.3),
    "support of nonsense": lambda lib: lib.stats.gamma.support(-1.0),
    **{
        f"hypergeom.{method}": lambda lib, m=method: getattr(lib.stats.hypergeom, m)(
            [0, 4, 5, 9, 30, nan], [[20], [1000]], [[7], [500]], [[12], [60]]
        )
        for method in ("cdf", "sf", "logcdf", "logsf")
    },
    "hypergeom.ppf": lambda lib: lib.stats.hypergeom.ppf([0, 1e-9, 0.3, 0.9, 1], 1000, 500, 60),
    "hypergeom.isf": lambda lib: lib.stats.hypergeom.isf([0, 1e-9, 0.3, 0.9, 1], 1000, 500, 60),
    "hypergeom.entropy": lambda lib: lib.stats.hypergeom.entropy([20, 1000], 7, 12),
}

SPECIAL = {
    "entr of NaN": lambda lib: lib.special.entr([nan, 0.0, inf, -1.0]),
    "rel_entr of NaN": lambda lib: lib.special.rel_entr([nan, 1.0], [1.0, nan]),
    "xlogy of NaN": lambda lib: lib.special.xlogy([0.0, 0.0], [nan, 0.0]),
    "gammasgn of NaN": lambda lib: lib.special.gammasgn([nan, -0.5]),
    "agm of NaN": lambda lib: lib.special.agm([0.0, 0.0], [nan, 2.0]),
    "jv of NaN": lambda lib: lib.special.jv([0.5, nan, 0.5], [nan, 1.0, 1.0]),
    "ive of NaN": lambda lib: lib.special.ive([0.5, nan, 0.5], [nan, 1.0, 1.0]),
    "betaincinv of nonsense": lambda lib: lib.special.betaincinv(
        [-1.0, 2, nan], 3.0, [0.3, 0.3, 0]
    ),
    "gammaincinv of nonsense": lambda lib: lib.special.gammaincinv([-1.0, 0.0, nan], [0.3, 0.3, 1]),
    "gammaincinv near 1": lambda lib: lib.special.gammaincinv([[0.01], [2.0], [1e4]], SHARES),
    "gammainccinv near 1": lambda lib: lib.special.gammainccinv([[0.3], [2.0], [1e4]], SHARES),
    "binom beyond n": lambda lib: lib.special.binom(
        [[3.0], [1.5], [-3.5]], [-3.0, 10.0, 10.5, 1e3, 1e5]
    ),
    "poch of large numbers": lambda lib: lib.special.poch([1e16, 1e8, -2.0], [-0.5, -1.0, 0.9]),
    "comb with repetition": lambda lib: lib.special.comb([0, 5, 3], [0, 2, 0], repetition=True),
    "multigammaln": lambda lib: lib.special.multigammaln([1.2, 3.5], 3),
    "rgamma at poles": lambda lib: lib.special.rgamma([-1e5, -3.0, 0.0]),
    "pseudo_huber of all sizes": lambda lib: lib.special.pseudo_huber([nan, 1.0, 2.0], [1, 0.1, 9]),
    "zetac next to 0": lambda lib: lib.special.zetac([-1e-300, -1e-10, -0.3]),
    "owens_t at the ends": lambda lib: lib.special.owens_t([1.0, inf, 0.3], [inf, 0.5, -inf]),
    "stdtr far out": lambda lib: lib.special.stdtr([1e3, 1e3, inf, 1e9], [-10.0, -30.0, 1.0, -inf]),
    "fdtr at the ends": lambda lib: lib.special.fdtr(3.0, [0.4, 5.0], [inf, -1.0]),
    "gdtr of negatives": lambda lib: lib.special.gdtr(-1.0, 2.0, -1.0),
    "cosdg of many turns": lambda lib: lib.special.cosdg(np.float32(1e5)),
}

M, B = RNG.normal(size=(4, 4)), RNG.normal(size=4)
BANDS = np.array([[4.0, 5, 6, 7], [0.1, 0.2, 0.3, 0]])
SIGNAL = RNG.normal(size=(3, 40))
HALF = scipy.signal.stft(SIGNAL[0], nperseg=15)[2]
OTHERS = {
    **{
        f"solve of a {form} matrix": lambda lib, form=form: lib.linalg.solve(M, B, assume_a=form)
        for form in ("sym", "her", "diagonal", "tridiagonal", "upper triangular")
    },
    "solve by the lower triangle": lambda lib: lib.linalg.solve(M, B, True, assume_a="sym"),
    "solve of half a definite one": lambda lib: lib.linalg.solve(
        np.triu(M @ M.T), B, assume_a="pos"
    ),
    "cholesky_banded by position": lambda lib: lib.linalg.cholesky_banded(BANDS, False, True),
    "solveh_banded by position": lambda lib: lib.linalg.solveh_banded(BANDS, B, False, False, True),
    "expm_frechet by position": lambda lib: lib.linalg.expm_frechet(M, M.T, "SPS", False),
    "lu of several": lambda lib: lib.linalg.lu(np.stack([M, M.T]), True),
    "csd of one beside several": lambda lib: lib.signal.csd(SIGNAL[0], SIGNAL, nperseg=16),
    "istft of an odd segment": lambda lib: lib.signal.istft(HALF, nperseg=15),
    "periodogram of few bins": lambda lib: lib.signal.periodogram(SIGNAL, nfft=16),
    "lfilter by numbers": lambda lib: lib.signal.lfilter(2.0, [1.0, 0.5], SIGNAL),
    "flat top": lambda lib: lib.signal.get_window("flattop", 9),
    "kaiser by a number": lambda lib: lib.signal.get_window(5.0, 8, False),
    "general hamming": lambda lib: lib.signal.get_window(("general_hamming", 0.6), 8),
}
ALL = SAMPLES | DISTRIBUTIONS | SPECIAL | OTHERS

# What is 0 but for roundings, which both sides make in their own order; of one, the root is taken.
ROUNDINGS = {
    "skew of two": 1e-14,
    "circstd of equal angles": 1e-7,
    "istft of an odd segment": 1e-14,
    "periodogram of few bins": 1e-14,
}


def host(value: Any) -> list[Any]:
    parts = value if isinstance(value, tuple | list) else [value]
    return [x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in parts]


@pytest.mark.parametrize("name", ALL)
def test_the_answer_is_scipys(name):
    call = ALL[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # SciPy's words about small samples and NaN
        wanted = host(call(scipy))

    found = host(call(ours))

    assert len(found) == len(wanted)
    for ours_, theirs in zip(found, wanted, strict=True):
        assert ours_.shape == theirs.shape
        tolerance = 1e-5 if ours_.dtype == np.float32 else 2e-8
        rounding = ROUNDINGS.get(name, 1e-300)
        np.testing.assert_allclose(ours_, theirs, rtol=tolerance, atol=rounding)


def test_small_shares_of_an_upper_tail_are_reached():
    isf = ours.stats.poisson.isf([1e-300, 1e-20], 100.0).numpy()
    theirs = [scipy.stats.poisson.sf(k - 1, 100.0) for k in isf]

    assert (scipy.stats.poisson.sf(isf, 100.0) <= [1e-300, 1e-20]).all()
    assert (theirs > np.array([1e-300, 1e-20])).all()
    assert float(ours.stats.truncnorm.isf(1e-20, -inf, inf)) == pytest.approx(9.262340089798408)


def test_a_multivariate_gamma_function_ends_at_its_domain():
    assert np.isnan(ours.special.multigammaln([0.4, 1.0], 3).numpy()).all()


def test_integrals_end_where_their_root_is_not_real():
    phi, m = tf.constant([0.5, 1.0, 4.0], tf.float64), tf.constant([2.0, 50.0, 2.0], tf.float64)

    first, second = ours.special.ellipkinc(phi, m), ours.special.ellipeinc(phi, m)

    # For m > 1: F(φ, m) = F(asin(√m sin φ), 1 / m) / √m.
    turned = scipy.special.ellipkinc(np.arcsin(np.sqrt(2) * np.sin(0.5)), 0.5) / np.sqrt(2)
    assert float(first[0]) == pytest.approx(turned)
    assert np.isnan(first.numpy()[1:]).all()
    assert np.isnan(second.numpy()[1:]).all()


FITS = [
    ("expon", (), {}),
    ("gamma", (2.3,), {"floc": 0}),
    ("lognorm", (0.6,), {"floc": 0.0}),
    ("beta", (2.0, 3.0), {"floc": 0, "fscale": 1}),
    ("weibull_min", (1.7,), {"fix_c": 1.5, "floc": 0}),
    ("t", (4.0,), {"f0": 4.0}),
    ("gumbel_r", (), {"loc": 1.0, "scale": 2.0}),
]


@pytest.mark.parametrize(("name", "shapes", "fixed"), FITS, ids=[row[0] for row in FITS])
def test_fitted_parameters_are_as_likely_as_scipys(name, shapes, fixed):
    family, reference = getattr(ours.stats, name), getattr(scipy.stats, name)
    data = reference(*shapes).rvs(80, random_state=1)

    found = [float(x) for x in family.fit(data, **fixed)]

    wanted = reference.fit(data, **fixed)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-4)
    assert reference.nnlf(found, data) <= reference.nnlf(wanted, data) + 1e-6 * len(data)


@pytest.mark.parametrize("given", [((1.0,), {}), ((), {"size": 3})], ids=str)
def test_what_fit_does_not_take_is_named(given):
    args, options = given

    with pytest.raises(TypeError, match=r"norm\.fit (accepts|does not support)"):
        ours.stats.norm.fit(V, *args, **options)


SLOPES = [
    ("beta where it is 0", lambda x: ours.special.beta(x, 3.5), -3.5, 1e-4),
    ("poch where it is 0", lambda x: ours.special.poch(x, 10.0), -2.0, 1e-4),
    ("sinc at a zero", ours.special.sinc, 2.0, 1e-4),
    ("zetac at 0", ours.special.zetac, 0.0, 1e-4),
    ("pseudo_huber at 0", lambda x: ours.special.pseudo_huber(1.5, x), 0.0, 1e-4),
    ("binom beyond n", lambda x: ours.special.binom(2.5, x), 7.3, 1e-4),
    (
        "yeojohnson_llf at 0",
        lambda x: ours.stats.yeojohnson_llf(0.7, tf.stack([x, x + 1])),
        0.0,
        1e-7,
    ),
    ("t.cdf by degrees", lambda x: ours.stats.t.cdf(-1.5, x), 700.0, 1e-4),
    ("t.cdf by many degrees", lambda x: 1e12 * ours.stats.t.cdf(-1.5, x * 2e6), 1.0, 1e-4),
    ("t.ppf at the median", lambda x: ours.stats.t.ppf(x, 1e8), 0.5, 1e-4),
    ("cauchy.ppf at the median", ours.stats.cauchy.ppf, 0.5, 1e-4),
    ("truncnorm.ppf by its end", lambda x: ours.stats.truncnorm.ppf(0.7, x, 2.0), -0.3, 1e-4),
    ("beta.sf next to 0", lambda x: ours.stats.beta.sf(x, 2.5, 3.0), 5e-3, 1e-4),
    ("gammaincinv near 1", lambda x: ours.special.gammaincinv(x, 1 - 1e-9), 2.3, 1e-4),
    ("boxcox_llf by its power", lambda x: ours.stats.boxcox_llf(x, A[0]), 0.4, 1e-4),
]


@pytest.mark.parametrize(
    ("function", "x", "step"), [row[1:] for row in SLOPES], ids=[row[0] for row in SLOPES]
)
def test_slopes_are_those_of_differences(function, x, step):
    place = tf.constant(x, tf.float64)

    found = float(tf.grad(function)(place))
    forward = float(tf.jvp(function, [place], [tf.ones_like(place)])[1])
    near, far = (
        float(function(place + k * step)) - float(function(place - k * step)) for k in (1, 2)
    )

    assert found == pytest.approx((8 * near - far) / (12 * step), rel=1e-5, abs=1e-9)
    assert forward == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ours.signal.hilbert([1j, 2.0]), "hilbert needs a real signal"),
        (lambda: ours.signal.hilbert([1.0], 0), "positive N"),
        (lambda: ours.signal.get_window("hann", 0), "positive integer Nx"),
        (lambda: ours.linalg.expm_frechet(M, M, "x"), "method must be"),
        (lambda: ours.stats.boxcox(A), "a vector of at least two"),
        (lambda: ours.stats.pearsonr([1.0], [2.0]), "at least two pairs"),
        (lambda: ours.stats.spearmanr(V, W, nan_policy="omit"), "nan_policy of spearmanr"),
        (lambda: ours.stats.spearmanr(V, W[:3]), "all of the same length"),
        (lambda: ours.stats.spearmanr(A, axis=2), "axis of 0, 1 or None"),
        (lambda: ours.stats.rankdata(V, nan_policy="raise"), "nan_policy of rankdata"),
        (lambda: ours.stats.iqr(V, nan_policy="raise"), "nan_policy of iqr"),
        (lambda: ours.stats.iqr(V, scale="odd"), "a number or 'normal'"),
        (lambda: ours.stats.trim_mean(V, 0.1, nan_policy="omit"), "nan_policy of trim_mean"),
        (lambda: ours.stats.entropy(V, W, nan_policy="omit"), "nan_policy of entropy with qk"),
        (lambda: ours.stats.energy_distance(V, W, [1.0]), "one weight for each"),
        (lambda: ours.stats.gmean(2.0, axis=1), "axis 1"),
        (lambda: ours.stats.multivariate_t([0.0], 1, 3, True), "allow_singular must be False"),
        (lambda: ours.stats.norm.fit([]), "at least one value"),
        (lambda: ours.stats.norm.fit([1.0, math.nan]), "needs finite values"),
        (lambda: ours.stats.norm.fit([1.0 + 2.0j, 3.0]), "needs real values"),
        (lambda: ours.stats.norm.fit(V, floc=0, fscale=1), "nothing to fit"),
        (lambda: ours.stats.norm.fit(V, method="MM"), "only method=.MLE."),
    ],
)
def test_what_is_not_there_is_named(call, words):
    with pytest.raises((ValueError, IndexError), match=words):
        call()
