"""Gathers and sums of rows in C have the bits of the general kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.kernels.indexing import take, take_add
from tapegrad_numpy.kernels.segment import segment_sum, segment_take
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.entry_points import CShapeSpecializer

needs_compiler = pytest.mark.skipif(
    compiler.find() is None, reason="this machine has no C compiler"
)
PLAIN: dict[str, Any] = {
    "take": take, "take_add": take_add, "segment_sum": segment_sum, "segment_take": segment_take
}  # fmt: skip
CALLS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, int], int]] = [
    ("take", (50, 40), (300,), {"axis": 0}, 50),
    ("take", (700,), (30, 40), {"axis": 0}, 700),
    ("take", (3, 20, 5), (7, 9), {"axis": 1}, 20),
    ("take_add", (300, 40), (300,), {"axis": 0, "size": 50}, 50),
    ("take_add", (30, 40), (30, 40), {"axis": 0, "size": 700}, 700),
    ("take_add", (3, 7, 9, 5), (7, 9), {"axis": 1, "size": 20}, 20),
    ("segment_sum", (600, 3), (600,), {"num": 11}, 11),
    ("segment_sum", (600,), (600,), {"num": 700}, 700),
    ("segment_take", (11, 3, 2), (600,), {}, 11),
]
DTYPES = {"take": ["float32", "float64", "int32", "int64"], "segment_take": ["float32", "int64"]}
CASES = [
    pytest.param(*call, dtype, places, id=f"{call[0]}-{call[1]}-{dtype}-{places}")
    for call in CALLS
    for dtype in DTYPES.get(call[0], ["float32", "float64"])
    for places in ("int32", "int64")
]


def made(name: str, x: Any, indices: Any, params: dict[str, int]) -> Any:
    described = [(x.shape, x.dtype), (indices.shape, indices.dtype)]
    (kernel,) = CShapeSpecializer().specialize([(name, described, params)])  # type: ignore[list-item]
    return kernel


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    return (1000 * np.random.default_rng(3).normal(size=shape)).astype(dtype)


@needs_compiler
@pytest.mark.parametrize(("name", "shape", "places", "params", "size", "dtype", "index"), CASES)
def test_bits(
    name: str,
    shape: tuple[int, ...],
    places: tuple[int, ...],
    params: dict[str, int],
    size: int,
    dtype: str,
    index: str,
) -> None:
    x = draw(shape, dtype)
    low = -1 if name.startswith("segment") else 0
    indices = np.random.default_rng(4).integers(low, size, places).astype(index)
    kernel = made(name, x, indices, params)

    found, expected = kernel(x, indices, **params), PLAIN[name](x, indices, **params)

    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, strict=True)
    strided = np.repeat(x, 2, axis=0)[::2]
    np.testing.assert_array_equal(kernel(strided, indices, **params), expected)


@needs_compiler
def test_positions_out_of_range_are_left_to_the_general_kernel() -> None:
    x = draw((50, 40), "float32")
    indices = np.full(300, 10)
    kernel = made("take", x, indices, {"axis": 0})
    indices[7] = 50
    with pytest.raises(IndexError, match="50"):
        kernel(x, indices, axis=0)

    indices[7] = -1
    np.testing.assert_array_equal(kernel(x, indices, axis=0)[7], x[49])

    x = draw((300, 40), "float32")
    ids = np.full(300, 10)
    kernel = made("segment_sum", x, ids, {"num": 11})
    ids[0] = 11
    with pytest.raises(ValueError, match="below 11; one is 11"):
        kernel(x, ids, num=11)


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "dtype", "index"),
    [((50, 2), "float32", "int64"), ((50, 40), "float16", "int64"), ((50, 40), "float32", "uint8")],
    ids=["small", "half", "bytes"],
)
def test_what_has_no_kernel_of_its_own(shape: tuple[int, ...], dtype: str, index: str) -> None:
    x, ids = draw(shape, dtype), np.zeros(50, index)

    assert made("segment_sum", x, ids, {"num": 3}) is None


@needs_compiler
def test_a_recorded_embedding_and_its_gradient() -> None:
    table = draw((100, 16), "float32")
    ids = np.random.default_rng(5).integers(0, 100, (8, 20))

    def step(values: Any, ids: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(tf.square(tf.gather(values, ids)))
        return loss, tape.gradient(loss, values)

    recorded = tf.function(step)
    for _ in range(3):
        loss, gradient = recorded(tf.constant(table), tf.constant(ids))

    counts = np.bincount(ids.reshape(-1), minlength=100)[:, None]
    np.testing.assert_allclose(float(loss), (table[ids].astype("f8") ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient.numpy(), 2 * counts * table, rtol=1e-5)


@needs_compiler
def test_threads_do_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw((5000, 64), "float32")
    ids = np.random.default_rng(6).integers(0, 9, 5000)
    expected = segment_sum(x, ids, num=9)
    for threads in ("1", "4"):
        monkeypatch.setenv("TAPEGRAD_THREADS", threads)
        kernel = made("segment_sum", x, ids, {"num": 9})
        np.testing.assert_array_equal(kernel(x, ids, num=9), expected)
