"""Options mean what they mean in NumPy: dtypes and values of results, and what is refused."""

from __future__ import annotations

import builtins
import warnings

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tapegrad.errors import TapegradError
from tests.numpy.calls import ARRAYS
from tests.numpy.test_values import assert_same, run, tensors

SAME = """
np.var(z, where=b)
np.std(z, axis=1, where=b)
np.var(z, axis=0, mean=np.mean(z, axis=0, keepdims=True))
np.var(z, dtype=float)
np.std(z, axis=0, dtype=float)
np.var(z, dtype="complex64")
np.var(x, dtype=complex)
np.var(x, axis=0, dtype=int)
np.var(i, dtype="int8", axis=0)
np.var(i, dtype=bool)
np.std(i, dtype=complex)
np.mean(x, dtype=int)
np.mean(i, axis=0, dtype=int, where=b)
np.mean(b, dtype=bool)
np.sum(x, dtype=bool)
np.sum(b, axis=0, dtype=bool)
np.prod(i, axis=1, dtype=bool)
np.cumsum(b, axis=1, dtype=bool)
np.cumprod(i, axis=0, dtype=bool)
np.cumulative_sum(b, axis=0, dtype=bool, include_initial=True)
np.sum(i, axis=0, initial=2.5)
np.prod(i, initial=2.5)
np.sum(f, initial=np.asarray(2.5))
np.sum(x, initial=None)
np.nansum(i, initial=2.5)
np.max(i, axis=0, initial=2.5, where=b)
np.max(b, initial=0, where=b)
np.min(f, initial=np.asarray(2.5), where=b)
np.max(x, axis=0, initial=None)
np.nanvar(n, mean=np.nanmean(n, keepdims=True), dtype="float32")
np.nanstd(n, mean=np.nanmean(n, keepdims=True), dtype="float32")
np.nanvar(n, axis=0, mean=1.0, ddof=3)
np.nanmean(f, axis=1, where=b)
np.nanvar(f, where=b)
np.nanvar(z, axis=0)
np.nanstd(z, ddof=1, where=b)
np.nanvar(z, dtype=complex)
np.nanmean(i, dtype=int)
np.nanvar(i, axis=0, dtype=int)
np.var(x, ddof=1, where=False)
np.std(x, axis=0, ddof=1, where=np.zeros((3, 4), dtype=bool))
np.var(x, axis=0, ddof=5)
np.std(x, axis=0, ddof=3)
np.quantile(b, 0.3, axis=0, method="lower")
np.quantile(i, 1)
np.quantile(f, [0, 1])
np.cov(x, ddof=9)
np.cov(x, aweights=[1.0, 2.0, 1.0, 3.0], ddof=9)
np.average(n, axis=0, returned=True)
np.sort_complex(b)
np.setxor1d([1.0, math.nan], [2.0, math.nan])
np.union1d(f, 3)
np.concatenate([j, 7], axis=None)
np.append(j, 7)
np.bincount(b[0])
np.insert(x, [1], [[1.0], [2.0], [3.0]], axis=0)
np.insert(x, [1], [5.0, 6.0], axis=1)
np.insert(x, -12, 0.0)
np.insert(x, 3, 0.0, axis=0)
np.delete(x, [], axis=0)
np.size(x, axis=(0, 1))
np.size(x, axis=-1)
np.pad(x, 1, mode="mean", stat_length=2)
np.pad(i, (2, 1), mode="maximum", stat_length=(1, 2))
np.pad(i, 1, mode="median")
np.round(i, -1)
np.einsum("ii", b[:, :3])
np.linalg.lstsq(m.astype("float32"), c)[0]
np.linalg.vector_norm(x, ord=None)
np.asarray([1.7], dtype="int8")
np.asarray(np.asarray([200]), dtype="int8")
np.full_like(j, 7)
np.cov(x[:1], rowvar=False)
np.cov(x[:2], rowvar=False)
np.cov(x[:, :1], rowvar=False)
np.cov(v, rowvar=False)
np.cov(x[:2], y[:2], rowvar=False)
np.cov(x[:, :1], v[:3], rowvar=False)
np.cov(x[:1], y[:1], rowvar=True)
np.cov(2.5)
np.cov(x[:0])
np.corrcoef(x[:2], rowvar=False)
np.corrcoef(x[:2], y[:2], rowvar=False)
np.polydiv([1.0, 2.0, 1.0 + 5e-9], [1.0, 1.0])
np.polydiv([1.0, 2.0, 2e-8, 3.0], [1.0, 0.0, 0.0])
np.polydiv([1.0, 2.0, 5e-9, 3.0], [1.0, 0.0, 0.0])
np.polydiv([math.nan, 2.0, 3.0], [2.0, 1.0])
np.polydiv([1.0, 2.0, 3.0], [math.inf, 1.0])
np.linalg.matrix_rank(0 * x)
np.linalg.matrix_rank(np.zeros((2, 3, 2)))
np.linalg.matrix_rank(0 * m, hermitian=True)
np.linalg.matrix_rank(np.eye(3), tol=1.0)
np.linalg.matrix_rank(np.eye(3), rtol=1.0)
np.linalg.matrix_rank(np.diag([4.0, 2.0, 1.0]), tol=np.asarray(2.0))
"""

FAMILIES = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "laguerre": "lag",
    "hermite": "herm",
    "hermite_e": "herme",
}
OF_SERIES = [
    call.replace("MODULE", f"np.polynomial.{module}").replace("PREFIX", prefix)
    for module, prefix in FAMILIES.items()
    for call in (
        "MODULE.PREFIXcompanion([0.0, 1.0, 0.0, 2.0])",
        "MODULE.PREFIXcompanion([1.0, math.nan, 2.0, 3.0])",
        # Whether real roots are complex depends on the version of LAPACK.
        "MODULE.PREFIXroots([0.0, 0.0, 1.0]) + 0j",
    )
] + [
    f"np.polynomial.{kind}.fit([2.0, 2.0, 2.0], [1.0, 3.0, 5.0], 0).{part}"
    for kind in ("Polynomial", "Chebyshev", "Legendre", "Laguerre", "Hermite", "HermiteE")
    for part in ("coef", "domain.tolist()")
]

REFUSED = """
np.sum(x, initial=1j)
np.sum(x, initial=None, where=b)
np.max(j, initial=1j)
np.max(np.asarray([1], dtype="uint8"), initial=300)
np.std(x, axis=0, dtype=int)
np.nanmean(n, dtype=int)
np.nanvar(n, dtype=int)
np.nanstd(n, dtype=bool)
np.cov(x, dtype=int)
np.corrcoef(i, dtype=int)
np.cov(x, ddof=1.5)
np.cov(x, fweights=[1.5, 1, 1, 1])
np.cov(x, fweights=[-1, 1, 1, 1])
np.cov(x, aweights=[-1, 1, 1, 1])
np.nanmax(n, where=b)
np.nanmin(i, where=b)
np.quantile(z, 0.5)
np.nanquantile(b, 0.5)
np.average(x, axis=0, weights=[0, 0, 0])
np.average(x, weights=v)
np.insert(x, 1, 0, axis=5)
np.insert(x, 9, 0, axis=0)
np.insert(x, 1.5, 0)
np.insert(x, [[0, 1]], 0)
np.delete(x, 1, axis=5)
np.delete(x, 9, axis=0)
np.delete(x, [1.0], axis=0)
np.delete(x, [True, False], axis=0)
np.sort(x, order="name")
np.partition(x, 1.0)
np.pad(x, 1, mode="wrap", constant_values=1)
np.pad(x, 1, stat_length=1)
np.pad(x, 1, mode="maximum", stat_length=0)
np.choose(k, [c, c, c], mode="bad")
np.select([x], [x])
np.gradient(x, axis=(0, -2))
np.gradient(x, [0.0, 1.0, 2.0])
np.gradient(x, edge_order=3)
np.gradient(b)
np.linalg.norm(m, axis=(0, -2))
np.linalg.norm(m, 2, axis=(0, 5))
np.linalg.norm(t, axis=(0, 1, 2))
np.concatenate([x, f], casting="no")
np.concatenate([x, x], casting="bad")
np.stack([x, i], casting="equiv")
np.matmul(m, m.astype("float32"), casting="no")
np.vecdot(m, m.astype("float32"), casting="equiv")
np.matvec(c, c)
np.split(x, 2, axis=5)
np.split(x, 0)
np.split(x, "two")
np.array_split(x, [1], axis=5)
np.hsplit(x[0, 0], 1)
np.vsplit(v, 1)
np.dsplit(x, 1)
np.unstack(x, axis=5)
np.unstack(x, axis=1.0)
np.concatenate([x, x], axis=5)
np.concatenate([x, x], axis=1.0)
np.concatenate(3)
np.stack([x, x], axis=None)
np.linalg.cross(m, m, axis=5)
np.linalg.vecdot(x, x, axis=5)
np.linalg.outer(m, c)
np.size(x, axis=5)
np.size(x, axis=(0, 0))
np.asarray([300], dtype="int8")
np.array([[1, -1]], dtype="uint8")
np.asarray(300, dtype="int8")
np.asarray([1j], dtype=float)
np.full(2, 300, dtype="int8")
np.full_like(np.asarray([1], dtype="uint8"), -1)
np.round(b, 1)
np.diff(x, n=-1)
np.diff(b, n=-1)
np.diff(x, n=1.5)
np.ediff1d(i, to_begin=2.5)
np.digitize(z, [0.0, 1.0])
np.interp(z, [0.0, 1.0], [0.0, 1.0])
np.interp(x, [], [])
np.isin(x, x, kind="table")
np.bincount(k, minlength=-1)
np.bincount([-1])
np.bincount(k, z[0, :3])
np.bincount(x[0])
np.histogram(x, 0)
np.histogram(x, 2.5)
np.histogram(x, 3, range=(1, 0))
np.diagonal(x, axis1=5)
np.diagonal(x, axis1=0, axis2=-2)
np.trace(v)
np.expand_dims(x, 5)
np.resize(x, (2, -1))
np.roll(x, (1, 2, 3), axis=(0, 1))
np.trim_zeros(v, "x")
np.linspace(0, 1, 2.5)
np.geomspace(0, 1, 3)
np.linalg.eigvalsh(s, UPLO="bad")
np.linalg.matrix_rank(m, tol=1.0, rtol=0.1)
np.linalg.matrix_power(m, 1.5)
"""


@pytest.mark.parametrize("call", [*SAME.strip().split("\n"), *OF_SERIES])
def test_an_option_means_what_it_means_in_numpy(call):
    assert_same(run(call, tnp, tensors()), run(call, np, dict(ARRAYS)))


@pytest.mark.parametrize("call", REFUSED.strip().split("\n"))
def test_what_numpy_refuses_is_refused_by_an_error_of_both(call):
    with pytest.raises(Exception, match=r"\w") as theirs:
        run(call, np, dict(ARRAYS))
    expected = tuple(kind for kind in type(theirs.value).__mro__ if is_builtin_error(kind))

    with pytest.raises(TapegradError, match=r"\.$") as ours:
        run(call, tnp, tensors())

    assert isinstance(ours.value, expected)


def is_builtin_error(kind):
    is_error = kind.__module__ == builtins.__name__ and kind.__name__.endswith("Error")
    return is_error and kind is not ArithmeticError


@pytest.mark.parametrize("call", ["lstsq(m, t)", "multi_dot([m, np.stack([m, m]), m])"])
def test_linear_algebra_of_the_wrong_shape_is_numpys_error(call):
    for xp, arrays in ((np, dict(ARRAYS)), (tnp, tensors())):
        with pytest.raises(np.linalg.LinAlgError):
            run(f"np.linalg.{call}", xp, arrays)


def test_too_few_elements_for_a_variance_give_nan_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [tnp.var([1.0], ddof=1), tnp.std([1.0], ddof=1), tnp.var([1.0, 2.0], ddof=2)]

    np.testing.assert_array_equal([y.numpy() for y in found], [np.nan, np.nan, np.inf])


def test_a_deviation_of_one_element_has_the_gradient_zero():
    x = tnp.asarray([[1.0, 2.0], [3.0, 5.0]])
    where = tnp.asarray([[True, True], [True, False]])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = tnp.std(x, axis=0, where=where).sum()

    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [[-0.5, 0.0], [0.5, 0.0]], atol=1e-15)
