"""Elementwise kernels compiled from formulas, for every layout, dtype and type of operand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.elementwise import bits
from tapegrad_cupy.kernels.elementwise import formula as elementwise
from tapegrad_cupy.kernels.products import products
from tapegrad_cupy.launch import launch

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = ["float16", BFLOAT16, "float32", "float64", "complex64", "complex128"]
TOLERANCE = {2: 1e-2, 4: 1e-5, 8: 1e-5, 16: 1e-12}


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with tf.device("cuda:0"):
        yield


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What formulas have launched; calls of other kernels do not count."""
    made: list[Any] = []
    inner = launch._launch_kernel

    def counting(*args: Any) -> None:
        made.append(args)
        inner(*args)

    monkeypatch.setattr(launch, "_launch_kernel", counting)
    return made


def values(shape: Any, dtype: Any = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    host = rng.uniform(0.25, 2.0, shape)
    if np.dtype(dtype).kind == "c":
        host = host + 1j * rng.uniform(-1.0, 1.0, shape)
    return cupy.asarray(host).astype(dtype)


def check(function: Callable[..., Any], *arrays: Any) -> None:
    """Compare with the same function on the host in double precision."""
    result = function(*[tf.convert_to_tensor(array) for array in arrays])

    wide = [array.get().astype("complex128" if array.dtype.kind == "c" else "float64")
            for array in arrays]  # fmt: skip
    with tf.device("cpu"):
        expected = function(*[tf.constant(array) for array in wide]).numpy()
    assert result.array.dtype == arrays[0].dtype
    assert result.shape == expected.shape
    found = result.array.get().astype(expected.dtype)
    tolerance = TOLERANCE[arrays[0].dtype.itemsize // (2 if arrays[0].dtype.kind == "c" else 1)]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [0, 1, 3, 4, 1000, 1027])
def test_a_formula_of_whole_arrays(dtype: Any, size: int) -> None:
    check(lambda x, y: tf.exp(x) * y, values(size, dtype), values(size, dtype, 1))
    check(lambda x, y: tf.sqrt(x) / y, values(size, dtype), values(size, dtype, 1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((5, 7), (7,)),
        ((8, 16), (16,)),
        ((5, 7), (5, 1)),
        ((8, 16), (8, 1)),
        ((3, 1, 8), (1, 5, 8)),
        ((3, 4, 1), (1, 1, 8)),
        ((), (4, 4)),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((0, 3), (1, 3)),
    ],
)
def test_operands_broadcast(dtype: str, one: Any, other: Any) -> None:
    check(lambda x, y: x * y + y, values(one, dtype), values(other, dtype, 1))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a[1:, 1:],
        lambda a: a[:, 3:],
        lambda a: a.reshape(-1)[1:],
        lambda a: a.reshape(4, 3, 16).transpose(2, 0, 1),
        lambda a: cupy.broadcast_to(a[:1], a.shape),
        lambda a: a[:, 2],
    ],
)
def test_views_are_read_where_they_lie(view: Callable[[Any], Any]) -> None:
    a = view(values((12, 16)))
    check(lambda x: tf.tanh(x) * x, a)
    check(lambda x, y: x / y, a, values(a.shape, seed=2))


def test_numbers_are_passed_not_compiled_in() -> None:
    x = tf.convert_to_tensor(values(100))
    formula = tf.multiply.primitive.kernel(cupy.ndarray)
    _ = x * 0.5
    plans = len(formula._plans)

    results = [x * number for number in (1.5, 2.5, -0.125)]

    assert len(formula._plans) == plans
    for number, result in zip((1.5, 2.5, -0.125), results):
        np.testing.assert_array_equal(result.numpy(), x.numpy() * np.float32(number))


@pytest.mark.parametrize("number", [2, True, 0.1, -3])
def test_kinds_of_numbers(number: Any) -> None:
    x = values((3, 5), "float64")
    np.testing.assert_array_equal((tf.convert_to_tensor(x) * number).numpy(), x.get() * number)
    np.testing.assert_array_equal((number - tf.convert_to_tensor(x)).numpy(), number - x.get())


def test_a_function_that_looks_at_its_number_gets_a_kernel_for_each() -> None:
    x = tf.convert_to_tensor(values(50, "float64"))
    for exponent in (1.5, 2.5, -0.25):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**exponent
        gradient = tape.gradient(y, x)
        np.testing.assert_allclose(y.numpy(), x.numpy() ** exponent, rtol=1e-13)
        expected = exponent * x.numpy() ** (exponent - 1)
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x, y: x * y, 1),
        (lambda x, y: x / y, 1),
        (tf.math.atan2, 1),
        (tf.math.xlogy, 1),
        (lambda x, y: x + y, 0),
        (tf.maximum, 1),
    ],
)
def test_all_gradients_of_an_op_come_from_one_launch(
    function: Any, count: int, launches: list[Any]
) -> None:
    x, y, t = (tf.convert_to_tensor(values(64, "float64", seed)) for seed in range(3))
    for _ in range(2):  # the first time kernels are compiled
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = function(x, y)
        launches.clear()
        gradients = tape.gradient(z, [x, y], t)

    assert len(launches) == count
    with tf.device("cpu"):
        host = [tf.constant(value.numpy()) for value in (x, y, t)]
        with tf.GradientTape() as tape:
            tape.watch(host[:2])
            z = function(*host[:2])
        expected = tape.gradient(z, host[:2], host[2])
    for one, other in zip(gradients, expected):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "activation", [tf.tanh, tf.sigmoid, tf.nn.relu, tf.nn.silu, tf.nn.softplus, tf.nn.leaky_relu]
)
def test_a_kernel_of_many_steps_is_one_launch_each_way(
    activation: Any, launches: list[Any]
) -> None:
    x, t = tf.convert_to_tensor(values(64)), tf.convert_to_tensor(values(64, seed=1))
    for _ in range(2):
        launches.clear()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = activation(x)
        tape.gradient(y, x, t)

    assert len(launches) == 2


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("to", ["float16", "bfloat16", "float32", "float64", "int64", "bool"])
def test_casts(dtype: Any, to: str) -> None:
    x = cupy.asarray(np.array([0.0, 1.0, 2.5, 100.0, 7.0])).astype(dtype)

    result = tf.cast(tf.convert_to_tensor(x), to)

    expected = x.get().astype(result.array.dtype)
    np.testing.assert_array_equal(result.array.get().astype("float64"), expected.astype("float64"))


def test_a_value_used_often_adds_its_gradients_in_place(launches: list[Any]) -> None:
    x = tf.convert_to_tensor(values(100, "float64"))

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = x * 2.0
            for number in (3.0, 4.0, 5.0):
                total = total + x * number
        return tape.gradient(total, x)

    np.testing.assert_allclose(gradient().numpy(), np.full(100, 14.0))


def test_products_add_to_the_gradient_of_a_matrix_that_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sums: list[bool] = []
    inner = products.matmul

    def counting(*args: Any, total: Any = None, **params: Any) -> Any:
        sums.append(total is not None)
        return inner(*args, total=total, **params)

    monkeypatch.setattr(products, "matmul", counting)
    w, x = (
        tf.Variable(values((6, 6), "float64") / 6),
        tf.convert_to_tensor(values((3, 6), "float64")),
    )
    h = x
    with tf.GradientTape() as tape:
        for _ in range(4):
            h = tf.tanh(h @ w)
    gradient = tape.gradient(h, w)

    assert sums.count(True) == 3
    with tf.device("cpu"):
        w, h = tf.Variable(w.numpy()), tf.constant(x.numpy())
        with tf.GradientTape() as tape:
            for _ in range(4):
                h = tf.tanh(h @ w)
        expected = tape.gradient(h, w)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-12)


def test_second_derivatives_and_vmap_take_the_same_kernels() -> None:
    x = tf.convert_to_tensor(values(20, "float64"))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.tanh(x) * tf.exp(x)
        first = inner.gradient(y, x)
    second = outer.gradient(first, x)

    h, e = np.tanh(x.numpy()), np.exp(x.numpy())
    s = 1 - h * h
    np.testing.assert_allclose(second.numpy(), e * (h + 2 * s - 2 * h * s), rtol=1e-11)


def test_plans_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise, "MOST_PLANS", 8)
    formula = tf.multiply.primitive.kernel(cupy.ndarray)

    for size in range(1, 40):
        _ = tf.convert_to_tensor(values(size)) * 2.0

    assert len(formula._plans) <= 8


def test_operands_on_a_stream_of_the_user() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = tf.convert_to_tensor(values(1 << 20))
        y = x
        for _ in range(20):
            y = y * 1.5 - 0.5
        result = y.numpy()
    expected = x.numpy()
    for _ in range(20):
        expected = expected * np.float32(1.5) - np.float32(0.5)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_a_new_thread_launches_too() -> None:
    results: list[Any] = []

    def work() -> None:
        with tf.device("cuda:0"):
            x = tf.convert_to_tensor(values(16, "float64"))
            results.append((tf.reduce_sum(x * 2.0) + 1.0).numpy())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    np.testing.assert_allclose(results, [values(16, "float64").get().sum() * 2 + 1], rtol=1e-13)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, -3e-39, 1.1754944e-38, 3.4028235e38, np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_reach_below_the_smallest_normal_number(dtype: str) -> None:
    x, y = (a.astype(dtype).ravel() for a in np.meshgrid(EDGES, EDGES))
    with np.errstate(all="ignore"):
        expected = [np.nextafter(x, y), np.spacing(x)]

    found = [tf.math.nextafter(tf.constant(x), tf.constant(y)), bits.spacing(tf.constant(x))]

    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
        number = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(ours.numpy())[number], np.signbit(theirs)[number])


@pytest.mark.parametrize("name", ["log", "log1p", "tanh", "acosh"])
def test_complex_functions_at_infinities_and_signed_zeros(name: str) -> None:
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts])
    with tf.device("cpu"), np.errstate(all="ignore"):
        expected = getattr(tf.math, name)(tf.constant(z)).numpy()

    found = getattr(tf.math, name)(tf.constant(z)).numpy()

    np.testing.assert_allclose(found.real, expected.real, rtol=1e-14, err_msg=f"{name} of {z}")
    np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-14, err_msg=f"{name} of {z}")
