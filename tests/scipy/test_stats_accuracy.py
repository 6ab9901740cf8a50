"""Where SciPy loses digits or takes minutes: against sums, series and numbers of 40 digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import tapegrad as tf
from tapegrad.scipy import stats
from tests.scipy.test_stats_gradients import check

# Computed with 40 digits by quadrature of the densities.
FAR_OUT = [
    ("vonmises", "sf", 3.1, {"kappa": 20.0}, 3.150549424635017e-19),
    ("vonmises", "cdf", -0.5, {"kappa": 200.0}, 1.344222891494117e-12),
    ("vonmises", "sf", 0.7, {"kappa": 49.0}, 8.447260472802405e-7),
    ("skewnorm", "cdf", -6.0, {"a": 1.5}, 6.917998881117234e-29),
    ("skewnorm", "cdf", -3.0, {"a": 1.5}, 2.908580758894237e-9),
]


@pytest.mark.parametrize(("name", "method", "x", "shapes", "wanted"), FAR_OUT)
def test_tails_keep_their_digits(name, method, x, shapes, wanted):
    found = float(getattr(getattr(stats, name), method)(x, **shapes))

    assert found == pytest.approx(wanted, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("binom", {"n": 2000.0, "p": 0.3}),
        ("binom", {"n": 1.0, "p": 1.0}),
        ("poisson", {"mu": 400.0}),
        ("poisson", {"mu": 1e-3}),
        ("nbinom", {"n": 0.1, "p": 0.5}),
        ("betabinom", {"n": 7.0, "a": 0.02, "b": 50.0}),
        ("betabinom", {"n": 300.0, "a": 40.0, "b": 0.5}),
    ],
)
def test_entropies_of_counts_are_sums(name, shapes):
    p = getattr(scipy.stats, name).pmf(np.arange(2001), **shapes)

    found = float(getattr(stats, name).entropy(**shapes))

    assert found == pytest.approx(scipy.special.entr(p).sum(), rel=1e-10, abs=1e-12)


def test_the_entropy_of_a_power_law_is_a_sum():
    k = np.arange(1.0, 200_001.0)
    p = k**-3.6 / scipy.special.zeta(3.6)

    assert float(stats.zipf.entropy(3.6)) == pytest.approx(scipy.special.entr(p).sum(), rel=1e-9)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 4.0, 300.0])
def test_the_variance_of_an_angle_is_a_series(kappa):
    k = np.arange(1, 200)
    ratios = scipy.special.ive(k, kappa) / scipy.special.ive(0, kappa)
    wanted = np.pi**2 / 3 + 4 * np.sum((-1.0) ** k * ratios / k**2)

    assert float(stats.vonmises.var(kappa)) == pytest.approx(wanted, rel=1e-10)
    assert float(stats.vonmises.std(kappa, scale=2.0)) == pytest.approx(2 * wanted**0.5, rel=1e-10)


def test_an_angle_goes_around():
    x = np.array([-7.0, -4.0, 1.0, 3.5, 20.0])

    np.testing.assert_allclose(
        stats.vonmises.cdf(x, 1.7).numpy(), scipy.stats.vonmises.cdf(x, 1.7), rtol=1e-10
    )


@pytest.mark.parametrize("n", [1.0, 40.0, 3000.0])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.6), (40.0, 0.5), (3.0, 70.0)])
def test_tails_of_mixed_counts_are_sums(n, a, b):
    p = scipy.stats.betabinom.pmf(np.arange(n + 1), n, a, b)
    k = np.unique(np.linspace(0, n - 1, 7).astype(int))

    below, above = stats.betabinom.cdf(k, n, a, b), stats.betabinom.sf(k, n, a, b)

    np.testing.assert_allclose(below.numpy(), np.cumsum(p)[k], rtol=1e-8)
    np.testing.assert_allclose(above.numpy(), np.cumsum(p[::-1])[::-1][k + 1], rtol=1e-8)


def test_a_hypergeometric_distribution_has_scipys_probabilities():
    k = np.arange(-1, 9)
    for method in ("pmf", "logpmf"):
        ours = getattr(stats.hypergeom, method)(k, 20, 7, 12).numpy()
        with np.errstate(divide="ignore"):
            theirs = getattr(scipy.stats.hypergeom, method)(k, 20, 7, 12)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for method in ("mean", "var", "std"):
        wanted = getattr(scipy.stats.hypergeom, method)(20, 7, 12)
        assert float(getattr(stats.hypergeom(20, 7, 12), method)()) == pytest.approx(wanted)
    assert np.isnan(float(stats.hypergeom.pmf(1, 5, 7, 2)))


def test_logarithms_far_out_stay_finite():
    np.testing.assert_allclose(
        stats.levy.logpdf(1e-5).numpy(), -0.5 * np.log(2 * np.pi) + 1.5 * np.log(1e5) - 5e4
    )
    np.testing.assert_allclose(stats.invweibull.logsf(1e9, 2.0).numpy(), -2 * np.log(1e9))


@pytest.mark.parametrize("c", [-1e-3, -1e-9, 0.0, 1e-9, 1e-3])
def test_bent_distributions_go_over_into_straight_ones(c):
    values = {"x": np.array([0.2, 1.5, 4.0]), "c": np.array(c)}
    tails = {"genextreme": stats.gumbel_r, "genpareto": stats.expon}

    for name, straight in tails.items():
        dist = getattr(stats, name)
        check(lambda x, c: dist.logpdf(x, c), values, ["x", "c"])  # noqa: B023
        check(lambda c: dist.mean(c) + dist.var(c), {"c": np.array(c)}, ["c"])  # noqa: B023
        near = dist.logpdf(values["x"], c).numpy()
        np.testing.assert_allclose(near, straight.logpdf(values["x"]).numpy(), atol=30 * abs(c))


def test_infinite_densities_at_an_edge_have_no_gradient():
    for dist, shapes in [(stats.betaprime, (0.6, 0.9)), (stats.powerlaw, (0.6,))]:
        x = tf.constant(0.0, tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = dist.pdf(x, *shapes)

        assert float(y) == np.inf
        assert float(tape.gradient(y, x)) == 0


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("norm", {}),
        ("gamma", {"a": 2.3}),
        ("beta", {"a": 2.0, "b": 0.7}),
        ("weibull_min", {"c": 2.0}),
    ],
)
def test_means_of_functions_are_scipys(name, shapes):
    frame = {"loc": 0.3, "scale": 1.7}
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)

    for order in range(5):
        wanted = theirs.moment(order, **shapes, **frame)
        assert float(ours.moment(order, **shapes, **frame)) == pytest.approx(wanted, rel=1e-9)
    frozen = ours(**shapes, **frame)
    found = float(frozen.expect(lambda x: tf.cos(x)))
    wanted = theirs.expect(np.cos, tuple(shapes.values()), **frame)
    assert found == pytest.approx(wanted, rel=1e-7)
    ours_both = [float(x) for x in frozen.stats()]
    np.testing.assert_allclose(ours_both, theirs.stats(**shapes, **frame))
    assert float(frozen.stats("v")) == float(frozen.var())


def test_means_of_functions_have_slopes():
    a = np.array([2.3, 4.0])

    found = stats.gamma.expect(lambda x: tf.math.log(x), (a,))

    np.testing.assert_allclose(found.numpy(), scipy.special.digamma(a), rtol=1e-9)
    check(lambda a: stats.gamma.expect(lambda x: tf.math.log(x), (a,)), {"a": a}, ["a"])


def test_wrong_moments_are_named():
    with pytest.raises(ValueError, match="moments of norm must be"):
        stats.norm.stats(moments="mvs")
    with pytest.raises(ValueError, match="non-negative integer order"):
        stats.norm.moment(1.5)
