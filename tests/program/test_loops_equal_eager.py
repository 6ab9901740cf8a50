"""Every elementwise primitive: a compiled loop gives the value of the eager kernel.

The operands are special values in all pairs, and random numbers of many magnitudes. NaN, infinities
and the sign of zeros must be those of eager mode. Numbers must be accurate to the units in the last
place that docs/function.md promises; the reference is the eager kernel in a wider precision.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.core.trace.expression_namespace  # what formulas are written with
import tapegrad.numpy as tnp
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.trace.expression import Expression, UntraceableError, array_input, traced
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.testing.samples import all_samples
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

DTYPES = ("float32", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool")
PARAMS: dict[str, list[dict[str, Any]]] = {
    "power_number": [{"exponent": e} for e in (0, 1.0, 3, 4, -2, -3, 2.5, 1 / 3)],
    "clip": [
        {"low": low, "high": high}
        for low, high in (
            *((-1.0, 2.0), (-np.inf, 0.5), (0.0, 1.0), (-0.0, 1.0), (-1.0, 0.0), (-1.0, -0.0)),
            *((0.0, -0.0), (-0.0, 0.0), (2.0, 1.0), (np.nan, 1.0), (-1.0, np.nan)),
        )
    ],
    "sinc": [{"order": 0}, {"order": 1}],
    "leaky_relu": [{"alpha": 0.2}],
    "elu": [{"scale": 1.0, "alpha": 1.0, "width": 1.0}],
    "silu": [{"beta": 1.0}, {"beta": 1.5}],
    "silu_slope": [{"beta": 1.0}],
    "nan_to_num": [{"nan": 0.0, "posinf": None, "neginf": None}],
    "isclose": [{"rtol": 1e-5, "atol": 1e-8, "equal_nan": flag} for flag in (False, True)],
}
UNITS = {"float32": 2.5, "float64": 4.5}
"""The promised accuracy, and half a unit for the rounding of the reference."""
FIVE = ("erfc", "ndtr", "gelu")
"""Functions of which the documentation promises 5 units."""


def _largest(*operands: Any) -> Any:
    return np.maximum.reduce([np.abs(operand) for operand in operands])


def _one_or(x: Any) -> Any:
    return np.maximum(np.abs(x), 1)


# Sums of terms that can cancel: the error is relative to the largest term.
TERMS: dict[str, Callable[..., Any]] = {
    "logaddexp": _largest,
    "logaddexp2": _largest,
    "logit": _one_or,
    "sinc": lambda x: np.full(x.shape, 20.0),
    **dict.fromkeys(("silu", "silu_slope", "mish", "elu"), _one_or),
    **dict.fromkeys(("gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope"), _one_or),
}
EXTREMES = {
    "maximum": np.logical_and,
    "minimum": np.logical_or,
    "fmax": np.logical_and,
    "fmin": np.logical_or,
}
"""Whether the extreme of 0.0 and -0.0 is negative, from the signs of both, as in IEEE 754.

NumPy takes either zero, depending on the processor.
"""
INTEGERS_ARE_CAST = ("sinc", "silu", "silu_slope")
"""The public functions cast integers to floats before they call the primitive."""


class Case(NamedTuple):
    primitive: Primitive
    dtype: str
    params: dict[str, Any]
    operands: list[Any]
    eager: Any
    loop: Loop

    def __repr__(self) -> str:
        return f"{self.primitive.name} {self.dtype} {self.params}"


def clip_is_negative(x: Any, low: float, high: float) -> Any:
    """Whether a clipped number is negative if -0.0 is less than 0.0, as in IEEE 754."""
    tiny = np.finfo(np.float64).smallest_subnormal
    numbers = [np.asarray(number, np.float64) for number in (x, low, high)]
    x, low, high = (np.where(number == 0, np.copysign(tiny, number), number) for number in numbers)
    return np.minimum(np.maximum(x, low), high) < 0


def special_values(dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        near = (info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 7, 31, 64, info.max - 1, info.max)
        return np.array(sorted({n for n in near if info.min <= n <= info.max}), kind)
    limits = np.finfo(kind)
    least, tiny = float(limits.smallest_subnormal), float(limits.tiny)
    positive = [
        *(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.25, 127.5, 1024.0, np.inf, float(limits.max)),
        *(least, 3 * least, tiny, float(limits.eps), 1e-5, 0.9999, 88.8, 709.8, 1e30),
        *(2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**53 - 1, 2.0**53, 2.0**53 + 2),
    ]
    with np.errstate(over="ignore"):
        return np.array([*positive, *[-x for x in positive], np.nan]).astype(kind)


def random_values(dtype: str, count: int, rng: np.random.Generator) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        wide = rng.integers(info.min, info.max, count // 2, dtype=kind, endpoint=True)
        near = rng.integers(max(info.min, -20), 20, count - count // 2)
        return np.concatenate([wide, near.astype(kind)])
    limits = np.finfo(kind)
    exponents = rng.uniform(np.log10(float(limits.tiny)) - 1, np.log10(float(limits.max)), count)
    parts = [rng.normal(size=count) * 10.0**exponents, rng.uniform(-5, 5, count)]
    parts.append(rng.normal(size=count) * 10.0 ** rng.uniform(-6, 3, count))
    with np.errstate(all="ignore"):
        return np.concatenate(parts).astype(kind)


def operands_for(primitive: Primitive, count: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(3)
    values = special_values(dtype)
    if count <= 2:
        grids = [grid.ravel() for grid in np.meshgrid(*[values] * count, indexing="ij")]
    else:
        grids = [rng.choice(values, 2000) for _ in range(count)]
    found = [np.concatenate([grid, random_values(dtype, 1500, rng)]) for grid in grids]
    if primitive.name in ("where", "keep"):
        mask = 0 if primitive.name == "where" else 1
        found[mask] = found[mask] != 0
    return found


def arity(primitive: Primitive) -> int | None:
    if primitive.vjp_rules is not None:
        return len(primitive.vjp_rules)
    code = getattr(primitive.forward, "__code__", None)
    return None if code is None else code.co_argcount - 1


def case_of(primitive: Primitive, dtype: str, params: dict[str, Any]) -> Case | None:
    """Return a case, None if the eager kernel refuses the dtype or there is no formula."""
    count = arity(primitive)
    if not count or (dtype[0] != "f" and primitive.name in INTEGERS_ARE_CAST):
        return None
    operands = operands_for(primitive, count, dtype)
    try:
        eager = np.asarray(primitive.kernel(np.ndarray)(*operands, **params))
        inputs = [array_input(i, x.dtype) for i, x in enumerate(operands)]
        outputs = traced(primitive.kernel(Expression), *inputs, **params)
    except (UntraceableError, TypeError, ValueError, OverflowError):
        return None
    shape = operands[0].shape
    if len(outputs) != 1 or outputs[0].dtype != eager.dtype:
        return None  # programs do not fuse it
    reads = tuple(LoopInput(shape, shape, x.dtype) for x in operands)
    loop = Loop(shape, reads, (LoopOutput(outputs[0], shape),))
    return Case(primitive, dtype, params, operands, eager, loop)


@pytest.fixture(scope="module")
def results() -> list[tuple[Case, Any]]:
    all_samples()  # loads all primitives
    known = [p for p in PRIMITIVES.values() if p.by_element]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [
            case
            for primitive in known
            for dtype in DTYPES
            for params in PARAMS.get(primitive.name, [{}])
            if (case := case_of(primitive, dtype, params)) is not None
        ]
    runs = CLoopCompiler().compile([case.loop for case in found])
    return [(c, run(c.operands, (None,))[0]) for c, run in zip(found, runs) if run is not None]


def shown(case: Case, result: Any, wrong: Any) -> list[str]:
    places = np.flatnonzero(wrong)[:3]
    return [
        f"{case}: {[x[i].item() for x in case.operands]} gives {result[i].item()!r}, "
        f"eager {case.eager[i].item()!r}"
        for i in places
    ]


def test_enough_primitives_are_compiled(results: list[tuple[Case, Any]]) -> None:
    names = {case.primitive.name for case, _ in results if case.dtype == "float64"}

    assert len(names) > 90
    assert names >= {"cbrt", "exp2", "floor_divide", "float_exponent", "fmod", "fraction"}
    assert names >= {"heaviside", "log_sigmoid", "logaddexp2", "pow", "remainder"}


def test_integers_and_truth_values_are_equal(results: list[tuple[Case, Any]]) -> None:
    faults = [
        line
        for case, result in results
        if case.eager.dtype.kind != "f"
        for line in shown(case, result, _differ(result, case.eager))
    ]

    assert not faults, "\n".join(faults)


def _differ(one: Any, other: Any) -> Any:
    """Where values differ; NaN is equal to NaN, also as a part of a complex number."""
    if other.dtype.kind != "c":
        return one != other
    parts = [(np.real(one), np.real(other)), (np.imag(one), np.imag(other))]
    return np.any([(a != b) & ~(np.isnan(a) & np.isnan(b)) for a, b in parts], axis=0)


def test_nan_infinities_and_signs_of_zero_are_equal(results: list[tuple[Case, Any]]) -> None:
    faults = []
    for case, result in results:
        if case.eager.dtype.kind == "f":
            eager = case.eager
            wrong = (np.isnan(eager) != np.isnan(result)) | (np.isinf(eager) != np.isinf(result))
            zeros = (eager == 0) & (result == 0)
            negative = np.signbit(eager)
            if case.primitive.name == "clip":
                negative = clip_is_negative(case.operands[0], **case.params)
            if case.primitive.name in EXTREMES and case.dtype[0] == "f":
                both_zero = (case.operands[0] == 0) & (case.operands[1] == 0)
                signs = [np.signbit(x) for x in case.operands]
                negative = np.where(both_zero, EXTREMES[case.primitive.name](*signs), negative)
            wrong |= zeros & (negative != np.signbit(result))
            faults += shown(case, result, wrong)

    assert not faults, "\n".join(faults)


def reference(case: Case) -> tuple[Any, float]:
    """Return the values in a wider precision, and by how many units they may be wrong."""
    wide = np.dtype(np.float64 if case.dtype == "float32" else np.longdouble)
    kernel = case.primitive.kernel(np.ndarray)
    operands = [x.astype(wide) if x.dtype.kind == "f" else x for x in case.operands]
    try:
        found = np.asarray(kernel(*operands, **case.params))
    except TypeError:  # a kernel of float32 and float64 only
        found = case.eager
    is_wider = found.dtype == wide and np.finfo(wide).nmant > np.finfo(case.dtype).nmant
    return (found, 0.0) if is_wider else (case.eager.astype(wide), UNITS[case.dtype])


EXPONENTIALS = {
    "erfc", "exp", "exp2", "exp_difference", "log1mexp", "log_sigmoid", "ndtr", "sigmoid",
    "softplus",
}  # fmt: skip
"""Primitives whose loops flush small results on x86-64: see test_small_results.py."""


def is_flushed(name: str, result: Any, eager: Any) -> Any:
    """Where a result below the least normal number became zero, as it may."""
    if name not in EXPONENTIALS or platform.machine() not in ("x86_64", "AMD64"):
        return np.zeros(eager.shape, bool)
    return (result == 0) & (abs(eager) < np.finfo(eager.dtype).tiny)


def test_numbers_are_as_accurate_as_documented(results: list[tuple[Case, Any]]) -> None:
    faults = []
    for case, result in results:
        if case.dtype not in UNITS or case.eager.dtype != np.dtype(case.dtype):
            continue
        name, dtype = case.primitive.name, np.dtype(case.dtype)
        with np.errstate(all="ignore"):
            true, further = reference(case)
            size = np.abs(case.eager)
            if name in TERMS:
                size = np.maximum(size, TERMS[name](*case.operands).astype(dtype))
            # Products of a number that is not normal are as inaccurate as it is.
            least = np.finfo(dtype).smallest_subnormal * _one_or(_largest(*case.operands))
            unit = np.maximum(np.spacing(size).astype(true.dtype), least)
            wide = result.astype(true.dtype)
            # The eager kernel rounds what it computes in between; a loop that does so is right.
            units = np.fmin(np.abs(wide - true), np.abs(wide - case.eager)) / unit
        most = (5.5 if name in FIVE else UNITS[case.dtype]) + further
        wrong = np.isfinite(case.eager) & np.isfinite(result) & (units > most)
        wrong &= ~is_flushed(name, result, case.eager)
        faults += shown(case, result, wrong)

    assert not faults, "\n".join(faults)


FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "floor_divide": (tnp.floor_divide, 2),
    "divmod": (tnp.divmod, 2),
    "fmod": (tnp.fmod, 2),
    "modf": (tnp.modf, 1),
    "frexp": (tnp.frexp, 1),
    "ldexp": (lambda x: tnp.ldexp(x, np.array(-1060)), 1),
    "heaviside": (tnp.heaviside, 2),
    "cbrt": (tnp.cbrt, 1),
    "log_sigmoid": (tf.math.log_sigmoid, 1),
    "float_power": (tnp.float_power, 2),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_eager_calls_at_special_values(name: str, dtype: str) -> None:
    function, count = FUNCTIONS[name]
    values = special_values(dtype)
    operands = [tf.constant(g.ravel()) for g in np.meshgrid(*[values] * count, indexing="ij")]

    with np.errstate(all="ignore"):
        eager, compiled = function(*operands), tf.function(function)(*operands)

    for one, other in zip(_listed(eager), _listed(compiled), strict=True):
        small = is_flushed(name, np.asarray(other), np.asarray(one))
        one = np.where(small, 0, one)
        np.testing.assert_allclose(other, one, rtol=8 * np.finfo(dtype).eps, atol=0)
        known = one == one
        np.testing.assert_array_equal(np.signbit(other[known]), np.signbit(one[known]))


def _listed(result: Any) -> list[Any]:
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("source", ["float32", "float64", "int64"])
def test_negative_numbers_become_unsigned_ones_as_in_eager_mode(source: str, dtype: str) -> None:
    x = tf.constant(np.array([-4.5, -1.0, 3.0, 250.0] * 8).astype(source))

    def function(x: Any) -> Any:
        return tf.cast(x, dtype) + tf.cast(1, dtype)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        np.testing.assert_array_equal(tf.function(function)(x), function(x))
