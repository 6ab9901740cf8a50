"""Elementwise functions where a table of samples cannot say it: ties, kinks, dtypes, messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.errors import ArgumentError, MissingRuleError, ShapeError
from tapegrad.ops.control import stop_gradient
from tapegrad.ops.elementwise import (
    activations,
    bessel,
    comparison,
    complex_numbers,
    exponential,
    magnitude,
    no_nan,
    powers,
    rounding,
    selection,
    sigmoids,
    special_functions as special,
    trigonometric,
)
from tapegrad.ops.reduction import sums


def gradients(function: Callable[..., Any], *values: Any) -> list[Any]:
    """Gradients of the sum of a function at float32 (or complex) values, as lists."""
    sources = [tapegrad.constant(value) for value in values]
    with tapegrad.GradientTape() as tape:
        tape.watch(sources)
        target = function(*sources)
    return [None if g is None else g.numpy().tolist() for g in tape.gradient(target, sources)]


def second_gradient(function: Callable[..., Any], value: Any) -> Any:
    x = tapegrad.constant(value)
    with tapegrad.GradientTape() as outer:
        outer.watch(x)
        with tapegrad.GradientTape() as inner:
            inner.watch(x)
            target = function(x)
        first = inner.gradient(target, x)
    return outer.gradient(first, x).numpy().tolist()


def third_gradient(function: Callable[..., Any], value: Any) -> Any:
    return second_gradient(lambda x: _slope(function, x), value)


def _slope(function: Callable[..., Any], x: Any) -> Any:
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        target = function(x)
    return tape.gradient(target, x)


AT_AWKWARD_POINTS: list[tuple[str, Callable[..., Any], list[Any], list[Any]]] = [
    ("relu at 0", activations.relu, [[0.0]], [[0.0]]),
    ("relu6 at its ends", activations.relu6, [[0.0, 6.0]], [[0.0, 0.0]]),
    ("abs at 0", magnitude.abs, [[0.0]], [[0.0]]),
    ("complex abs at 0", magnitude.abs, [[0j]], [[0j]]),
    ("sign is zero, not None", magnitude.sign, [[2.0]], [[0.0]]),
    ("maximum on a tie", selection.maximum, [[1.0], [1.0]], [[1.0], [0.0]]),
    ("minimum on a tie", selection.minimum, [[1.0], [1.0]], [[1.0], [0.0]]),
    (
        "fmax beside NaN",
        selection.fmax,
        [[1.0, math.nan], [math.nan, 1.0]],
        [[1.0, 0.0], [0.0, 1.0]],
    ),
    (
        "clip on its bounds",
        lambda x: selection.clip(x, 0.0, 1.0),
        [[0.0, 1.0, 2.0]],
        [[1.0, 1.0, 0.0]],
    ),
    ("floormod", rounding.mod, [[5.0], [-3.0]], [[1.0], [2.0]]),
    ("truncatemod", rounding.fmod, [[5.0], [-3.0]], [[1.0], [1.0]]),
    (
        "pow by the exponent, base not positive",
        powers.power,
        [[0.0, -2.0], [2.0, 2.0]],
        [[0.0, -4.0], [0.0, 0.0]],
    ),
    ("0**0", powers.power, [[0.0], [0.0]], [[0.0], [0.0]]),
    ("0**1", powers.power, [[0.0], [1.0]], [[1.0], [0.0]]),
    ("x**0 as a number", lambda x: x**0, [[0.0]], [[0.0]]),
    ("x**1 as a number", lambda x: x**1.0, [[0.0]], [[1.0]]),
    ("hypot at the origin", powers.hypot, [[0.0], [0.0]], [[0.0], [0.0]]),
    ("atan2 at the origin", trigonometric.atan2, [[0.0], [0.0]], [[0.0], [0.0]]),
    ("divide_no_nan by 0", no_nan.divide_no_nan, [[1.0], [0.0]], [[0.0], [0.0]]),
    ("multiply_no_nan by 0", no_nan.multiply_no_nan, [[2.0], [0.0]], [[0.0], [2.0]]),
    ("xlogy at x = 0", exponential.xlogy, [[0.0], [math.e]], [[1.0], [0.0]]),
    (
        "xlogy at x = y = 0, by y",
        lambda y: exponential.xlogy(tapegrad.constant([0.0]), y),
        [[0.0]],
        [[0.0]],
    ),
    ("xlog1py at x = 0", exponential.xlog1py, [[0.0], [0.0]], [[0.0], [0.0]]),
    ("xdivy at x = 0", no_nan.xdivy, [[0.0], [2.0]], [[0.5], [0.0]]),
    ("logaddexp of nothing", exponential.logaddexp, [[-math.inf], [-math.inf]], [[0.0], [0.0]]),
    ("bessel_i1 at 0", bessel.bessel_i1, [[0.0]], [[0.5]]),
    ("bessel_i1e at 0", bessel.bessel_i1e, [[0.0]], [[0.5]]),
    ("igamma at (1, 0)", lambda x: special.igamma(1.0, x), [[0.0]], [[1.0]]),
    ("copysign", magnitude.copysign, [[2.0, 2.0], [-1.0, 1.0]], [[-1.0, 1.0], None]),
    ("cbrt of a negative number", powers.cbrt, [[-8.0]], [[np.float32(1 / 12).item()]]),
]


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [row[1:] for row in AT_AWKWARD_POINTS],
    ids=[row[0] for row in AT_AWKWARD_POINTS],
)
def test_gradients_at_awkward_points(
    function: Callable[..., Any], values: list[Any], expected: list[Any]
) -> None:
    found = gradients(function, *values)

    assert len(found) == len(expected)
    for result, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert result is None
        else:
            np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [powers.sqrt, exponential.log, powers.rsqrt, powers.reciprocal, lambda x: x**0.25],
    ids=["sqrt", "log", "rsqrt", "reciprocal", "power"],
)
def test_nothing_leaks_from_the_branch_that_where_did_not_choose(
    function: Callable[[Any], Any],
) -> None:
    def guarded(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return selection.where(x > 0, function(x), 0.0)

    assert np.isfinite(gradients(guarded, [0.0, 1.0])[0]).all()
    assert second_gradient(guarded, [0.0, 1.0])[0] == 0.0


def test_where_drops_infinite_cotangents_of_the_other_branch() -> None:
    x = tapegrad.constant([1.0, 2.0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = selection.where([True, False], x, 3.0)

    gradient = tape.gradient(y, x, output_gradients=tapegrad.constant([1.0, math.inf]))

    assert gradient.numpy().tolist() == [1.0, 0.0]


def test_sqrt_at_zero_has_an_infinite_slope() -> None:
    with np.errstate(divide="ignore"):
        assert gradients(powers.sqrt, [0.0]) == [[math.inf]]


@pytest.mark.parametrize(
    "function",
    [
        rounding.floor,
        rounding.ceil,
        rounding.round,
        rounding.rint,
        rounding.trunc,
        stop_gradient.stop_gradient,
        lambda x: x // 2,
        lambda x: rounding.truncatediv(x, 2.0),
        comparison.isnan,
    ],
)
def test_functions_without_a_derivative_give_none(function: Callable[[Any], Any]) -> None:
    assert gradients(function, [1.5]) == [None]


def test_softsign_and_sinc_are_right_at_second_and_third_order() -> None:
    assert second_gradient(sigmoids.softsign, [1.0])[0] == pytest.approx(-0.25)
    assert second_gradient(trigonometric.sinc, [0.0])[0] == pytest.approx(-(math.pi**2) / 3)
    assert third_gradient(lambda x: x * trigonometric.sinc(x), [0.0])[0] == pytest.approx(
        -(math.pi**2), rel=1e-5
    )


def test_power_by_exponent_zero_is_right_at_second_order() -> None:
    x, y = tapegrad.constant(2.0), tapegrad.constant(0.0)
    with tapegrad.GradientTape() as outer:
        outer.watch([x, y])
        with tapegrad.GradientTape() as inner:
            inner.watch([x, y])
            z = powers.power(x, y)
        by_x = inner.gradient(z, x)

    assert float(outer.gradient(by_x, y)) == pytest.approx(0.5)


@pytest.mark.parametrize("exponent", [2, 2.0, 3, 0.5, -1])
def test_powers_by_a_number_keep_single_precision(exponent: float) -> None:
    assert (tapegrad.constant([4.0]) ** exponent).dtype == "float32"


def test_powers_of_integers_follow_numpy() -> None:
    n = tapegrad.constant([2, 3])

    assert (n**2).dtype == "int32"
    assert (n**2.0).dtype == "float64"
    with pytest.raises(ArgumentError, match="negative integer powers"):
        n**-1


def test_comparison_with_what_is_no_tensor_is_false() -> None:
    x = tapegrad.constant([1.0, 2.0])

    assert (x == None) is False  # noqa: E711  # the operator is what is tested
    assert (x != None) is True  # noqa: E711
    assert (x != "text") is True
    assert (x == [1.0, 3.0]).numpy().tolist() == [True, False]
    assert (1.5 < x).numpy().tolist() == [False, True]  # noqa: SIM300  # the swap is tested


def test_operators_on_truth_values_are_logical() -> None:
    a, b = tapegrad.constant([True, True]), tapegrad.constant([True, False])

    assert (a & b).numpy().tolist() == [True, False]
    assert (a ^ b).numpy().tolist() == [False, True]
    assert (~b | (False & a)).numpy().tolist() == [False, True]


def test_integer_operators_follow_python() -> None:
    n = tapegrad.constant([7, -7])

    assert (n // 2).numpy().tolist() == [3, -4]
    assert (n % 4).numpy().tolist() == [3, 1]
    assert (n << 1).numpy().tolist() == [14, -14]
    assert (10 - abs(n)).numpy().tolist() == [3, 3]
    assert rounding.truncatediv(n, 2).numpy().tolist() == [3, -3]


def test_round_builtin_rounds_half_to_even() -> None:
    assert round(tapegrad.constant([0.5, 1.5])).numpy().tolist() == [0.0, 2.0]
    assert round(tapegrad.constant([1.256], "float64"), 2).numpy().tolist() == [1.26]


def test_where_with_two_numbers_is_single_precision() -> None:
    condition = tapegrad.constant([True, False])

    assert selection.where(condition, 1.0, 0).dtype == "float32"
    assert selection.where(condition, [1, 2], tapegrad.constant([0.5, 0.5])).dtype == "float32"


def test_clip_refuses_bounds_that_widen_the_tensor() -> None:
    with pytest.raises(ShapeError, match=r"bounds of clip must broadcast to .* \(3,\)"):
        selection.clip_by_value(tapegrad.constant([1.0, 2.0, 3.0]), np.zeros((2, 3), "f"), 1.0)


def test_add_n_refuses_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="tensors of equal shape"):
        sums.add_n([[1.0], [1.0, 2.0]])
    with pytest.raises(ArgumentError, match="at least one"):
        sums.add_n([])


def test_missing_derivatives_of_special_functions_say_so_only_when_asked() -> None:
    a, x = tapegrad.constant(2.0), tapegrad.constant(1.0)
    with tapegrad.GradientTape(persistent=True) as tape:
        tape.watch([a, x])
        y = special.betainc(a, 3.0, x * 0.5)

    assert float(tape.gradient(y, x)) > 0
    with pytest.raises(MissingRuleError, match="betainc with respect to a is not implemented"):
        tape.gradient(y, a)


def test_real_parts_of_complex_loss_give_steepest_ascent() -> None:
    found = gradients(lambda z: complex_numbers.real(z) ** 2, [3 + 4j])

    assert found == [[6 + 0j]]


def test_activations_far_out_are_finite_and_silent() -> None:
    x = tapegrad.constant([-1e4, 1e4])

    for function in (
        sigmoids.sigmoid,
        sigmoids.softplus,
        sigmoids.silu,
        sigmoids.mish,
        activations.elu,
        activations.selu,
        sigmoids.gelu,
        sigmoids.log_sigmoid,
    ):
        with tapegrad.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        assert np.isfinite(y.numpy()).all()
        assert np.isfinite(tape.gradient(y, x).numpy()).all()


def test_identity_is_a_new_tensor_with_its_own_gradient() -> None:
    x = tapegrad.constant([1.0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        copy = stop_gradient.identity(x)
        y = copy * 3.0

    assert copy is not x
    assert [g.numpy().tolist() for g in tape.gradient(y, [x, copy])] == [[3.0], [3.0]]


def test_glu_needs_an_even_length() -> None:
    with pytest.raises(ShapeError, match=r"even length along axis 0\. Got 3"):
        activations.glu([1.0, 2.0, 3.0])
