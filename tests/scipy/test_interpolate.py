from __future__ import annotations

import numpy as np
import pytest
import scipy.interpolate as reference
import scipy.sparse.linalg as sparse_linalg

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy import interpolate
from tapegrad.scipy.interpolate.scattered import KERNELS

RANDOM = np.random.default_rng(0)
each_form = pytest.mark.parametrize(
    ("before", "after"), [((), ()), ((), (3,)), ((2,), ()), ((2,), (3,))], ids=str
)


def agree(found, wanted, tolerance=1e-10):
    wanted = np.asarray(wanted)

    assert found.dtype.name == wanted.dtype.name
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def made(name, *args, **options):
    """The same interpolator twice: ours and SciPy's."""
    ours = getattr(interpolate, name)(*args, **options)
    return ours, getattr(reference, name)(*args, **options)


def compare_pieces(ours, theirs, most=4, tolerance=1e-10):
    """Values, derivatives and integrals, within, beyond and at the breakpoints."""
    random = np.random.default_rng(1)
    for extrapolate in (None, True, False, "periodic"):
        for nu in range(most + 1):
            at = random.uniform(-3, 9, size=(4, 3))
            agree(ours(at, nu, extrapolate), theirs(at, nu, extrapolate), tolerance)
        for a, b in ((-2.0, 7.3), (3.0, 1.3), (2.2, 2.6)):
            agree(ours.integrate(a, b, extrapolate), theirs.integrate(a, b, extrapolate), tolerance)
    at = random.uniform(0, 4, size=5)
    agree(ours.derivative()(at), theirs.derivative()(at), tolerance)
    agree(ours.antiderivative(2)(at), theirs.antiderivative(2)(at), tolerance)


def points(count):
    return np.sort(np.random.default_rng(count).uniform(0, 5, size=count))


@each_form
@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
@pytest.mark.parametrize(
    "name", ["CubicHermiteSpline", "PchipInterpolator", "Akima1DInterpolator", "makima"]
)
def test_cubics_with_slopes(name, count, before, after):
    shape, axis = (*before, count, *after), len(before)
    values = [RANDOM.normal(size=shape) for _ in range(1 + (name == "CubicHermiteSpline"))]
    options = {"axis": axis} | ({"method": "makima"} if name == "makima" else {})
    name = "Akima1DInterpolator" if name == "makima" else name

    compare_pieces(*made(name, points(count), *values, **options))


@each_form
@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
@pytest.mark.parametrize(
    "kind",
    ["not-a-knot", "clamped", "natural", "periodic", "mixed", "mixed-back", "first", "second"],
)
def test_cubic_spline(kind, count, before, after):
    y = RANDOM.normal(size=(*before, count, *after))
    slope, bend = (RANDOM.normal(size=(*before, *after)) for _ in range(2))
    ends = {
        "mixed": ("clamped", "not-a-knot"),
        "mixed-back": ("not-a-knot", (2, bend)),
        "first": ((1, slope), (2, bend)),
        "second": ((2, bend), (1, slope)),
    }
    if kind == "periodic":
        place = [slice(None)] * y.ndim
        place[len(before)] = -1
        y[tuple(place)] = np.take(y, 0, axis=len(before))

    ours, theirs = made(
        "CubicSpline", points(count), y, axis=len(before), bc_type=ends.get(kind, kind)
    )

    compare_pieces(ours, theirs)


def test_cubic_spline_through_many_points():
    x = np.sort(RANDOM.uniform(0, 5, size=1000))
    ours, theirs = made("CubicSpline", x, np.sin(x))

    agree(ours(x[:-1] + 1e-4), theirs(x[:-1] + 1e-4), 1e-9)


def test_cubic_spline_of_complex_values():
    compare_pieces(*made("CubicSpline", np.arange(5.0), RANDOM.normal(size=5) * (1 + 2j)))


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 0), ((2, 3, 4), 0), ((2, 3, 4), 1)])
def test_piecewise_polynomials(shape, axis):
    x = np.arange(shape[axis + 1] + 1) ** 1.3

    compare_pieces(*made("PPoly", RANDOM.normal(size=shape), x, axis=axis))


@each_form
@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("kind", ["plain", "clamped"])
def test_bspline(k, kind, before, after):
    count = 9
    t = np.linspace(0, 5, count + k + 1) + RANDOM.uniform(0, 0.2, size=count + k + 1)
    if kind == "clamped":
        t[: k + 1], t[-k - 1 :] = 0.0, 5.0
    c = RANDOM.normal(size=(*before, count, *after))
    ours, theirs = made("BSpline", t, c, k, axis=len(before))

    if k:
        compare_pieces(ours, theirs, k, 1e-8)
    else:
        agree(ours(points(7)), theirs(points(7)))


def test_one_bump_and_the_matrix_of_all():
    agree(
        interpolate.BSpline.basis_element([0.0, 1.0, 2.0, 4.0])([0.5, 1.5, 3.0]),
        reference.BSpline.basis_element([0.0, 1.0, 2.0, 4.0])([0.5, 1.5, 3.0]),
    )
    t, x = np.r_[0, 0, 0, 0, 1, 2, 3, 3, 3, 3.0], np.array([0.5, 1.0, 2.9])
    agree(
        interpolate.BSpline.design_matrix(x, t, 3),
        reference.BSpline.design_matrix(x, t, 3).toarray(),
    )


@each_form
@pytest.mark.parametrize("k", range(6))
def test_make_interp_spline(k, before, after):
    x, y = points(9), RANDOM.normal(size=(*before, 9, *after))
    ours, theirs = made("make_interp_spline", x, y, k, axis=len(before))

    agree(ours.t, theirs.t)
    agree(ours.c, theirs.c, 1e-8)
    agree(ours(points(7)), theirs(points(7)), 1e-8)


@pytest.mark.parametrize(
    ("k", "ends"),
    [
        (2, ([(1, 0.5)], None)),
        (2, (None, [(1, 0.5)])),
        (3, "clamped"),
        (3, "natural"),
        (3, "not-a-knot"),
        (3, ([(2, 0.1)], [(1, 0.2)])),
        (5, ([(1, 0.1), (2, 0.2)], [(1, 0.3), (2, 0.4)])),
        *[(k, "periodic") for k in range(1, 6)],
    ],
)
def test_make_interp_spline_with_conditions_at_the_ends(k, ends):
    x, y = points(9), RANDOM.normal(size=9)
    y[-1] = y[0] if ends == "periodic" else y[-1]
    ours, theirs = made("make_interp_spline", x, y, k, bc_type=ends)

    agree(ours.t, theirs.t)
    agree(ours(points(7)), theirs(points(7)), 1e-8)
    agree(ours(points(7) + 9.0), theirs(points(7) + 9.0), 1e-6)


@each_form
@pytest.mark.parametrize(
    "kind",
    [
        *("linear", "nearest", "nearest-up", "previous", "next", "zero"),
        *("slinear", "quadratic", "cubic", 0, 1, 4),
    ],
)
def test_interp1d(kind, before, after):
    x = np.random.default_rng(2).permutation(np.arange(9.0) * 0.5)
    y = RANDOM.normal(size=(*before, 9, *after))
    inside = np.r_[RANDOM.uniform(0, 4, size=20), np.arange(9) * 0.5, np.arange(8) * 0.5 + 0.25]
    anywhere = RANDOM.uniform(-1, 6, size=(5, 4))
    axis = len(before)

    ours, theirs = made("interp1d", x, y, kind, axis)
    agree(ours(inside), theirs(inside))
    for fill in ("extrapolate", 1.5, (1.0, 2.0), np.nan):
        options = {"bounds_error": False, "fill_value": fill}
        ours, theirs = made("interp1d", x, y, kind, axis, **options)
        agree(ours(anywhere), theirs(anywhere), 1e-8)


@pytest.mark.parametrize("rest", [(), (2,)], ids=str)
@pytest.mark.parametrize("sizes", [(7,), (7, 6), (6, 8, 7)], ids=str)
@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip"])
def test_regular_grids(method, sizes, rest):
    grid = [points(n) for n in sizes]
    values = np.random.default_rng(3).normal(size=(*sizes, *rest))
    inside = np.stack([RANDOM.uniform(x[0], x[-1], size=(4, 3)) for x in grid], -1)
    anywhere = RANDOM.uniform(-1, 6, size=(12, len(sizes)))
    # SciPy's own solver stops at 1e-6.
    exact = {"solver": sparse_linalg.spsolve} if method in ("slinear", "cubic", "quintic") else {}

    ours, theirs = made("RegularGridInterpolator", grid, values, method, **exact)
    agree(ours(inside), theirs(inside), 1e-8)
    agree(ours(inside[0, 0]), theirs(inside[0, 0]), 1e-8)
    for fill in (np.nan, 1.5, None):
        options = {"bounds_error": False, "fill_value": fill} | exact
        ours, theirs = made("RegularGridInterpolator", grid, values, method, **options)
        agree(ours(anywhere), theirs(anywhere), 1e-6)
    if method in ("slinear", "cubic"):
        nu = (1,) * len(sizes)
        agree(ours(inside, nu=nu), theirs(inside, nu=nu), 1e-7)


def test_complex_values():
    x, y, at = np.arange(6.0), RANDOM.normal(size=(6, 2)) * (1 + 2j), RANDOM.uniform(0, 5, size=4)

    for name in ("make_interp_spline", "KroghInterpolator", "BarycentricInterpolator"):
        ours, theirs = made(name, x, y)
        agree(ours(at), theirs(at), 1e-9)
    ours, theirs = made("interp1d", x, y, axis=0)
    agree(ours(at), theirs(at))
    ours, theirs = made("RegularGridInterpolator", (x,), y)
    agree(ours(at[:, None]), theirs(at[:, None]))


def test_grids_that_fall_and_places_as_a_tuple():
    grid, values = [points(5)[::-1], points(4)], RANDOM.normal(size=(5, 4))
    places = tuple(np.meshgrid(*[np.linspace(x.min(), x.max(), 3) for x in grid]))

    agree(interpolate.interpn(grid, values, places), reference.interpn(grid, values, places))


@pytest.mark.parametrize("name", ["KroghInterpolator", "BarycentricInterpolator"])
def test_one_polynomial_through_all_points(name):
    x, y = np.cos(np.arange(9)), RANDOM.normal(size=(2, 9, 3))
    at = RANDOM.uniform(-1, 1, size=(3, 2))
    ours, theirs = made(name, x, y, axis=1)

    agree(ours(at), theirs(at), 1e-8)
    agree(ours(x), theirs(x), 1e-9)
    agree(ours.derivative(at, 2), theirs.derivative(at, 2), 1e-6)
    agree(ours.derivatives(at, 3), theirs.derivatives(at, 3), 1e-6)


@pytest.mark.parametrize(
    "name", ["krogh_interpolate", "barycentric_interpolate", "pchip_interpolate"]
)
@pytest.mark.parametrize("der", [0, 1])
def test_interpolation_in_one_call(name, der):
    x, y, at = points(6), RANDOM.normal(size=(6, 2)), RANDOM.uniform(1, 4, size=3)
    ours, theirs = made(name, x, y, at, der=der)

    agree(ours, theirs, 1e-8)


def test_a_spline_as_polynomials():
    x, y = points(7), RANDOM.normal(size=(7, 2))
    ours = interpolate.PPoly.from_spline(interpolate.make_interp_spline(x, y))
    theirs = reference.make_interp_spline(x, y)

    agree(ours(x[:-1] + 0.01), theirs(x[:-1] + 0.01), 1e-8)
    agree(ours.integrate(x[0], x[-1]), theirs.integrate(x[0], x[-1]), 1e-8)


@pytest.mark.parametrize("rest", [(), (2,)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_scattered_points(kernel, rest):
    places, values = RANDOM.uniform(size=(12, 2)), RANDOM.normal(size=(12, *rest))
    at = RANDOM.uniform(size=(5, 2))
    for options in ({}, {"smoothing": 0.1}, {"degree": 2}):
        ours, theirs = made(
            "RBFInterpolator", places, values, kernel=kernel, epsilon=1.3, **options
        )
        agree(ours(at), theirs(at), 1e-7)


def test_krogh_takes_derivatives_at_repeated_points():
    ours, theirs = made("KroghInterpolator", [0, 0, 1, 2, 2, 2], [1.0, 2, 3, 4, 5, 6])

    agree(ours([0.3, 1.7]), theirs([0.3, 1.7]))
    agree(ours.derivatives([0.3, 1.7]), theirs.derivatives([0.3, 1.7]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: interpolate.CubicSpline([0, 2, 1], [1.0, 2, 3]), ArgumentError, "increasing"),
        (lambda: interpolate.CubicSpline([0, 1], [1.0, 2, 3]), ShapeError, "each of 2 points"),
        (lambda: interpolate.CubicSpline([0.0], [1.0]), ShapeError, "at least 2 points"),
        (
            lambda: interpolate.CubicSpline([0, 1, 2], [1.0, 2, 3], bc_type="free"),
            ArgumentError,
            "Got 'free'",
        ),
        (
            lambda: interpolate.CubicSpline([0, 1, 2], [1.0, 2, 3], bc_type=((3, 0.0), "natural")),
            ArgumentError,
            "slope",
        ),
        (
            lambda: interpolate.CubicSpline([0, 1, 2], [1.0, 2, 3], bc_type="periodic"),
            ArgumentError,
            "equal first and last values",
        ),
        (lambda: interpolate.PPoly([[1.0]], [0, 1, 2]), ShapeError, "1 intervals"),
        (lambda: interpolate.PPoly([1.0], [0, 1]), ShapeError, "axis for powers"),
        (
            lambda: interpolate.PPoly([[1.0]], [0.0, 1.0])(0.5, extrapolate="no"),
            ArgumentError,
            "True, False or 'periodic'",
        ),
        (lambda: interpolate.PPoly([[1.0]], [0.0, 1.0])(0.5, nu=-1), ArgumentError, "0 or more"),
        (
            lambda: interpolate.Akima1DInterpolator([0, 1], [0, 1], method="a"),
            ArgumentError,
            "makima",
        ),
        (
            lambda: interpolate.CubicHermiteSpline([0, 1], [0, 1], [0]),
            ShapeError,
            "y and dydx of the same shape",
        ),
        (lambda: interpolate.BSpline([0, 1, 2], [1.0], 1), ShapeError, "at least 4 knots"),
        (lambda: interpolate.BSpline([0, 1, 2, 3], [1.0], 1), ShapeError, "2 coefficients"),
        (lambda: interpolate.BSpline([0, 2, 1, 3], [1.0, 2], 1), ArgumentError, "not decrease"),
        (lambda: interpolate.BSpline([0, 1], [1.0], -1), ArgumentError, "integer degree"),
        (
            lambda: interpolate.make_interp_spline([0, 1, 2], [1.0, 2, 3]),
            ShapeError,
            "at least 4 points",
        ),
        (
            lambda: interpolate.make_interp_spline([0, 1], [1.0, 2], bc_type=([(1, 0.0)], None)),
            ShapeError,
            "end conditions",
        ),
        (lambda: interpolate.interp1d([0, 1], [0, 1], kind="x"), ArgumentError, "Got 'x'"),
        (lambda: interpolate.interp1d([0, 1], [0.0, 1])(1.5), ArgumentError, "Got 1.5"),
        (
            lambda: interpolate.interpn([[0, 1]], [0.0, 1], [[1.5]]),
            ArgumentError,
            "Point number 0 is outside",
        ),
        (
            lambda: interpolate.interpn([[0, 1]], [0.0, 1], [[0.5]], method="x"),
            ArgumentError,
            "Got 'x'",
        ),
        (
            lambda: interpolate.interpn([[0, 1]], [0.0, 1], [[0.5]], method="cubic"),
            ShapeError,
            "at least 4 points along axis 0",
        ),
        (lambda: interpolate.interpn([[0, 1]] * 2, [0.0, 1], [[0.5]]), ShapeError, "2 grid axes"),
        (
            lambda: interpolate.interpn([[0, 1]], [0.0, 1], [[0.5, 0.5]]),
            ShapeError,
            "1 coordinates",
        ),
        (
            lambda: interpolate.BarycentricInterpolator([0, 0], [1.0, 2]),
            ArgumentError,
            "distinct points",
        ),
        (lambda: interpolate.BarycentricInterpolator([0, 1]), ArgumentError, "values yi"),
        (lambda: interpolate.RBFInterpolator([0, 1], [0, 1]), ShapeError, "point, coordinate"),
        (lambda: interpolate.RBFInterpolator([[0.0]], [0.0]), ShapeError, "at least 2 points"),
        (
            lambda: interpolate.RBFInterpolator([[0.0]], [0.0], degree=2**31),
            ShapeError,
            "at least 2147483649 points",
        ),
        (
            lambda: interpolate.RBFInterpolator([[0.0]], [0.0], kernel="x"),
            ArgumentError,
            "Got 'x'",
        ),
        (
            lambda: interpolate.RBFInterpolator([[0.0]], [0.0], kernel="gaussian"),
            ArgumentError,
            "needs epsilon",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.fixture
def stand_in_device():
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.usefixtures("stand_in_device")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: interpolate.interp1d([2, 0, 1], [0.0, 1, 2])(np.array([[1, -0.5]])), "Got -0.5"),
        (lambda: interpolate.interpn(([1, 0], [0, 1]), np.eye(2), [[0, 1], [0, 2]]), "number 1 is"),
        (lambda: interpolate.interpn(([0, 1],) * 2, np.eye(2), (0.5, [0, 1, 2])), "number 2 is"),
    ],
    ids=["interp1d", "interpn", "interpn-tuple"],
)
def test_places_given_on_the_host_are_looked_at_for_any_device(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.usefixtures("stand_in_device")
def test_places_given_on_the_host_are_compared_in_the_dtype_of_the_points():
    # As float64 the last point is less than 0.7.
    x = np.array([0.0, 0.7], np.float32)

    on_a_line, on_a_grid = interpolate.interp1d(x, x)(0.7), interpolate.interpn((x,), x, [0.7, 0.7])

    assert on_a_line.numpy() == x[1]
    assert on_a_grid.numpy().tolist() == [x[1], x[1]]
