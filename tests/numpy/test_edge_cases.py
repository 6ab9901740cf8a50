"""Rare arguments mean what they mean in NumPy: values, dtypes, and the classes of errors."""

from __future__ import annotations

import pickle
import warnings

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


def lines(text):
    return text.strip().split("\n")


@pytest.mark.parametrize("call", lines(SAME))
def test_the_result_is_numpys(call):
    assert_same(run(call, tnp, tensors()), run(call, np, dict(ARRAYS)))


@pytest.mark.parametrize("call", lines(REFUSED))
def test_the_error_is_of_numpys_class(call):
    with pytest.raises((TypeError, ValueError, IndexError)) as theirs:
        run(call, np, dict(ARRAYS))

    with pytest.raises(tapegrad.errors.TapegradError) as ours:
        run(call, tnp, tensors())

    assert isinstance(ours.value, theirs.type)


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


def test_an_empty_median_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tnp.isnan(tnp.median(tnp.zeros(0)))
