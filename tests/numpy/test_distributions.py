"""Draws follow their distributions, as SciPy knows them; and what a generator can do besides."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
from scipy import stats

import tapegrad
import tapegrad.numpy as tnp

COUNT = 4000

CONTINUOUS = {
    "uniform": (lambda r: r.uniform(1.0, 3.0, COUNT), stats.uniform(1.0, 2.0)),
    "normal": (lambda r: r.normal(1.0, 2.0, COUNT), stats.norm(1.0, 2.0)),
    "lognormal": (lambda r: r.lognormal(0.5, 0.7, COUNT), stats.lognorm(0.7, 0, np.exp(0.5))),
    "exponential": (lambda r: r.exponential(2.0, COUNT), stats.expon(0, 2.0)),
    "laplace": (lambda r: r.laplace(1.0, 2.0, COUNT), stats.laplace(1.0, 2.0)),
    "logistic": (lambda r: r.logistic(1.0, 2.0, COUNT), stats.logistic(1.0, 2.0)),
    "gumbel": (lambda r: r.gumbel(1.0, 2.0, COUNT), stats.gumbel_r(1.0, 2.0)),
    "standard_cauchy": (lambda r: r.standard_cauchy(COUNT), stats.cauchy()),
    "gamma": (lambda r: r.gamma(0.7, 3.0, COUNT), stats.gamma(0.7, 0, 3.0)),
    "standard_gamma": (lambda r: r.standard_gamma(5.0, COUNT), stats.gamma(5.0)),
    "chisquare": (lambda r: r.chisquare(3.0, COUNT), stats.chi2(3.0)),
    "noncentral_chisquare": (lambda r: r.noncentral_chisquare(3.0, 2.0, COUNT), stats.ncx2(3, 2)),
    "noncentral_chisquare, narrow": (
        lambda r: r.noncentral_chisquare(0.6, 2.0, COUNT),
        stats.ncx2(0.6, 2.0),
    ),
    "noncentral_chisquare, central": (
        lambda r: r.noncentral_chisquare(3.0, 0.0, COUNT),
        stats.chi2(3.0),
    ),
    "f": (lambda r: r.f(3.0, 7.0, COUNT), stats.f(3.0, 7.0)),
    "noncentral_f": (lambda r: r.noncentral_f(3.0, 7.0, 2.0, COUNT), stats.ncf(3.0, 7.0, 2.0)),
    "standard_t": (lambda r: r.standard_t(3.0, COUNT), stats.t(3.0)),
    "beta": (lambda r: r.beta(0.5, 2.0, COUNT), stats.beta(0.5, 2.0)),
    "beta of small numbers": (lambda r: r.beta(0.02, 2.0, COUNT), stats.beta(0.02, 2.0)),
    "dirichlet": (lambda r: r.dirichlet([1.0, 2.0, 3.0], COUNT)[:, 1], stats.beta(2.0, 4.0)),
    "rayleigh": (lambda r: r.rayleigh(2.0, COUNT), stats.rayleigh(0, 2.0)),
    "weibull": (lambda r: r.weibull(1.7, COUNT), stats.weibull_min(1.7)),
    "pareto": (lambda r: r.pareto(2.5, COUNT), stats.lomax(2.5)),
    "power": (lambda r: r.power(3.0, COUNT), stats.powerlaw(3.0)),
    "triangular": (lambda r: r.triangular(0.0, 1.0, 4.0, COUNT), stats.triang(0.25, 0.0, 4.0)),
    "wald": (lambda r: r.wald(2.0, 3.0, COUNT), stats.invgauss(2.0 / 3.0, 0, 3.0)),
    "wald, skewed": (lambda r: r.wald(30.0, 0.1, COUNT), stats.invgauss(300.0, 0, 0.1)),
    "vonmises": (lambda r: r.vonmises(0.0, 2.0, COUNT), stats.vonmises(2.0)),
    "vonmises, wide": (lambda r: r.vonmises(0.0, 1e-4, COUNT), stats.vonmises(1e-4)),
    "vonmises, all around": (
        lambda r: r.vonmises(0.0, 0.0, COUNT),
        stats.uniform(-np.pi, 2 * np.pi),
    ),
    "vonmises, narrow": (lambda r: r.vonmises(0.0, 1e7, COUNT), stats.norm(0.0, 1e7**-0.5)),
    "multivariate_normal": (
        lambda r: r.multivariate_normal([0.0, 1.0], [[2.0, 1.0], [1.0, 3.0]], COUNT)[:, 1],
        stats.norm(1.0, 3.0**0.5),
    ),
    "multivariate_normal of a singular matrix": (
        lambda r: r.multivariate_normal([0.0, 1.0], np.ones((2, 2)), COUNT, method="eigh")[:, 1],
        stats.norm(1.0, 1.0),
    ),
}

COUNTS = {
    "binomial": (lambda r: r.binomial(10, 0.3, COUNT), stats.binom(10, 0.3)),
    "binomial of many": (lambda r: r.binomial(1000, 0.02, COUNT), stats.binom(1000, 0.02)),
    "binomial of very many": (lambda r: r.binomial(10**6, 0.7, COUNT), stats.binom(10**6, 0.7)),
    "binomial of a tensor": (
        lambda r: r.binomial(tnp.asarray([100]), 0.5, COUNT),
        stats.binom(100, 0.5),
    ),
    "poisson": (lambda r: r.poisson(4.0, COUNT), stats.poisson(4.0)),
    "poisson of many": (lambda r: r.poisson(400.0, COUNT), stats.poisson(400.0)),
    "negative_binomial": (lambda r: r.negative_binomial(5, 0.4, COUNT), stats.nbinom(5, 0.4)),
    "geometric": (lambda r: r.geometric(0.2, COUNT), stats.geom(0.2)),
    "logseries": (lambda r: r.logseries(0.9, COUNT), stats.logser(0.9)),
    "zipf": (lambda r: r.zipf(2.5, COUNT), stats.zipf(2.5)),
    "zipf, wide": (lambda r: r.zipf(1.7, COUNT), stats.zipf(1.7)),
    "hypergeometric": (lambda r: r.hypergeometric(30, 20, 10, COUNT), stats.hypergeom(50, 30, 10)),
    "hypergeometric of few": (lambda r: r.hypergeometric(2, 3, 2, COUNT), stats.hypergeom(5, 2, 2)),
    "hypergeometric of most": (
        lambda r: r.hypergeometric(30, 20, 45, COUNT),
        stats.hypergeom(50, 30, 45),
    ),
    "hypergeometric of many": (
        lambda r: r.hypergeometric(60_000, 40_000, 1000, COUNT),
        stats.hypergeom(100_000, 60_000, 1000),
    ),
    "multinomial": (
        lambda r: r.multinomial(100, [0.2, 0.3, 0.5], COUNT)[:, 1],
        stats.binom(100, 0.3),
    ),
    "multinomial, the last": (
        lambda r: r.multinomial(7, [0.2, 0.3, 0.5], COUNT)[:, 2],
        stats.binom(7, 0.5),
    ),
    "multivariate_hypergeometric": (
        lambda r: r.multivariate_hypergeometric([10, 20, 15], 12, COUNT)[:, 1],
        stats.hypergeom(45, 20, 12),
    ),
    "integers": (lambda r: r.integers(3, 9, COUNT, endpoint=True), stats.randint(3, 10)),
    "integers between arrays": (
        lambda r: r.integers([3], [10], COUNT),
        stats.randint(3, 10),
    ),
    "choice": (
        lambda r: r.choice(3, COUNT, p=[0.2, 0.3, 0.5]),
        stats.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_draws_follow_their_distribution(name):
    draw, expected = CONTINUOUS[name]

    values = draw(tnp.random.default_rng(20)).numpy()

    assert (values.shape, values.dtype) == ((COUNT,), "float64")
    assert stats.kstest(values, expected.cdf).pvalue > 0.01


def bins_of(distribution):
    """Neighbouring counts put together, so that each group is expected often enough."""
    return np.unique(distribution.ppf(np.linspace(0.02, 0.98, 25)))


@pytest.mark.parametrize("name", COUNTS)
def test_counts_follow_their_distribution(name):
    draw, expected = COUNTS[name]

    values = draw(tnp.random.default_rng(21)).numpy()
    edges = bins_of(expected)
    found = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    chances = np.diff([0.0, *expected.cdf(edges), 1.0])
    kept = chances > 1e-12  # above the last there may be nothing

    assert (values.shape, values.dtype) == ((COUNT,), "int64")
    assert found[~kept].sum() == 0
    assert stats.chisquare(found[kept], COUNT * chances[kept]).pvalue > 0.01


def test_small_alphas_of_dirichlet_give_shares():
    drawn = tnp.random.default_rng(3).dirichlet([1e-3, 1e-3, 1e-3], 500).numpy()

    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-12)


def test_counts_add_up_to_what_is_drawn():
    generator = tnp.random.default_rng(4)

    many = generator.multinomial([5, 1000], [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    taken = generator.multivariate_hypergeometric([3, 0, 4], 5, size=50).numpy()

    assert many.sum(-1).tolist() == [5, 1000]
    assert many.numpy()[1, 2] == 0
    assert (taken.sum(-1) == 5).all()
    assert (taken <= [3, 0, 4]).all()


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda r: r.binomial(20, [0.0, 1.0]), [0, 20]),
        (lambda r: r.binomial([0, 1000], 1.0), [0, 1000]),
        (lambda r: r.binomial([32, 70], 1.0), [32, 70]),
        (lambda r: r.binomial(1000, 0.0), 0),
        (lambda r: r.hypergeometric([0, 5, 5, 1], [5, 0, 3, 0], [2, 2, 8, 1]), [0, 2, 5, 1]),
        (lambda r: r.multinomial(100, [0.0, 1.0]), [0, 100]),
        (lambda r: r.geometric(1.0), 1),
        (lambda r: r.logseries(0.0), 1),
        (lambda r: r.poisson(0.0), 0),
        (lambda r: r.normal(2.0, 0.0), 2.0),
    ],
)
def test_what_is_certain_is_drawn(call, value):
    assert call(tnp.random.default_rng(5)).tolist() == value


SLOPES = {
    "gumbel": (lambda r, a: r.gumbel(0.0, a, 3), 2.0),
    "logistic": (lambda r, a: r.logistic(a, a, 3), 2.0),
    "noncentral_chisquare": (lambda r, a: r.noncentral_chisquare(3.0, a, 3), 2.0),
    "noncentral_f": (lambda r, a: r.noncentral_f(3.0, 4.0, a, 3), 2.0),
    "vonmises": (lambda r, a: r.vonmises(a, 2.0, 3), 0.3),
    "multivariate_normal": (
        lambda r, a: r.multivariate_normal([0.0, 0.0], a * (tnp.eye(2) + 0.5), 3),
        2.0,
    ),
}


@pytest.mark.parametrize("name", SLOPES)
def test_draws_move_with_their_parameters(name):
    draw, at = SLOPES[name]
    a = tnp.asarray(at)
    with tapegrad.GradientTape() as tape:
        tape.watch(a)
        total = tnp.sum(draw(tnp.random.default_rng(6), a) ** 2)

    def risen(step):
        moved = draw(tnp.random.default_rng(6), tnp.asarray(at + step)) ** 2
        return float(tnp.sum(moved))

    slope = (risen(1e-6) - risen(-1e-6)) / 2e-6
    assert float(tape.gradient(total, a)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("concentration", [0.3, 2.0])
def test_shares_move_with_their_parameters_as_the_distribution_does(concentration):
    """d/da E[x] over many draws: x has the mean a / (a + 1) for beta(a, 1)."""
    a = tnp.asarray(concentration)
    with tapegrad.GradientTape() as tape:
        tape.watch(a)
        mean = tnp.mean(tnp.random.default_rng(7).beta(a, 1.0, 20_000))

    assert float(tape.gradient(mean, a)) == pytest.approx(1 / (1 + concentration) ** 2, rel=0.05)


def test_a_generator_is_saved_and_taken_up_again():
    generator = tnp.random.default_rng(8)
    generator.random(3)
    state = generator.bit_generator.state
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    first = generator.random(4).tolist()
    generator.bit_generator.state = state

    assert generator.random(4).tolist() == first
    assert [twin.random(4).tolist() for twin in twins] == [first, first]


def test_a_state_that_is_none_is_refused():
    with pytest.raises(
        ValueError, match=r"state must be a value that `bit_generator.state` returned"
    ):
        tnp.random.default_rng(1).bit_generator.state = {"state": 3}


def test_generators_are_made_of_numpys_names():
    draws = [
        tnp.random.Generator(tnp.random.PCG64(9)).random(2).tolist(),
        tnp.random.Generator(tnp.random.Philox(9)).random(2).tolist(),
        tnp.random.default_rng(9).random(2).tolist(),
    ]

    assert draws[0] == draws[1] == draws[2]
    sequence = np.random.SeedSequence(5)
    assert tnp.random.default_rng(sequence).random().shape == ()


def test_bytes_integers_and_truth_values():
    state = tnp.random.RandomState(0)

    assert len(state.bytes(5)) == 5
    assert set(state.random_integers(3, size=60).tolist()) == {1, 2, 3}
    assert int(state.tomaxint()) >= 0
    assert set(tnp.random.default_rng(1).integers(2, size=40, dtype=bool).tolist()) == {False, True}


def test_rows_are_permuted_by_themselves():
    x = tnp.arange(40).reshape(4, 10)

    rows = tnp.random.default_rng(1).permuted(x, axis=1).numpy()
    everything = tnp.random.default_rng(1).permuted(x).numpy()

    assert (np.sort(rows, axis=1) == np.arange(40).reshape(4, 10)).all()
    assert len({tuple(row - 10 * k) for k, row in enumerate(rows)}) == 4
    assert sorted(everything.ravel()) == list(range(40))
    assert (np.sort(everything, axis=1) != np.arange(40).reshape(4, 10)).any()


def test_lists_and_arrays_of_the_host_are_shuffled_in_place():
    generator = tnp.random.default_rng(2)
    words, numbers = list("abcdefgh"), np.arange(8)
    generator.shuffle(words)
    generator.shuffle(numbers)

    assert sorted(words) == list("abcdefgh") != words
    assert sorted(numbers) == list(range(8)) != numbers.tolist()


def test_single_precision_stays_below_1():
    drawn = tnp.random.default_rng(3).random(10_000, dtype="float32")

    assert drawn.dtype == "float32"
    assert float(drawn.max()) < 1.0


def test_choices_without_replacement_have_the_chances_of_their_order():
    p = [0.5, 0.3, 0.2]
    generator = tnp.random.default_rng(10)
    firsts = [int(generator.choice(3, 2, replace=False, p=p)[0]) for _ in range(800)]

    assert stats.chisquare(np.bincount(firsts, minlength=3), 800 * np.array(p)).pvalue > 0.01


WORDS = {
    "r.normal(0.0, -1.0)": "scale must be at least 0. Got -1.0",
    "r.gamma(-1.0)": "shape must be at least 0",
    "r.chisquare(0.0)": "df must be above 0",
    "r.binomial(3, 1.5)": "p must be at least 0 and at most 1. Got 1.5",
    "r.binomial(-3, 0.5)": "n must be at least 0",
    "r.poisson(-1.0)": "lam must be at least 0",
    "r.zipf(1.0)": "a must be above 1",
    "r.hypergeometric(2, 2, 5)": "nsample must be at most ngood + nbad",
    "r.multivariate_hypergeometric([2, 2], 5)": "nsample must be at most the sum of colors",
    "r.multinomial(3, [0.9, 0.9, 0.1])": "The sum of pvals without the last",
    "r.choice(3, p=[0.5, 0.5])": "p needs one probability per item, 3",
    "r.choice(2, p=[0.5, 0.7])": "The probabilities p must add up to 1. Got the sum 1.2",
    "r.choice(2, 2, replace=False, p=[1.0, 0.0])": "p has fewer nonzero probabilities",
    "r.choice([])": "at least one item to draw from",
    "r.multivariate_normal([0.0], [[1.0]], method='lu')": "method must be 'cholesky'",
    "r.multivariate_normal([0, 0], [[1, 2], [2, 1]], check_valid='raise')": "cov must be symmetric",
    "r.multivariate_normal([0.0], [[1.0]], check_valid='maybe')": "check_valid must be 'warn'",
    "r.standard_exponential(method='fast')": "method must be 'zig' or 'inv'",
}


@pytest.mark.parametrize("call", WORDS)
def test_parameters_that_are_none_are_refused_with_words(call):
    with pytest.raises(ValueError, match=re.escape(WORDS[call])):
        eval(call, {"r": tnp.random.default_rng(1)})


def test_every_distribution_of_numpys_is_here():
    def public(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(np.random.Generator) - public(tnp.random.Generator) - {"bit_generator"} == set()
    assert public(np.random.RandomState) - public(tnp.random.RandomState) == set()
    modules = {"bit_generator", "mtrand", "test"}
    assert public(np.random) - public(tnp.random) - modules == set()
