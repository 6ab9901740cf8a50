"""Elementary functions of loops in C, against exact values and at special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.core.trace.expression_namespace  # what formulas are written with
from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.compile import make_all

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

XP = EXPRESSIONS.xp
F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


@pytest.fixture(autouse=True, scope="module")
def _folder_for_this_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAPEGRAD_CACHE", str(tmp_path_factory.mktemp("maths") / "cache"))
        yield


def ndtr(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


# Per function: an independent reference in double, and the ranges to sample densely.
FUNCTIONS: dict[str, tuple[Callable[[float], float], tuple[float, float]]] = {
    "exp": (math.exp, (-104, 88.5)),
    "expm1": (math.expm1, (-20, 88.5)),
    "tanh": (math.tanh, (-12, 12)),
    "log": (math.log, (1e-3, 5)),
    "log1p": (math.log1p, (-0.999, 5)),
    "sin": (math.sin, (-50, 50)),
    "cos": (math.cos, (-50, 50)),
    "erf": (math.erf, (-5, 5)),
    "erfc": (math.erfc, (-5, 10)),
    "ndtr": (ndtr, (-8, 8)),
    "sqrt": (math.sqrt, (0, 100)),
    "sinh": (math.sinh, (-88.5, 88.5)),
    "cosh": (math.cosh, (-88.5, 88.5)),
    "asinh": (math.asinh, (-20, 20)),
    "acosh": (math.acosh, (1, 20)),
    "atanh": (math.atanh, (-1, 1)),
}


def computed(name: str, *arrays: Any) -> Any:
    inputs = [array_input(i, array.dtype) for i, array in enumerate(arrays)]
    given = tuple(LoopInput(array.shape, array.shape, array.dtype) for array in arrays)
    output = LoopOutput(getattr(XP, name)(*inputs), arrays[0].shape)
    (function,) = make_all([Loop(arrays[0].shape, given, (output,))])
    return function(arrays, (None,))[0]


def exact(function: Callable[[float], float], values: Any) -> Any:
    def at(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:  # outside of the domain
            return math.nan

    return np.array([at(float(x)) for x in values])


def units_off(result: Any, true: Any) -> Any:
    """The distance in units in the last place of the true value."""
    with np.errstate(over="ignore"):
        unit = np.spacing(np.abs(true.astype(result.dtype)))
    return np.abs(result.astype(F8) - true) / unit


def samples(name: str, dtype: Any) -> Any:
    rng = np.random.default_rng(5)
    low, high = FUNCTIONS[name][1]
    near = rng.uniform(low, high, 20_001)
    tiny = rng.normal(size=4000) * 10.0 ** rng.integers(-30, 0, 4000)
    tiny = np.abs(tiny) if name in ("acosh", "log", "sqrt") else tiny
    tiny = tiny / 10 if name == "atanh" else tiny + (name == "acosh")
    return np.concatenate([near, tiny]).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_single_precision_is_exact_to_two_units_or_so(name: str) -> None:
    values = samples(name, F4)

    result = computed(name, values)

    # The tails of the normal distribution are a product of two rounded numbers.
    most = 4.5 if name in ("erfc", "ndtr") else 2.5
    assert units_off(result, exact(FUNCTIONS[name][0], values)).max() < most


@pytest.mark.parametrize("name", FUNCTIONS)
def test_double_precision_is_exact_to_four_units(name: str) -> None:
    values = samples(name, F8)

    result = computed(name, values)

    # Python's value is itself off by up to 1 unit; that of ndtr by the rounding of x / sqrt(2).
    allowed = 5 + (2 * values**2 if name == "ndtr" else 0)
    assert (units_off(result, exact(FUNCTIONS[name][0], values)) < allowed).all()


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", ["asinh", "acosh"])
def test_inverse_hyperbolic_functions_of_large_arguments(name: str, dtype: Any) -> None:
    """Where squares overflow, and where the formula changes."""
    values = np.logspace(1, np.finfo(dtype).maxexp * 0.3, 20_001).astype(dtype)

    result = computed(name, values)

    assert units_off(result, exact(FUNCTIONS[name][0], values)).max() < 2.5


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_overflow_later_than_the_exponential(name: str, dtype: Any) -> None:
    last = np.arccosh(np.longdouble(np.finfo(dtype).max)).astype(dtype)
    values = np.array([last * (1 - 1e-6), -last * (1 - 1e-6), last * (1 + 1e-6), 1e30], dtype)

    result = computed(name, values)

    sign = -1 if name == "sinh" else 1
    assert np.isfinite(result[:2]).all()
    assert (result[0] > np.finfo(dtype).max / 2) & (result[1] == sign * result[0])
    assert (result[2:] == np.inf).all()


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_edges_are_right(name: str, dtype: Any) -> None:
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny]
    least = float(info.smallest_subnormal)
    values = np.array([*edges, least, -least, 100 * least, -info.tiny], dtype)

    result = computed(name, values)

    with np.errstate(all="ignore"):
        plain = getattr(np, name, None)
        true = plain(values) if plain else exact(FUNCTIONS[name][0], values).astype(dtype)
    np.testing.assert_allclose(result, true, rtol=4 * info.eps, atol=0)
    known = true == true
    np.testing.assert_array_equal(np.signbit(result)[known], np.signbit(true)[known])


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
def test_overflow_and_underflow_of_exp_come_where_they_should(dtype: Any) -> None:
    top, bottom = (88.72283, -103.97208) if dtype == F4 else (709.782712893384, -745.13321910194)
    values = np.array([top, top + 0.01, bottom, bottom - 0.01], dtype)

    result = computed("exp", values)

    assert np.isfinite(result[0])
    assert result[1] == np.inf
    assert result[2] > 0
    assert result[3] == 0


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles_are_reduced_exactly(name: str, dtype: Any) -> None:
    values = np.array([0.5, 355.0, 69_999.0, 1e5, 999_999.0, 1e6 + 1, 3e7, 1e22, 3e38], dtype)

    result = computed(name, values)

    assert units_off(result, exact(FUNCTIONS[name][0], values)).max() < 2.5


def test_powers_are_right_wherever_they_are_defined() -> None:
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
    ]
    rng = np.random.default_rng(2)
    base, exponent = (grid.ravel() for grid in np.meshgrid(special, special))
    base = np.concatenate([base, np.exp(rng.uniform(-60, 60, 20_000))]).astype(F4)
    exponent = np.concatenate([exponent, rng.uniform(-8, 8, 20_000)]).astype(F4)

    result = computed("pow", base, exponent)

    with np.errstate(all="ignore"):
        true = np.power(base.astype(F8), exponent.astype(F8))
        rounded = true.astype(F4)
        close = units_off(result, true) < 1
    assert (close | (result == rounded) | ((result != result) & (rounded != rounded))).all()


@pytest.mark.parametrize(
    ("a", "b"), [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0), (6.0, -3.0), (-6.0, 3.0)]
)
def test_remainders_have_the_sign_of_the_divisor(a: float, b: float) -> None:
    result = computed("remainder", np.array([a]), np.array([b]))

    assert result.tolist() == [a % b]
    assert np.signbit(result[0]) == np.signbit(np.remainder(a, b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32"])
def test_integers_are_divided_by_numbers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, *range(20), limits.max], dtype)
    x = x if dtype[0] == "u" else np.concatenate([x, -x[2:]])
    for number in (1, 2, 7, 100, -2, -3, -100):
        if number > 0 or dtype[0] == "i":
            found = tf.function(lambda x, n=number: (x // n, x % n), wait=True)(tf.constant(x))
            for one, expected in zip(found, (x // number, x % number), strict=True):
                np.testing.assert_array_equal(one, expected)
                assert one.dtype == dtype


def test_integers_are_divided_in_loops_unless_that_may_end_the_process() -> None:
    x = tf.constant(np.array([np.iinfo("int32").min, 3], "int32"))

    @tf.function(wait=True)
    def safe(x: Any) -> Any:
        return (x // 7 + 1) % 5

    @tf.function(wait=True)
    def unsafe(x: Any) -> Any:
        return (x + 0) // -1, x % tf.reduce_sum(x * 0)

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(safe(x), (x.numpy() // 7 + 1) % 5)
        np.testing.assert_array_equal(unsafe(x)[0], x.numpy() // -1)
        np.testing.assert_array_equal(unsafe(x)[1], [0, 0])
    assert not any(hasattr(step, "primitive") for step in safe.program(x).steps)
    names = [step.primitive.name for step in unsafe.program(x).steps if hasattr(step, "primitive")]
    assert {"floor_divide", "remainder"} <= {*names}


def test_the_logarithm_of_a_sum_does_not_overflow() -> None:
    a = np.array([1000.0, -1000.0, 0.0, np.inf, -np.inf, np.inf, np.nan, 3.0])
    b = np.array([1000.0, -1001.0, 5.0, np.inf, -np.inf, -np.inf, 1.0, -40.0])

    result = computed("logaddexp", a, b)

    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(a, b)
    np.testing.assert_allclose(result, expected, rtol=1e-15)
