"""Densities, tails, quantiles and moments against SciPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.scipy import stats
from tests.scipy.distributions import ROWS, Row

PROBABILITIES = (-0.1, 0.0, 1e-6, 0.2, 0.5, 0.8, 1 - 1e-6, 1.0, 1.1, np.nan)
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def both(row: Row, method: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """What we and what SciPy answer."""
    ours = getattr(getattr(stats, row.name), method)(*args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy divides by 0 at the edge of supports
        theirs = getattr(getattr(scipy.stats, row.name), method)(*args, **kwargs)
    return ours.numpy(), np.asarray(theirs)


def shape_sets(row: Row) -> list[dict[str, float]]:
    return [row.shapes, row.other] if row.other else [row.shapes]


@each_row
@pytest.mark.parametrize("shifted", [False, True], ids=["standard", "shifted"])
def test_densities_are_scipys(row, shifted):
    frame = row.frame if shifted else {}
    x = row.standing(row.points) if shifted else np.array(row.points)

    for shapes in shape_sets(row):
        for method in (row.density, f"log{row.density}"):
            ours, theirs = both(row, method, x, **shapes, **frame)
            np.testing.assert_allclose(ours, theirs, rtol=2e-12, atol=1e-300)


@each_row
def test_tails_are_scipys(row):
    x = row.standing(row.points)

    for shapes in shape_sets(row):
        for method in row.tails:
            ours, theirs = both(row, method, x, **shapes, **row.frame)
            # Far out SciPy's logarithms of discrete tails are those of 1 less a rounding error.
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-15)


@each_row
def test_nothing_is_outside_the_support(row):
    dist = getattr(stats, row.name)
    x = row.standing(row.outside)

    density = getattr(dist, row.density)(x, **row.shapes, **row.frame)
    log_density = getattr(dist, f"log{row.density}")(x, **row.shapes, **row.frame)

    assert density.numpy().tolist() == [0.0] * len(x)
    assert log_density.numpy().tolist() == [-np.inf] * len(x)
    for method in row.tails:
        ours, theirs = both(row, method, x, **row.shapes, **row.frame)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@each_row
@pytest.mark.parametrize("method", ["ppf", "isf"])
def test_quantiles_are_scipys(row, method):
    if method in row.lacks:
        with pytest.raises(ArgumentError, match=f"{row.name} does not support ppf"):
            getattr(getattr(stats, row.name), method)(0.5, **row.shapes)
        return
    for shapes in shape_sets(row):
        ours, theirs = both(row, method, np.array(PROBABILITIES), **shapes, **row.frame)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


MOMENTS = [
    (row, method)
    for row in ROWS
    for method in ("mean", "var", "std", "entropy", "median")
    if method not in row.elsewhere
]


@pytest.mark.parametrize(
    ("row", "method"), MOMENTS, ids=lambda value: getattr(value, "name", value)
)
def test_moments_are_scipys(row, method):
    if method in row.lacks:
        with pytest.raises(ArgumentError, match=f"{row.name} does not support "):
            getattr(getattr(stats, row.name), method)(**row.shapes)
        return
    for shapes in shape_sets(row):
        ours, theirs = both(row, method, **shapes, **row.frame)
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@each_row
def test_a_frozen_distribution_answers_as_the_family(row):
    dist = getattr(stats, row.name)
    frozen = dist(**row.shapes, **row.frame)
    x = row.standing(row.points)

    for method in (row.density, f"log{row.density}", *row.tails):
        free = getattr(dist, method)(x, **row.shapes, **row.frame)
        np.testing.assert_array_equal(getattr(frozen, method)(x).numpy(), free.numpy())
    assert float(frozen.mean()) == pytest.approx(
        float(dist.mean(**row.shapes, **row.frame)), nan_ok=True
    )
    assert row.name in repr(frozen)


@each_row
def test_parameters_outside_their_domain_give_nan(row):
    dist = getattr(stats, row.name)
    x = np.array(row.points)

    if row.shapes:
        wrong = dict.fromkeys(row.shapes, -1.0) | row.wrong
        assert np.isnan(getattr(dist, row.density)(x, **wrong).numpy()).all()
    if not row.is_discrete:
        assert np.isnan(dist.logpdf(x, **row.shapes, scale=np.array(-1.0)).numpy()).all()
        assert np.isnan(dist.pdf(x, **row.shapes, scale=0).numpy()).all()


@each_row
def test_float32_stays_float32(row):
    x = tf.constant(row.points, tf.float32)
    y = getattr(getattr(stats, row.name), f"log{row.density}")(x, **row.shapes, **row.frame)

    assert y.dtype == tf.float32


def test_python_numbers_are_float64():
    assert stats.norm.pdf(0.5, loc=1).dtype == tf.float64


def test_parameters_go_by_position_too():
    by_name = stats.gamma.pdf(1.0, a=2.0, loc=0.5, scale=3.0)

    assert float(stats.gamma.pdf(1.0, 2.0, 0.5, 3.0)) == float(by_name)
    assert float(stats.gamma(2.0, 0.5, scale=3.0).pdf(1.0)) == float(by_name)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stats.gamma.pdf(1.0), "gamma needs a"),
        (lambda: stats.gamma.pdf(1.0, 1, 2, 3, 4), "gamma accepts the parameters a, loc, scale"),
        (lambda: stats.gamma.pdf(1.0, 1.0, a=2.0), "once. Got a in addition"),
        (lambda: stats.norm(size=3), "Got size in addition"),
        (
            lambda: stats.poisson.pmf(1, 2.0, scale=2.0),
            "poisson accepts each of the parameters mu, loc",
        ),
    ],
)
def test_wrong_parameters_are_named(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_the_interval_holds_its_share():
    low, high = stats.logistic(1.0, 2.0).interval(0.9)
    wanted = scipy.stats.logistic(1.0, 2.0).interval(0.9)

    np.testing.assert_allclose([float(low), float(high)], wanted)


def test_supports_are_shifted_and_scaled():
    low, high = stats.truncnorm(a=-1.0, b=np.inf, loc=1.0, scale=2.0).support()

    assert (float(low), float(high)) == (-1.0, np.inf)


@pytest.mark.parametrize(
    ("row", "low", "high"),
    [(row, row.points[0] - 60, row.points[-1] + 300) for row in ROWS if row.is_discrete],
    ids=lambda value: getattr(value, "name", None),
)
def test_probabilities_sum_to_one(row, low, high):
    k = np.arange(low, high)

    total = getattr(stats, row.name).pmf(k, **row.shapes, **row.frame).numpy().sum()

    assert total == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("row", [r for r in ROWS if not r.is_discrete], ids=lambda r: r.name)
def test_densities_integrate_to_what_lies_between(row):
    low, high = min(row.smooth), max(row.smooth)
    x, weights = np.polynomial.legendre.leggauss(400)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    dist = getattr(stats, row.name)

    area = float((dist.pdf(middle + half * x, **row.shapes) * weights * half).numpy().sum())

    reference = getattr(scipy.stats, row.name)
    assert area == pytest.approx(
        reference.cdf(high, **row.shapes) - reference.cdf(low, **row.shapes), rel=1e-4
    )
