"""Samples: their distribution, their seeds, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tapegrad as tf
from tapegrad.scipy import stats
from tests.scipy.distributions import ROWS

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
COUNT = 20_000
SMOOTH = [
    ("norm", {}),
    ("t", {"df": 5.0}),
    ("gamma", {"a": 2.3}),
    ("chi2", {"df": 3.3}),
    ("expon", {}),
    ("beta", {"a": 2.3, "b": 1.4}),
    ("laplace", {}),
    ("logistic", {}),
    ("gumbel_r", {}),
    ("pareto", {"b": 9.0}),
    ("truncnorm", {"a": -1.0, "b": 2.0}),
    ("gennorm", {"beta": 1.5}),
]


@each_row
def test_samples_have_the_distribution(row):
    frame = row.frame
    sample = getattr(stats, row.name).rvs(**row.shapes, **frame, size=COUNT, random_state=7).numpy()

    reference = getattr(scipy.stats, row.name)(**row.shapes, **frame)
    if row.is_discrete:
        values, counts = np.unique(sample, return_counts=True)
        expected = reference.pmf(values) * COUNT
        often = expected > 20
        score = ((counts - expected)[often] ** 2 / expected[often]).sum()
        assert score < scipy.stats.chi2.ppf(1 - 1e-6, often.sum())
        assert often.sum() > 1
    else:
        assert scipy.stats.kstest(sample, reference.cdf).pvalue > 1e-4


@each_row
def test_the_same_seed_draws_the_same(row):
    dist = getattr(stats, row.name)
    first = dist.rvs(**row.shapes, size=(3, 2), random_state=11)

    assert first.shape == (3, 2)
    assert first.dtype == (tf.int64 if row.is_discrete else tf.float64)
    np.testing.assert_array_equal(
        first.numpy(), dist(**row.shapes).rvs(size=(3, 2), random_state=11).numpy()
    )
    other = dist.rvs(**row.shapes, size=(300, 2), random_state=12).numpy()
    assert (other != dist.rvs(**row.shapes, size=(300, 2), random_state=11).numpy()).any()


def test_a_generator_moves_on():
    generator = tf.random.Generator.from_seed(1)
    first = stats.norm.rvs(size=4, random_state=generator).numpy()

    assert (first != stats.norm.rvs(size=4, random_state=generator).numpy()).all()


def test_without_a_size_the_parameters_give_the_shape():
    assert stats.norm.rvs(loc=[0.0, 1.0, 2.0]).shape == (3,)
    assert stats.norm.rvs().shape == ()
    assert stats.gamma.rvs(2.0, 0.0, 1.0, 5).shape == (5,)


def test_a_size_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"norm\.rvs must broadcast to size"):
        stats.norm.rvs(loc=[0.0, 1.0, 2.0], size=(3, 2))
    with pytest.raises(ValueError, match="random_state must be None, an integer or"):
        stats.norm.rvs(random_state="seven")


@pytest.mark.parametrize(("name", "shapes"), SMOOTH, ids=[name for name, _ in SMOOTH])
def test_the_mean_of_a_sample_moves_with_the_parameters(name, shapes):
    dist = getattr(stats, name)
    names = [*shapes, "loc", "scale"]
    values = [tf.constant(v, tf.float64) for v in (*shapes.values(), 0.3, 1.7)]

    def slopes(function):
        with tf.GradientTape() as tape:
            tape.watch(values)
            y = function(**dict(zip(names, values, strict=True)))
        return [float(g) for g in tape.gradient(y, values, unconnected_gradients="zero")]

    sampled = slopes(lambda **rest: tf.reduce_mean(dist.rvs(**rest, size=COUNT, random_state=3)))

    np.testing.assert_allclose(sampled, slopes(dist.mean), atol=0.06)


def test_samples_inside_vmap_differ_with_a_generator():
    generator = tf.random.Generator.from_seed(5)

    sample = tf.vmap(lambda a: stats.gamma.rvs(a, random_state=generator))(tf.ones(8, tf.float64))

    assert len(set(sample.numpy().tolist())) == 8
