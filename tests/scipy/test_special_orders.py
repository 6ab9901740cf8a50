"""Bessel functions of real order and hypergeometric functions: values, slopes and edges.

Numbers named REFERENCE were computed with 35 digits; SciPy's own are poorer at some of the points.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.scipy import special

inf, nan = np.inf, np.nan

REFERENCE = {
    "order": [0.3, 0.75, 1.5, 2.25, 2.25, 10.5, 10.5, 33.25, 60.5, 250.5, 250.5],
    "x": [0.001, 0.4, 2e-09, 1e-06, 7.5, 3.0, 10.5, 40.0, 900.0, 240.0, 260.0],
    "jv": [
        0.11393853750601629,
        0.31802342785209958,
        2.3788321548703617e-14,
        2.6077676585652473e-15,
        -0.27877071865694806,
        4.8728548644208113e-6,
        0.20414763307065314,
        -0.042602855272498988,
        -0.010295318344240909,
        0.0058011415520082651,
        0.059390089980774614,
    ],
    "yv": [
        -9.2295409955848664,
        -1.4169140518635676,
        -8920620580763.8548,
        -54249871556418.392,
        -0.10456865573674393,
        -6495.0954122937292,
        -0.35399759560241108,
        0.16301161367245737,
        0.024555350844321183,
        -0.78002668603480958,
        0.073856906435429456,
    ],
    "ive": [
        0.11382469969751625,
        0.22314926167125756,
        2.3788321501126974e-14,
        2.6077650507992938e-15,
        0.10345148328582366,
        3.5881209093155613e-7,
        0.00076785173638996791,
        1.0754542466385238e-7,
        0.0017400647033758194,
        3.5419716850560387e-55,
        1.4282391599563086e-51,
    ],
    "kve": [
        14.420961282245524,
        2.4499744937123288,
        14012478069019.777,
        85215584185424.443,
        0.61791200823275473,
        127570.13092543529,
        43.833284731256848,
        89379.289951109622,
        0.31855404327659112,
        4.069125400628773e51,
        9.6964515035991491e47,
    ],
}

# Derivatives by the order.
BY_ORDER = {
    "order": [0.0, 0.3, 1.0, 2.25, -1.7, 3.0, 8.5],
    "x": [2.0, 0.2, 0.3, 7.5, 3.0, 40.0, 4.0],
    "jv": [
        0.80169623188369422,
        -1.1789437062869931,
        -0.34324697320755088,
        -0.13863630868847862,
        -0.89696811770432631,
        -0.010333439104259284,
        -0.0028775362239744093,
    ],
    "yv": [
        -0.35168681347830045,
        -1.2304675162349509,
        -2.923890577811424,
        0.35169424607445224,
        -0.55150875347735871,
        0.18867487231986433,
        -28.126769790275242,
    ],
    "iv": [
        -0.11389387274953344,
        -1.20388152650863,
        -0.35276423104799832,
        -59.258534482267074,
        1.6846289111408522,
        -1008664485131224.8,
        -0.0070934907891348756,
    ],
    "kv": [
        0.0,
        1.2600745035649227,
        4.5748668684809915,
        9.5450132689218849e-5,
        -0.025327333411877024,
        6.9424217980643776e-20,
        16.81784594151781,
    ],
}

HYP1F1 = [
    (0.5, 1.75, -300.0, 0.058516994607073812),
    (2.5, 9.0, 650.0, 3.0395975954204739e268),
    (80.5, 200.25, -30.0, 9.79232828164759e-6),
    (0.51, 5.91, -0.17, 0.98559761955923611),
    (-3.3, 2.2, 40.0, 1836854284.6869568),
    (17.5, 7.5, 200.0, 3.5174144942579523e99),
    (-5.0, 2.5, 6.0, -0.31628371628371628),
    (0.1, 2.0, -50.0, 0.70185976369084627),
]
HYP2F1 = [
    (7.5, 9.5, 19.5, -2.25, 0.0063585009105320881),
    (-2.25, 9.0, 18.5, -3.25, 8.6851575170997071),
    (0.5, 0.5, 1.0, 0.999999, 5.2801571547627131),
    (1.5, 2.5, 1.0, 0.95, 13325.043783481947),
    (0.5, 0.5, 0.125, 0.95, 33.515074028761213),
    (-0.5, -0.75, 0.375, -50.0, -32.672332633482123),
    (-4.0, 2.5, 1.5, 3.0, 80.0),
    (20.5, 3.5, 30.0, 0.99, 98.512459462087007),
]


def gradients(function, *args):
    tensors = [tf.constant(np.asarray(arg, np.float64)) for arg in args]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return [gradient.numpy() for gradient in tape.gradient(y, tensors)]


@pytest.mark.parametrize("name", ["jv", "yv", "ive", "kve"])
def test_bessel_functions_of_real_order(name):
    order, x, wanted = (np.array(REFERENCE[key]) for key in ("order", "x", name))

    found = getattr(special, name)(order, x).numpy()

    # J and Y swing beyond x = v: their errors are those of the amplitude there.
    amplitude = np.hypot(REFERENCE["jv"], REFERENCE["yv"])
    scale = np.where((x > order) & (name in ("jv", "yv")), amplitude, abs(wanted))
    assert np.max(abs(found - wanted) / scale) < 5e-13


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive", "kv", "kve"])
def test_orders_of_both_signs_against_scipy(name):
    rng = np.random.default_rng(0)
    order, x = rng.uniform(-6, 6, 300), rng.uniform(0.01, 30, 300)
    wanted = getattr(scipy.special, name)(order, x)
    amplitude = np.hypot(scipy.special.jv(order, x), scipy.special.yv(order, x))
    amplitude = np.where(x > abs(order), amplitude, abs(wanted))

    found = getattr(special, name)(order, x).numpy()

    scale = amplitude if name in ("jv", "yv") else abs(wanted)
    assert np.max(abs(found - wanted) / scale) < 1e-12


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv"])
def test_derivatives_by_the_order(name):
    order, x = BY_ORDER["order"], BY_ORDER["x"]

    by_order, by_x = gradients(getattr(special, name), order, x)

    # By symmetry K has slope 0 at order 0: there its own size says how large an error is.
    size = abs(getattr(scipy.special, name)(np.array(order), np.array(x)))
    wanted = np.array(BY_ORDER[name])
    assert np.max(abs(by_order - wanted) / (abs(wanted) + 1e-5 * size)) < 1e-11
    slope = getattr(scipy.special, f"{name}p")(np.array(order), np.array(x))
    np.testing.assert_allclose(by_x, slope, rtol=1e-11)


@pytest.mark.parametrize("name", ["jv", "iv", "ive"])
def test_a_tensor_of_whole_orders_takes_arguments_of_both_signs(name):
    order, x = np.array([0.0, 1.0, 2.0, -3.0, 0.0, 2.0]), np.array([-2.0, -2.0, -1.0, -4.0, 0, 0])

    found = getattr(special, name)(order, x).numpy()

    wanted = getattr(scipy.special, name)(order, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-16)


def test_slopes_at_zero_of_a_tensor_of_orders():
    order = tf.constant(np.array([0.0, 1.0, 2.0]))
    x = tf.constant(np.zeros(3))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = special.jv(order, x)
        slope = inner.gradient(y, x)
    bend = outer.gradient(slope, x)

    np.testing.assert_allclose(slope.numpy(), [0.0, 0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(bend.numpy(), [-0.5, 0.0, 0.25], atol=1e-15)


def test_bessel_functions_at_the_ends():
    order, x = np.array([0.0, 0.5, 0.5, 0.5, -0.5]), np.array([0.0, 0.0, inf, -1.0, 0.0])

    for name, wanted in {
        "jv": [1.0, 0.0, 0.0, nan, inf],
        "yv": [-inf, -inf, 0.0, nan, -inf],
        "iv": [1.0, 0.0, inf, nan, inf],
        "kv": [inf, inf, 0.0, nan, inf],
    }.items():
        np.testing.assert_array_equal(getattr(special, name)(order, x).numpy(), wanted, name)


def test_whole_python_orders_and_tensors_of_them_agree():
    x = np.array([0.1, 2.0, 17.0, 300.0])

    for name in ("jv", "iv", "ive"):
        function = getattr(special, name)
        tensor = function(np.full(4, 3.0), x * 0.9).numpy()
        np.testing.assert_allclose(function(3, x * 0.9).numpy(), tensor, rtol=3e-12)


def test_results_have_the_dtype_of_the_argument():
    x = tf.constant(np.array([0.5, 2.0], np.float32))

    y = special.kv(0.3, x)

    assert y.dtype == tf.float32
    np.testing.assert_allclose(y.numpy(), scipy.special.kv(0.3, x.numpy()), rtol=2e-7)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("name", ["jvp", "yvp", "ivp", "kvp"])
def test_derivatives_by_name(name, n):
    order, x = np.array([0.3, 2.0, 4.5]), np.array([1.5, 4.0, 9.0])

    wanted = getattr(scipy.special, name)(order, x, n)
    np.testing.assert_allclose(getattr(special, name)(order, x, n).numpy(), wanted, rtol=1e-12)


def test_hankel_functions():
    order, x = np.array([0.3, 2.5]), np.array([1.5, 4.0])

    wanted = scipy.special.hankel1(order, x)
    np.testing.assert_allclose(special.hankel1(order, x).numpy(), wanted, rtol=1e-13)
    np.testing.assert_allclose(special.hankel2(order, x).numpy(), wanted.conj(), rtol=1e-13)


@pytest.mark.parametrize("row", HYP1F1, ids=str)
def test_hyp1f1(row):
    *args, wanted = row

    assert special.hyp1f1(*args).numpy() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("row", HYP2F1, ids=str)
def test_hyp2f1(row):
    *args, wanted = row

    assert special.hyp2f1(*args).numpy() == pytest.approx(wanted, rel=1e-12)


def test_derivatives_of_hyp1f1_by_its_parameters():
    args = np.array([0.75, -1.25]), np.array([2.0, 2.5]), np.array([1.5, 3.0])

    by_a, by_b, by_x = gradients(special.hyp1f1, *args)

    np.testing.assert_allclose(by_a, [1.490632502046223, 0.31193015841570186], rtol=1e-12)
    np.testing.assert_allclose(by_b, [-0.61898105916917111, 0.45574340793617028], rtol=1e-12)
    a, b, x = args
    np.testing.assert_allclose(by_x, a / b * scipy.special.hyp1f1(a + 1, b + 1, x), rtol=1e-12)


def test_derivatives_of_hyp2f1_by_its_parameters():
    args = (
        np.array([0.75, -1.25]),
        np.array([2.0, -0.5]),
        np.array([3.5, 2.5]),
        np.array([0.4, 0.6]),
    )

    by_a, _, by_c, _ = gradients(special.hyp2f1, *args)

    np.testing.assert_allclose(by_a[0], 0.34064003453498234, rtol=1e-12)
    np.testing.assert_allclose(by_c, [-0.08066691026041376, -0.058811680337813424], rtol=1e-12)


def test_hypergeometric_functions_at_the_ends():
    np.testing.assert_array_equal(
        special.hyp1f1([1.0, 1.0, 0.0], [-2.0, 2.0, 3.0], [0.5, 0.0, 1.0]).numpy(), [inf, 1.0, 1.0]
    )
    a, b, c = np.array([1.0, 1.0, 1.0, 0.5]), np.array([1.0, 2.0, 2.0, 0.5]), np.full(4, 3.0)
    z = np.array([1.0, 1.0, 1.5, 0.0])
    found = special.hyp2f1(a, b, c, z).numpy()

    np.testing.assert_allclose(found, [2.0, inf, nan, 1.0], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: special.lambertw(1.0, 0.5), "lambertw needs an integer branch k"),
        (lambda: special.diric(1.0, 0), "diric needs a positive integer n"),
        (
            lambda: special.eval_legendre(1.5, 0.0),
            "eval_legendre needs a non-negative integer degree",
        ),
        (lambda: special.spherical_jn(-1, 0.5), "spherical_jn needs a non-negative integer order"),
    ],
)
def test_what_is_not_supported_is_said(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("jv", (0.5, 1j)),
        ("kv", (2, np.complex64(1j))),
        ("hyp1f1", (1.0, 2.0, [1.0, 1j])),
        ("hyp2f1", (1.0, 2.0, 3.0, np.array([1j]))),
        ("airy", (1j,)),
        ("sici", (0.3 + 0.2j,)),
        ("gammainc", (1.0, tf.constant(1j))),
    ],
)
def test_functions_of_real_numbers_say_so_to_complex_ones(name, arguments):
    with pytest.raises(TypeError, match=f"{name} accepts real arguments only"):
        getattr(special, name)(*arguments)
