"""Products of small matrices in C are as accurate as NumPy's."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler, matrix_products
from tapegrad_numpy.loops.entry_points import CShapeSpecializer

needs_compiler = pytest.mark.skipif(
    compiler.find() is None, reason="this machine has no C compiler"
)
FORMS = [(False, False), (True, False), (False, True)]


@pytest.fixture(autouse=True)
def _this_machine_has_many_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable the kernels on all machines: they are correct everywhere, but not always faster."""
    monkeypatch.setattr(matrix_products, "_MACHINES", (platform.machine(),))


def draw(*shapes: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def operands(rows: int, columns: int, deep: int, form: tuple[bool, bool], dtype: str) -> list[Any]:
    first = (deep, rows) if form[0] else (rows, deep)
    second = (columns, deep) if form[1] else (deep, columns)
    return draw(first, second, dtype=dtype)


def made(a: Any, b: Any, form: tuple[bool, bool]) -> Any:
    params = {"transpose_a": form[0], "transpose_b": form[1]}
    (kernel,) = CShapeSpecializer().specialize(
        [("matmul", [(a.shape, a.dtype), (b.shape, b.dtype)], params)]
    )
    return None if kernel is None else lambda a, b: kernel(a, b, **params)


def exact(a: Any, b: Any, form: tuple[bool, bool]) -> Any:
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    return (a.T if form[0] else a) @ (b.T if form[1] else b)


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes", [(1, 16, 1), (3, 16, 5), (4, 32, 7), (5, 48, 65), (33, 16, 100), (2, 16, 256)]
)
def test_small_products_are_exact_to_rounding(
    form: tuple[bool, bool], dtype: str, sizes: tuple[int, int, int]
) -> None:
    a, b = operands(*sizes, form, dtype)
    kernel = made(a, b, form)

    result = kernel(a, b)

    # Rounding errors grow with the sum of magnitudes, here of at most 256 terms.
    allowed = 40 * np.finfo(dtype).eps * exact(abs(a), abs(b), form)
    assert (result.dtype, result.shape) == (a.dtype, sizes[:2])
    assert (abs(result - exact(a, b, form)) <= allowed).all()


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
def test_arrays_that_do_not_lie_in_order_give_the_same(form: tuple[bool, bool]) -> None:
    a, b = operands(8, 16, 8, form, "float64")
    kernel = made(a, b, form)

    result = kernel(np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2])

    np.testing.assert_allclose(result, exact(a, b, form).astype("f8"), rtol=1e-13, atol=1e-13)


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
def test_infinities_and_nan_come_through(form: tuple[bool, bool]) -> None:
    a, b = operands(6, 16, 9, form, "float32")
    (a.T if form[0] else a)[2, 3] = np.inf
    (a.T if form[0] else a)[4, 1] = np.nan
    (b.T if form[1] else b)[3, 5] = 0

    result = made(a, b, form)(a, b)

    assert np.isnan(result[4]).all()
    assert np.isnan(result[2, 5])
    assert np.isinf(np.delete(result[2], 5)).all()
    assert np.isfinite(np.delete(result, [2, 4], axis=0)).all()


@pytest.mark.parametrize(
    ("sizes", "form"),
    [
        ((0, 16, 4), (False, False)),
        ((4, 16, 0), (False, False)),
        ((4, 15, 4), (False, False)),
        ((4, 6, 64), (False, True)),
        ((4, 16, 4), (True, True)),
        ((128, 128, 64), (False, False)),
        ((256, 32, 32), (False, True)),
        ((1, 128, 128), (False, False)),
        ((1, 16, 513), (False, False)),
    ],
    ids=str,
)
def test_what_blas_does_as_well_is_left_to_it(
    sizes: tuple[int, int, int], form: tuple[bool, bool]
) -> None:
    a, b = operands(*sizes, form, "float32")

    assert made(a, b, form) is None


def test_products_of_other_dtypes_are_left_to_numpy() -> None:
    a, b = operands(4, 16, 4, FORMS[0], "complex128")

    assert made(a, b, FORMS[0]) is None


def test_machines_on_which_it_was_not_measured_keep_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_products, "_MACHINES", ())
    a, b = operands(4, 16, 4, FORMS[0], "float32")

    assert made(a, b, FORMS[0]) is None


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
def test_a_recorded_function_multiplies_in_c(
    monkeypatch: pytest.MonkeyPatch, form: tuple[bool, bool]
) -> None:
    a, b = operands(8, 16, 64, form, "float64")
    multiply = tf.function(lambda a, b: tf.matmul(a, b, transpose_a=form[0], transpose_b=form[1]))
    multiply(tf.constant(a), tf.constant(b))
    monkeypatch.setattr(np, "matmul", None)

    results = [multiply(tf.constant(a), tf.constant(b)).numpy() for _ in range(2)]

    np.testing.assert_allclose(results[0], exact(a, b, form).astype("f8"), rtol=1e-12, atol=1e-12)
    assert results[0].tobytes() == results[1].tobytes()
