"""autograd.numpy: NumPy's own functions on arrays, recorded ones on traced values."""

from __future__ import annotations

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest

import tapegrad.compat.autograd.numpy as np
import tapegrad.compat.autograd.numpy.random as npr
import tapegrad.numpy as tensors
from tapegrad.compat.autograd import elementwise_grad, grad, jacobian
from tapegrad.compat.autograd.numpy.numpy_boxes import ArrayBox
from tapegrad.compat.autograd.numpy.numpy_vjps import (
    match_complex,
    metadata,
    replace_zero,
    unbroadcast,
)
from tapegrad.compat.autograd.numpy.numpy_wrapper import wrap_namespace
from tapegrad.compat.autograd.test_util import check_grads
from tapegrad.compat.autograd.tracer import getval

X = onp.array([0.3, -1.2, 2.0])


@pytest.mark.parametrize("module", ["", "linalg", "fft", "random"])
def test_every_name_of_numpy_is_there(module):
    ours, theirs = (getattr(m, module) if module else m for m in (np, onp))

    assert [name for name in theirs.__all__ if not hasattr(ours, name)] == []
    assert set(dir(ours)) >= {name for name in theirs.__all__ if not name.startswith("_")}


@pytest.mark.usefixtures("on_the_cpu")
def test_arrays_are_answered_by_numpy():
    for value in (np.sin(X), np.zeros(3), np.array([1, 2]), np.linalg.inv(onp.eye(2))):
        assert type(value) is onp.ndarray
    assert type(np.sum(X)) is onp.float64
    assert np.pi == onp.pi
    assert np.newaxis is None
    assert np.ndarray is onp.ndarray


def test_names_that_nobody_has_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"Neither numpy nor tapegrad\.numpy has"):
        _ = np.nothing
    with pytest.raises(AttributeError, match=r"numpy\.random has no 'nothing'"):
        _ = npr.nothing


def test_a_star_import_brings_numpy():
    names: dict[str, object] = {}
    exec("from tapegrad.compat.autograd.numpy import *", names)

    assert names["sin"] is np.sin
    assert names["linalg"] is np.linalg


@pytest.mark.usefixtures("on_the_cpu")
def test_traced_values_have_the_face_of_arrays():
    seen = {}

    def f(x):
        seen.update(shape=x.shape, ndim=x.ndim, size=x.size, dtype=x.dtype, length=len(x))
        seen.update(box=isinstance(x, ArrayBox), array=isinstance(x, onp.ndarray), value=x._value)
        return x.T.reshape(1, 3).sum(axis=0).max() + x.mean() * x.std() + np.float64(1.0)

    assert grad(f)(X).shape == (3,)

    assert (seen["shape"], seen["ndim"], seen["size"], seen["length"]) == ((3,), 1, 3, 3)
    assert seen["dtype"] == onp.float64
    assert seen["box"]
    assert not seen["array"]
    assert type(seen["value"]) is onp.ndarray


@pytest.mark.usefixtures("on_the_cpu")
def test_results_without_derivative_are_arrays_inside_a_trace():
    def f(x):
        assert type(np.argmax(x)) is onp.int64
        assert type(np.isnan(x)) is onp.ndarray
        assert np.allclose(x, X)
        return X[np.argmax(x)] * x[0]

    assert grad(f)(X)[0] == 2.0


def test_control_flow_and_masks_read_traced_values():
    def f(x):
        total = 0.0
        for entry in x:
            total = total + entry**2 if entry > 0 else total - entry
        return total + np.sum(X[x > 0] * x[x > 0])

    onp.testing.assert_allclose(grad(f)(X), [0.9, -1.0, 6.0])


def test_lists_of_traced_values_become_arrays():
    def f(x):
        square = np.array([[x[0], 1.0], [2.0, x[1] * x[2]]])
        return np.linalg.det(square) + np.sum(np.concatenate([[x[0]], x])) + np.stack(list(x))[1]

    check_grads(f)(X)


def test_iterators_are_joined():
    assert np.stack(map(onp.sin, X)).shape == (3,)
    assert grad(lambda x: np.sum(np.concatenate((v,) * 2 for v in x)))(X).tolist() == [2.0] * 3


def test_dtypes_of_traced_values_are_understood_by_numpy():
    def f(x):
        assert onp.zeros(2, x.dtype).dtype == onp.float32
        assert np.finfo(x.dtype).eps == onp.finfo("float32").eps
        assert np.issubdtype(x.dtype, np.floating)
        return np.sum(x * np.ones(3, dtype=x.dtype))

    assert grad(f)(X.astype("float32")).dtype == onp.float32


@pytest.mark.usefixtures("on_the_cpu")
def test_brackets_make_arrays_of_traced_values():
    check_grads(lambda x: np.sum(np.r_[x, 1.0, x[0]] ** 2) + np.sum(np.c_[x, x**2]))(X)
    assert type(np.r_[1.0, 2.0]) is onp.ndarray


def test_ties_share_the_gradient():
    ones = onp.ones(2)

    assert elementwise_grad(np.maximum)(ones, ones).tolist() == [0.5, 0.5]
    assert elementwise_grad(np.minimum, 1)(ones, ones).tolist() == [0.5, 0.5]
    assert grad(np.max)(onp.ones(4)).tolist() == [0.25] * 4


def test_where_takes_names():
    assert np.where(condition=X > 0, x=X, y=0.0).tolist() == [0.3, 0.0, 2.0]
    assert np.where(X > 0)[0].tolist() == [0, 2]
    assert np.where(True, [1], [2]) == [1]
    assert grad(lambda x: np.sum(np.where(x > 0, x=x**2, y=0.0)))(X).tolist() == [0.6, 0.0, 4.0]


def test_partitions_are_ordered_as_numpy_orders_arrays():
    x = npr.RandomState(0).randn(14)

    check_grads(lambda x: np.partition(x, 3))(x)
    check_grads(lambda x: np.partition(x, 3, axis=None))(x.reshape(2, 7))


@pytest.mark.parametrize("half", ["L", "U"])
def test_eigenvectors_have_the_signs_that_numpy_gives_arrays(half):
    matrix = npr.RandomState(0).randn(6, 6)

    check_grads(lambda m: tuple(np.linalg.eigh(m, half)))(matrix)


def test_make_diagonal_is_the_opposite_of_diagonal():
    check_grads(lambda x: np.make_diagonal(x, axis1=-1, axis2=-2))(onp.ones((2, 3)))
    with pytest.raises(ValueError, match="make_diagonal supports only offset=0"):
        np.make_diagonal(X, offset=1)


def test_types_of_integers_make_constants_of_traced_values():
    def f(x):
        return np.sum(x[np.int64(np.abs(x))] * x)

    onp.testing.assert_allclose(grad(f)(onp.array([0.5, 1.5])), [1.0, 3.0])
    assert isinstance(onp.int32(1), np.int32)
    assert np.issubdtype(onp.int64, np.int64)
    assert onp.zeros(1, np.int16).dtype == onp.int16


@pytest.mark.parametrize(
    "leave",
    [
        lambda x: float(x[0]),
        lambda x: onp.asarray(x).sum(),
        lambda x: complex(x[0]).real,
        lambda x: int(x[0]),
        lambda x: [1.0, 2.0][x[0]],
        lambda x: x[0].item(),
        lambda x: x.tolist()[0],
    ],
)
def test_a_value_that_would_lose_its_derivative_is_refused(leave):
    with pytest.raises(TypeError, match="its derivative would be lost"):
        grad(lambda x: leave(x) * 1.0)(X)


@pytest.mark.usefixtures("on_the_cpu")
def test_a_traced_value_is_not_written_into_an_array():
    def f(x):
        table = np.zeros(3)
        table[0] = x
        return np.sum(table)

    with pytest.raises(ValueError, match="setting an array element") as caught:
        grad(f)(2.0)
    assert "make that array with tapegrad.numpy.zeros" in str(caught.value.__cause__)


def test_a_traced_value_is_written_into_a_tensor():
    def f(x):
        table = tensors.zeros(3)
        for i in range(3):
            table[i] = x[i] ** (i + 1)
        return np.sum(table**2)

    check_grads(f)(X)


def test_writing_into_the_argument_is_recorded():
    def f(a, b):
        a[1] = b * a[0]
        return np.sum(a**2)

    found = grad(f, (0, 1))(X.copy(), 3.0)

    onp.testing.assert_allclose(found[0], [2 * 0.3 + 2 * 9 * 0.3, 0.0, 4.0])
    onp.testing.assert_allclose(found[1], 2 * 3.0 * 0.09)


def test_a_function_without_derivative_says_so():
    with pytest.raises(NotImplementedError, match="asmatrix has no derivative here"):
        grad(lambda x: np.sum(np.asmatrix(x)))(X)


def test_a_function_about_its_argument_answers_traced_values():
    assert grad(lambda x: x[0] * (1.0 if np.isfortran(x) else 2.0))(X)[0] == 2.0


def test_random_numbers_take_traced_parameters_as_constants():
    npr.seed(0)
    draws = grad(lambda x: np.sum(x * npr.normal(getval(x[0]), 1.0, 3)))(X)

    onp.testing.assert_allclose(draws, npr.RandomState(0).normal(0.3, 1.0, 3))


def test_jacobians_of_numpy_functions_with_matrices():
    rows = npr.RandomState(1).randn(3, 3)
    square = rows @ rows.T + 3 * onp.eye(3)

    for f in (np.linalg.cholesky, np.linalg.inv, lambda m: np.linalg.eigh(m)[0], np.fft.fft):
        jac = jacobian(lambda m, f=f: np.real(f(m)))(square)
        assert jac.shape[-2:] == (3, 3)
        check_grads(lambda m, f=f: f((m + m.T) / 2), order=1)(square)


def test_extenders_undo_broadcasts():
    assert unbroadcast(onp.ones((2, 3)), metadata(onp.zeros((2, 1)))).tolist() == [[3.0], [3.0]]
    assert unbroadcast(onp.ones(3) + 1j, metadata(onp.zeros(3))).dtype == onp.float64
    assert replace_zero(onp.array([0.0, 2.0]), 1.0).tolist() == [1.0, 2.0]
    for target, x in [(1.0, 2.0), (1.0, 2.0 + 3.0j), (1j, 2.0), (1j, 2.0 + 3.0j)]:
        found = match_complex(target, onp.array([x]))
        assert found.dtype == onp.array([target]).dtype
        assert found == (onp.real(x) if target == 1.0 else x)


def test_extenders_wrap_modules():
    names: dict[str, object] = {}
    wrap_namespace({"sin": onp.sin, "bent": lambda x: x**2, "pi": onp.pi}, names)

    assert names["pi"] == onp.pi
    assert grad(names["sin"])(0.0) == 1.0
    with pytest.raises(NotImplementedError, match="is not defined"):
        grad(names["bent"])(1.0)
