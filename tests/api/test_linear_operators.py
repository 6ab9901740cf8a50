"""Operators of tf.linalg against their dense matrices, which NumPy makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import linalg
from tapegrad.errors import ArgumentError, DTypeError, ShapeError

_RNG = np.random.default_rng(7)
_A = _RNG.normal(size=(3, 3)) + 3 * np.eye(3)
_B = _RNG.normal(size=(2, 2, 2)) + 3 * np.eye(2)
_C = _RNG.normal(size=(3, 3)) + 1j * _RNG.normal(size=(3, 3)) + 4 * np.eye(3)
_U, _V = _RNG.normal(size=(3, 2)), _RNG.normal(size=(3, 2))
_D, _W = np.array([1.5, -2.0, 3.0]), np.array([0.5, 2.0])
_BANDS = np.array([[0.7, -0.4, 0.9], [3.0, -2.5, 4.0], [0.6, -0.8, 0.5]])
_SPECTRUM = np.array([[4.0, 3.0, 2.0], [5.0, 6.0, 3.5]])
_COMPLEX_SPECTRUM = _SPECTRUM[0] + 1j * np.array([0.2, -0.5, 0.7])
_POSITIVE = _A @ _A.T

_full = linalg.LinearOperatorFullMatrix
_HINTS = {"is_self_adjoint": True, "is_positive_definite": True}


class Case(NamedTuple):
    """A function that makes an operator of tensors, the arrays for them, and the matrix."""

    make: Callable[..., Any]
    arrays: tuple[Any, ...]
    dense: Any


def _circulant(spectrum: Any) -> Any:
    """The matrix whose products are transforms forth and back, for any number of axes."""
    size = spectrum.size
    columns = np.eye(size).reshape(size, *spectrum.shape)
    axes = tuple(range(1, columns.ndim))
    found = np.fft.ifftn(np.fft.fftn(columns, axes=axes) * spectrum, axes=axes)
    return found.reshape(size, size).T


def _two_blocks(first: Any, below: Any, second: Any) -> Any:
    return np.block([[first, np.zeros((len(first), len(second)))], [below, second]])


CASES = {
    "full": Case(_full, (_A,), _A),
    "full of a batch": Case(_full, (_B,), _B),
    "full complex": Case(_full, (_C,), _C),
    "full positive": Case(
        lambda x: _full(tf.matmul(x, x, transpose_b=True), **_HINTS), (_A,), _POSITIVE
    ),
    "lower": Case(linalg.LinearOperatorLowerTriangular, (_A,), np.tril(_A)),
    "diag": Case(linalg.LinearOperatorDiag, (_D,), np.diag(_D)),
    "diag complex": Case(linalg.LinearOperatorDiag, (_D * 1j,), np.diag(_D * 1j)),
    "identity": Case(lambda: linalg.LinearOperatorIdentity(3, dtype="float64"), (), np.eye(3)),
    "scaled": Case(
        lambda x: linalg.LinearOperatorScaledIdentity(3, x),
        (_W,),
        _W[:, None, None] * np.eye(3),
    ),
    "adjoint": Case(lambda x: linalg.LinearOperatorAdjoint(_full(x)), (_C,), _C.conj().T),
    "inversion": Case(lambda x: linalg.LinearOperatorInversion(_full(x)), (_A,), np.linalg.inv(_A)),
    "composition": Case(
        lambda x, y: linalg.LinearOperatorComposition([_full(x), linalg.LinearOperatorDiag(y)]),
        (_A, _D),
        _A * _D,
    ),
    "kronecker": Case(
        lambda x, y: linalg.LinearOperatorKronecker([_full(x), _full(y)]),
        (_A, _B[0]),
        np.kron(_A, _B[0]),
    ),
    "kronecker of a batch": Case(
        lambda x, y: linalg.LinearOperatorKronecker([_full(x), linalg.LinearOperatorDiag(y)]),
        (_B, _D),
        np.stack([np.kron(b, np.diag(_D)) for b in _B]),
    ),
    "block diag": Case(
        lambda x, y: linalg.LinearOperatorBlockDiag([_full(x), linalg.LinearOperatorDiag(y)]),
        (_A, _W),
        _two_blocks(_A, np.zeros((2, 3)), np.diag(_W)),
    ),
    "block lower triangular": Case(
        lambda x, y, z: linalg.LinearOperatorBlockLowerTriangular(
            [[_full(x)], [_full(y), linalg.LinearOperatorDiag(z)]]
        ),
        (_A, _U.T, _W),
        _two_blocks(_A, _U.T, np.diag(_W)),
    ),
    "low rank": Case(
        lambda x, u, d, v: linalg.LinearOperatorLowRankUpdate(_full(x), u, d, v),
        (_A, _U, _W, _V),
        _A + _U * _W @ _V.T,
    ),
    "low rank positive": Case(
        lambda x, u: linalg.LinearOperatorLowRankUpdate(
            linalg.LinearOperatorDiag(x, is_positive_definite=True), u
        ),
        (abs(_D), _U),
        np.diag(abs(_D)) + _U @ _U.T,
    ),
    "circulant": Case(
        lambda x: linalg.LinearOperatorCirculant(x, "complex128"),
        (_COMPLEX_SPECTRUM,),
        _circulant(_COMPLEX_SPECTRUM),
    ),
    "circulant of real numbers": Case(
        lambda x: linalg.LinearOperatorCirculant(x, "float64"),
        (np.array([4.0, 2.0, 3.0, 2.0]),),
        _circulant(np.array([4.0, 2.0, 3.0, 2.0])).real,
    ),
    "circulant 2D": Case(
        lambda x: linalg.LinearOperatorCirculant2D(x, "complex128"),
        (_SPECTRUM,),
        _circulant(_SPECTRUM),
    ),
    "circulant 3D": Case(
        lambda x: linalg.LinearOperatorCirculant3D(x, "complex128"),
        (_SPECTRUM[:, None],),
        _circulant(_SPECTRUM[:, None]),
    ),
    "toeplitz": Case(
        linalg.LinearOperatorToeplitz,
        (np.array([4.0, 1.0, 2.0]), np.array([4.0, -1.0, 0.5])),
        np.array([[4.0, -1.0, 0.5], [1.0, 4.0, -1.0], [2.0, 1.0, 4.0]]),
    ),
    "householder": Case(
        linalg.LinearOperatorHouseholder, (_D,), np.eye(3) - 2 * np.outer(_D, _D) / (_D @ _D)
    ),
    "permutation": Case(
        lambda: linalg.LinearOperatorPermutation([2, 0, 1], "float64"),
        (),
        np.eye(3)[[2, 0, 1]],
    ),
    "tridiag": Case(
        linalg.LinearOperatorTridiag,
        (_BANDS,),
        np.diag(_BANDS[1]) + np.diag(_BANDS[0, :-1], 1) + np.diag(_BANDS[2, 1:], -1),
    ),
}

_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def _made(case: Case) -> Any:
    return case.make(*(tf.constant(array) for array in case.arrays))


def _adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def _right_side(case: Case, columns: int = 2) -> Any:
    values = np.random.default_rng(1).normal(size=(case.dense.shape[-1], columns))
    return values.astype(case.dense.dtype)


def _is_close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    assert np.shape(found) == np.shape(wanted)


@_cases
def test_products_and_solutions_are_those_of_the_matrix(case):
    operator, x = _made(case), _right_side(case)
    assert operator.shape == case.dense.shape

    for adjoint in (False, True):
        dense = _adjoint(case.dense) if adjoint else case.dense
        inverse = np.linalg.inv(dense)
        _is_close(operator.matmul(x, adjoint=adjoint), dense @ x)
        _is_close(operator.matmul(_adjoint(x), adjoint, adjoint_arg=True), dense @ x)
        _is_close(operator.matvec(x[:, 0], adjoint=adjoint), dense @ x[:, 0])
        _is_close(operator.solve(x, adjoint=adjoint), inverse @ x)
        _is_close(operator.solvevec(x[:, 0], adjoint=adjoint), inverse @ x[:, 0])


@_cases
def test_numbers_are_those_of_the_matrix(case):
    operator, dense = _made(case), case.dense
    x = _right_side(case, dense.shape[-1])

    _is_close(operator.to_dense(), dense)
    _is_close(operator.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1))
    _is_close(operator.trace(), np.trace(dense, axis1=-2, axis2=-1))
    _is_close(operator.determinant(), np.linalg.det(dense))
    _is_close(operator.log_abs_determinant(), np.linalg.slogdet(dense)[1])
    _is_close(operator.add_to_tensor(x), dense + x)
    _is_close(operator.cond(), np.linalg.cond(dense))


@_cases
def test_operators_of_operators_are_those_of_the_matrix(case):
    operator, dense = _made(case), case.dense

    _is_close(operator.H.to_dense(), _adjoint(dense))
    _is_close(operator.inverse().to_dense(), np.linalg.inv(dense))
    _is_close((operator @ operator).to_dense(), dense @ dense)
    _is_close(
        operator.solve(operator).to_dense(), np.broadcast_to(np.eye(dense.shape[-1]), dense.shape)
    )
    if operator.is_self_adjoint:
        values = np.sort(np.real(operator.eigvals().numpy()), axis=-1)
        _is_close(values, np.linalg.eigvalsh(dense))
    if operator.is_self_adjoint and operator.is_positive_definite:
        _is_close(operator.cholesky().to_dense(), np.linalg.cholesky(dense))


def _score(case: Case, *arrays: Any) -> Any:
    """A real number that depends on products, solutions and the determinant."""
    operator = case.make(*arrays)
    x = _right_side(case)
    parts = [operator.matmul(x), operator.solve(x), operator.log_abs_determinant()]
    return sum(tf.reduce_sum(tf.math.real(part * part + part)) for part in parts)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.arrays])
def test_gradients_are_differences(name):
    case = CASES[name]
    values = [tf.constant(array) for array in case.arrays]
    with tf.GradientTape() as tape:
        tape.watch(values)
        score = _score(case, *values)
    gradients = tape.gradient(score, values, unconnected_gradients="zero")

    rng = np.random.default_rng(2)
    steps = [rng.normal(size=array.shape) * 1e-6 for array in case.arrays]
    ends = [
        float(_score(case, *(tf.constant(a + sign * s) for a, s in zip(case.arrays, steps))))
        for sign in (1, -1)
    ]
    slope = sum(float(np.sum(np.real(g.numpy()) * s)) for g, s in zip(gradients, steps))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2, rtol=1e-5)
    recorded = tf.function(lambda *xs: _score(case, *xs))(*values)
    np.testing.assert_allclose(recorded, score, rtol=1e-10)


def test_variables_are_read_when_an_operator_computes():
    diag = tf.Variable([1.0, 2.0])
    operator = linalg.LinearOperatorDiag(diag)
    diag.assign([3.0, 4.0])

    with tf.GradientTape() as tape:
        y = tf.reduce_sum(operator.matvec([1.0, 1.0]))

    assert float(y) == 7.0
    assert tape.gradient(y, diag).tolist() == [1.0, 1.0]
    assert [v.numpy().tolist() for v in operator.trainable_variables] == [[3.0, 4.0]]


def test_a_class_of_a_program_needs_a_shape_and_a_product():
    class Twice(linalg.LinearOperator):
        def __init__(self):
            super().__init__(dtype=tf.float64)

        def _shape(self):
            return tf.TensorShape([2, 2])

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            return 2.0 * x

    assert Twice().solvevec([2.0, 4.0]).tolist() == [1.0, 2.0]
    assert float(Twice().determinant()) == 4.0


def test_blocks_are_taken_and_returned_as_lists():
    operator = linalg.LinearOperatorBlockDiag([_full(_A), linalg.LinearOperatorDiag(_W)])
    parts = [tf.constant(_U), tf.constant(_V[:2])]

    first, second = operator.matmul(parts)
    again = operator.solve([first, second])

    _is_close(first, _A @ _U)
    _is_close(second, _W[:, None] * _V[:2])
    _is_close(again[0], _U)


def test_products_with_simple_operators_stay_simple():
    diag = linalg.LinearOperatorDiag([1.0, 2.0])
    one = linalg.LinearOperatorIdentity(2)

    assert type(diag @ diag) is linalg.LinearOperatorDiag
    assert (diag @ one) is diag
    assert (one @ diag) is diag


def test_zeros_are_zeros():
    operator = linalg.LinearOperatorZeros(2, 3, is_square=False, dtype="float64")

    assert operator.matmul(_V).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert operator.to_dense().shape == (2, 3)
    assert operator.adjoint().to_dense().shape == (3, 2)


def test_assertions_find_what_does_not_hold():
    operator = _full([[0.0, 1.0], [0.0, 0.0]])

    for check in ("non_singular", "self_adjoint", "positive_definite"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            getattr(operator, f"assert_{check}")()
    _full(_POSITIVE).assert_positive_definite()


def test_conjugate_gradients_solve_and_have_gradients():
    rhs = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    values = tf.constant(_POSITIVE)
    with tf.GradientTape() as tape:
        tape.watch(values)
        operator = _full(values, **_HINTS)
        state = linalg.experimental.conjugate_gradient(operator, rhs, tol=1e-12)
        y = tf.reduce_sum(state.x)
    wanted = np.linalg.solve(_POSITIVE, rhs.T)
    expected = -np.linalg.inv(_POSITIVE).sum(axis=0)[:, None] * wanted.sum(axis=1)

    np.testing.assert_allclose(state.x, wanted.T, rtol=1e-8)
    # The steps assume a symmetric matrix, so that only the symmetric part is determined.
    gradient = tape.gradient(y, values).numpy()
    np.testing.assert_allclose(gradient + gradient.T, expected + expected.T, rtol=1e-7)
    assert 1 <= int(state.i) <= 20


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: _full([1.0]), ShapeError, "at least 2 axes"),
        (lambda: _full([[1, 2]]), DTypeError, "floating-point"),
        (lambda: _full(_A).matmul(np.ones((2, 2))), ShapeError, "needs 3 rows"),
        (lambda: _full(_A).matvec(tf.ones([3])), DTypeError, "float32"),
        (lambda: _full(_A, is_non_singular=False).solve(_A), ArgumentError, "not singular"),
        (lambda: _full(_U).determinant(), ArgumentError, "square"),
        (lambda: _full(_A).cholesky(), ArgumentError, "is_positive_definite=True"),
        (lambda: _full(_A, is_square="yes"), (ArgumentError, TypeError), "is_square"),
        (lambda: linalg.LinearOperatorDiag(_D, is_self_adjoint=False), ArgumentError, "always"),
        (lambda: linalg.LinearOperatorKronecker([_A]), ArgumentError, "LinearOperator"),
        (lambda: linalg.LinearOperatorComposition([]), ArgumentError, "at least one"),
        (lambda: linalg.LinearOperatorToeplitz(_D, _W), ShapeError, "same length"),
        (lambda: linalg.LinearOperatorPermutation([0.5]), DTypeError, "integers"),
        (lambda: linalg.LinearOperatorLowRankUpdate(_full(_A), _W[:, None]), ShapeError, "3 rows"),
    ],
)
def test_wrong_arguments_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
