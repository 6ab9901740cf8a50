"""Matrix products by cuBLASLt against NumPy in double precision: dtypes, layouts, stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.precision import TF32

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
products = pytest.importorskip("tapegrad_cupy.kernels.products.products")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64", "complex64", "complex128")]
DTYPES.append(BFLOAT16)
FLAGS = [(False, False), (False, True), (True, False), (True, True)]


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    value = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.normal(size=shape)
    return cupy.asarray(value.astype(dtype))


def exact(array: Any) -> Any:
    return cupy.asnumpy(array).astype("complex128")


def turn(array: Any, transpose: bool) -> Any:
    return array.swapaxes(-1, -2) if transpose else array


def check(got: Any, a: Any, b: Any) -> None:
    """Compare with a @ b, within roundings of the dtype times the sum of all magnitudes."""
    a, b = exact(a), exact(b)
    want = a @ b
    info = ml_dtypes.finfo(got.dtype)
    eps = float(info.eps) * (1 if got.dtype.itemsize == 2 else 16)
    bound = eps * (abs(a) @ abs(b)) + eps * float(info.tiny)  # the latter for subnormal results

    assert got.shape == want.shape
    assert got.flags.c_contiguous
    np.testing.assert_array_less(abs(exact(got) - want), bound)


def multiply(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> None:
    """Multiply and check; `a` and `b` are as they should be after transposing."""
    got = products.matmul(
        turn(a, transpose_a), turn(b, transpose_b), transpose_a=transpose_a, transpose_b=transpose_b
    )

    assert got.dtype == a.dtype
    check(got, a, b)


@pytest.fixture
def fresh_plans() -> Any:
    products._plans.clear()
    yield
    products._plans.clear()


@pytest.fixture
def no_copies(fresh_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(array: Any, lead: Any) -> None:
        pytest.fail("an operand was copied")

    monkeypatch.setattr(products, "_copied", refuse)
    monkeypatch.setattr(products, "_by_cupy", refuse)


# Two matrices


def test_the_library_is_there() -> None:
    assert products.REASON == ""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (7, 5, 3), (1, 33, 65), (65, 1, 33), (64, 128, 256), (129, 257, 1)]
)
def test_all_dtypes_and_transposes(
    no_copies: None, dtype: Any, flags: tuple[bool, bool], sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes

    multiply(draw((m, k), dtype), draw((k, n), dtype, 1), *flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_long_depth_is_accurate_and_repeatable(no_copies: None, dtype: Any) -> None:
    a, b = draw((17, 70001), dtype), draw((70001, 9), dtype, 1)
    got = products.matmul(a, b, transpose_a=False, transpose_b=False)
    again = products.matmul(a, b, transpose_a=False, transpose_b=False)

    check(got, a, b)
    assert cupy.asnumpy(got).tobytes() == cupy.asnumpy(again).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
def test_parts_of_larger_matrices_at_odd_addresses(
    no_copies: None, dtype: Any, flags: tuple[bool, bool]
) -> None:
    a, b = draw((40, 50), dtype)[3:30, 1:40], draw((50, 60), dtype, 1)[2:41, 3:20]

    multiply(a, b, *flags)
    multiply(draw((50, 40), dtype).T[3:30, 1:40], b, *flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts_that_cannot_be_read_in_place(dtype: Any) -> None:
    a, b = draw((20, 30), dtype), draw((30, 20), dtype, 1)

    multiply(a[::2, ::2], b[::2, ::3])
    multiply(a[::-1], b[:, ::-1])
    multiply(cupy.broadcast_to(a[:1], (20, 30)), b)


def test_tf32_is_used_when_asked_for_only(
    fresh_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = draw((256, 256), "float32"), draw((256, 256), "float32", 1)
    errors = []
    for allowed in (False, True):
        monkeypatch.setitem(TF32, "on", allowed)
        got = products.matmul(a, b, transpose_a=False, transpose_b=False)
        errors.append(abs(exact(got) - exact(a) @ exact(b)).max())

    assert errors[0] < 1e-4 < errors[1] < 1e-1


# Stacks


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    ("lead_a", "lead_b"),
    [((6,), (6,)), ((2, 3), (2, 3)), ((6,), ()), ((), (6,)), ((1,), (6,)), ((3, 1), (4,))],
)
def test_stacks_are_broadcast_without_copies(
    no_copies: None, dtype: Any, flags: tuple[bool, bool], lead_a: Any, lead_b: Any
) -> None:
    multiply(draw((*lead_a, 5, 7), dtype), draw((*lead_b, 7, 3), dtype, 1), *flags)
    multiply(draw((*lead_a, 5, 7), dtype), draw((*lead_b, 7, 1), dtype, 1), *flags)
    multiply(draw((*lead_a, 1, 7), dtype), draw((*lead_b, 7, 3), dtype, 1), *flags)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32"], ids=str)
@pytest.mark.parametrize("examples", [2, 9])
def test_heads_of_attention_between_other_axes(dtype: Any, examples: int) -> None:
    query = draw((examples, 10, 4, 16), dtype).transpose(0, 2, 1, 3)
    key = draw((examples, 12, 4, 16), dtype, 1).transpose(0, 2, 3, 1)

    multiply(query, key)
    multiply(query, key, True, True)


@pytest.mark.parametrize("dtype", [BFLOAT16, "float32"], ids=str)
def test_odd_stacks(dtype: Any) -> None:
    a, b = draw((8, 3, 6, 4), dtype), draw((8, 3, 4, 5), dtype, 1)

    multiply(a[::2], b[::-2])
    multiply(a.transpose(1, 0, 2, 3)[..., ::2, :], b.transpose(1, 0, 2, 3))
    multiply(cupy.broadcast_to(a[:, :1], a.shape), b[0])
    multiply(a[:, None], b[0])


def test_more_matrices_than_a_grid_is_long() -> None:
    multiply(draw((65537, 2, 3), "float32"), draw((65537, 3, 2), "float32", 1))


# Rows that are not aligned, and parts of the depth


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [(16384, 77, 512), (2048, 513, 777), (2049, 1024, 1023)])
def test_odd_rows_are_copied_to_aligned_ones(
    fresh_plans: None, dtype: Any, flags: tuple[bool, bool], sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    a, b = draw((m, k), dtype), draw((k, n), dtype, 1)
    stored = [cupy.ascontiguousarray(turn(x, flag)) for x, flag in zip((a, b), flags)]
    layouts = [products.matrix_layout(x, flag) for x, flag in zip(stored, flags)]
    is_odd = n % 8 or any(x.shape[-1] % 8 for x in stored)

    assert (products.find_padding(*stored, *layouts) is not None) == bool(is_odd)
    multiply(*[turn(x, flag) for x, flag in zip(stored, flags)], *flags)
    multiply(a[:, :-1], b[:-1], *flags)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
def test_odd_rows_of_stacks_between_other_axes(fresh_plans: None, dtype: Any) -> None:
    heads = draw((32, 197, 3, 8, 64), dtype).transpose(2, 0, 3, 1, 4)
    q, k, v = heads
    weights = draw((32, 8, 197, 197), dtype, 1)

    multiply(q, turn(k, True), False, True)
    multiply(weights, v)
    multiply(turn(weights, True), q, True, False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depth", [16384, 16387])
@pytest.mark.parametrize("is_packed", [True, False])
def test_deep_stacks_are_added_up_in_parts(
    fresh_plans: None, dtype: str, depth: int, is_packed: bool
) -> None:
    a, b = draw((5, depth, 12), dtype), draw((5, depth, 8), dtype, 1)
    if not is_packed:
        a, b = (cupy.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) for x in (a, b))

    multiply(turn(a, True), b, True, False)
    total = draw((5, 12, 8), dtype, 2)
    want = exact(total) + exact(turn(a, True)) @ exact(b)
    products.matmul(a, b, transpose_a=True, transpose_b=False, total=total)
    np.testing.assert_allclose(exact(total), want, rtol=1e-3, atol=1e-2)


# Few columns


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("sizes", [(70001, 64, 16), (65536, 36, 5), (80000, 256, 2)])
def test_many_rows_and_few_columns(
    fresh_plans: None, transpose: bool, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    a, b = draw((m, k + 4), "float32")[:, :k], draw((k, n), "float32", 1)
    b = turn(cupy.ascontiguousarray(turn(b, transpose)), transpose)

    assert products.find_narrow(a, turn(b, transpose), False, transpose) is not None
    multiply(a, b, False, transpose)


# Vectors


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("shape", [(64, 64), (3, 3), (7, 130), (130, 7)])
def test_stacks_of_matrices_times_vectors(
    fresh_plans: None, dtype: Any, flags: tuple[bool, bool], shape: tuple[int, int]
) -> None:
    a, x = draw((300, *shape), dtype), draw((300, shape[1], 1), dtype, 1)

    multiply(a, x, *flags)
    multiply(turn(cupy.ascontiguousarray(turn(a, True)), True), x, *flags)
    multiply(turn(x, True), turn(a, True), *flags)
    multiply(a[::2], x[1::2], *flags)
    multiply(a.reshape(3, 100, *shape), x.reshape(3, 100, shape[1], 1), *flags)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (33, 65), (300, 7), (5, 70001)])
def test_a_matrix_times_a_vector(dtype: Any, transpose: bool, shape: tuple[int, int]) -> None:
    a = draw(shape, dtype)
    vectors = draw((2 * shape[0 if transpose else 1], 3), dtype, 1)

    for x in (vectors[::2, 0], vectors[::-2, 1], cupy.ascontiguousarray(vectors[1::2, 2])):
        got = products.matvec(a, x, transpose=transpose)
        check(got[:, None], turn(a, transpose), x[:, None])


# Edges


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_products(dtype: Any) -> None:
    def shape_and_sum(a: tuple[int, ...], b: tuple[int, ...]) -> Any:
        got = products.matmul(draw(a, dtype), draw(b, dtype), transpose_a=False, transpose_b=False)
        return got.shape, exact(got).sum()

    assert shape_and_sum((2, 0), (0, 3)) == ((2, 3), 0)
    assert shape_and_sum((0, 2), (2, 3)) == ((0, 3), 0)
    assert shape_and_sum((4, 2, 0), (0, 3)) == ((4, 2, 3), 0)
    assert shape_and_sum((0, 2, 3), (3, 4)) == ((0, 2, 4), 0)
    assert products.matvec(draw((3, 0), dtype), draw((0,), dtype), transpose=False).shape == (3,)


@pytest.mark.parametrize(
    ("one", "other"),
    [("float32", "float64"), ("float32", "complex64"), ("int32", "float32"), ("int32", "int64"),
     (BFLOAT16, "float32")],
    ids=str,
)  # fmt: skip
def test_mixed_dtypes_meet_in_their_result_type(one: Any, other: Any) -> None:
    a, b = draw((3, 4), one), draw((4, 5), other, 1)
    got = products.matmul(a, b, transpose_a=False, transpose_b=False)

    assert got.dtype == np.result_type(one, other)
    np.testing.assert_allclose(exact(got), exact(a) @ exact(b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_the_library_cupy_multiplies(
    fresh_plans: None, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    monkeypatch.setattr(products, "REASON", "for a test")

    multiply(draw((4, 3, 5), dtype), draw((5, 2), dtype, 1), True, False)


def test_shapes_that_do_not_fit_are_told() -> None:
    with tf.device("cuda:0"):
        a, b, c = tf.ones((2, 3)), tf.ones((4, 2, 3)), tf.ones((3, 2, 3))

    with pytest.raises(ValueError, match=r"matmul.*\[2, 3\].*must be as long, has length 3"):
        a @ a
    with pytest.raises(ValueError, match="axis -3 has the lengths 4 and 3"):
        tf.matmul(b, c, transpose_b=True)


# Algorithms


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16], ids=str)
def test_algorithms_of_large_products_are_timed_at_the_first_call(
    fresh_plans: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, dtype: Any
) -> None:
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    products.prepared_product.cache_clear()
    a, b = draw((1024, 1100), dtype), draw((1100, 1000), dtype, 1)
    for _ in range(2):  # the second time, the choice is read from the disk
        products.prepared_product.cache_clear()
        products._plans.clear()
        results = [
            cupy.asnumpy(products.matmul(a, b, transpose_a=False, transpose_b=False))
            for _ in range(5)
        ]
        check(cupy.asarray(results[0]), a, b)
        assert len({result.tobytes() for result in results}) == 1

    assert len(list(tmp_path.glob("*.algorithm"))) == 1


# Streams


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16], ids=str)
def test_products_can_be_captured_and_replayed(dtype: Any) -> None:
    a, b, later = draw((48, 4096), dtype), draw((4096, 40), dtype, 1), draw((48, 4096), dtype, 2)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        products.matmul(a, b, transpose_a=False, transpose_b=False)
        stream.begin_capture()
        got = products.matmul(a, b, transpose_a=False, transpose_b=False)
        graph = stream.end_capture()
        a[...] = later
        graph.launch()
        stream.synchronize()

    check(got, a, b)


def test_streams_do_not_share_scratch_memory() -> None:
    a, b = draw((64, 2**18), "float32"), draw((2**18, 64), "float32", 1)
    want = products.matmul(a, b, transpose_a=False, transpose_b=False)
    cupy.cuda.get_current_stream().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    results = []
    for stream in streams * 5:
        with stream:
            results.append(products.matmul(a, b, transpose_a=False, transpose_b=False))
    for stream in streams:
        stream.synchronize()

    assert all(bool((got == want).all()) for got in results)
