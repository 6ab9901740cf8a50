"""How products of strided arrays become calls of a library, checked by NumPy; no GPU is needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy")

from tapegrad_cupy.kernels.products import stack_vectors
from tapegrad_cupy.kernels.products.stack_vectors import find_form
from tapegrad_cupy.launch.cuda_source import full_source
from tapegrad_cupy.library_calls import product_padding
from tapegrad_cupy.library_calls.product_padding import Padding, choose_padding, padded_layout
from tapegrad_cupy.library_calls.product_splits import find_split
from tapegrad_cupy.library_calls.product_steps import Gemm, Layout, Route, find_route, product_shape
from tests.house.host_cuda import launch_on_host

PROCESSORS = 132


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def layout_of(array: Any, transpose: bool = False) -> Layout:
    steps = tuple(step // array.itemsize for step in array.strides)
    return Layout(array.shape, steps, transpose)


def viewed(array: Any, layout: Layout) -> Any:
    steps = [step * array.itemsize for step in layout.strides]
    return np.lib.stride_tricks.as_strided(array, layout.shape, steps)


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
        target = column_major(
            d, at_d + index * gemm.stride_d, (gemm.rows, gemm.columns), gemm.ldd or gemm.rows
        )
        target[...] = turned(left, gemm.transpose_a) @ turned(right, gemm.transpose_b)


def run_route(route: Route, first: Any, second: Any, shape: tuple[int, ...], row: int = 0) -> Any:
    """Run all calls of a route on flat arrays, and return the result."""
    result = np.full((*shape[:-1], row or shape[-1]), np.nan)
    flat, size = result.reshape(-1), result.itemsize
    for step in route.steps:
        one, other = (first, step.first // size), (second, step.second // size)
        (a, at_a), (b, at_b) = (one, other) if route.first_is_a else (other, one)
        run_gemm(step.gemm, a, b, flat, (at_a, at_b, step.result // size))
    return result[..., : shape[-1]]


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


# Padded rows


def test_odd_rows_are_padded_where_tensor_cores_pay() -> None:
    def choose(a: Layout, b: Layout, itemsize: int = 2, alignment: int = 256) -> Padding:
        rates = product_padding.HALF if itemsize == 2 else product_padding.TF32
        return choose_padding(a, b, itemsize, (alignment, 256), rates)

    weights = Layout((77, 512), (512, 1))

    assert choose(Layout((131072, 77), (77, 1)), weights) == (True, False, False)
    assert choose(Layout((131072, 80), (80, 1)), Layout((80, 512), (512, 1))) == (False,) * 3
    assert choose(Layout((131072, 80), (80, 1)), Layout((80, 512), (512, 1)), 2, 2)[0]
    assert choose(Layout((64, 77), (77, 1)), weights) == (False,) * 3  # too small
    assert choose(Layout((131072, 77), (77, 1)), Layout((77, 1), (1, 1))) == (False,) * 3
    wide = choose(Layout((8096, 512), (512, 1)), Layout((512, 513), (513, 1)), 4)
    assert wide == (False, True, True)


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_padded_layouts_and_results_are_computed_in_place(flags: Any, by_columns: bool) -> None:
    a, b = draw(3, 5, 7), draw(3, 7, 9, seed=1)
    arrays = []
    for array, transpose in zip((a, b), flags):
        stored = np.ascontiguousarray(turned(array, transpose != by_columns))
        arrays.append(turned(stored, by_columns))
    layouts = [layout_of(x, flag) for x, flag in zip(arrays, flags)]
    padded = [padded_layout(layout, 2) for layout in layouts]
    copies = []
    for array, layout in zip(arrays, padded):
        memory = np.full(math.prod(array.shape) * 8, np.nan)
        viewed(memory, layout)[...] = array
        copies.append(memory)
        assert sorted(layout.strides)[1] % 8 == 0
    row = product_padding.padded_length(9, 2)
    route = find_route(*padded, 8, 256, row)

    assert route.copies == (None, None)
    assert {step.gemm.ldd for step in route.steps} == {16}
    np.testing.assert_allclose(run_route(route, *copies, (3, 5, 9), row), a @ b)


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
