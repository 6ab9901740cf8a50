"""Products of one matrix with several vectors are merged, and run in C if they are small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.vector_products import MOST, with_joined_vectors
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.entry_points import CShapeSpecializer
from tests.program.recorded_graphs import assert_same_results, count, recorded

needs_compiler = pytest.mark.skipif(
    compiler.find() is None, reason="this machine has no C compiler"
)


def draw(*shapes: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(len(shapes))
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def check(function: Any, arrays: list[Any], joined: int, left: int = 0) -> Any:
    """Apply the pass, compare the results and count the products."""
    before = recorded(function, arrays)

    after = with_joined_vectors(before)

    assert_same_results(before, after, arrays)
    assert (count(after, "matvecs"), count(after, "matvec")) == (joined, left)
    return after


# The pass


def product(a: Any, x: Any, transpose: bool = False) -> Any:
    return tf.linalg.matvec(a, x, transpose_a=transpose)


VECTORS = draw((5, 5), *[(5,)] * 6)


@pytest.mark.parametrize("transpose", [False, True])
def test_products_of_one_matrix_are_made_at_once(transpose: bool) -> None:
    a, x, y = draw((4, 6), *[(4 if transpose else 6,)] * 2)

    check(lambda a, x, y: (product(a, x, transpose), product(a, y, transpose)), [a, x, y], 1)


def test_products_with_a_matrix_and_with_its_transpose_stay_apart() -> None:
    check(lambda a, x, *_: (product(a, x), product(a, x, True)), VECTORS, 0, left=2)


def test_more_vectors_than_fit_are_taken_in_turns() -> None:
    after = check(lambda a, *xs: tuple(product(a, x) for x in xs), VECTORS, 2)

    counts = [len(call.results) for call in after.calls if call.primitive.name == "matvecs"]
    assert counts == [MOST, 6 - MOST]


def test_a_product_that_depends_on_another_is_not_joined_with_it() -> None:
    check(lambda a, x, *_: (product(a, tf.tanh(product(a, x))),), VECTORS, 0, left=2)


def test_chains_side_by_side_are_joined_link_by_link() -> None:
    def chains(a: Any, x: Any, y: Any, *_: Any) -> Any:
        for _ in range(3):
            x, y = tf.sin(product(a, x)), tf.cos(product(a, y))
        return x, y

    check(chains, VECTORS, 3)


def test_groups_that_would_wait_for_each_other_in_a_circle_are_not_both_joined() -> None:
    def crossed(a: Any, b: Any, x: Any, y: Any) -> Any:
        return (
            product(b, tf.sin(product(a, x))),
            product(a, tf.sin(product(b, y))),
        )

    check(crossed, draw((3, 3), (3, 3), (3,), (3,)), 1, left=2)


def test_what_is_computed_again_to_save_memory_is_left_alone() -> None:
    def loss(a: Any, x: Any) -> Any:
        block = tf.recompute_grad(lambda x: tf.tanh(product(a, x)))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(block(x))
        return (tape.gradient(y, x),)

    graph = with_joined_vectors(recorded(loss, VECTORS[:2]))

    assert count(graph, "matvecs") == 0


def test_a_product_of_the_hessian_with_a_vector_reads_the_matrix_four_times() -> None:
    def hvp(a: Any, x: Any, v: Any) -> Any:
        return (tf.hvp(lambda x: tf.reduce_sum(tf.tanh(product(a, tf.tanh(product(a, x))))), x, v),)

    check(hvp, VECTORS[:3], 3, left=1)


def test_a_function_counts_all_vectors_of_a_joined_product() -> None:
    a, x, y = (tf.constant(array) for array in draw((7, 3), (3,), (3,)))
    both = tf.function(lambda a, x, y: (product(a, x), product(a, y)))
    both(a, x, y)

    (kernel,) = both.program(a, x, y).kernels()

    assert (kernel.name, kernel.flops) == ("matvecs", 2 * 2 * 7 * 3)


# In C


def made(shape: tuple[int, int], dtype: str, vectors: int, transpose: bool) -> Any:
    """The kernel for such shapes, and arrays for it."""
    a, *xs = draw(shape, *[(shape[0 if transpose else 1],)] * vectors, dtype=dtype)
    name = "matvec" if vectors == 1 else "matvecs"
    operands = [(array.shape, array.dtype) for array in (a, *xs)]
    (kernel,) = CShapeSpecializer().specialize([(name, operands, {"transpose": transpose})])
    return kernel, a, xs


def run(kernel: Any, a: Any, xs: list[Any], transpose: bool) -> Any:
    results = kernel(a, *xs, transpose=transpose)
    return [results] if len(xs) == 1 else results


def exact(a: Any, x: Any, transpose: bool) -> Any:
    wide = a.astype(np.longdouble)
    return (wide.T if transpose else wide) @ x.astype(np.longdouble)


@needs_compiler
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (4, 1030), (1030, 7), (131, 66), (2050, 3)])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_products_in_c_are_exact_to_rounding(
    shape: tuple[int, int], vectors: int, transpose: bool, dtype: str
) -> None:
    kernel, a, xs = made(shape, dtype, vectors, transpose)

    results = run(kernel, a, xs, transpose)

    assert len(results) == vectors
    for x, y in zip(xs, results):
        expected = exact(a, x, transpose)
        # Rounding errors grow with the sum of magnitudes; 40 of them lie between all these terms.
        allowed = 40 * np.finfo(dtype).eps * exact(abs(a), abs(x), transpose)
        assert (y.dtype, y.shape) == (a.dtype, expected.shape)
        assert (abs(y - expected) <= allowed).all()


@needs_compiler
@pytest.mark.parametrize("transpose", [False, True])
def test_arrays_that_do_not_lie_in_order_give_the_same(transpose: bool) -> None:
    kernel, a, (x, y) = made((8, 8), "float64", 2, transpose)
    turned = np.asfortranarray(a)
    spread = np.repeat(x, 2)[::2]

    results = kernel(turned, spread, y, transpose=transpose)

    for got, vector in zip(results, (x, y)):
        np.testing.assert_allclose(got, exact(a, vector, transpose).astype("f8"), rtol=1e-13)


@needs_compiler
@pytest.mark.parametrize("transpose", [False, True])
def test_infinities_and_nan_come_through(transpose: bool) -> None:
    kernel, a, (x, y) = made((9, 9), "float32", 2, transpose)
    a[2, 3], a[5, 6] = np.inf, np.nan
    x[:], y[:] = 1, 0

    first, second = kernel(a, x, y, transpose=transpose)

    place = {"inf": 3, "nan": 6} if transpose else {"inf": 2, "nan": 5}
    assert np.isposinf(first[place["inf"]])
    assert np.isnan(first[place["nan"]])
    assert np.isnan(second[list(place.values())]).all()
    assert np.isfinite(np.delete(first, list(place.values()))).all()


@needs_compiler
def test_the_same_program_gives_the_same_bits_at_each_call() -> None:
    kernel, a, xs = made((200, 310), "float32", 2, True)

    first = run(kernel, a, xs, True)

    for _ in range(3):
        for one, other in zip(run(kernel, a, xs, True), first):
            assert one.tobytes() == other.tobytes()
            assert one is not other


@pytest.mark.parametrize("dtype", ["int64", "complex128"])
def test_dtypes_that_have_no_code_in_c_are_left_to_numpy(dtype: str) -> None:
    a, x = np.ones((3, 3), dtype), np.arange(3).astype(dtype)
    (kernel,) = CShapeSpecializer().specialize([
        ("matvec", [(a.shape, a.dtype), (x.shape, x.dtype)], {"transpose": False})
    ])  # fmt: skip
    both = tf.function(lambda a, x: (product(a, x), product(a, x + x)))

    for _ in range(2):
        results = both(tf.constant(a), tf.constant(x))

    assert kernel is None
    assert [result.numpy().tolist() for result in results] == [[3, 3, 3], [6, 6, 6]]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (600, 600)])
def test_empty_and_large_products_are_left_to_numpy(shape: tuple[int, int]) -> None:
    kernel, _, _ = made(shape, "float32", 2, False)

    assert kernel is None


@pytest.mark.filterwarnings("ignore:The environment variable CC")
def test_without_a_compiler_numpy_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    a, x, y = (tf.constant(array) for array in draw((4, 3), (3,), (3,)))
    both = tf.function(lambda a, x, y: (product(a, x), product(a, y)))

    for _ in range(2):
        results = both(a, x, y)

    assert made((4, 3), "float64", 2, False)[0] is None
    for result, vector in zip(results, (x, y)):
        expected = exact(a.numpy(), vector.numpy(), False).astype("f8")
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)


@needs_compiler
def test_a_recorded_function_multiplies_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    a, x, y = (tf.constant(array) for array in draw((4, 3), (3,), (3,)))
    both = tf.function(lambda a, x, y: (product(a, x), product(a, y)))
    both(a, x, y)
    monkeypatch.setattr(np, "matmul", None)

    results = both(a, x, y)

    for result, vector in zip(results, (x, y)):
        expected = exact(a.numpy(), vector.numpy(), False).astype("f8")
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)
