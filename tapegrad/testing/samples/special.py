"""Samples of special functions, against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.elementwise import bessel, special_functions as special
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    fixed,
    integers,
    named,
    normal,
    of_scipy,
    uniform,
)

_scipy = partial(of_scipy, "special")

_POSITIVE = uniform(0.3, 6.0, 2, 3)

_UNARY: list[tuple[Callable[..., Any], str, Maker]] = [
    (special.erf, "erf", normal(2, 3)),
    (special.erfc, "erfc", normal(4)),
    (special.erfcx, "erfcx", normal(4)),
    (special.erfinv, "erfinv", uniform(-0.9, 0.9, 4)),
    (special.erfcinv, "erfcinv", uniform(0.1, 1.9, 4)),
    (special.ndtr, "ndtr", normal(4)),
    (special.ndtri, "ndtri", uniform(0.05, 0.95, 4)),
    (special.log_ndtr, "log_ndtr", uniform(-9.0, 3.0, 5)),
    (special.lgamma, "gammaln", _POSITIVE),
    (special.digamma, "digamma", _POSITIVE),
    (special.dawsn, "dawsn", normal(4)),
    (special.expint, "expi", _POSITIVE),
    (special.spence, "spence", _POSITIVE),
    (special.entr, "entr", _POSITIVE),
    (bessel.bessel_i0, "i0", normal(4)),
    (bessel.bessel_i1, "i1", normal(4)),
    (bessel.bessel_i0e, "i0e", normal(4)),
    (bessel.bessel_i1e, "i1e", normal(4)),
    (bessel.bessel_j0, "j0", normal(4)),
    (bessel.bessel_j1, "j1", normal(4)),
    (bessel.bessel_y0, "y0", _POSITIVE),
    (bessel.bessel_y1, "y1", _POSITIVE),
    (bessel.bessel_k0, "k0", _POSITIVE),
    (bessel.bessel_k1, "k1", _POSITIVE),
    (bessel.bessel_k0e, "k0e", _POSITIVE),
    (bessel.bessel_k1e, "k1e", _POSITIVE),
]

SAMPLES = [
    *[named(function, [maker], _scipy(name)) for function, name, maker in _UNARY],
    Sample("erf-0d", special.erf, [normal()], _scipy("erf")),
    named(special.fresnel_sin, [normal(4)], lambda x: _scipy("fresnel")(x)[0]),
    named(special.fresnel_cos, [normal(4)], lambda x: _scipy("fresnel")(x)[1]),
    Sample("bessel_i1-at-zero", bessel.bessel_i1, [fixed([0.0, 1.0])], _scipy("i1")),
    Sample("bessel_j1-at-zero", bessel.bessel_j1, [fixed([0.0, 1.0])], _scipy("j1")),
    Sample("spence-at-one", special.spence, [fixed([1.0])], _scipy("spence"), order=1),
    named(special.polygamma, [integers(0, 4, 3), uniform(0.5, 4.0, 2, 3)], _scipy("polygamma")),
    Sample(
        "polygamma-number",
        lambda x: special.polygamma(1, x),
        [_POSITIVE],
        lambda x: _scipy("polygamma")(1, x),
    ),
    named(special.zeta, [integers(2, 5, 3), uniform(0.5, 4.0, 2, 3)], _scipy("zeta")),
    named(special.igamma, [_POSITIVE, uniform(0.5, 5.0, 3)], _scipy("gammainc"), order=1),
    Sample(
        "igamma-x",
        lambda x: special.igamma(2.5, x),
        [_POSITIVE],
        lambda x: _scipy("gammainc")(2.5, x),
    ),
    named(special.igammac, [_POSITIVE, uniform(0.5, 5.0, 3)], _scipy("gammaincc"), order=1),
    Sample(
        "igamma_grad_a",
        lambda x: special.igamma_grad_a(1.5, x),
        [_POSITIVE],
        lambda x: (_scipy("gammainc")(1.5 + 1e-5, x) - _scipy("gammainc")(1.5 - 1e-5, x)) / 2e-5,
    ),
    ValueSample(
        "random_gamma_grad",
        special.random_gamma_grad,
        [_POSITIVE, uniform(0.5, 5.0, 3)],
        lambda a, x: _gamma_gradient(a, x),
    ),
    named(special.betaln, [_POSITIVE, uniform(0.5, 2.0, 3)], _scipy("betaln")),
    named(
        special.lbeta,
        [_POSITIVE],
        lambda x: _scipy("gammaln")(x).sum(-1) - _scipy("gammaln")(x.sum(-1)),
    ),
    Sample(
        "betainc",
        lambda x: special.betainc(2.5, 1.5, x),
        [uniform(0.1, 0.9, 2, 3)],
        lambda x: _scipy("betainc")(2.5, 1.5, x),
    ),
    Sample(
        "betainc-broadcast",
        special.betainc,
        [integers(1, 4, 3), integers(1, 4, 2, 1), uniform(0.1, 0.9, 3)],
        lambda a, b, x: _scipy("betainc")(a, b, x),
    ),
]


def _gamma_gradient(a: Any, x: Any) -> Any:
    """Return -(dP/da) / (dP/dx); dP/da is a central difference."""
    gammainc = _scipy("gammainc")
    by_a = (gammainc(a + 1e-5, x) - gammainc(a - 1e-5, x)) / 2e-5
    density = np.exp((a - 1) * np.log(x) - x - _scipy("gammaln")(a))
    return -by_a / density
