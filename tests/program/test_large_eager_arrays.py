"""Eager operations on large arrays run as compiled loops and give the results of NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tapegrad_numpy.eager import families, formulas, rows, table
from tapegrad_numpy.eager.convolutions import DepthwiseKernel
from tapegrad_numpy.eager.formulas import Formula
from tapegrad_numpy.eager.rows import RowKernel
from tapegrad_numpy.eager.sizes import LARGE_FOR_MANY
from tapegrad_numpy.kernels.table import KERNELS
from tapegrad_numpy.loops import compiler, depthwise
from tests.seeds import chosen

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

TOLERANCE = {"float32": 3e-5, "float64": 1e-9}


class Counted:
    """A kernel of NumPy that notes its calls."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self.kernel = kernel
        self.calls = 0

    def __call__(self, *operands: Any, **params: Any) -> Any:
        self.calls += 1
        return self.kernel(*operands, **params)


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# All elementwise primitives


def results_of(sample: Sample, dtype: str) -> list[Any]:
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in sample.make()]
    tf.random.set_seed(3)
    found = sample.function(*[tf.constant(array) for array in arrays])
    return [np.asarray(part) for part in tf.nest.flatten(found)]


CHOSEN = chosen(all_samples(), 40, lambda sample: f"large {sample.name}")


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sample", CHOSEN, ids=repr)
def test_samples_are_computed_as_by_numpy(
    sample: Sample, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.errstate(all="ignore"):
        expected = results_of(sample, dtype)
        for module in (table, formulas, rows):
            monkeypatch.setattr(module, "LARGE", 1)
        found = results_of(sample, dtype)

    for one, other in zip(expected, found, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


# Which arrays run as loops


def multiply(x: Any, y: Any) -> tuple[Any, int]:
    plain = Counted(np.multiply)
    return Formula("multiply", plain)(x, y), plain.calls


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (numbers(200, 300), numbers(200, 300)),
        (numbers(200, 300), numbers(300)),
        (numbers(200, 1), numbers(200, 300)),
        (numbers(200, 300), 2.5),
        (2.5, numbers(200, 300)),
        (numbers(200, 300), np.float32(2.5)),
        (numbers(200, 300), numbers(1, 1)),
        (numbers(200, 300), np.broadcast_to(np.float32(2.5), (200, 300))),
        (numbers(200, 300, dtype="float64"), numbers(200, 300)),
        (numbers(200, 300), np.arange(300)),
    ],
    ids=lambda x: f"{getattr(x, 'dtype', type(x).__name__)}{list(np.shape(x))}",
)
def test_operands_that_broadcast_or_have_other_dtypes(x: Any, y: Any) -> None:
    result, calls = multiply(x, y)

    expected = np.multiply(x, y)
    assert calls == 0
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (numbers(300, 200).T, numbers(200, 300)),
        (numbers(200, 600)[:, ::2], 2.0),
        (np.arange(60_000), np.arange(60_000)),
        (numbers(60_000) * 1j, 2.0),
        (numbers(60_000), 2j),
        (numbers(60_000).astype(">f4"), 2.0),
    ],
    ids=[
        "transposed",
        "every second",
        "integers",
        "complex",
        "a complex number",
        "other byte order",
    ],
)
def test_other_arrays_are_left_to_numpy(x: Any, y: Any) -> None:
    result, calls = multiply(x, y)

    assert calls == 1
    np.testing.assert_array_equal(result, np.multiply(x, y))


def unaligned(array: Any) -> Any:
    """A copy that begins at an odd address."""
    memory = np.empty(array.nbytes + 1, np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_arrays_that_are_not_aligned() -> None:
    x = numbers(200, 300)
    odd = unaligned(x)

    np.testing.assert_array_equal(multiply(odd, x)[0], x * x)
    np.testing.assert_array_equal(multiply(x, x)[0], x * x)
    softmax = RowKernel("softmax", KERNELS["softmax"])
    np.testing.assert_allclose(softmax(odd, axis=1), softmax(x, axis=1), rtol=1e-5)


def test_many_different_params_are_not_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "_MOST_CONSTANTS", 2)
    monkeypatch.setenv("TAPEGRAD_CFLAGS", "-O0")
    plain = Counted(KERNELS["clip"])
    clip, x = Formula("clip", plain), numbers(50_000)

    for high in (0.25, 0.5, 0.75, 1.0):
        np.testing.assert_array_equal(clip(x, low=0.0, high=high), np.clip(x, 0.0, high))
    assert plain.calls == 2


def test_without_a_compiler_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapegrad_numpy.loops import compile as making

    monkeypatch.setattr(making, "find", lambda: None)
    x = numbers(50_000)
    result, calls = multiply(x, x)

    assert calls == 1
    np.testing.assert_array_equal(result, x * x)


def test_small_arrays_never_reach_a_loop() -> None:
    kernel = table.EagerKernels({"tanh": np.tanh})["tanh"]
    x = numbers(table.LARGE - 1)

    np.testing.assert_array_equal(kernel(x), np.tanh(x))


def test_an_update_writes_over_no_operand() -> None:
    variable = tf.Variable(numbers(200, 300))
    gradient = tf.constant(np.sign(numbers(200, 300, seed=1)))
    before = np.asarray(variable)
    optimizer = tf.optimizers.Adam(0.1)
    old = variable.numpy()

    optimizer.apply_gradients([(gradient, variable)])

    np.testing.assert_array_equal(before, old)
    moved = old - 0.1 * np.asarray(gradient)  # the first step of Adam
    np.testing.assert_allclose(variable.numpy(), moved, atol=1e-6)


# Rows

SHAPE = (4, 64, 512)


def special(dtype: str) -> Any:
    x = 3 * numbers(*SHAPE, dtype=dtype)
    x[0, 0], x[0, 1, 5], x[1, 1, 7], x[1, 2, 3] = -np.inf, np.nan, -np.inf, np.inf
    return x


def calls_of_rows(dtype: str) -> Any:
    """Yield names, operands and params of kernels that have rows."""
    x, t, z = special(dtype), numbers(*SHAPE, dtype=dtype), numbers(*SHAPE, dtype=dtype, seed=1)
    gain, bias = numbers(512, dtype=dtype, seed=2), numbers(512, dtype=dtype, seed=3)
    y = KERNELS["softmax"](z, axis=2)
    yield "softmax", (x,), {"axis": 2}
    yield "log_softmax", (x,), {"axis": 2}
    yield "softmax_gradient", (t, y), {"axis": 2}
    yield "log_softmax_gradient", (t, np.log(y)), {"axis": 2}
    yield "sparse_cross_entropy", (z, np.arange(256).reshape(4, 64)), {}
    flags = itertools.product((True, False), repeat=3)
    for center, scaled, shifted in chosen(flags, 4) or [(True, True, True)]:
        which = {"center": center, "scaled": scaled, "shifted": shifted}
        yield "normalize", (z, gain, bias), {"axes": (2,), "epsilon": 1e-3, **which}
    mean, variance = z.mean(2), z.var(2)
    for center in (True, False):
        params = {"axes": (2,), "epsilon": 1e-3, "center": center, "scaled": True}
        operands = t, z, gain, mean, variance
        yield "normalize_gradient", operands, {**params, "bias_shape": (512,)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_computed_as_by_numpy(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEGRAD_CFLAGS", "-O0")
    for name, operands, params in calls_of_rows(dtype):
        plain = Counted(KERNELS[name])
        with np.errstate(all="ignore"):
            found = RowKernel(name, plain)(*operands, **params)
            expected = KERNELS[name](*operands, **params)
        assert plain.calls == 0, name
        pairs = zip(found, expected) if type(expected) is tuple else [(found, expected)]
        for one, other in pairs:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            np.testing.assert_allclose(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("shape", "axis"), [((512, 512), 0), ((4, 100_000), 1), ((20, 100), 1)], ids=str
)
def test_columns_few_rows_and_small_arrays_are_left_to_numpy(shape: Any, axis: int) -> None:
    plain = Counted(KERNELS["softmax"])
    x = numbers(*shape)

    np.testing.assert_array_equal(
        RowKernel("softmax", plain)(x, axis=axis), KERNELS["softmax"](x, axis=axis)
    )
    assert plain.calls == 1


def test_the_table_names_the_kernels_of_rows_and_convolutions() -> None:
    assert set(rows.MAKERS) == families.ROWS
    assert depthwise.NAMES == families.CONVOLUTIONS


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(families.CONVOLUTIONS))
def test_depthwise_convolutions_are_computed_as_by_numpy(name: str, dtype: str) -> None:
    x, w, t = numbers(4, 20, 18, 24), numbers(3, 5, 1, 24, seed=1), numbers(4, 10, 18, 24, seed=2)
    geometry = {
        "strides": (2, 1), "padding": ((1, 1), (2, 2)), "dilation": (1, 1), "groups": 24,
    }  # fmt: skip
    operands, more = {
        "conv": ((x, w), {}),
        "conv_input_gradient": ((t, w), {"input_shape": x.shape}),
        "conv_filter_gradient": ((x, t), {"window": (3, 5)}),
    }[name]
    params: dict[str, Any] = {**geometry, **more}
    plain = Counted(KERNELS[name])

    found = DepthwiseKernel(name, plain)(*[a.astype(dtype) for a in operands], **params)

    exact = KERNELS[name](*[a.astype(dtype).astype("float64") for a in operands], **params)
    assert plain.calls == 0
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact, rtol=2e-3 if dtype == "float16" else 1e-4, atol=1e-2)


def test_a_wrong_label_is_named_in_large_arrays_too() -> None:
    logits, labels = numbers(100, 512), np.full(100, 512)

    with pytest.raises(ValueError, match=r"labels must be from 0 to 511.*label 512"):
        PRIMITIVES["sparse_cross_entropy"].kernel(np.ndarray)(logits, labels)


# Formulas of many passes


@pytest.mark.parametrize("name", ["erf", "ndtr", "sigmoid", "softplus"])
def test_formulas_of_many_passes_are_compiled_for_smaller_arrays(name: str) -> None:
    calls = []
    plain = table.EagerKernels(KERNELS).plain[name]

    def counted(*operands: Any, **params: Any) -> Any:
        calls.append(name)
        return plain(*operands, **params)

    kernel = table.EagerKernels({name: counted})[name]
    small, large = numbers(LARGE_FOR_MANY - 1), numbers(LARGE_FOR_MANY)
    kernel(small)
    assert calls == [name]
    found = kernel(large)
    assert calls == [name]
    np.testing.assert_allclose(found, plain(large.astype(float)), rtol=1e-5, atol=1e-7)
