"""`tapegrad.numpy.special` against SciPy, values and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from tapegrad.numpy import special
from tapegrad.scipy import special as exact_special
from tapegrad.testing.checks import check_batching, check_jvp, check_vjp
from tapegrad.testing.sample import Sample, uniform

INSIDE = uniform(0.15, 0.85, 5)
POSITIVE = uniform(0.4, 4.0, 5)
ANY = uniform(-2.6, 2.6, 5)

UNARY = {
    **dict.fromkeys(["erf", "erfc", "erfcx", "ndtr", "log_ndtr", "dawsn", "expit"], ANY),
    **dict.fromkeys(["erfinv", "ndtri", "logit", "entr"], INSIDE),
    **dict.fromkeys(
        ["erfcinv", "gammaln", "digamma", "psi", "gamma", "rgamma", "loggamma"], POSITIVE
    ),
    **dict.fromkeys(["j0", "j1", "i0", "i1", "i0e", "i1e", "log_expit"], ANY),
    **dict.fromkeys(["y0", "y1", "k0", "k1", "k0e", "k1e", "expi", "exp1", "spence"], POSITIVE),
}
UNARY |= dict.fromkeys(["exp2", "exp10", "cbrt", "sinc", "cosm1", "sindg", "cosdg", "tandg"], ANY)
UNARY |= {"cotdg": POSITIVE, "exprel": ANY, "expm1": ANY, "log1p": POSITIVE}
BINARY = {
    **dict.fromkeys(["gammainc", "gammaincc", "betaln", "beta", "poch"], (POSITIVE, POSITIVE)),
    **dict.fromkeys(["xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox"], (POSITIVE, POSITIVE)),
    "boxcox1p": (POSITIVE, POSITIVE),
    "comb": (uniform(5.0, 8.0, 5), POSITIVE),
    "binom": (uniform(5.0, 8.0, 5), POSITIVE),
    **dict.fromkeys(["huber", "pseudo_huber", "inv_boxcox", "inv_boxcox1p"], (POSITIVE, POSITIVE)),
    **dict.fromkeys(["chdtr", "chdtrc", "stdtr"], (POSITIVE, POSITIVE)),
    "chdtri": (POSITIVE, INSIDE),
}
TERNARY = {
    **dict.fromkeys(["fdtr", "fdtrc", "gdtr", "gdtrc", "radian"], (POSITIVE, POSITIVE, POSITIVE)),
    **dict.fromkeys(["betainc", "betaincc", "fdtri", "gdtrix"], (POSITIVE, POSITIVE, INSIDE)),
}
SAMPLES = [
    *(Sample(name, getattr(special, name), [maker]) for name, maker in UNARY.items()),
    *(Sample(name, getattr(special, name), makers) for name, makers in BINARY.items()),
    *(Sample(name, getattr(special, name), makers) for name, makers in TERNARY.items()),
    Sample("logsumexp", special.logsumexp, [ANY]),
    Sample("softmax", special.softmax, [ANY]),
    Sample("log_softmax", lambda x: special.log_softmax(x, axis=-1), [ANY]),
    Sample("factorial", special.factorial, [POSITIVE]),
    Sample("fresnel", special.fresnel, [ANY]),
]


def scipys(sample):
    if sample.name == "log_softmax":
        return lambda x: scipy.special.log_softmax(x, axis=-1)
    return getattr(scipy.special, sample.name)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_values_are_scipys(sample):
    arrays = sample.make()

    ours, theirs = sample.function(*arrays), scipys(sample)(*arrays)

    for mine, other in zip(np.atleast_2d(_host(ours)), np.atleast_2d(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-13)


def _host(value):
    return [part.numpy() for part in value] if isinstance(value, tuple) else value.numpy()


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
@pytest.mark.parametrize("check", [check_vjp, check_jvp, check_batching])
def test_derivatives(sample, check):
    check(sample)


@pytest.mark.parametrize("name", ["gammasgn", "gamma", "rgamma"])
def test_the_gamma_function_has_its_signs_on_the_negative_side(name):
    x = np.array([-0.5, -1.5, -2.5, 0.5])

    ours = getattr(special, name)(x).numpy()

    np.testing.assert_allclose(ours, getattr(scipy.special, name)(x), rtol=1e-12)


def test_functions_of_three_and_of_orders():
    x = np.array([0.2, 0.7])

    np.testing.assert_allclose(
        special.betainc(2.0, 3.0, x).numpy(), scipy.special.betainc(2.0, 3.0, x)
    )
    np.testing.assert_allclose(
        special.multigammaln(x + 2, 3).numpy(), scipy.special.multigammaln(x + 2, 3)
    )
    np.testing.assert_allclose(special.polygamma(2, x).numpy(), scipy.special.polygamma(2, x))
    np.testing.assert_allclose(special.zeta(x + 2, 1.5).numpy(), scipy.special.zeta(x + 2, 1.5))


def test_logsumexp_takes_weights_and_gives_their_sign():
    a, b = np.array([0.5, 1.0, 2.0]), np.array([1.0, -2.0, 0.5])

    size, sign = special.logsumexp(a, b=b, return_sign=True)
    expected = scipy.special.logsumexp(a, b=b, return_sign=True)

    np.testing.assert_allclose([float(size), float(sign)], expected)


def test_what_is_outside_the_domain():
    x, y = np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, -1.0])

    assert special.entr(x).tolist() == scipy.special.entr(x).tolist()
    assert special.rel_entr(x, y).tolist() == scipy.special.rel_entr(x, y).tolist()
    assert special.rgamma(np.array([-1.0, 0.0])).tolist() == [0.0, 0.0]


def test_distribution_functions_of_counts():
    k, m, p = np.array([0.0, 1.0, 3.0]), np.array([0.7, 1.5, 2.5]), np.array([0.2, 0.5, 0.7])
    n = np.array([2, 3, 5])
    calls = {"pdtr": (k, m), "pdtrc": (k, m), "bdtr": (k, n, p), "bdtrc": (k, n, p)}
    calls |= {"nbdtr": (n - 1, n, p), "nbdtrc": (n - 1, n, p), "zetac": (m + 1.0,)}

    for name, arrays in calls.items():
        theirs = getattr(scipy.special, name)(*arrays)
        np.testing.assert_allclose(getattr(special, name)(*arrays).numpy(), theirs, rtol=1e-10)


def test_students_distribution_is_right_on_both_sides_and_far_out():
    df, t = np.array([1.0, 5.0, 30.0, 2.0, 9.0]), np.array([-8.0, -0.01, 0.0, 0.3, 12.0])

    np.testing.assert_allclose(special.stdtr(df, t).numpy(), scipy.special.stdtr(df, t), rtol=1e-10)


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match=r"numpy.special has no function 'nctdtr'"):
        _ = special.nctdtr


def test_exact_factorials_of_arrays_are_integers():
    n = np.array([[0, 3], [20, -2]], dtype="int32")

    exact = exact_special.factorial(n, exact=True)

    assert exact.dtype == "int64"
    assert exact.numpy().tolist() == scipy.special.factorial(n, exact=True).tolist()
    assert exact_special.factorial(np.int64(30), exact=True) == scipy.special.factorial(
        30, exact=True
    )
    assert exact_special.comb(np.int64(50), np.int64(20), exact=True) == scipy.special.comb(
        50, 20, exact=True
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: exact_special.factorial([21], exact=True), "needs n <= 20"),
        (lambda: exact_special.factorial([2.0], exact=True), "needs integers"),
        (lambda: exact_special.factorial(2.0, extend="complex"), "only extend='zero'"),
    ],
)
def test_factorials_that_are_no_int64_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
