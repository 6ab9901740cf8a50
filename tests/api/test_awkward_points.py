"""Conventions at singular points, and TensorFlow's known mistakes there."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tf


def gradient_of(function, *values):
    """Gradients of a function of float64 values by each of them."""
    inputs = [tf.constant(np.asarray(value, "float64")) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
    gradients = tape.gradient(y, inputs)
    plain = [g if g is None else g.numpy().tolist() for g in gradients]
    return plain[0] if len(values) == 1 else plain


def second_of(function, value):
    """The second derivative of a function at a float64 value."""
    x = tf.constant(np.asarray(value, "float64"))
    return float(tf.grad(tf.grad(function))(x))


POINTS = {
    "relu at 0": (lambda x: tf.nn.relu(x), 0.0, 0.0),
    "selu at 0": (lambda x: tf.nn.selu(x), 0.0, pytest.approx(1.0507009873554805)),
    "abs at 0": (lambda x: tf.abs(x), 0.0, 0.0),
    "sign is flat": (lambda x: tf.sign(x), 2.0, 0.0),
    "sqrt at 0": (lambda x: tf.sqrt(x), 0.0, math.inf),
    "norm at 0": (lambda x: tf.norm(x), [0.0, 0.0], [0.0, 0.0]),
    "euclidean norm at 0": (lambda x: tf.math.reduce_euclidean_norm(x), [0.0, 0.0], [0.0, 0.0]),
    "reduce_mean of nothing": (lambda x: tf.reduce_mean(x), [], []),
    "bessel_i1 at 0": (lambda x: tf.math.bessel_i1(x), 0.0, 0.5),
}


@pytest.mark.parametrize(("function", "value", "expected"), POINTS.values(), ids=POINTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradient_at_the_point(function, value, expected):
    assert gradient_of(function, value) == expected


NO_DERIVATIVE = {
    "floor": lambda x: tf.floor(x),
    "ceil": lambda x: tf.math.ceil(x),
    "round": lambda x: tf.round(x),
    "rint": lambda x: tf.math.rint(x),
    "floordiv": lambda x: x // 2.0,
    "truncatediv": lambda x: tf.truncatediv(x, 2.0),
    "argmax": lambda x: tf.argmax(x),
    "argmin": lambda x: tf.argmin(x),
    "comparison": lambda x: x > 1.0,
    "logical": lambda x: tf.logical_not(x > 1.0),
    "shape": lambda x: tf.shape(x),
    "size": lambda x: tf.size(x),
    "rank": lambda x: tf.rank(x),
    "one_hot": lambda x: tf.one_hot(tf.cast(x, "int32"), 3),
    "zeros_like": lambda x: tf.zeros_like(x),
    "ones_like": lambda x: tf.ones_like(x),
}


@pytest.mark.parametrize("function", NO_DERIVATIVE.values(), ids=NO_DERIVATIVE)
def test_functions_without_derivative_give_none(function):
    assert gradient_of(function, [1.5, 2.5]) is None


@pytest.mark.parametrize("function", [tf.maximum, tf.minimum], ids=["maximum", "minimum"])
def test_ties_of_two_arguments_go_to_the_first(function):
    assert gradient_of(function, 2.0, 2.0) == [1.0, 0.0]


@pytest.mark.parametrize("function", [tf.reduce_max, tf.reduce_min], ids=["max", "min"])
def test_ties_in_a_reduction_are_shared_equally(function):
    assert gradient_of(function, [2.0, 2.0]) == [0.5, 0.5]


def test_floormod_has_the_quotient_as_factor_of_the_divisor():
    assert gradient_of(tf.math.floormod, 7.5, 2.0) == [1.0, -3.0]


@pytest.mark.parametrize("base", [0.0, -2.0])
def test_pow_by_the_exponent_is_zero_for_bases_that_have_no_logarithm(base):
    assert gradient_of(tf.pow, base, 2.0)[1] == 0.0


def test_pow_with_a_constant_exponent_at_zero():
    assert gradient_of(lambda x: x**2, 0.0) == 0.0
    assert gradient_of(lambda x: x**1, 0.0) == 1.0
    assert gradient_of(lambda x: x**0, 0.0) == 0.0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_pow_with_a_constant_exponent_has_every_order_at_zero(order):
    function = lambda x: x**3  # noqa: E731
    for _ in range(order):
        function = tf.grad(function)

    assert float(function(0.0)) == (0.0 if order < 3 else 6.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_does_not_leak_from_the_branch_that_was_not_chosen():
    assert gradient_of(lambda x: tf.where(x > 0, tf.sqrt(x), 0.0), [0.0, 4.0]) == [0.0, 0.25]


def test_double_where_is_the_remedy_for_infinite_derivatives():
    def safe(x):
        inside = tf.where(x != 0, x, 1.0)
        return tf.where(x != 0, 1.0 / inside, 0.0)

    assert gradient_of(safe, [0.0, 2.0]) == [0.0, -0.25]


ZERO_SAFE = {
    "div_no_nan": (lambda a, b: tf.math.divide_no_nan(a, b), (3.0, 0.0), [0.0, 0.0]),
    "multiply_no_nan": (lambda a, b: tf.math.multiply_no_nan(a, b), (3.0, 0.0), [0.0, 3.0]),
    "xlogy at x = 0": (lambda a, b: tf.math.xlogy(a, b), (0.0, 2.0), [math.log(2.0), 0.0]),
    "xlog1py at x = 0": (lambda a, b: tf.math.xlog1py(a, b), (0.0, 1.0), [math.log(2.0), 0.0]),
    "xdivy at x = 0": (lambda a, b: tf.math.xdivy(a, b), (0.0, 2.0), [0.5, 0.0]),
}


@pytest.mark.parametrize(("function", "values", "expected"), ZERO_SAFE.values(), ids=ZERO_SAFE)
def test_zero_safe_functions_have_consistent_rules(function, values, expected):
    assert gradient_of(function, *values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        ([2.0, 4.0, 3.0], [12.0, 6.0, 8.0]),
    ],
)
def test_reduce_prod_is_right_with_zeros(values, expected):
    assert gradient_of(tf.reduce_prod, values) == expected


def test_cumprod_is_right_with_zeros():
    assert gradient_of(tf.math.cumprod, [2.0, 0.0, 3.0]) == [1.0, 8.0, 0.0]


def test_clip_by_norm_of_zeros_is_safe():
    assert gradient_of(lambda x: tf.clip_by_norm(x, 1.0), [0.0, 0.0]) == [1.0, 1.0]


def test_clip_by_norm_with_an_infinite_limit_is_the_identity():
    assert gradient_of(lambda x: tf.clip_by_norm(x, math.inf), [3.0, 4.0]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: tf.nn.softsign(x), lambda x: -2.0 / (1.0 + x) ** 3),
        (lambda x: tf.nn.softplus(x), lambda x: math.exp(-x) / (1.0 + math.exp(-x)) ** 2),
        (lambda x: tf.nn.elu(-x), lambda x: math.exp(-x)),
    ],
    ids=["softsign", "softplus", "elu"],
)
def test_second_order_is_right_where_tensorflow_is_not(function, derivative):
    assert second_of(function, 0.75) == pytest.approx(derivative(0.75))


def softmax_loss(logits):
    return tf.nn.softmax_cross_entropy_with_logits([0.0, 1.0], logits)


def test_softmax_cross_entropy_has_a_second_order():
    hessian = tf.hessian(softmax_loss)(tf.constant(np.array([1.0, 2.0])))
    p = 1.0 / (1.0 + math.exp(1.0))

    np.testing.assert_allclose(hessian.numpy(), p * (1 - p) * np.array([[1, -1], [-1, 1]]))


def test_softmax_cross_entropy_by_its_labels():
    logits = np.array([1.0, 2.0])
    gradient = gradient_of(
        lambda labels: tf.nn.softmax_cross_entropy_with_logits(labels, logits), [0.0, 1.0]
    )

    np.testing.assert_allclose(gradient, np.log(np.exp(logits).sum()) - logits)


def test_the_variance_of_moments_has_a_second_order():
    hessian = tf.hessian(lambda x: tf.nn.moments(x, [0])[1])(tf.constant(np.array([1.0, 4.0])))

    np.testing.assert_allclose(hessian.numpy(), [[0.5, -0.5], [-0.5, 0.5]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.math.xlogy(tf.constant([1.0, 2.0]), x),
        lambda x: tf.special.igamma(tf.constant([0.5, 0.5]), x),
        lambda x: tf.special.betainc(*[tf.constant([0.5, 0.5])] * 2, x),
    ],
    ids=["xlogy", "igamma", "betainc"],
)
def test_what_is_not_asked_for_at_an_edge_of_infinite_slope_has_no_gradient(function):
    x = tf.constant([0.0, 0.5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)[1]

    first, second = tape.gradient(y, x).numpy()

    assert first == 0
    assert second > 0


@pytest.mark.parametrize("x", [-1e3, -40.0, -1.0, 3.0])
def test_the_slope_of_log_ndtr_far_out_has_all_digits(x):
    # By the continued fraction of Mills' ratio; far out it is |x| + 1/|x|.
    point = tf.constant(x, dtype="float32")
    with tf.GradientTape() as tape:
        tape.watch(point)
        y = tf.special.log_ndtr(point)

    expected = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    expected = abs(x) + 1 / abs(x) if x < -10 else expected / (0.5 * math.erfc(-x / math.sqrt(2)))
    assert float(tape.gradient(y, point)) == pytest.approx(expected, rel=2e-6)


CUTS = {
    "asin": [2.0, -2.0],
    "acos": [2.0, -2.0],
    "acosh": [0.5, -0.5, -2.0],
    "atanh": [2.0, -2.0],
    "asinh": [2.0j, -2.0j],
    "atan": [2.0j, -2.0j],
    "sqrt": [-2.0],
    "rsqrt": [-2.0],
    "log": [-2.0],
    "log1p": [-2.0],
}
CUT_FUNCTIONS = {name: getattr(tf.math, name) for name in CUTS} | {
    "power": lambda z: z**0.3,
    "power of a tensor": lambda z: tf.pow(z, tf.constant(0.3 + 0.2j, dtype="complex128")),
}
SIDES = [
    pytest.param(name, complex(point), side, id=f"{name} at {point} from {side:+.0f}")
    for name in CUT_FUNCTIONS
    for point in CUTS.get(name, [-2.0])
    for side in (1.0, -1.0)
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "point", "side"), SIDES)
def test_slopes_on_a_branch_cut_are_those_of_the_side_that_the_signed_zero_names(
    name, point, side, compiled
):
    function = CUT_FUNCTIONS[name]
    if point.imag:
        z, step = complex(math.copysign(0.0, side), point.imag), side * 1e-5
    else:
        z, step = complex(point.real, math.copysign(0.0, side)), side * 1e-5j
    slope = tf.grad(lambda x: tf.math.real(function(x)))
    slope = tf.function(slope) if compiled else slope

    found = np.conj(complex(slope(tf.constant(np.complex128(z))).numpy()))

    # One-sided differences of second order, of points away from the cut.
    y = [complex(function(tf.constant(np.complex128(z + k * step))).numpy()) for k in (1, 2, 3)]
    wanted = (8 * y[1] - 5 * y[0] - 3 * y[2]) / (2 * step)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-8)


def test_the_second_slope_of_log_ndtr_is_exact_in_both_tails():
    x = tf.constant([-300.0, -3.0, 0.0, 5.0, 30.0, 40.0, 1e4], "float64")
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.math.special.log_ndtr(x)
        slope = inner.gradient(y, x)

    values = slope.numpy()
    # The slope is the density over ndtr, and so a solution of s' = -s (x + s).
    expected = -values * (x.numpy() + values)
    np.testing.assert_allclose(outer.gradient(slope, x).numpy(), expected, rtol=1e-9)
