"""Samples of elementwise functions, comparisons and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control import stop_gradient
from tapegrad.ops.elementwise import (
    bits,
    comparison,
    complex_numbers,
    exponential,
    magnitude,
    no_nan,
    powers,
    rounding,
    selection,
    trigonometric,
)
from tapegrad.ops.reduction import sums
from tapegrad.testing.sample import (
    Function,
    Maker,
    Sample,
    ValueSample,
    alike_in_value,
    booleans,
    complex_normal,
    distinct,
    fixed,
    integers,
    like_numpy,
    named,
    normal,
    of_either,
    uniform,
)

INF, NAN = float("inf"), float("nan")
_POSITIVE = uniform(0.2, 3.0, 2, 3)
_INSIDE = uniform(-0.9, 0.9, 4)

# function, reference, domain
_SMOOTH: list[tuple[Function, Function, Maker]] = [
    (exponential.exp, np.exp, normal(2, 3)),
    (exponential.exp2, np.exp2, normal(3)),
    (exponential.expm1, np.expm1, normal(3)),
    (exponential.log, np.log, _POSITIVE),
    (exponential.log2, np.log2, _POSITIVE),
    (exponential.log10, np.log10, _POSITIVE),
    (exponential.log1p, np.log1p, uniform(-0.8, 2.0, 4)),
    (trigonometric.sin, np.sin, normal(2, 3)),
    (trigonometric.cos, np.cos, normal(3)),
    (trigonometric.tan, np.tan, _INSIDE),
    (trigonometric.asin, np.arcsin, _INSIDE),
    (trigonometric.acos, np.arccos, _INSIDE),
    (trigonometric.atan, np.arctan, normal(3)),
    (trigonometric.sinh, np.sinh, normal(3)),
    (trigonometric.cosh, np.cosh, normal(3)),
    (trigonometric.tanh, np.tanh, normal(2, 3)),
    (trigonometric.asinh, np.arcsinh, normal(3)),
    (trigonometric.acosh, np.arccosh, uniform(1.2, 4.0, 3)),
    (trigonometric.atanh, np.arctanh, _INSIDE),
    (trigonometric.sinc, np.sinc, uniform(-3.0, 3.0, 12)),
    (trigonometric.rad2deg, np.rad2deg, normal(3)),
    (trigonometric.deg2rad, np.deg2rad, normal(3)),
    (powers.square, np.square, normal(2, 3)),
    (powers.sqrt, np.sqrt, _POSITIVE),
    (powers.rsqrt, lambda x: 1 / np.sqrt(x), _POSITIVE),
    (powers.reciprocal, np.reciprocal, normal(3)),
    (powers.cbrt, np.cbrt, normal(4)),
    (magnitude.abs, np.abs, normal(4)),
    (magnitude.fabs, np.fabs, normal(4)),
    (magnitude.sign, np.sign, normal(4)),
    (powers.log_or_zero, lambda x: np.log(np.where(x > 0, x, 1)), normal(6)),
    (stop_gradient.identity, np.positive, normal(3)),
]
_HOLOMORPHIC: list[Function] = [
    exponential.exp,
    exponential.expm1,
    exponential.log,
    exponential.log1p,
    trigonometric.sin,
    trigonometric.cos,
    trigonometric.tan,
    trigonometric.asin,
    trigonometric.acos,
    trigonometric.atan,
    trigonometric.tanh,
    trigonometric.asinh,
    trigonometric.acosh,
    trigonometric.atanh,
    powers.square,
    powers.sqrt,
    powers.reciprocal,
    powers.rsqrt,
]

_PAIRS: list[tuple[Function, Function, Maker, Maker]] = [
    (exponential.logaddexp, np.logaddexp, normal(2, 3), normal(3)),
    (exponential.logaddexp2, np.logaddexp2, normal(2, 3), normal(3)),
    (exponential.xlogy, lambda x, y: x * np.log(y), normal(2, 3), uniform(0.2, 2.0, 3)),
    (exponential.xlog1py, lambda x, y: x * np.log1p(y), normal(2, 3), uniform(0.2, 2.0, 3)),
    (trigonometric.atan2, np.arctan2, normal(2, 3), normal(3)),
    (powers.hypot, np.hypot, normal(2, 3), normal(3)),
    (powers.squared_difference, lambda x, y: (x - y) ** 2, normal(2, 3), normal(3)),
    (no_nan.divide_no_nan, np.divide, normal(2, 3), normal(3)),
    (no_nan.multiply_no_nan, np.multiply, normal(2, 3), normal(3)),
    (no_nan.xdivy, np.divide, normal(2, 3), normal(3)),
    (rounding.mod, np.remainder, uniform(0.1, 0.9, 3), uniform(1.0, 1.5, 2, 3)),
    (rounding.fmod, np.fmod, uniform(-3.9, -3.6, 3), uniform(1.1, 1.2, 2, 3)),
    (selection.maximum, np.maximum, distinct(2, 3), fixed([[0.01], [-0.02]])),
    (selection.minimum, np.minimum, distinct(2, 3), fixed([[0.01], [-0.02]])),
    (selection.fmax, np.fmax, distinct(2, 3), fixed([[0.01], [-0.02]])),
    (selection.fmin, np.fmin, distinct(2, 3), fixed([[0.01], [-0.02]])),
    (magnitude.copysign, np.copysign, normal(2, 3), normal(3)),
    (magnitude.heaviside, np.heaviside, fixed([-1.0, 2.0, 3.0]), normal(2, 3)),
]
_WITHOUT: list[tuple[Function, Function, list[Maker]]] = [
    (rounding.floor, np.floor, [normal(4)]),
    (rounding.ceil, np.ceil, [normal(4)]),
    (rounding.trunc, np.trunc, [normal(4)]),
    (rounding.round, np.round, [fixed([0.5, 1.5, -2.5, 0.2])]),
    (rounding.floor_divide, np.floor_divide, [normal(2, 3), normal(3)]),
    (rounding.truncatediv, lambda x, y: np.trunc(x / y), [normal(3), normal(3)]),
    (comparison.equal, np.equal, [integers(0, 2, 3), integers(0, 2, 2, 3)]),
    (comparison.not_equal, np.not_equal, [integers(0, 2, 3), integers(0, 2, 3)]),
    (comparison.less, np.less, [normal(2, 1), normal(3)]),
    (comparison.less_equal, np.less_equal, [normal(3), normal(3)]),
    (comparison.greater, np.greater, [normal(3), normal(3)]),
    (comparison.greater_equal, np.greater_equal, [normal(3), normal(3)]),
    (comparison.logical_and, np.logical_and, [booleans(4), booleans(4)]),
    (comparison.logical_or, np.logical_or, [booleans(4), booleans(4)]),
    (comparison.logical_xor, np.logical_xor, [booleans(4), booleans(4)]),
    (comparison.logical_not, np.logical_not, [booleans(4)]),
    (comparison.isnan, np.isnan, [fixed([1.0, NAN, INF])]),
    (comparison.isinf, np.isinf, [fixed([1.0, NAN, -INF])]),
    (comparison.isfinite, np.isfinite, [fixed([1.0, NAN, INF])]),
    (
        comparison.isclose,
        np.isclose,
        [fixed([1.0, 1.0, INF, NAN]), fixed([1.0 + 1e-7, 1.1, INF, NAN])],
    ),
    (
        comparison.approximate_equal,
        lambda x, y: abs(x - y) < 1e-5,
        [fixed([1.0, 1.0]), fixed([1.0 + 1e-7, 1.1])],
    ),
    (magnitude.signbit, np.signbit, [fixed([1.0, -1.0, -0.0, 0.0])]),
    (bits.bitwise_and, np.bitwise_and, [integers(0, 9, 4), integers(0, 9, 4)]),
    (bits.bitwise_or, np.bitwise_or, [integers(0, 9, 4), integers(0, 9, 4)]),
    (bits.bitwise_xor, np.bitwise_xor, [integers(0, 9, 4), integers(0, 9, 4)]),
    (bits.bitwise_invert, np.invert, [integers(0, 9, 4)]),
    (bits.bitwise_left_shift, np.left_shift, [integers(0, 9, 4), integers(0, 3, 4)]),
    (bits.bitwise_right_shift, np.right_shift, [integers(0, 99, 4), integers(0, 3, 4)]),
    (bits.gcd, np.gcd, [integers(1, 99, 4), integers(1, 99, 4)]),
    (bits.lcm, np.lcm, [integers(1, 99, 4), integers(1, 99, 4)]),
    (stop_gradient.stop_gradient, np.positive, [normal(3)]),
]


def _power_samples() -> list[Sample]:
    def by(exponent: Any) -> Callable[[Any], Any]:
        return lambda x: powers.power(x, exponent)

    numbers = (0, 1, 2, 3, 4, 5, 0.5, 1.5, -1, -2, -0.5, 2.0)
    return [
        *[Sample(f"power-{n}", by(n), [_POSITIVE], by_numpy(n)) for n in numbers],
        *[Sample(f"power-negative-base-{n}", by(n), [normal(4)], by_numpy(n)) for n in (2, 3, 5)],
        like_numpy(powers.power, [_POSITIVE, normal(3)]),
        Sample("power-complex", powers.power, [complex_normal(3), complex_normal(2, 3)], np.power),
        of_either("power-complex-number", lambda x: x**3, [complex_normal(3)]),
        of_either("power-number-base", lambda x: 2**x, [normal(3)]),
        Sample(
            "float_power",
            lambda x, y: cast(powers.float_power(x, y), x.dtype),
            [_POSITIVE, normal(3)],
            np.float_power,
        ),
    ]


def by_numpy(exponent: Any) -> Callable[[Any], Any]:
    """Return the reference for a power by a number."""
    return lambda x: np.power(x, exponent)


_WITH_TOLERANCES = ValueSample(
    "isclose-tolerances",
    lambda x, y, rtol: comparison.isclose(x, y, rtol=rtol),
    [fixed([1.0, 1.0, INF, NAN]), fixed([1.0 + 1e-7, 1.1, INF, NAN]), fixed([0.0, 0.2, 0.1, 0.1])],
    lambda x, y, rtol: np.isclose(x, y, rtol=rtol),
)

_COMPLEX = [
    Sample("abs-complex", magnitude.abs, [complex_normal(2, 3)], np.abs),
    Sample("sign-complex", magnitude.sign, [complex_normal(3)], np.sign),
    like_numpy(complex_numbers.real, [complex_normal(3)]),
    Sample("real-of-real", complex_numbers.real, [normal(3)], np.real),
    like_numpy(complex_numbers.imag, [complex_normal(3)]),
    like_numpy(complex_numbers.angle, [complex_normal(3)]),
    Sample("angle-of-real", complex_numbers.angle, [normal(3)], np.angle),
    named(complex_numbers.complex, [normal(2, 3), normal(3)], lambda a, b: a + 1j * b),
    named(
        complex_numbers.real_if_close,
        [complex_normal(3)],
        np.real_if_close,
        batches=False,
        records=False,
    ),
    Sample(
        "squared_difference-complex",
        powers.squared_difference,
        [complex_normal(3), complex_normal(3)],
        lambda a, b: abs(a - b) ** 2 + 0j,
    ),
    Sample(
        "where-complex",
        selection.where,
        [booleans(3), complex_normal(3), complex_normal(3)],
        np.where,
    ),
]

_SELECTION = [
    like_numpy(selection.where, [booleans(2, 3), normal(3), normal(2, 1)]),
    like_numpy(selection.where, [booleans(3), normal(3)], 0.0, case="number"),
    Sample(
        "where-integer-condition",
        selection.where,
        [integers(0, 2, 3), normal(3), normal(3)],
        np.where,
    ),
    named(selection.keep, [normal(2, 3), booleans(2, 3)], lambda x, m: np.where(m, x, 0)),
    named(no_nan.live_with, [normal(2, 3), fixed([False, False, False])], lambda x, m: x),
    like_numpy(selection.maximum, [normal(4)], 0.0, case="number"),
    ValueSample(
        "fmax-nan", selection.fmax, [fixed([1.0, NAN, 2.0]), fixed([NAN, 2.0, 1.0])], np.fmax
    ),
    like_numpy(selection.clip, [normal(8)], -0.5, 0.5),
    Sample(
        "clip-open", lambda x: selection.clip(x, max=0), [normal(8)], lambda x: np.minimum(x, 0)
    ),
    alike_in_value("clip-integers", selection.clip, [integers(0, 9, 4)], np.clip, 1, 3),
    named(
        selection.clip_by_value,
        [distinct(2, 3), fixed([-0.51, -0.52, -0.53]), fixed([0.51, 0.52, 0.53])],
        np.clip,
    ),
    like_numpy(selection.nan_to_num, [normal(3)]),
    ValueSample(
        "nan_to_num-replaces",
        lambda x: selection.nan_to_num(x, nan=1.0, posinf=2.0),
        [fixed([NAN, INF, 3.0])],
        lambda x: np.array([1.0, 2.0, 3.0]),
    ),
]

_OTHERS = [
    alike_in_value("round-decimals", rounding.round, [normal(4)], np.round, 2),
    ValueSample(
        "round-tens",
        lambda x: rounding.round(x * 100, -1),
        [normal(4)],
        lambda x: np.round(x * 100, -1),
    ),
    ValueSample("rint", rounding.rint, [normal(4)], np.rint),
    ValueSample(
        "truncatediv-integers",
        rounding.truncatediv,
        [integers(-9, 9, 6), integers(1, 4, 6)],
        lambda x, y: np.trunc(x / y),
    ),
    ValueSample("bitwise_invert-bool", bits.bitwise_invert, [booleans(4)], np.invert),
    ValueSample(
        "power-integers",
        lambda x: x**3 + x**0 + x**2,
        [integers(-4, 5, 3)],
        lambda x: x**3 + 1 + x**2,
    ),
    Sample(
        "add_n",
        lambda a, b, c: sums.add_n([a, b, c]),
        [normal(2, 3)] * 3,
        lambda a, b, c: a + b + c,
    ),
    Sample("add_n-one", lambda a: sums.add_n([a]), [normal(3)], np.positive),
    Sample("accumulate_n", lambda a, b: sums.accumulate_n([a, b]), [normal(3)] * 2, np.add),
    named(
        sums.lerp, [normal(3), normal(2, 3), uniform(0.0, 1.0, 3)], lambda a, b, w: a + w * (b - a)
    ),
    like_numpy(rounding.modf, [normal(4)]),
    named(bits.frexp, [normal(4)], np.frexp, order=1),
    like_numpy(bits.ldexp, [normal(4), integers(-3, 4, 4)]),
    Sample(
        "xlogy-number",
        lambda x: exponential.xlogy(x, 0.5) + exponential.xlog1py(x, 2),
        [normal(3)],
        lambda x: x * np.log(0.5) + x * np.log(3),
    ),
    like_numpy(bits.nextafter, [normal(3)], 9.0),
    like_numpy(bits.spacing, [normal(3)]),
    Sample("sinc-at-zero", trigonometric.sinc, [fixed([0.0, 1e-4, 1.0])], np.sinc),
    Sample("exp-0d", exponential.exp, [normal()], np.exp),
    Sample("exp-empty", exponential.exp, [normal(0, 3)], np.exp),
    Sample("xdivy-0d", no_nan.xdivy, [normal(), normal()], np.divide),
    Sample(
        "xlogy-0d", exponential.xlogy, [normal(), uniform(0.5, 1.0)], lambda x, y: x * np.log(y)
    ),
    Sample("keep-0d", selection.keep, [normal(), fixed(True)], lambda x, m: x),
    Sample("complex-0d", complex_numbers.complex, [normal(), normal()], lambda a, b: a + 1j * b),
]

SAMPLES = [
    *[named(function, [domain], reference) for function, reference, domain in _SMOOTH],
    *[
        Sample(f"{function.__name__}-complex", function, [complex_normal(4)], reference)
        for function, reference, _ in _SMOOTH
        if function in _HOLOMORPHIC
    ],
    *[named(function, makers, reference) for function, reference, *makers in _PAIRS],
    *[
        named(function, makers, reference, differentiable=False)
        for function, reference, makers in _WITHOUT
    ],
    _WITH_TOLERANCES,
    *_power_samples(),
    *_COMPLEX,
    *_SELECTION,
    *_OTHERS,
]
