"""`tapegrad.numpy.random`: seeds, shapes, moments and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp

COUNT = 4000

# Calls of one generator, with the mean and the standard deviation that NumPy documents.
MOMENTS = {
    "uniform": (lambda r: r.uniform(1.0, 3.0, COUNT), 2.0, (1 / 3) ** 0.5),
    "normal": (lambda r: r.normal(1.0, 2.0, COUNT), 1.0, 2.0),
    "standard_normal": (lambda r: r.standard_normal(COUNT), 0.0, 1.0),
    "lognormal": (lambda r: r.lognormal(0.0, 0.5, COUNT), 1.1331, 0.6039),
    "exponential": (lambda r: r.exponential(2.0, COUNT), 2.0, 2.0),
    "standard_exponential": (lambda r: r.standard_exponential(COUNT), 1.0, 1.0),
    "laplace": (lambda r: r.laplace(1.0, 1.0, COUNT), 1.0, 2**0.5),
    "logistic": (lambda r: r.logistic(1.0, 1.0, COUNT), 1.0, 1.8138),
    "gumbel": (lambda r: r.gumbel(0.0, 1.0, COUNT), 0.5772, 1.2825),
    "gamma": (lambda r: r.gamma(4.0, 0.5, COUNT), 2.0, 1.0),
    "standard_gamma": (lambda r: r.standard_gamma(4.0, COUNT), 4.0, 2.0),
    "chisquare": (lambda r: r.chisquare(8.0, COUNT), 8.0, 4.0),
    "standard_t": (lambda r: r.standard_t(10.0, COUNT), 0.0, 1.118),
    "beta": (lambda r: r.beta(2.0, 2.0, COUNT), 0.5, 0.2236),
    "poisson": (lambda r: r.poisson(4.0, COUNT), 4.0, 2.0),
    "binomial": (lambda r: r.binomial(10, 0.5, COUNT), 5.0, 1.5811),
    "bernoulli": (lambda r: r.bernoulli(0.25, COUNT) * 1.0, 0.25, 0.433),
    "rayleigh": (lambda r: r.rayleigh(2.0, COUNT), 2.5066, 1.3103),
    "weibull": (lambda r: r.weibull(2.0, COUNT), 0.8862, 0.4633),
    "pareto": (lambda r: r.pareto(5.0, COUNT), 0.25, 0.3227),
    "power": (lambda r: r.power(3.0, COUNT), 0.75, 0.1936),
    "triangular": (lambda r: r.triangular(0.0, 1.0, 4.0, COUNT), 1.6667, 0.8498),
    "f": (lambda r: r.f(5.0, 20.0, COUNT), 1.1111, 0.8434),
    "negative_binomial": (lambda r: r.negative_binomial(5, 0.5, COUNT), 5.0, 3.1623),
    "geometric": (lambda r: r.geometric(0.5, COUNT), 2.0, 1.4142),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name):
    draw, mean, deviation = MOMENTS[name]

    values = draw(tnp.random.default_rng(11)).numpy().astype(float)

    assert values.shape == (COUNT,)
    assert abs(values.mean() - mean) < 6 * deviation / COUNT**0.5
    assert abs(values.std() / deviation - 1) < 0.15


def test_the_same_seed_gives_the_same_numbers():
    tnp.random.seed(3)
    first = tnp.random.randn(2, 3)
    tnp.random.seed(3)

    assert (tnp.random.randn(2, 3) == first).all()
    assert (tnp.random.randn(2, 3) != first).any()


def test_a_state_can_be_taken_up_again():
    state = tnp.random.get_state()
    first = tnp.random.rand(3)
    tnp.random.set_state(state)

    assert (tnp.random.rand(3) == first).all()


@pytest.mark.parametrize(
    ("call", "shape", "dtype"),
    [
        (lambda r: r.rand(2, 3), (2, 3), "float64"),
        (lambda r: r.randn(), (), "float64"),
        (lambda r: r.random_sample((4,)), (4,), "float64"),
        (lambda r: r.randint(5, size=(2, 2)), (2, 2), "int64"),
        (lambda r: r.randint(2, 5), (), "int64"),
        (lambda r: r.normal([0.0, 1.0], 1.0), (2,), "float64"),
        (lambda r: r.dirichlet([1.0, 2.0, 3.0], 5), (5, 3), "float64"),
        (
            lambda r: r.multivariate_normal([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 5),
            (5, 2),
            "float64",
        ),
        (lambda r: r.standard_cauchy(3), (3,), "float64"),
        (lambda r: r.multinomial(20, [0.2, 0.8], 3), (3, 2), "int64"),
        (lambda r: r.choice(5, 3), (3,), "int64"),
        (lambda r: r.choice([0.5, 1.5], (2, 2), p=[0.1, 0.9]), (2, 2), "float64"),
    ],
)
def test_shapes_and_dtypes(call, shape, dtype):
    drawn = call(tnp.random.RandomState(0))

    assert (tuple(drawn.shape), drawn.dtype) == (shape, dtype)


def test_integers_stay_within_their_bounds():
    drawn = tnp.random.default_rng(1).integers(2, 4, size=50, endpoint=True)

    assert set(drawn.tolist()) == {2, 3, 4}


def test_a_permutation_keeps_all_entries():
    generator = tnp.random.default_rng(1)
    x = tnp.arange(10)
    generator.shuffle(x)

    assert sorted(x.tolist()) == list(range(10))
    assert x.tolist() != list(range(10))
    assert sorted(generator.permutation(5).tolist()) == list(range(5))
    assert sorted(generator.choice(5, 5, replace=False).tolist()) == list(range(5))


def test_children_are_streams_of_their_own():
    first, second = tnp.random.default_rng(1).spawn(2)

    assert (first.random(4) != second.random(4)).any()


def test_gradients_flow_to_the_parameters():
    loc, scale = tnp.asarray(1.0), tnp.asarray(2.0)
    with tapegrad.GradientTape() as tape:
        tape.watch([loc, scale])
        drawn = tnp.random.default_rng(5).normal(loc, scale, 3)
        total = drawn.sum()
    by_loc, by_scale = tape.gradient(total, [loc, scale])

    assert float(by_loc) == 3.0
    assert np.isclose(float(by_scale), float((drawn - 1.0).sum() / 2.0))


def test_drawing_too_many_without_replacement_is_refused():
    with pytest.raises(ValueError, match="cannot draw 6 of 5 without replacement"):
        tnp.random.choice(5, 6, replace=False)
