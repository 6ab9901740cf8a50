"""Samples of tapegrad.scipy.special beyond the primitives, against SciPy."""

from __future__ import annotations

from functools import partial

import numpy as np

from tapegrad.scipy import special
from tapegrad.testing.sample import (
    Maker,
    Sample,
    alike,
    complex_normal,
    fixed,
    of_scipy,
    uniform,
)

_scipy = partial(of_scipy, "special")


def _sample(name: str, args: list[Maker], *first: int, label: str = "") -> Sample:
    """Make a sample of a function; `first` are leading arguments without a derivative."""
    ours = getattr(special, name)
    return Sample(label or name, lambda *xs: ours(*first, *xs), args, _scipy(name, *first))


_ORDER, _POSITIVE, _SHARE = uniform(-1.8, 3.8, 2, 2), uniform(0.6, 6.0, 2), uniform(0.1, 0.9, 2)
_EXPONENT, _WITHIN_ONE = uniform(0.5, 2.0, 3), uniform(-1.0, 1.0, 3)
_MODULUS, _ANGLE = uniform(-2.0, 0.9, 3), uniform(-4.0, 4.0, 3)
_SMALL_ORDER, _NEAR_ZERO = uniform(-0.4, 1.4, 2), uniform(0.1, 0.4, 2)
# 16-bit integers with float32 give float32.
_TRIES, _TRIALS = fixed(np.array([0, 1, 3], np.int16)), fixed(np.array([5, 6, 7], np.int16))

SAMPLES = [
    _sample("jv", [_ORDER, _POSITIVE]),
    _sample("yv", [_ORDER, _POSITIVE]),
    _sample("iv", [_ORDER, _POSITIVE]),
    _sample("ive", [_ORDER, _POSITIVE]),
    _sample("kv", [_ORDER, _POSITIVE]),
    _sample("kve", [_ORDER, _POSITIVE]),
    _sample("hyp1f1", [uniform(0.6, 3.0, 2, 1), uniform(3.6, 6.0, 2), uniform(-3.0, 3.0, 2)]),
    _sample(
        "hyp2f1",
        [uniform(-2.0, 3.0, 2), uniform(0.6, 3.0, 2), uniform(3.6, 6.0, 2), uniform(-1.5, 0.9, 2)],
    ),
    _sample("ellipk", [_MODULUS]),
    _sample("ellipkm1", [uniform(0.1, 2.0, 3)]),
    _sample("ellipe", [_MODULUS]),
    _sample("ellipkinc", [_ANGLE, _MODULUS]),
    _sample("ellipeinc", [_ANGLE, _MODULUS]),
    _sample("elliprc", [_POSITIVE] * 2),
    _sample("elliprd", [_POSITIVE] * 3),
    _sample("elliprf", [_POSITIVE] * 3),
    _sample("elliprj", [_POSITIVE] * 4),
    _sample("agm", [_POSITIVE, uniform(0.6, 6.0, 2, 1)]),
    _sample("exprel", [fixed([-2.0, 0.0, 1e-7, 1.5])]),
    _sample("exp10", [uniform(-2.0, 2.0, 3)]),
    _sample("cosm1", [uniform(-2.0, 2.0, 3)]),
    _sample("powm1", [_POSITIVE, uniform(-2.0, 2.0, 2)]),
    _sample("inv_boxcox", [_SHARE, fixed([0.0, 0.7])]),
    _sample("inv_boxcox1p", [_SHARE, fixed([0.0, 0.7])]),
    _sample("pseudo_huber", [_POSITIVE, uniform(-2.0, 2.0, 2)]),
    _sample("binom", [uniform(3.0, 6.0, 3), uniform(0.5, 2.5, 3)]),
    _sample("zetac", [fixed([-3.3, 0.4, 3.0])]),
    _sample("chdtr", [_POSITIVE] * 2),
    _sample("chdtrc", [_POSITIVE] * 2),
    _sample("gdtr", [_POSITIVE, _POSITIVE, _SHARE]),
    _sample("fdtr", [_POSITIVE] * 3),
    _sample("fdtrc", [_POSITIVE] * 3),
    _sample("stdtr", [uniform(2.0, 6.0, 3), fixed([-3.0, 0.0, 0.7])]),
    _sample("betaincc", [_POSITIVE, _POSITIVE, _SHARE]),
    _sample("eval_legendre", [_WITHIN_ONE], 4),
    _sample("eval_chebyt", [_WITHIN_ONE], 5),
    _sample("eval_chebyu", [_WITHIN_ONE], 4),
    _sample("eval_hermite", [_WITHIN_ONE], 4),
    _sample("eval_hermitenorm", [_WITHIN_ONE], 4),
    _sample("eval_laguerre", [_WITHIN_ONE], 4),
    _sample("eval_genlaguerre", [_EXPONENT, _WITHIN_ONE], 3),
    _sample("eval_gegenbauer", [_EXPONENT, _WITHIN_ONE], 3),
    _sample("eval_jacobi", [_EXPONENT, _EXPONENT, _WITHIN_ONE], 3),
    _sample("spherical_jn", [fixed([0.02, 1.0, 4.0])], 2),
    _sample("spherical_yn", [_POSITIVE], 2),
    _sample("spherical_in", [uniform(0.1, 3.0, 2)], 2),
    _sample("spherical_kn", [_POSITIVE], 2),
    _sample("huber", [fixed([1.0, 2.0]), fixed([0.4, -3.0])], label="special.huber"),
    _sample("jv", [fixed([-2.0, 0.0, 5.0])], 3, label="jv-whole-order"),
    _sample("yv", [_SMALL_ORDER, _NEAR_ZERO], label="yv-near-zero"),
    _sample("kv", [_SMALL_ORDER, _NEAR_ZERO], label="kv-near-zero"),
    _sample("jv", [_SMALL_ORDER, uniform(30.0, 40.0, 2)], label="jv-far"),
    _sample(
        "hyp1f1",
        [uniform(-3.2, -0.1, 2), uniform(1.6, 6.0, 2), uniform(-3.0, 3.0, 2)],
        label="hyp1f1-series",
    ),
    _sample(
        "hyp2f1",
        [
            uniform(-2.0, -0.2, 3),
            uniform(-2.0, -0.2, 3),
            uniform(3.6, 6.0, 3),
            fixed([-3.0, 0.95, 0.4]),
        ],
        label="hyp2f1-series",
    ),
    _sample("airy", [fixed([-4.0, 0.3, 2.0])]),
    _sample("lambertw", [complex_normal(3)]),
    alike("diric", special.diric, [fixed([0.0, 1.0, 7.0])], _scipy("diric"), 4),
    _sample("zeta", [uniform(1.5, 4.0, 3), uniform(0.5, 3.0, 3)], label="zeta-exponent"),
    _sample("bdtr", [_TRIES, _TRIALS, uniform(0.1, 0.9, 3)]),
]
