"""How products of strided arrays become calls of a library, checked by NumPy; no GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy")

from tapegrad_cupy.kernels.copying import corners
from tapegrad_cupy.kernels.products import narrow, stack_vectors
from tapegrad_cupy.kernels.products.stack_vectors import find_form
from tapegrad_cupy.launch.cuda_source import full_source
from tapegrad_cupy.library_calls.product_padding import Padding, choose_padding
from tapegrad_cupy.library_calls.product_splits import find_split
from tapegrad_cupy.library_calls.product_steps import Gemm, Layout, Route, find_route, product_shape
from tests.house.host_cuda import launch_on_host

PROCESSORS = 132


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def layout_of(array: Any, transpose: bool = False) -> Layout:
    steps = tuple(step // array.itemsize for step in array.strides)
    return Layout(array.shape, steps, transpose)


def turned(array: Any, transpose: bool) -> Any:
    return array.swapaxes(-1, -2) if transpose else array


def column_major(flat: Any, start: int, shape: tuple[int, int], leading: int) -> Any:
    steps = [flat.itemsize, leading * flat.itemsize]
    return np.lib.stride_tricks.as_strided(flat[start:], shape, steps)


def run_gemm(gemm: Gemm, a: Any, b: Any, d: Any, starts: tuple[int, int, int]) -> None:
    """Compute a batch of D = op(A) op(B) in flat memory, as the library would."""
    at_a, at_b, at_d = starts
    for index in range(gemm.batch):
        sides = [(gemm.rows, gemm.depth), (gemm.depth, gemm.columns)]
        left = column_major(
            a, at_a + index * gemm.stride_a, sides[0][:: -1 if gemm.transpose_a else 1], gemm.lda
        )
        right = column_major(
            b, at_b + index * gemm.stride_b, sides[1][:: -1 if gemm.transpose_b else 1], gemm.ldb
        )
        target = column_major(d, at_d + index * gemm.stride_d, (gemm.rows, gemm.columns), gemm.rows)
        target[...] = turned(left, gemm.transpose_a) @ turned(right, gemm.transpose_b)


def run_route(route: Route, first: Any, second: Any, shape: tuple[int, ...]) -> Any:
    """Run all calls of a route on flat arrays, and return the result."""
    result = np.full(shape, np.nan)
    flat, size = result.reshape(-1), result.itemsize
    for step in route.steps:
        one, other = (first, step.first // size), (second, step.second // size)
        (a, at_a), (b, at_b) = (one, other) if route.first_is_a else (other, one)
        run_gemm(step.gemm, a, b, flat, (at_a, at_b, step.result // size))
    return result


def flat_of(array: Any) -> Any:
    """Return the memory from the first element of an array on."""
    end = 1 + sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides))
    return np.lib.stride_tricks.as_strided(array, (end,), (array.itemsize,))


# Calls and copies


def test_heads_between_other_axes_are_read_in_place() -> None:
    heads = draw(3, 7, 3, 2, 4).transpose(2, 0, 3, 1, 4)
    q, k = heads[0], heads[1]
    first, second = layout_of(q), layout_of(k, True)
    route = find_route(first, second, 8)

    assert route.copies == (None, None)
    got = run_route(route, flat_of(q), flat_of(k), product_shape(first, second))
    np.testing.assert_allclose(got, q @ turned(k, True))


def test_copies_are_weighed_against_calls() -> None:
    """Many calls for a small stack are slower than copying it, but not for a large one."""

    def heads(positions: int, count: int) -> Layout:
        row = count * 64
        return Layout((64, count, positions, 64), (positions * row, 64, row, 1))

    def copies(layout: Layout) -> int:
        route = find_route(layout, layout._replace(transpose=True), 2)
        assert (len(route.steps) == 1) == (route.copies != (None, None))
        return 2 - route.copies.count(None)

    assert copies(heads(16, 32)) == 2
    assert copies(heads(512, 12)) == 0


# Aligned copies


def test_odd_rows_are_enlarged_where_tensor_cores_pay() -> None:
    def choose(a: Layout, b: Layout, alignment: int = 256) -> Padding | None:
        return choose_padding(a, b, 2, (alignment, 256))

    rows, weights = Layout((131072, 77), (77, 1)), Layout((77, 512), (512, 1))
    even, even_weights = Layout((131072, 80), (80, 1)), Layout((80, 512), (512, 1))
    result = Layout((131072, 512), (512, 1))

    assert choose(rows, weights) == (True, True, 80, 512)
    assert choose(rows._replace(transpose=True), result) == (True, False, 131072, 512)
    assert choose(result, weights._replace(transpose=True)) == (False, True, 512, 80)
    assert choose(even, even_weights) is None
    assert choose(even, even_weights, 2) == (True, False, 80, 512)
    assert choose(Layout((64, 77), (77, 1)), weights) is None  # too small
    assert choose(rows, Layout((77, 1), (1, 1))) is None


@pytest.mark.parametrize("sizes", [(5, 16), (8, 24), (7, 13)])
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_matrices_in_the_corner_of_larger_ones(sizes: tuple[int, int], dtype: str) -> None:
    """The kernel of corners.py on the host: into a corner, and out of it."""
    rows, columns = sizes
    size = np.dtype(dtype).itemsize
    x = np.arange(6 * 5 * 40, dtype=dtype).reshape(3, 2, 5, 40)[:, :, :, 3:16]
    want = np.zeros((3, 2, rows, columns), dtype)
    want[:, :, :5, :13] = x[..., :columns]
    got = np.full_like(want, 77)
    text = full_source(corners._SOURCE, **corners._macros(size, "unsigned int"))
    blocks = -(-got.size // (256 * (16 // size)))
    steps = [step // size for step in x.strides[:3]]
    numbers = (6, rows, columns, 5, 13, 2, *steps)
    launch_on_host(text, "corner", blocks, 256, x.ctypes.data, got.ctypes.data, *numbers)
    np.testing.assert_array_equal(got, want)


# Parts of the depth


@pytest.mark.parametrize("depth", [4096, 4100, 5000])
@pytest.mark.parametrize("is_packed", [True, False])
def test_parts_of_the_depth_add_up(depth: int, is_packed: bool) -> None:
    a, b = draw(3, depth, 5), draw(3, depth, 4, seed=1)
    if not is_packed:
        a, b = (np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) for x in (a, b))
    split = find_split(layout_of(a, True), layout_of(b), PROCESSORS)

    assert split is not None
    shape = product_shape(*split.layouts)
    route = find_route(*split.layouts, 8)
    assert route.copies == (None, None)
    assert len(route.steps) == (1 if is_packed and depth == 4096 else 3)
    parts = run_route(route, flat_of(a), flat_of(b), shape)
    rest = turned(a[:, split.done :], True) @ b[:, split.done :]
    np.testing.assert_allclose(parts.sum(1) + rest, turned(a, True) @ b, rtol=1e-10, atol=1e-10)


def test_a_single_product_is_split_where_that_is_asked_for() -> None:
    a, b = draw(70000, 5), draw(70000, 4, seed=1)
    layouts = layout_of(a, True), layout_of(b)
    split = find_split(*layouts, PROCESSORS, single=True)

    assert find_split(*layouts, PROCESSORS) is None
    assert split is not None
    route = find_route(*split.layouts, 8)
    assert len(route.steps) == 1
    parts = run_route(route, flat_of(a), flat_of(b), product_shape(*split.layouts))
    rest = a[split.done :].T @ b[split.done :]
    np.testing.assert_allclose(parts.sum(0) + rest, a.T @ b, rtol=1e-10, atol=1e-9)


def test_what_occupies_the_device_is_not_split() -> None:
    deep = Layout((32, 200000, 32), (6400000, 32, 1))

    assert find_split(deep._replace(transpose=True), deep, PROCESSORS) is not None
    assert find_split(deep, deep._replace(transpose=True), PROCESSORS) is None
    many = Layout((320, 200000, 32), (6400000, 32, 1))
    assert find_split(many._replace(transpose=True), many, PROCESSORS) is None
    shallow = Layout((32, 1024, 32), (32768, 32, 1))
    assert find_split(shallow._replace(transpose=True), shallow, PROCESSORS) is None


# Stacks of matrices times vectors


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [("float32", (4, 8)), ("float64", (3, 3)), ("float32", (33, 5)), ("float32", (64, 64)),
     ("float64", (2, 300))],
)  # fmt: skip
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_stacks_of_matrices_times_vectors(
    dtype: str, sizes: tuple[int, int], by_rows: bool, is_first: bool
) -> None:
    rows, depth = sizes
    a, x = draw(67, rows, depth).astype(dtype), draw(67, depth, 1, seed=1).astype(dtype)
    stored = np.ascontiguousarray(turned(a, not by_rows))
    # Row vectors times matrices are the transposed product.
    matrices = layout_of(stored, is_first == (not by_rows))
    vectors = layout_of(x, not is_first)
    found = find_form(*((matrices, vectors) if is_first else (vectors, matrices)))

    assert found is not None
    form, first_is_matrices = found
    assert first_is_matrices == is_first
    assert (form.matrices, form.rows, form.depth) == (67, rows, depth)
    got = np.full((67, rows), np.nan, dtype)
    width = stack_vectors._vector_length(form, a.itemsize, stored.ctypes.data | x.ctypes.data)
    lanes, parts, blocks = stack_vectors._geometry(form, width)
    text = full_source(stack_vectors._SOURCE, **stack_vectors._macros(dtype, width, lanes, parts))
    name = "stack_rows" if form.by_rows else "stack_columns"
    numbers = (form.matrices, form.rows, form.depth, form.matrix, form.leading, form.vector)
    places = (stored.ctypes.data, x.ctypes.data, got.ctypes.data)
    for backwards in (False, True):
        got[...] = np.nan
        launch_on_host(text, name, blocks, 256, *places, *numbers, backwards=backwards)
        np.testing.assert_allclose(got, (a @ x)[..., 0], rtol=1e-4, atol=1e-5)


def test_other_stacks_are_left_to_the_library() -> None:
    matrices, vectors = Layout((99, 8, 4), (32, 4, 1)), Layout((99, 4, 1), (4, 1, 1))

    assert find_form(matrices, vectors) is not None
    assert find_form(matrices, Layout((99, 4, 2), (8, 2, 1))) is None
    assert find_form(matrices, Layout((99, 4, 1), (0, 1, 1))) is None  # one vector for all
    assert find_form(Layout((99, 8, 4), (0, 4, 1)), vectors) is None  # one matrix for all
    assert find_form(matrices, Layout((99, 4, 1), (8, 2, 1))) is None
    few = Layout((9, 8, 4), (32, 4, 1)), Layout((9, 4, 1), (4, 1, 1))
    assert find_form(*few) is None


# Few columns


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "leading", "transpose"),
    [
        (600, 64, 16, 64, False),
        (513, 36, 5, 40, True),
        (256, 4, 2, 4, False),
        (7, 100, 12, 104, True),
    ],
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_products_with_few_columns(
    rows: int, depth: int, columns: int, leading: int, transpose: bool, has_bias: bool
) -> None:
    """The kernel of narrow.py on the host."""
    x = draw(rows, leading).astype("float32")[:, :depth]
    stored = draw(*((columns, depth) if transpose else (depth, columns)), seed=1).astype("float32")
    bias = draw(columns, seed=2).astype("float32")
    want = x @ turned(stored, transpose) + (bias if has_bias else 0)
    text = full_source(narrow._SOURCE, C=narrow._width(columns))
    steps = [step // 4 for step in turned(stored, transpose).strides]
    got = np.full((rows + 1, columns), np.nan, "float32")
    places = (x.ctypes.data, stored.ctypes.data, bias.ctypes.data if has_bias else 0)
    numbers = (rows, columns, depth, leading, *steps)
    blocks = -(-rows // 256)
    launch_on_host(text, "narrow_product", blocks, 128, *places, got.ctypes.data, *numbers)

    np.testing.assert_allclose(got[:rows], want, rtol=1e-4, atol=1e-4)
    assert np.isnan(got[rows]).all()
