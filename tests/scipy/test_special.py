"""Special functions against SciPy, and their derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special
from tests.scipy.test_stats_gradients import check

inf, nan = np.inf, np.nan
REAL = np.array([-3.3, -1.2, -0.4, 0.0, 0.3, 1.0, 2.7, 6.5])
POSITIVE = np.array([1e-3, 0.2, 1.0, 2.7, 6.5, 20.0])
SHARE = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
EDGES = np.array([0.0, -1.0, -2.0, -0.5, -1.5, -7.3, 2.0, 30.0])

# A name and its arguments, all of which are differentiated.
ROWS = [
    *((name, [REAL]) for name in ("erf", "erfc", "erfcx", "ndtr", "log_ndtr", "dawsn", "expit")),
    *((name, [REAL]) for name in ("log_expit", "exp2", "expm1", "i0", "i1", "j0", "j1")),
    *((name, [POSITIVE]) for name in ("y0", "y1", "k0", "k1", "k0e", "k1e", "i0e", "i1e")),
    *((name, [POSITIVE]) for name in ("gammaln", "digamma", "psi", "log1p", "spence", "expi")),
    *((name, [POSITIVE]) for name in ("gamma", "loggamma", "exp1", "entr")),
    *((name, [SHARE]) for name in ("erfinv", "ndtri", "logit", "erfcinv")),
    ("gamma", [np.array([-0.5, -1.5, -7.3])]),
    ("rgamma", [EDGES[:-1]]),
    ("factorial", [np.array([0.5, 1.5, 5.0])]),
    ("betaln", [POSITIVE, POSITIVE[::-1].copy()]),
    ("beta", [POSITIVE[1:4], POSITIVE[2:5]]),
    ("beta", [np.array([-0.5, -0.5]), np.array([2.0, -0.7])]),
    ("betainc", [POSITIVE[1:], POSITIVE[:0:-1].copy(), SHARE]),
    ("betainc", [np.array([0.5, 1.0, 300.0]), np.array([30.0, 2.0, 200.0]), SHARE[:3]]),
    ("gammainc", [POSITIVE, POSITIVE + 0.3]),
    ("gammaincc", [POSITIVE, POSITIVE + 0.3]),
    ("gammaincinv", [POSITIVE[1:], SHARE]),
    ("gammainccinv", [POSITIVE[1:], SHARE]),
    ("betaincinv", [POSITIVE[1:], POSITIVE[:0:-1].copy(), SHARE]),
    ("xlogy", [REAL[-4:], POSITIVE[1:5]]),
    ("xlog1py", [REAL[-4:], POSITIVE[1:5]]),
    ("rel_entr", [POSITIVE, POSITIVE[::-1].copy()]),
    ("kl_div", [POSITIVE, POSITIVE[::-1].copy()]),
    ("boxcox", [POSITIVE, np.array([0.0, 1e-7, 0.5, -1.0, 2.0, 0.0])]),
    ("boxcox1p", [POSITIVE, np.array([0.0, 1e-7, 0.5, -1.0, 2.0, 0.0])]),
    ("poch", [np.array([0.5, 2.0, -1.5]), np.array([2.0, 0.7, 1.2])]),
    ("comb", [np.array([5.0, 7.3]), np.array([2.0, 3.1])]),
    ("owens_t", [REAL[[0, 1, 2, 4, 5]], np.array([0.3, -0.8, 3.0, 1.0, -20.0])]),
]
ORDERED = [
    *((name, n, REAL) for name in ("jn", "iv", "ive") for n in (0, 1, 2, 3, 5, 12)),
    *((name, n, POSITIVE[1:]) for name in ("yn", "kn") for n in (0, 1, 2, 5)),
    *(("expn", n, POSITIVE) for n in (0, 1, 2, 3, 7)),
    ("polygamma", 0, POSITIVE),
    ("polygamma", 2, POSITIVE),
]


def ids(rows):
    return [f"{row[0]}-{i}" for i, row in enumerate(rows)]


@pytest.mark.parametrize(("name", "args"), ROWS, ids=ids(ROWS))
def test_values_are_scipys(name, args):
    ours = getattr(special, name)(*args).numpy()

    np.testing.assert_allclose(ours, getattr(scipy.special, name)(*args), rtol=3e-13, atol=1e-15)


@pytest.mark.parametrize(("name", "args"), ROWS, ids=ids(ROWS))
def test_slopes_in_every_argument(name, args):
    values = {f"x{i}": arg for i, arg in enumerate(args)}

    # The steps of the differences must not leave the domain near its end.
    values = {k: np.where(np.abs(v) == 1e-3, 0.1, v) for k, v in values.items()}
    check(lambda **values: getattr(special, name)(*values.values()), values, list(values))


@pytest.mark.parametrize(("name", "order", "x"), ORDERED, ids=ids(ORDERED))
def test_functions_of_whole_order(name, order, x):
    function = getattr(special, name)

    wanted = getattr(scipy.special, name)(order, x)
    np.testing.assert_allclose(function(order, x).numpy(), wanted, rtol=2e-13, atol=1e-16)

    inner = np.where(x == 1e-3, 0.1, x)
    inner = np.where((inner == 0) & (name == "ive"), 0.1, inner)  # |x| has a corner at 0
    check(lambda x: function(order, x), {"x": inner}, ["x"])


@pytest.mark.parametrize(("name", "order"), [("jn", 4), ("ive", 3), ("yn", 3), ("expn", 4)])
def test_second_derivatives_of_whole_orders(name, order):
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = getattr(special, name)(order, x)
        return tape.gradient(y, x)

    check(slope, {"x": POSITIVE[1:]}, ["x"])


@pytest.mark.parametrize("order", [2, 7, 30, 100])
def test_bessel_functions_of_large_arguments_and_orders(order):
    x = np.array([1e-300, 1e-9, 0.5, 3.0, 9.9, 29.0, 31.0, 80.0, 99.0, 101.0, 500.0, -40.0])

    jn = special.jn(order, x).numpy()
    ive = special.ive(order, x).numpy()

    # Upwards through the orders the error grows with the distance to a zero, not beyond it.
    np.testing.assert_allclose(jn, scipy.special.jv(order, x), rtol=2e-11, atol=2e-15)
    np.testing.assert_allclose(ive, scipy.special.ive(order, x), rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("name", ["betainc", "gammainc", "gammaincinv", "betaincinv"])
def test_second_derivatives_by_parameters(name):
    function = getattr(special, name)
    values = {"a": np.array([0.6, 3.0]), "b": np.array([2.5, 0.8]), "x": np.array([0.3, 0.7])}
    if name.startswith("gamma"):
        del values["b"]

    def slopes(**values):
        with tf.GradientTape() as tape:
            tape.watch(list(values.values()))
            y = function(*values.values())
        gradients = tape.gradient(y, list(values.values()))
        return tf.add_n([(i + 1) * g for i, g in enumerate(gradients)])

    check(slopes, values, list(values))


def test_inverses_at_the_ends():
    ends = np.array([-0.1, 0.0, 1.0, 1.1])

    np.testing.assert_array_equal(special.betaincinv(2.0, 3.0, ends).numpy(), [nan, 0, 1, nan])
    np.testing.assert_array_equal(special.gammaincinv(2.0, ends).numpy(), [nan, 0, inf, nan])
    np.testing.assert_array_equal(special.gammainccinv(2.0, ends).numpy(), [nan, inf, 0, nan])


def test_values_on_the_edges():
    np.testing.assert_array_equal(special.gammasgn(EDGES).numpy(), scipy.special.gammasgn(EDGES))
    np.testing.assert_allclose(special.gamma(EDGES).numpy(), scipy.special.gamma(EDGES), rtol=1e-12)
    np.testing.assert_array_equal(
        np.isnan(special.loggamma(EDGES).numpy()), np.isnan(scipy.special.loggamma(EDGES))
    )
    x, y = np.array([0.0, 1.0, 1.0, -1.0, 0.0]), np.array([1.0, 0.0, 2.0, 1.0, -1.0])
    for name in ("rel_entr", "kl_div"):
        wanted = getattr(scipy.special, name)(x, y)
        np.testing.assert_allclose(getattr(special, name)(x, y).numpy(), wanted)
    np.testing.assert_allclose(special.entr([-1.0, 0.0]).numpy(), [-inf, 0.0])
    np.testing.assert_allclose(special.exp1([-1.0, 0.0]).numpy(), [nan, inf])
    np.testing.assert_allclose(special.expn(2, [-1.0, 0.0]).numpy(), [nan, 1.0])
    np.testing.assert_allclose(special.boxcox([0.0, 0.0, -1.0], [0.0, 2.0, 1.0]), [-inf, -0.5, nan])
    np.testing.assert_allclose(
        special.poch([0.0, 1.0, -2.0, -3.0], [2.0, 3.0, 1.0, 5.0]).numpy(),
        [0, 6, -2, 0],
        rtol=1e-12,
    )
    np.testing.assert_allclose(special.factorial([-1.0, 0.0]).numpy(), [0.0, 1.0])
    n, k = np.array([5, 5, 5, -1]), np.array([2, -1, 6, 0])
    np.testing.assert_allclose(special.comb(n, k).numpy(), scipy.special.comb(n, k))


def test_exact_counts_are_python_integers():
    assert special.comb(60, 30, exact=True) == scipy.special.comb(60, 30, exact=True)
    assert special.comb(4, 2, exact=True, repetition=True) == 10
    assert special.factorial(25, exact=True) == scipy.special.factorial(25, exact=True)


def test_the_reciprocal_of_gamma_is_smooth_at_the_poles():
    x = tf.constant([0.0, -1.0, -2.0, -3.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = special.rgamma(x)

    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [1.0, -1.0, 2.0, -6.0], rtol=1e-13)


@pytest.mark.parametrize(
    "options",
    [{}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"axis": (0, 1)}],
)
@pytest.mark.parametrize("with_weights", [False, True])
def test_logsumexp_with_weights(options, with_weights):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4))
    weights = {"b": rng.uniform(0.5, 2, size=(3, 4))} if with_weights else {}

    wanted = scipy.special.logsumexp(a, **weights, **options)
    found = special.logsumexp(a, **weights, **options).numpy()

    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert found.shape == np.shape(wanted)
    check(lambda a, **rest: special.logsumexp(a, **rest, **options), {"a": a, **weights}, ["a"])


def test_logsumexp_with_signs():
    a, b = np.array([1.0, 2.0, -inf]), np.array([1.0, -3.0, 0.0])

    found = [float(y) for y in special.logsumexp(a, b=b, return_sign=True)]

    np.testing.assert_allclose(found, scipy.special.logsumexp(a, b=b, return_sign=True))
    assert float(special.logsumexp([-inf, -inf], b=[1.0, 1.0], return_sign=True)[0]) == -inf


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_over_axes(axis, name):
    x = np.random.default_rng(0).normal(size=(3, 4))

    wanted = getattr(scipy.special, name)(x, axis=axis)
    np.testing.assert_allclose(getattr(special, name)(x, axis=axis).numpy(), wanted, rtol=1e-13)
    weights = np.arange(12.0).reshape(3, 4)
    check(lambda x: weights * getattr(special, name)(x, axis=axis), {"x": x}, ["x"])


def test_integrals_in_pairs():
    np.testing.assert_allclose(
        [y.numpy() for y in special.fresnel(REAL)], scipy.special.fresnel(REAL), rtol=1e-13
    )
    np.testing.assert_allclose(
        special.betainc(2.0, 3.0, SHARE).numpy(), scipy.special.betainc(2.0, 3.0, SHARE)
    )
    check(lambda x: special.betainc(2.0, 3.0, x), {"x": SHARE[:-1]}, ["x"])
    x = np.array([1.5, 2.0, 6.0])
    np.testing.assert_allclose(special.zeta(x).numpy(), scipy.special.zeta(x), rtol=1e-13)
    np.testing.assert_allclose(special.zeta(x, 2.5).numpy(), scipy.special.zeta(x, 2.5), rtol=1e-13)
    check(lambda q: special.zeta(x, q), {"q": x}, ["q"])
    for d in (1, 2, 4):
        wanted = scipy.special.multigammaln(x + 2, d)
        np.testing.assert_allclose(special.multigammaln(x + 2, d).numpy(), wanted, rtol=1e-13)


def test_trigonometric_integrals():
    x = np.array([-inf, -30.0, -4.1, -0.5, 0.0, 1e-9, 0.3, 3.9, 4.1, 12.0, 1e5, inf])

    for ours, theirs in zip(special.sici(x), scipy.special.sici(x), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-15)
    inner = np.array([-30.0, -0.5, 0.3, 3.9, 4.1, 12.0])
    for i in (0, 1):
        check(lambda x, i=i: special.sici(x)[i], {"x": inner}, ["x"])


def test_faddeevas_function():
    rng = np.random.default_rng(0)
    z = 10 ** rng.uniform(-2, 2, 200) * np.exp(1j * np.pi * rng.uniform(-0.2, 1.0, 200))

    np.testing.assert_allclose(special.wofz(z).numpy(), scipy.special.wofz(z), rtol=1e-12)
    np.testing.assert_allclose(special.wofz(REAL).numpy(), scipy.special.wofz(REAL), rtol=1e-12)
    values = {"x": REAL, "y": np.linspace(-1, 2, len(REAL))}
    check(
        lambda x, y: tf.math.real(special.wofz(tf.complex(x, y)) * (2 - 1j)), values, list(values)
    )


@pytest.mark.parametrize(
    ("n", "m"), [(0, 0), (1, 0), (1, 1), (1, -1), (3, 2), (5, -3), (8, 8), (1, 2)]
)
def test_spherical_harmonics(n, m):
    theta, phi = np.array([0.3, 1.2, 2.9]), np.array([0.1, 2.5, 5.0])

    wanted = scipy.special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(
        special.sph_harm_y(n, m, theta, phi).numpy(), wanted, rtol=1e-12, atol=1e-15
    )
    check(
        lambda theta, phi: tf.math.real(special.sph_harm_y(n, m, theta, phi) * (1 - 2j)),
        {"theta": theta, "phi": phi},
        ["theta", "phi"],
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: special.jn(0.5, 1.0), "jn needs an integer order"),
        (lambda: special.expn(-1, 1.0), "expn needs a non-negative integer order"),
        (lambda: special.sph_harm_y(1.5, 0, 0.0, 0.0), "sph_harm_y needs an integer degree"),
        (lambda: special.multigammaln(2.0, 0), "multigammaln needs a positive integer d"),
        (lambda: special.comb(2.5, 1, exact=True), "comb with exact=True needs Python integers"),
    ],
)
def test_orders_that_are_not_whole_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_vmap_and_function_run_functions_of_whole_order():
    x = tf.constant(POSITIVE[1:])
    wanted = special.jn(3, x).numpy()

    np.testing.assert_allclose(tf.vmap(lambda x: special.jn(3, x))(x).numpy(), wanted, rtol=1e-13)
    run = tf.function(lambda x: special.jn(3, x))
    run(x)
    np.testing.assert_allclose(run(x).numpy(), wanted, rtol=1e-13)


def test_numbers_are_float64_and_arrays_keep_their_dtype():
    assert special.erf(0.5).dtype == tf.float64
    assert special.erf(np.float32(0.5)).dtype == tf.float32
    assert special.xlogy(2.0, tf.constant(0.5)).dtype == tf.float32
    assert special.gammaln(np.array([1, 2])).dtype == tf.float64
    assert special.wofz(1j).dtype == tf.complex128
    assert special.wofz(np.float32(1)).dtype == tf.complex64


def test_every_name_is_scipys():
    assert [name for name in special.__all__ if not hasattr(scipy.special, name)] == []
