"""Special functions at zeros, poles, infinities and tiny parameters, in both namespaces.

The named points are limits that can be checked by hand. The grids compare with SciPy wherever it
returns a number, except at the points in `OURS`, where SciPy does not return the limit.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.special as reference

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.numpy import special as numpy_special
from tapegrad.ops.reduction import cumulative
from tapegrad.scipy import special

INF, NAN = math.inf, math.nan

POINTS: list[tuple[str, tuple[Any, ...], float]] = [
    ("exp10", (INF,), INF),
    ("exp10", (-INF,), 0.0),
    ("expn", (10, 0.0), 1 / 9),
    ("expn", (3, 0.0), 0.5),
    ("gammainc", (0.0, 2.0), 1.0),
    ("gammaincc", (0.0, 2.0), 0.0),
    ("chdtr", (0.0, 2.0), 1.0),
    ("gammaincinv", (1e-10, 0.5), 0.0),
    ("gammaincinv", (0.0, 0.5), NAN),
    ("betainc", (0.0, 2.0, 0.3), 1.0),
    ("betainc", (2.0, 0.0, 0.3), 0.0),
    ("betainc", (INF, 2.0, 0.3), 0.0),
    ("betainc", (2.0, INF, 0.3), 1.0),
    ("betaincc", (0.0, 2.0, 0.3), 0.0),
    ("betaincinv", (2.0, INF, 0.3), 0.0),
    ("betaln", (-5.0, 2.0), -math.log(20)),
    ("betaln", (2.0, -5.0), -math.log(20)),
    ("betaln", (-2.0, 0.5), INF),
    ("beta", (-5.0, 2.0), 0.05),
    ("beta", (-3.0, 1.0), -1 / 3),
    ("hyp1f1", (-2.0, -3.0, 1.5), 2.375),
    ("hyp1f1", (-2.0, -3.0, -1.5), 0.375),
    ("hyp2f1", (-2.0, 1.5, -3.0, 0.5), 1.65625),
    ("loggamma", (-0.5,), NAN),
    ("loggamma", (0.5,), 0.5 * math.log(math.pi)),
    ("digamma", (0.0,), -INF),
    ("digamma", (-0.0,), INF),
    ("gamma", (-0.0,), -INF),
    ("gammasgn", (-0.0,), -1.0),
    ("huber", (INF, INF), INF),
    ("inv_boxcox", (INF, 2.0), INF),
    ("inv_boxcox1p", (-INF, -2.0), -1.0),
    ("powm1", (INF, 0.0), 0.0),
    ("powm1", (1.0, INF), 0.0),
    ("eval_legendre", (0, INF), 1.0),
    ("eval_hermite", (3, -INF), -INF),
    ("eval_laguerre", (3, INF), -INF),
    ("yn", (3, 0.0), -INF),
    ("kn", (2, -0.0), INF),
    ("spherical_kn", (0, -1.0), -math.pi / 2 * math.e),
]


@pytest.mark.parametrize(("name", "args", "expected"), POINTS, ids=repr)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_limits(name: str, args: tuple[Any, ...], expected: float, dtype: str) -> None:
    tensors = [arg if isinstance(arg, int) else tf.constant(arg, dtype) for arg in args]
    for namespace in (special, numpy_special):
        result = getattr(namespace, name)(*tensors)
        assert result.dtype == dtype
        tolerance = 1e-13 if dtype == "float64" else 2e-6
        np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance)


SHORT = [row for row in POINTS if "inv" not in row[0] and not row[0].startswith("hyp")]
"""Functions that are not long iterations: one program computes all of them."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_limits_in_a_recorded_function() -> None:
    @tf.function
    def values(*numbers: Any) -> list[Any]:
        rest = list(numbers)
        results = []
        for name, args, _ in SHORT:
            given = [arg if isinstance(arg, int) else rest.pop(0) for arg in args]
            results.append(getattr(special, name)(*given))
        return results

    numbers = [arg for _, args, _ in SHORT for arg in args if not isinstance(arg, int)]
    results = values(*(tf.constant(number, "float64") for number in numbers))
    for (name, args, expected), result in zip(SHORT, results, strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-13, err_msg=f"{name}{args}")


def test_quantiles_of_student_with_few_degrees_of_freedom() -> None:
    p = np.array([1e-8, 1e-3, 0.1, 0.3, 0.45, 0.499, 0.6, 0.9, 0.999])
    for df in (0.05, 0.1, 0.3, 1.0, 3.0):
        found = special.stdtrit(df, p).numpy()
        np.testing.assert_allclose(found, reference.stdtrit(df, p), rtol=1e-11)
        with np.errstate(over="ignore"):
            back = special.stdtr(df, found).numpy()
        np.testing.assert_allclose(back, p, rtol=1e-9)
    # Above the largest square: t grows like p ** (-1 / df).
    low, high = special.stdtrit(0.01, np.array([2e-3, 1e-3])).numpy()
    np.testing.assert_allclose(high / low, 2.0**100, rtol=1e-9)


ONE = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -3.0, 3.0, 10.0, -10.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5),
    *(1e-10, -1e-10, 1e-30, 0.3, 0.999, 1.001, 7.3, -7.3, 50.0, -50.0, 200.0, INF, -INF, NAN),
]
TWO = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -5.0, 10.0, 0.5, -2.5, 1e-10, 0.3, 7.3, 50.0, INF, -INF]
THREE = [0.0, 1.0, -1.0, 2.0, 0.5, 0.3, 7.3, INF]

GRIDS: dict[str, list[float]] = {
    **dict.fromkeys(
        (
            *("exp10", "digamma", "gamma", "gammasgn", "loggamma", "erf", "erfc", "erfcx", "expit"),
            *("entr", "exprel", "log1p", "expm1", "exp1", "expi", "dawsn", "ndtr", "log_ndtr"),
            *("logit", "log_expit", "i0e", "i1e", "k0", "k1", "ellipk", "ellipe", "cbrt", "cosm1"),
        ),
        ONE,
    ),
    **dict.fromkeys(
        (
            *("gammainc", "gammaincc", "beta", "betaln", "chdtr", "chdtrc", "xlogy", "xlog1py"),
            *("rel_entr", "boxcox", "boxcox1p", "inv_boxcox", "huber", "stdtr"),
        ),
        TWO,
    ),
    **dict.fromkeys(("betainc", "betaincc", "fdtrc", "gdtr", "radian"), THREE),
}
OURS = {
    # SciPy gives +inf where a is -inf and b a negative odd number.
    "beta": lambda a, b: (a == -INF) & (b < 0),
    # SciPy accepts a negative scale at x = 0.
    "gdtr": lambda a, b, x: a < 0,
    "ellipe": lambda m: m == -INF,
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_number_of_scipy_on_a_grid(name: str) -> None:
    oracle = getattr(reference, name)
    grid = GRIDS[name]
    count = oracle.nin
    columns = [np.array(c) for c in zip(*itertools.product(grid, repeat=count), strict=True)]
    want = oracle(*columns)
    has_nan = np.any([np.isnan(c) for c in columns], axis=0)
    skipped = np.isnan(want) | has_nan
    if name in OURS:
        skipped |= OURS[name](*columns)
    for namespace in (special, numpy_special):
        got = getattr(namespace, name)(*(tf.constant(c) for c in columns)).numpy()
        np.testing.assert_allclose(got[~skipped], want[~skipped], rtol=1e-9, atol=1e-300)
        if count == 1:
            assert np.isnan(got[has_nan]).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", ["xlogy", "betaln", "gammainc", "jv", "boxcox", "hyp1f1"])
def test_wide_integers_with_float32_give_float64(name: str, dtype: str) -> None:
    oracle = getattr(reference, name)
    arrays = [np.ones(3, dtype), *[np.ones(3, np.float32)] * (oracle.nin - 1)]
    want = oracle(*arrays)
    assert want.dtype == "float64"
    for namespace in (special, numpy_special):
        assert getattr(namespace, name)(*arrays).dtype == "float64"
        assert getattr(namespace, name)(*(tf.constant(a) for a in arrays)).dtype == "float64"


def test_differences_of_order_zero_ignore_what_is_prepended() -> None:
    x = np.arange(4.0)
    for call in (tnp.diff, cumulative.diff):
        found = call(x, n=0, prepend=0.0, append=1.0)
        np.testing.assert_array_equal(found.numpy(), np.diff(x, n=0, prepend=0.0, append=1.0))


def test_the_second_order_of_complex_norms_is_zero_at_zero() -> None:
    z = tf.constant([0j, 1 + 2j])
    for function in (lambda z: tf.norm(z, 1), lambda z: tf.reduce_sum(tf.abs(z))):
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                y = function(z)
            slope = tf.reduce_sum(tf.math.real(inner.gradient(y, z)))
        second = outer.gradient(slope, z).numpy()
        assert second[0] == 0
        assert np.isfinite(second).all()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *[(name, 1) for name in ("stdtr", "pdtr", "pdtrc", "chdtr", "chdtrc")],
        *[(name, 2) for name in ("fdtr", "fdtrc", "nbdtr", "nbdtrc")],
    ],
)
def test_there_is_no_distribution_with_a_parameter_of_zero(name: str, count: int) -> None:
    parameters = [np.array([-1.0, 0.0, 1.0, 3.0])] * count
    grid = np.meshgrid(*parameters, np.array([0.0, 0.25, 1.0]), indexing="ij")
    expected = getattr(reference, name)(*grid)

    found = getattr(special, name)(*[tf.constant(axis) for axis in grid]).numpy()

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
