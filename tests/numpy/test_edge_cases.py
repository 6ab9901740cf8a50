"""Rare arguments mean what they mean in NumPy: values, dtypes, and the classes of errors."""

from __future__ import annotations

import pickle
import warnings
from collections import namedtuple

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tests.numpy.calls import ARRAYS
from tests.numpy.test_values import assert_same, run, tensors

SAME = """
np.pad(x, ((2, 3), (5, 1)), mode="reflect", reflect_type="odd")
np.pad(i, ((0, 7), (9, 0)), mode="reflect", reflect_type="odd")
np.pad(x, ((8, 1), (0, 13)), mode="symmetric", reflect_type="odd")
np.pad(x[:1, :1], 3, mode="reflect", reflect_type="odd")
np.pad(x[:1, :1], 3, mode="symmetric", reflect_type="odd")
np.pad(x[:, :0], ((2, 1), (0, 0)), mode="median")
np.pad(x[:, :0], ((2, 1), (0, 0)), mode="linear_ramp")
np.pad(x, {-1: 2}, mode="mean")
np.interp(0.5, [-math.inf, math.inf], [10.0, 10.0])
np.interp([1, 2, 2.5, 3, 4], [1, 2, 3, 4], [1, 2, math.inf, 4])
np.interp([0.0, 0.5, 1.0], [0.0, 1.0], [math.inf, -math.inf])
np.interp([-math.inf, 0.5, math.nan], [-math.inf, 1.0], [1.0, 10.0])
np.interp([1.5, 2.0, 2.5], [1, 2, 3], [1, 2 + 1j, math.inf + 0.5j])
np.unique([math.nan, 1.0, math.nan], axis=0, return_inverse=True)
np.unique([math.nan, 1.0, math.nan, 0.0], axis=-1)
np.unique([2 - 1j, complex(math.nan, 0), 1 + 1j, complex(0, math.nan), complex(1, math.nan)])
np.unique([2j, complex(math.nan, 0), 1, complex(0, math.nan), 2j, math.nan], equal_nan=False)
np.piecewise(np.asarray(3), [True, False], [4, 0])
np.piecewise(np.asarray(3.0), [False], [4, -1])
np.piecewise(v, np.stack([v < 0, v > 1]), [-1, 1, 0])
np.percentile(f, np.asarray([50.0])[0])
np.percentile(f, np.asarray([50.0], "float32")[0])
np.percentile(f, [50.0], axis=0)
np.quantile(x[:0], 0.5, axis=1)
np.median(x[:, :0])
np.median(x[:, :0], axis=1)
np.median(f[:, :0], axis=1, keepdims=True)
np.histogramdd((v, w), 3)
np.histogramdd([v, w], [2, 3], range=[(-2.0, 2.0), None])
np.histogramdd(v, 3)
np.vectorize(lambda a, b: a - b, signature="(n),(n)->(n)")(x, v)
np.vectorize(lambda a: a.sum(), signature="(m,n)->()")(t)
np.vectorize(lambda a, b: (a[:-1], b), signature="(n), ()->(k),()")(x, c)
np.vectorize(lambda a, b=1: a + b)(b=v, a=x)
np.vectorize(lambda a, p: a * p[0] + p[1], excluded={"p", 1})(v, p=[2.0, 3.0])
np.vectorize(lambda a: a, otypes="i")(i[:0])
np.vectorize(lambda: 1.5)()
np.vectorize(otypes=[float])(lambda a: a + 1)(i)
np.transpose(t, np.asarray([2, 0, 1]))
t.transpose(np.asarray([2, 0, 1]))
np.average(t, axis=(1, 0), weights=np.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
np.average(t, axis=(-1, 0), weights=np.ones((4, 2)))
np.median([math.inf, math.inf])
np.nanmedian([[math.inf, math.nan, math.inf], [-math.inf, math.inf, math.nan]], axis=1)
np.corrcoef([[0.1, 0.2, 0.3], [0.7, 0.9, 0.2], [0.9, 0.3, 0.2]]) <= 1
np.histogram(v, 3, weights=1j * w)
np.histogramdd(x[:, :2], bins=[[-2.0, 0.0, 2.0], [-2.0, -1.0, 0.5, 2.0]])
np.ix_([], [1, 2])
np.linspace(math.nan, 1.0, 3)
np.linspace([math.inf, 0.0], 1.0, 4)
np.linspace(0.0, 1.0, np.asarray(3))
np.logspace(0.0, 1.0, 3, base=[2.0, 3.0])
np.logspace(c, 1.0, 3, base=np.abs(x[:, :3]), axis=1)
np.geomspace(1, 10**6, 7, dtype=int)
np.geomspace(-2, -2000, 4, dtype=int)
np.geomspace([1.0, 2.0], [100.0, 2000.0], 3, axis=1)
after(lambda a: np.put(a, [0, 2], []), v)
after(lambda a: np.putmask(a, a > 0, []), v)
after(lambda a: np.put(a, [], [1.0]), v)
np.add.accumulate(np.full(200, 1, dtype="int8"), dtype="int8")
np.multiply.accumulate(np.full(9, 3, dtype="uint8"), dtype="uint16")
np.add.reduceat(x, [], axis=1)
np.choose(b[0], [v, w])
np.bincount([], minlength=3)
np.bincount([])
np.nanmedian([[math.inf, math.nan], [math.nan, math.inf], [math.inf, math.inf]])
np.nanmedian([[-math.inf, math.nan, -math.inf], [-math.inf, math.inf, -math.inf]], axis=0)
np.median([[4.0, -math.inf], [-math.inf, math.inf], [math.inf, 4.0]], axis=1)
np.nanmedian([[4.0, math.nan, -math.inf], [math.inf, math.nan, 4.0]], axis=1)
np.add.reduce(5.0)
np.minimum.reduce(np.asarray(5.0), axis=-1)
np.geomspace(-3.0, 3.0, 4)
np.geomspace(1.0, math.inf, 3)
np.geomspace([1.0, 2.0], 8.0, 1, axis=1)
np.linalg.cond(m, 2)
np.linalg.cond(m, -2)
np.linalg.cond(m, -1)
np.linalg.vector_norm(x, ord=None, axis=1)
np.linalg.cond(x[:, :3] * 0.0)
np.linalg.cond(np.stack([np.ones((2, 2)), np.eye(2)]), 1)
np.linalg.cond(np.ones((2, 2)), -math.inf)
np.linalg.cond(np.zeros((2, 2)), "fro")
np.linalg.cond(np.zeros((2, 2)), -2)
np.linalg.cond(np.zeros((2, 2)) * math.nan, 1)
np.linalg.norm([], math.inf)
np.linalg.norm(x[:0], math.inf, axis=0, keepdims=True)
np.linalg.norm(x[:0], 2, axis=(0, 1))
np.linalg.norm(x[:, :0], 1, axis=(1, 0), keepdims=True)
np.linalg.norm(t[:, :0], math.inf, axis=(0, 2))
np.linalg.vector_norm(np.zeros((2, 0)), ord=math.inf, axis=1)
np.linalg.matrix_norm(np.zeros((2, 0, 3)), ord="nuc")
np.linalg.matrix_rank([0, 2, 0])
np.linalg.matrix_rank([0.0, 0.0])
np.linalg.matrix_rank(3)
np.linalg.lstsq([[1.0, 0.0], [0.0, 1e-16], [0.0, 0.0]], [1.0, 2.0, 0.0], rcond=-1)[2]
np.linalg.lstsq([[1.0, 0.0], [0.0, 3e-16], [0.0, 0.0]], [1.0, 2.0, 0.0], rcond=-1)[2]
np.linalg.lstsq([[1.0, 0.0], [0.0, 3e-16], [0.0, 0.0]], [1.0, 2.0, 0.0])[2]
np.sum(x[1, 2], axis=0)
np.prod(3, axis=-1)
np.max(x[1, 2], axis=0)
np.min(x[1, 2], axis=-1, keepdims=True)
np.max(x[1, 2], axis=0, initial=9.0)
np.all(x[1, 2], axis=0)
np.ptp(x[1, 2], axis=0)
np.cumsum(x[1, 2], axis=-1)
np.cumprod(x[1, 2], axis=0)
np.nansum(x[1, 2], axis=0)
np.count_nonzero(x[1, 2], axis=0)
np.maximum.reduce(x[:0], initial=1.0)
np.maximum.reduce(i[:0], axis=None, initial=4)
np.minimum.reduce(t[:, :0], axis=1, initial=-2.0, keepdims=True)
np.minimum.reduce(x, axis=0, initial=0.5)
np.choose(1, [np.asarray(1.0, dtype="float32"), 2.5])
np.choose(i % 2, [f[0, 0], 1])
np.moveaxis(t, range(2), np.asarray([2, 0]))
np.rollaxis(t, 2, -1)
np.vecdot(t, t, axes=[0, 0, 0], keepdims=True)
np.vecdot(t, t, axes=[1, 1], keepdims=True)
np.vecdot(t, t, axes=[np.int8(1), np.asarray(1)])
np.add(v, w, out=...)
np.matmul(x, v[:3], axes=[(1, 0), 0, 0])
np.matmul(v[:3], x, axes=[0, (-2, -1), 0])
np.matmul(v, w, axes=[0, 0, ()])
np.sort(v, kind="quick")
np.argsort(v, kind="heap")
np.quantile(v, np.asarray([0.25, 1.0]), weights=np.abs(w), method="inverted_cdf")
np.fft.fftn(x, axes=(0, 0))
np.fft.ifftn(x, (3, 2), axes=(0, 0))
np.fft.rfftn(x, axes=(0, 0))
np.fft.rfftn(x, (3, 2, 5), axes=(0, 1, 0))
np.fft.irfftn(x, axes=(1, 1))
np.fft.irfftn(z, (2, 3, 4), axes=(0, 0, 0), norm="ortho")
after(lambda a: np.putmask(a, a > 0, [7.0, 8.0]), v)
after(lambda a: np.place(a, a > 99, []), v)
np.pad(-i, (4, 3), mode="linear_ramp", end_values=1)
np.pad(i, (0, 7), mode="linear_ramp", end_values=(2, -9))
np.pad(f, (0, 3), mode="linear_ramp", end_values=0.3)
np.interp(f, g.astype("float32"), np.arange(5.0) ** 2)
np.interp(x, [0.0, 0.5, 1.0], f[0, :3], period=1.5)
np.nanquantile([], 0.5)
np.nanquantile(x[:0], 0.5, axis=0, method="nearest")
np.nanpercentile(x[:, :0], 30, axis=1, keepdims=True)
np.quantile(x[:0], 0.5, axis=1, weights=x[:0], method="inverted_cdf")
np.einsum("i,i->", v, v, out=np.zeros((), dtype="int64"), casting="unsafe")
np.concatenate([v, i[0]], out=np.zeros(v.size + i[0].size, dtype="int32"), casting="unsafe")
np.concatenate([v, f[0]], out=np.zeros(v.size + f[0].size), casting="safe")
np.stack([v, w], out=np.zeros((2, 4), dtype="int32"), casting="unsafe")
np.polynomial.polyutils.getdomain([1 + 2j, -1j, 0.5])
np.polynomial.Chebyshev.interpolate(lambda a: a * a, 3, [0.0, 2.0])(v)
np.polynomial.Laguerre.window.tolist()
np.polynomial.Hermite.domain.tolist()
"""

REFUSED = """
np.sum(x, axis=2)
np.flip(x, axis=-3)
np.diff(x, axis=2)
np.gradient(x, axis=2)
np.unique(v, axis=1)
np.median(x, axis=(0, 2))
np.expand_dims(x, axis=4)
np.concatenate([x, x], axis=2)
np.insert(x, 0, 1.0, axis=2)
np.linalg.norm(x, axis=(0, 2))
np.split(x, 2, axis=3)
np.moveaxis(x, 2, 0)
np.add.reduce(5.0, axis=1)
np.einsum(v, [-1])
np.einsum(v, [52])
np.einsum(v, [0.5])
np.searchsorted(x, 1.0)
np.searchsorted(v, 1.0, sorter=[0, 1])
np.linalg.pinv(x, 0.1, rtol=0.1)
np.einsum("ij->", x, out=np.zeros((), dtype="float32"))
np.einsum("ij->", x, casting="some")
np.concatenate([v, w], out=np.zeros(8), dtype="float64")
np.concatenate([v, w], out=np.zeros(8, dtype="int32"))
np.concatenate([f[0], v], out=np.zeros(v.size + f[0].size), casting="no")
np.stack([v, w], out=np.zeros((2, 4)), dtype="float64")
np.rollaxis(t, 0, -4)
np.rollaxis(t, 0, 4)
np.maximum.reduce(x[:0])
np.sum(x[1, 2], axis=1)
np.mean(x[1, 2], axis=0)
setattr(v, "imag", 1.0)
setattr(z, "real", [1.0, 2.0])
np.arange(0, 3, 0)
np.sort(v, kind="bubble")
np.putmask(v, [True], 5.0)
np.place(v, [True], [5.0])
np.place(v, v > -9, [])
np.quantile(v, 0.5, weights=[0.0] * 4, method="inverted_cdf")
np.convolve(x, v)
np.correlate(v, x)
x[[0, 1], [0, 1, 2]]
x[False, [0, 1]]
x[["a"]]
np.sum(x, axis=(0.2, 1.2))
np.max(x, axis=(0.0, 1.0))
np.add.reduceat(v, [0, 7])
x[..., 0, ...]
x[..., k, ...]
x[1.5]
x[[1.0, 0.0]]
x["a"]
np.take_along_axis(x, b, axis=1)
np.put_along_axis(x, f, 0.0, axis=1)
np.insert(v, np.asarray([1.0]), 2.0)
np.delete(v, np.asarray([1.0, 2.0]))
np.cov(x, fweights=np.asarray([1.5, 2.0, 1.0, 1.0]))
np.bincount(i)
np.bincount(np.asarray(3))
np.fill_diagonal(v, 1.0)
np.isposinf(z)
np.isneginf(z)
np.vectorize(3)
np.pad(v, -1, mode="linear_ramp")
np.pad(v, ((1, -1),), mode="constant")
np.pad(v, 1.5, mode="mean")
np.pad(v, "ab", mode="edge")
np.pad(v[:0], 2, mode="reflect")
np.pad(v[:0], 2, mode="mean")
np.interp(0.5, v, w, period=0)
np.quantile(v[:0], 0.5)
np.histogramdd((v, w), [2, 3, 4])
np.vectorize(abs, signature="(n)")(v)
np.vectorize(lambda a: a, signature="(n),(n)->()")(v)
np.vectorize(lambda a: a[:-1], signature="(n)->(n)")(v)
np.vectorize(lambda a: (a, a), signature="()->()")(v)
np.vectorize(abs)(v[:0])
np.polynomial.chebyshev.chebint([1.0], lbnd=[0.0])
np.polynomial.Polynomial([1.0], symbol="x") + np.polynomial.Polynomial([1.0], symbol="y")
"""

REFUSED_FOR_VALUES = """
np.quantile(v, np.asarray([0.5, 2.0]))
np.percentile(v, np.asarray(-1.0))
np.quantile(v, 0.5, weights=-np.abs(w), method="inverted_cdf")
np.quantile(v, 0.5, weights=w * math.nan, method="inverted_cdf")
np.quantile(v, 0.5, weights=1j * w, method="inverted_cdf")
"""
"""Values on a device are not read, because that would wait for it."""


def lines(text):
    return text.strip().split("\n")


@pytest.mark.parametrize("call", lines(SAME))
def test_the_result_is_numpys(call):
    assert_same(run(call, tnp, tensors()), run(call, np, dict(ARRAYS)))


@pytest.mark.parametrize("call", lines(REFUSED))
def test_the_error_is_of_numpys_class(call):
    with pytest.raises((TypeError, ValueError, IndexError, ZeroDivisionError)) as theirs:
        run(call, np, dict(ARRAYS))

    with pytest.raises(tapegrad.errors.TapegradError) as ours:
        run(call, tnp, tensors())

    assert isinstance(ours.value, theirs.type)


@pytest.mark.parametrize("call", lines(REFUSED_FOR_VALUES))
def test_the_error_for_values_on_the_host_is_of_numpys_class(call):
    with tapegrad.device("cpu"):
        test_the_error_is_of_numpys_class(call)


@pytest.mark.parametrize(
    "call",
    [
        "cond(np.zeros((0, 3)))",
        "cond(np.zeros((2, 0, 0)), 1)",
        "lstsq(np.ones((4, 2)), np.ones(5))",
    ],
)
def test_problems_without_a_solution_raise_the_error_of_linear_algebra(call):
    for module in (np, tnp):
        with pytest.raises(np.linalg.LinAlgError):
            run(f"np.linalg.{call}", module, {})


def test_an_error_of_an_axis_keeps_its_words_and_can_be_pickled():
    with pytest.raises(tapegrad.errors.AxisError) as error:
        tnp.sum([1.0], axis=1)

    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == "sum got axis 1 for a tensor of 1 dimensions."
    assert (again.axis, again.ndim) == (1, 1)
    assert isinstance(again, np.exceptions.AxisError)


def test_a_function_pads_rows_in_place():
    def numbered(row, widths, axis, options):
        row[: widths[0]] = options["start"] + axis
        if widths[1]:
            row[-widths[1] :] = -row[widths[0]]

    theirs = np.pad(ARRAYS["x"], ((1, 2), (3, 0)), numbered, start=7.0)
    ours = tnp.pad(tnp.asarray(ARRAYS["x"]), ((1, 2), (3, 0)), numbered, start=7.0)

    assert_same(ours, theirs)


def test_odd_reflections_have_the_derivative_of_their_linear_map():
    def padded(module, x):
        return module.pad(x, (5, 4), mode="reflect", reflect_type="odd")

    x = tapegrad.constant([1.0, -2.0, 0.5], "float64")
    matrix = np.stack([padded(np, row) for row in np.eye(3)], axis=1)

    found = tapegrad.jacobian(lambda v: padded(tnp, v))(x)

    np.testing.assert_allclose(found, matrix)


def test_interpolation_keeps_the_slope_at_its_points():
    slope = tapegrad.grad(lambda at: tnp.interp(at, [0.0, 1.0, 3.0], [0.0, 2.0, 3.0]))

    assert [float(slope(tapegrad.constant(at, "float64"))) for at in (0.5, 1.0, 2.0)] == [
        2.0,
        0.5,
        0.5,
    ]


def test_a_dtype_names_its_scalar_class():
    x = tnp.ones(2, "float32")

    assert (x.dtype.type, x.dtype.char) == (np.float32, "f")
    assert issubclass(x.dtype.type, tnp.floating)


def test_a_named_tuple_is_an_index_of_several_axes():
    place = namedtuple("Place", "row column")
    x = tnp.asarray(ARRAYS["x"])

    assert float(x[place(1, 2)]) == ARRAYS["x"][1, 2]
    np.testing.assert_array_equal(x[place(slice(1), 2)], ARRAYS["x"][:1, 2])
    x[place(1, [0, 2])] = 5.0
    np.testing.assert_array_equal(x[1, ::2], [5.0, 5.0])


def test_any_tuple_of_arrays_is_an_index_of_several_axes():
    class Place(tuple):
        __slots__ = ()

    x = tnp.asarray(ARRAYS["x"])

    np.testing.assert_array_equal(x[Place([[0, 1], [2, 0]])], ARRAYS["x"][[0, 1], [2, 0]])
    np.testing.assert_array_equal(
        tapegrad.function(lambda x: x[Place([[1], [2]])])(x), ARRAYS["x"][1, 2:3]
    )


def test_condition_numbers_have_the_derivative_of_differences_beside_singular_matrices():
    both = np.stack([[[2.0, 1.0], [-1.0, 3.0]], np.ones((2, 2))])
    step = np.zeros_like(both)
    step[0, 0, 1] = 1e-6
    for order in (1, "fro"):
        slope = tapegrad.grad(lambda m, order=order: tnp.linalg.cond(m, order)[0])(
            tnp.asarray(both)
        )

        up, down = (np.linalg.cond(both[0] + sign * step[0], order) for sign in (1, -1))
        np.testing.assert_allclose(slope[0, 0, 1], (up - down) / 2e-6, rtol=1e-7)
        assert not slope[1].numpy().any()


@pytest.mark.parametrize("kind", [np.float16, np.dtype("float32"), "float64", np.complex64])
def test_limits_of_floats_are_those_of_numpys_own_dtypes(kind):
    ours, theirs = tnp.finfo(kind), np.finfo(kind)

    for name in [name for name in dir(theirs) if not name.startswith("_")]:
        assert getattr(ours, name) == getattr(theirs, name), name


@pytest.mark.parametrize("kind", [np.int8, np.dtype("uint16"), "int64", int])
def test_limits_of_integers_are_those_of_numpys_own_dtypes(kind):
    ours, theirs = tnp.iinfo(kind), np.iinfo(kind)

    for name in [name for name in dir(theirs) if not name.startswith("_")]:
        assert getattr(ours, name) == getattr(theirs, name), name


def test_limits_of_bfloat16_have_its_eight_bits():
    limits = tnp.finfo("bfloat16")

    assert (limits.eps, limits.max) == (2.0**-7, (2 - 2.0**-7) * 2.0**127)
    assert limits.smallest_subnormal == 2.0**-133


@pytest.mark.parametrize("kinds", [(np.int8, np.float32), (np.dtype("int64"), np.float16)])
def test_numpys_dtypes_are_promoted_and_compared_as_in_numpy(kinds):
    assert tnp.result_type(*kinds) == np.result_type(*kinds)
    assert tnp.result_type(kinds[0], 1.5) == np.result_type(kinds[0], 1.5)
    assert tnp.can_cast(*kinds) == np.can_cast(*kinds)
    assert tnp.can_cast(*reversed(kinds)) == np.can_cast(*reversed(kinds))


def test_parts_of_complex_numbers_are_written_by_assignment():
    theirs, ours = ARRAYS["z"].copy(), tnp.asarray(ARRAYS["z"])
    same = ours
    for z in (theirs, ours):
        z.imag = 2
        z.real += z.imag
        z[:1].real = -1.0

    assert same is ours
    np.testing.assert_array_equal(ours, theirs)

    variable = tapegrad.Variable(ARRAYS["z"])
    variable.real = 0.5
    np.testing.assert_array_equal(variable, 0.5 + 1j * ARRAYS["z"].imag)


def test_gradients_flow_through_a_part_that_is_assigned():
    def size(s):
        z = tnp.zeros(2, dtype="complex128")
        z.imag = tnp.stack([s, 3.0 * s])
        z.real = 1.0
        return tnp.sum(tnp.abs(z) ** 2)

    for call in (size, tapegrad.function(size)):
        slope = tapegrad.grad(call)(tapegrad.constant(2.0, "float64"))
        np.testing.assert_allclose(slope, 2 * (1 + 9) * 2.0, rtol=1e-14)


def test_rounded_whole_numbers_are_a_copy():
    for call in (tnp.round, lambda x: x.round(2), tnp.around):
        x = tnp.asarray([1, 2, 3])
        call(x)[0] = 9
        assert x.tolist() == [1, 2, 3]


def test_a_count_to_choose_from_may_be_a_tensor():
    drawn = tnp.random.default_rng(3).choice(tnp.asarray(5), 5, replace=False)

    assert sorted(drawn.tolist()) == [0, 1, 2, 3, 4]


def test_transforms_over_repeated_axes_have_the_derivative_of_their_linear_map():
    x = tapegrad.constant([1.0, -2.0, 0.5], "float64")
    matrix = np.stack([np.fft.rfftn(row, axes=(0, 0)) for row in np.eye(3)], axis=1)

    for part in (tnp.real, tnp.imag):
        found = tapegrad.jacobian(lambda v, part=part: part(tnp.fft.rfftn(v, axes=(0, 0))))(x)
        np.testing.assert_allclose(found, part(matrix), atol=1e-15)


def test_an_empty_median_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tnp.isnan(tnp.median(tnp.zeros(0)))
