"""Products with a bias, a residual or an activation, against NumPy in double precision."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.precision import TF32
from tapegrad.ops.products.fused import matmul_sum_p
from tapegrad.program.emit.lowering import plain_steps, to_python
from tapegrad.program.passes.epilogues import with_epilogues

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
epilogues = pytest.importorskip("tapegrad_cupy.kernels.products.epilogues")
products = pytest.importorskip("tapegrad_cupy.kernels.products.products")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = [np.dtype("float16"), BFLOAT16]
REAL = [*HALVES, np.dtype("float32"), np.dtype("float64")]
DTYPES = [*REAL, np.dtype("complex64"), np.dtype("complex128")]
FLAGS = list(itertools.product((False, True), repeat=2))
SIZES = [(1, 1, 1), (3, 17, 64), (17, 3, 129), (64, 129, 17), (129, 64, 3), (64, 64, 64),
         (1, 64, 17), (64, 1, 17), (17, 129, 1), (256, 512, 1024)]  # fmt: skip
FORMS = [(bias, residual) for bias in (False, True) for residual in (False, True)]


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    value = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.normal(size=shape)
    return cupy.asarray(value.astype(dtype))


def exact(array: Any) -> Any:
    array = cupy.asnumpy(array)
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def turn(array: Any, transpose: bool) -> Any:
    return array.swapaxes(-1, -2) if transpose else array


def activate(x: Any, activation: str | None) -> Any:
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "gelu_tanh":
        with np.errstate(over="ignore"):  # far on the left it is 0
            return x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))
    return x


def check(
    got: Any, a: Any, b: Any, bias: Any = None, residual: Any = None, activation: str | None = None
) -> None:
    """Compare within roundings of the dtype times the sum of all magnitudes.

    In 16 bits there are up to four of them, where the parts are computed one after the other.
    """
    a, b = exact(a), exact(b)
    want, size = a @ b, abs(a) @ abs(b)
    for addend in (bias, residual):
        if addend is not None:
            want, size = want + exact(addend), size + abs(exact(addend))
    info = ml_dtypes.finfo(got.dtype)
    bound = float(info.eps) * (2 if got.dtype.itemsize == 2 else 16) * size + float(info.tiny)

    assert got.shape == want.shape
    assert got.flags.c_contiguous
    np.testing.assert_array_less(abs(exact(got) - activate(want, activation)), bound)


def compute(
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    activation: str | None = None,
    flags: tuple[bool, bool] = (False, False),
) -> Any:
    """Run the kernel; `a` and `b` are as they should be after transposing."""
    addends = [array for array in (bias, residual) if array is not None]
    return epilogues.matmul_sum(
        turn(a, flags[0]), turn(b, flags[1]), *addends, transpose_a=flags[0], transpose_b=flags[1],
        bias=bias is not None, residual=residual is not None, activation=activation,
    )  # fmt: skip


def compute_and_check(*call: Any) -> None:
    """Run the kernel and check what comes out."""
    got = compute(*call)

    assert got.dtype == call[0].dtype
    check(got, *call[:5])


@pytest.fixture
def fresh_plans() -> Any:
    epilogues._plans.clear()
    yield
    epilogues._plans.clear()


@pytest.fixture
def one_call(fresh_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test fail where the library does not do all of it."""

    def refuse(*args: Any) -> Any:
        return lambda *arrays: pytest.fail("the sum was computed in parts")

    monkeypatch.setattr(epilogues, "_separate_kernels", refuse)


# Two matrices


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", SIZES)
def test_all_dtypes_transposes_and_sums(
    dtype: Any, flags: tuple[bool, bool], sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    a, b, bias, residual = (
        draw(shape, dtype, seed) for seed, shape in enumerate([(m, k), (k, n), (n,), (m, n)])
    )
    activations = [None] if dtype.kind == "c" else [None, "relu", "gelu_tanh"]
    for (has_bias, has_residual), activation in itertools.product(FORMS, activations):
        compute_and_check(a, b, bias if has_bias else None, residual if has_residual else None,
                          activation, flags)  # fmt: skip


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("activation", [None, "relu"])
def test_the_library_does_all_of_it_in_one_call(
    one_call: None, dtype: Any, flags: tuple[bool, bool], activation: str | None
) -> None:
    a, b = draw((64, 128), dtype), draw((128, 256), dtype, 1)
    bias, residual = draw((256,), dtype, 2), draw((64, 256), dtype, 3)

    for has_bias, has_residual in FORMS:
        compute_and_check(a, b, bias if has_bias else None, residual if has_residual else None,
                          activation, flags)  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_complex_matrix_is_added_by_the_library(one_call: None, dtype: str) -> None:
    compute_and_check(draw((9, 8), dtype), draw((8, 7), dtype, 1), None, draw((9, 7), dtype, 2))


def test_the_matrix_that_is_added_stays_as_it_was() -> None:
    a, b, residual = draw((8, 8), "float32"), draw((8, 8), "float32", 1), draw((8, 8), "float32", 2)
    before = residual.copy()

    got = compute(a, b, None, residual)

    assert got.data.ptr != residual.data.ptr
    assert bool((residual == before).all())


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_number_that_is_none_stays_one_behind_relu(dtype: Any, has_bias: bool) -> None:
    a, b = draw((64, 64), dtype), draw((64, 64), dtype, 1)
    bias = draw((64,), dtype, 2) if has_bias else None
    a[3, 5] = math.nan

    got = exact(compute(a, b, bias, None, "relu"))

    assert np.isnan(got[3]).all()
    assert not np.isnan(np.delete(got, 3, axis=0)).any()


@pytest.mark.parametrize("activation", [None, "relu"])
def test_a_bias_of_few_columns_and_an_odd_depth(fresh_plans: None, activation: str | None) -> None:
    a, b, bias = draw((70000, 32), "f4"), draw((32, 6), "f4", 1), draw((6,), "f4", 2)
    check(compute(a, b, bias, None, activation), a, b, bias, None, activation)
    a, b = draw((16384, 77), "float16"), draw((77, 512), "float16", 1)
    bias, residual = draw((512,), "float16", 2), draw((16384, 512), "float16", 3)
    check(compute(a, b, bias, residual, activation), a, b, bias, residual, activation)


def test_tf32_is_used_when_asked_for_only(
    fresh_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, bias = draw((256, 256), "float32"), draw((256, 256), "float32", 1), draw((256,), "f4", 2)
    errors = []
    for allowed in (False, True):
        monkeypatch.setitem(TF32, "on", allowed)
        errors.append(abs(exact(compute(a, b, bias)) - exact(a) @ exact(b) - exact(bias)).max())

    assert errors[0] < 1e-4 < errors[1] < 1e-1


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_the_same_comes_out_each_time(dtype: Any) -> None:
    a, b = draw((17, 70001), dtype), draw((70001, 9), dtype, 1)
    bias, residual = draw((9,), dtype, 2), draw((17, 9), dtype, 3)

    first, again = (compute(a, b, bias, residual, "relu") for _ in range(2))

    check(first, a, b, bias, residual, "relu")
    assert cupy.asnumpy(first).tobytes() == cupy.asnumpy(again).tobytes()


# Layouts of operands


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
def test_parts_of_larger_matrices(dtype: Any, flags: tuple[bool, bool]) -> None:
    a, b = draw((40, 50), dtype)[3:30, 1:40], draw((50, 60), dtype, 1)[2:41, 3:20]
    bias, residual = draw((41,), dtype, 2)[3:37:2], draw((54, 40), dtype, 3)[::2, 5:22]

    compute_and_check(a, b, bias, residual, None, flags)
    compute_and_check(draw((50, 40), dtype).T[3:30, 1:40], b, bias, residual, None, flags)
    compute_and_check(a, b, None, draw((17, 27), dtype, 3).T, None, flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts_that_cannot_be_read_in_place(dtype: Any) -> None:
    a, b = draw((20, 30), dtype), draw((30, 20), dtype, 1)

    compute_and_check(a[::2, ::2], b[::2, ::4], draw((10,), dtype, 2)[::-2])
    compute_and_check(a[::-1], b[:, ::-1], None, draw((20, 20), dtype, 2)[::-1, ::-1])
    row = cupy.broadcast_to(draw((1,), dtype, 3), (20,))
    compute_and_check(a, b, row, cupy.broadcast_to(a[0, :20], (20, 20)))


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 5])
def test_a_bias_at_an_odd_address(one_call: None, dtype: Any, offset: int) -> None:
    a, b = draw((64, 32), dtype), draw((32, 128), dtype, 1)
    bias = draw((128 + offset,), dtype, 2)[offset:]

    compute_and_check(a, b, bias)
    compute_and_check(a, b, bias, draw((64, 128), dtype, 3), "relu")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 5])
def test_a_residual_at_an_odd_address(dtype: Any, offset: int) -> None:
    a, b = draw((64, 32), dtype), draw((32, 128), dtype, 1)
    residual = draw((64 * 128 + offset,), dtype, 3)[offset:].reshape(64, 128)

    compute_and_check(a, b, None, residual)
    compute_and_check(a, b, draw((128,), dtype, 2), residual)


@pytest.mark.parametrize("dtype", [BFLOAT16, "float32"], ids=str)
def test_each_call_has_its_own_bias(dtype: Any) -> None:
    a, b = draw((32, 32), dtype), draw((32, 64), dtype, 1)
    biases = [draw((64,), dtype, seed) for seed in range(2, 6)]

    results = [compute(a, b, bias) for bias in (*biases, *biases[::-1])]

    for got, bias in zip(results, (*biases, *biases[::-1])):
        check(got, a, b, bias)


def test_threads_do_not_take_each_others_bias() -> None:
    a, b = draw((32, 32), "float32"), draw((32, 64), "float32", 1)
    biases = [draw((64,), "float32", seed) for seed in range(2, 10)]
    cupy.cuda.get_current_stream().synchronize()

    def work(bias: Any) -> list[Any]:
        return [compute(a, b, bias) for _ in range(200)]

    with ThreadPoolExecutor(len(biases)) as pool:
        results = list(pool.map(work, biases))

    for found, bias in zip(results, biases):
        want = compute(a, b, bias)
        assert all(bool((got == want).all()) for got in found)


# Other cases


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stacks_and_vectors(dtype: Any) -> None:
    activation = None if dtype.kind == "c" else "relu"

    compute_and_check(draw((2, 5, 7), dtype), draw((7, 3), dtype, 1), draw((3,), dtype, 2), None,
                      activation)  # fmt: skip
    compute_and_check(draw((2, 5, 7), dtype), draw((2, 7, 3), dtype, 1), draw((3,), dtype, 2),
                      draw((2, 5, 3), dtype, 3), activation)  # fmt: skip
    compute_and_check(draw((5, 7), dtype), draw((7,), dtype, 1), None, draw((5,), dtype, 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_empty_operands(dtype: Any, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = draw((m, k), dtype), draw((k, n), dtype)
    bias, residual = draw((n,), dtype, 1), draw((m, n), dtype, 2)

    for has_bias, has_residual in FORMS:
        compute_and_check(a, b, bias if has_bias else None, residual if has_residual else None)


def test_addends_of_another_dtype_raise_the_result() -> None:
    a, b, bias = draw((4, 5), "float32"), draw((5, 6), "float32", 1), draw((6,), "float64", 2)

    got = compute(a, b, bias)

    assert got.dtype == np.float64
    np.testing.assert_allclose(exact(got), exact(a) @ exact(b) + exact(bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [one for one in REAL if one != np.float32], ids=str)
def test_a_residual_with_gaps_between_rows_is_not_copied(
    dtype: Any, one_call: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = draw((64, 256), dtype), draw((256, 512), dtype, 1)
    residual = draw((64, 5, 512), dtype, 3)[:, 3]
    bias = draw((512,), dtype, 2)
    monkeypatch.setattr(epilogues, "contiguous_copy", None)

    compute_and_check(a, b, None, residual)
    compute_and_check(a, b, bias, residual, "relu")


def test_a_residual_that_is_broadcast_is_added_all_the_same() -> None:
    a, b, row = draw((4, 5), "float32"), draw((5, 6), "float32", 1), draw((1, 6), "float32", 2)

    compute_and_check(a, b, None, row)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_the_library_other_kernels_do_it(
    fresh_plans: None, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    monkeypatch.setattr(products, "REASON", "for a test")
    products._plans.clear()

    compute_and_check(draw((4, 3), dtype), draw((3, 2), dtype, 1), draw((2,), dtype, 2),
                      draw((4, 2), dtype, 3))  # fmt: skip

    products._plans.clear()


def test_shapes_that_do_not_fit_are_told() -> None:
    with tf.device("cuda:0"):
        a = tf.ones((2, 3))
    params = {"transpose_a": False, "transpose_b": False, "bias": False, "residual": False}

    with pytest.raises(ValueError, match=r"matmul_sum.*\[2, 3\].*must be as long, has length 3"):
        matmul_sum_p(a, a, **params, activation=None)


# Sums of operands


def sum_and_check(a: Any, b: Any, of_first: bool, flags: tuple[bool, bool]) -> None:
    """Check product and sums; `a` and `b` are as they should be after transposing."""
    product, sums = epilogues.matmul_with_sums(
        turn(a, flags[0]), turn(b, flags[1]), transpose_a=flags[0], transpose_b=flags[1],
        of_first=of_first,
    )  # fmt: skip
    ones = cupy.asarray(np.ones((b.shape[0], 1), a.dtype))

    assert product.dtype == sums.dtype == a.dtype
    check(product, a, b)
    check(sums[:, None], a if of_first else b.T, ones)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [*SIZES, (0, 3, 2), (3, 0, 2), (3, 2, 0)])
@pytest.mark.parametrize("of_first", [False, True])
def test_a_product_with_the_sums_of_an_operand(
    dtype: Any, flags: tuple[bool, bool], sizes: tuple[int, int, int], of_first: bool
) -> None:
    m, n, k = sizes

    sum_and_check(draw((m, k), dtype), draw((k, n), dtype, 1), of_first, flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("of_first", [False, True])
def test_sums_of_operands_with_gaps(dtype: Any, of_first: bool) -> None:
    a, b = draw((40, 50), dtype), draw((50, 60), dtype, 1)

    sum_and_check(a[3:30, 1:40], b[2:41, 3:20], of_first, (False, False))
    sum_and_check(a[::2, ::2], b[::2, ::3], of_first, (True, False))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("of_first", [False, True])
def test_captured_sums_of_an_operand(dtype: Any, of_first: bool) -> None:
    a, b, later = draw((512, 64), dtype), draw((512, 128), dtype, 1), draw((512, 128), dtype, 2)
    flags = {"transpose_a": True, "transpose_b": False, "of_first": of_first}
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        epilogues.matmul_with_sums(a, b, **flags)
        stream.begin_capture()
        product, sums = epilogues.matmul_with_sums(a, b, **flags)
        graph = stream.end_capture()
        b[...] = later
        graph.launch()
        stream.synchronize()

    ones = cupy.asarray(np.ones((512, 1), dtype))
    check(product, a.T, b)
    check(sums[:, None], (a if of_first else b).T, ones)


# Streams and programs


@pytest.mark.parametrize("dtype", [BFLOAT16, "float16", "float32", "float64"], ids=str)
@pytest.mark.parametrize("depth", [32, 4096])
def test_a_captured_sum_reads_its_operands_at_each_launch(dtype: Any, depth: int) -> None:
    a, b = draw((48, depth), dtype), draw((depth, 40), dtype, 1)
    biases = [draw((40,), dtype, 2), draw((41,), dtype, 3)[1:]]
    residual = draw((48, 40), dtype, 4)
    later = [draw(array.shape, dtype, seed) for seed, array in enumerate([a, *biases, residual], 5)]
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        for bias in biases:
            compute(a, b, bias, residual, "relu")
        stream.begin_capture()
        results = [compute(a, b, bias, residual, "relu") for bias in biases]
        graph = stream.end_capture()
        for array, new in zip((a, *biases, residual), later):
            array[...] = new
        graph.launch()
        stream.synchronize()

    for got, bias in zip(results, biases):
        check(got, a, b, bias, residual, "relu")


@pytest.mark.parametrize("dtype", [BFLOAT16, "float32", "float64"], ids=str)
def test_a_program_computes_the_same_with_them(dtype: Any) -> None:
    arrays = [draw(shape, dtype, seed) for seed, shape in enumerate(
        [(3, 16, 32), (32, 24), (24, 24), (24,), (16, 24)])]  # fmt: skip

    @tf.function
    def step(x: Any, w: Any, u: Any, b: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, u, b])
            for t in range(3):
                h = tf.nn.relu(x[t] @ w + h @ u + b) * 0.1
            loss = tf.reduce_sum(h * h)
        return loss, tape.gradient(loss, [w, u, b])

    tensors = [tf.constant(array) for array in arrays]
    step(*tensors)
    before = step.program(*tensors).recorded
    after = with_epilogues(before)
    expected, _ = to_python(before, plain_steps(before))(arrays, [])
    found, _ = to_python(after, plain_steps(after))(arrays, [])

    assert len(after.calls) < len(before.calls)
    tolerance = {2: 3e-2, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
    for one, other in zip(found, expected, strict=True):
        size = abs(exact(other)).max()
        np.testing.assert_allclose(exact(one), exact(other), rtol=0, atol=tolerance * size)
