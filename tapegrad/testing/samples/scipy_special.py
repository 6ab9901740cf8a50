"""Samples of tapegrad.scipy.special beyond the primitives, against SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.scipy import special
from tapegrad.testing.sample import Maker, Sample, complex_normal, fixed, integers, named, uniform


def _scipy(name: str, *before: Any) -> Callable[..., Any]:
    """Return the function of SciPy by name, imported when it is called."""

    def call(*args: Any) -> Any:
        import scipy.special  # an oracle that only samples need

        return getattr(scipy.special, name)(*before, *args)

    return call


def _of_degree(name: str, n: int) -> Callable[..., Any]:
    return lambda *args: getattr(special, name)(n, *args)


_ORDER, _POSITIVE, _SHARE = uniform(-1.8, 3.8, 2, 2), uniform(0.6, 6.0, 2), uniform(0.1, 0.9, 2)

# All arguments are differentiated.
_PLAIN: list[tuple[str, list[Maker]]] = [
    ("jv", [_ORDER, _POSITIVE]),
    ("yv", [_ORDER, _POSITIVE]),
    ("iv", [_ORDER, _POSITIVE]),
    ("ive", [_ORDER, _POSITIVE]),
    ("kv", [_ORDER, _POSITIVE]),
    ("kve", [_ORDER, _POSITIVE]),
    ("hyp1f1", [uniform(0.6, 3.0, 2, 1), uniform(3.6, 6.0, 2), uniform(-3.0, 3.0, 2)]),
    (
        "hyp2f1",
        [uniform(-2.0, 3.0, 2), uniform(0.6, 3.0, 2), uniform(3.6, 6.0, 2), uniform(-1.5, 0.9, 2)],
    ),
    ("ellipk", [uniform(-2.0, 0.9, 3)]),
    ("ellipkm1", [uniform(0.1, 2.0, 3)]),
    ("ellipe", [uniform(-2.0, 0.9, 3)]),
    ("ellipkinc", [uniform(-4.0, 4.0, 3), uniform(-2.0, 0.9, 3)]),
    ("ellipeinc", [uniform(-4.0, 4.0, 3), uniform(-2.0, 0.9, 3)]),
    ("elliprc", [_POSITIVE, _POSITIVE]),
    ("elliprd", [_POSITIVE, _POSITIVE, _POSITIVE]),
    ("elliprf", [_POSITIVE, _POSITIVE, _POSITIVE]),
    ("elliprj", [_POSITIVE, _POSITIVE, _POSITIVE, _POSITIVE]),
    ("agm", [_POSITIVE, uniform(0.6, 6.0, 2, 1)]),
    ("exprel", [fixed([-2.0, 0.0, 1e-7, 1.5])]),
    ("exp10", [uniform(-2.0, 2.0, 3)]),
    ("cosm1", [uniform(-2.0, 2.0, 3)]),
    ("powm1", [_POSITIVE, uniform(-2.0, 2.0, 2)]),
    ("inv_boxcox", [_SHARE, fixed([0.0, 0.7])]),
    ("inv_boxcox1p", [_SHARE, fixed([0.0, 0.7])]),
    ("pseudo_huber", [_POSITIVE, uniform(-2.0, 2.0, 2)]),
    ("binom", [uniform(3.0, 6.0, 3), uniform(0.5, 2.5, 3)]),
    ("zetac", [fixed([-3.3, 0.4, 3.0])]),
    ("chdtr", [_POSITIVE, _POSITIVE]),
    ("chdtrc", [_POSITIVE, _POSITIVE]),
    ("gdtr", [_POSITIVE, _POSITIVE, _SHARE]),
    ("fdtr", [_POSITIVE, _POSITIVE, _POSITIVE]),
    ("fdtrc", [_POSITIVE, _POSITIVE, _POSITIVE]),
    ("stdtr", [uniform(2.0, 6.0, 3), fixed([-3.0, 0.0, 0.7])]),
    ("betaincc", [_POSITIVE, _POSITIVE, _SHARE]),
]

# A count or degree in front, then what is differentiated.
_OF_DEGREE: list[tuple[str, int, list[Maker]]] = [
    ("eval_legendre", 4, [uniform(-1.0, 1.0, 3)]),
    ("eval_chebyt", 5, [uniform(-1.0, 1.0, 3)]),
    ("eval_chebyu", 4, [uniform(-1.0, 1.0, 3)]),
    ("eval_hermite", 4, [uniform(-1.0, 1.0, 3)]),
    ("eval_hermitenorm", 4, [uniform(-1.0, 1.0, 3)]),
    ("eval_laguerre", 4, [uniform(-1.0, 1.0, 3)]),
    ("eval_genlaguerre", 3, [uniform(0.5, 2.0, 3), uniform(-1.0, 1.0, 3)]),
    ("eval_gegenbauer", 3, [uniform(0.5, 2.0, 3), uniform(-1.0, 1.0, 3)]),
    ("eval_jacobi", 3, [uniform(0.5, 2.0, 3), uniform(0.5, 2.0, 3), uniform(-1.0, 1.0, 3)]),
    ("spherical_jn", 2, [fixed([0.02, 1.0, 4.0])]),
    ("spherical_yn", 2, [_POSITIVE]),
    ("spherical_in", 2, [uniform(0.1, 3.0, 2)]),
    ("spherical_kn", 2, [_POSITIVE]),
]

SAMPLES = [
    *[Sample(name, getattr(special, name), args, _scipy(name)) for name, args in _PLAIN],
    Sample(
        "special.huber", special.huber, [fixed([1.0, 2.0]), fixed([0.4, -3.0])], _scipy("huber")
    ),
    *[Sample(name, _of_degree(name, n), args, _scipy(name, n)) for name, n, args in _OF_DEGREE],
    Sample(
        "jv-whole-order", lambda x: special.jv(3, x), [fixed([-2.0, 0.0, 5.0])], _scipy("jv", 3)
    ),
    Sample("yv-near-zero", special.yv, [uniform(-0.4, 1.4, 2), uniform(0.1, 0.4, 2)], _scipy("yv")),
    Sample("kv-near-zero", special.kv, [uniform(-0.4, 1.4, 2), uniform(0.1, 0.4, 2)], _scipy("kv")),
    Sample("jv-far", special.jv, [uniform(-0.4, 1.4, 2), uniform(30.0, 40.0, 2)], _scipy("jv")),
    Sample(
        "hyp1f1-series",
        special.hyp1f1,
        [uniform(-3.2, -0.1, 2), uniform(1.6, 6.0, 2), uniform(-3.0, 3.0, 2)],
        _scipy("hyp1f1"),
    ),
    Sample(
        "hyp2f1-series",
        special.hyp2f1,
        [
            uniform(-2.0, -0.2, 3),
            uniform(-2.0, -0.2, 3),
            uniform(3.6, 6.0, 3),
            fixed([-3.0, 0.95, 0.4]),
        ],
        _scipy("hyp2f1"),
    ),
    Sample("airy", lambda x: special.airy(x), [fixed([-4.0, 0.3, 2.0])], _scipy("airy")),
    named(special.lambertw, [complex_normal(3)], _scipy("lambertw")),
    Sample(
        "diric",
        lambda x: special.diric(x, 4),
        [fixed([0.0, 1.0, 7.0])],
        lambda x: _scipy("diric")(x, 4),
    ),
    Sample(
        "zeta-exponent", special.zeta, [uniform(1.5, 4.0, 3), uniform(0.5, 3.0, 3)], _scipy("zeta")
    ),
    named(
        special.bdtr, [integers(0, 4, 3), integers(5, 8, 3), uniform(0.1, 0.9, 3)], _scipy("bdtr")
    ),
]
