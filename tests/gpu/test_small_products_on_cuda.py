"""Products of small float32 matrices by our kernel, against NumPy in double precision."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

# Declares the primitive whose rule the kernels look up.
import tapegrad.ops.products.fused  # noqa: F401
from tapegrad.core.precision import TF32

cupy = pytest.importorskip("cupy")
epilogues = pytest.importorskip("tapegrad_cupy.kernels.products.epilogues")
products = pytest.importorskip("tapegrad_cupy.kernels.products.products")
small = pytest.importorskip("tapegrad_cupy.kernels.products.small")

SIZES = [1, 3, 8, 10, 17, 31, 64, 100, 128, 256, 784]
FLAGS = list(itertools.product((False, True), repeat=2))
FORMS = list(itertools.product((False, True), (False, True), (None, "relu", "gelu_tanh")))
TYPICAL = [(32, 256, 256), (64, 128, 784), (64, 128, 128), (64, 10, 128), (784, 128, 64),
           (128, 128, 64), (128, 10, 64), (64, 128, 10)]  # fmt: skip


def sampled(count: int) -> list[tuple[int, int, int]]:
    """Rows, columns and depth of small products, the typical ones first."""
    chooser = random.Random(7)
    every = [sizes for sizes in itertools.product(SIZES, repeat=3) if small.is_small(*sizes)]
    return [*TYPICAL, *chooser.sample(every, count)]


def draw(shape: tuple[int, ...], seed: int = 0) -> Any:
    return cupy.asarray(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def exact(array: Any) -> Any:
    return cupy.asnumpy(array).astype("float64")


def turn(array: Any, transpose: bool) -> Any:
    """Return an array whose transpose is the one given, contiguous like it."""
    return cupy.ascontiguousarray(array.T) if transpose else array


def activate(x: Any, activation: str | None) -> Any:
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x


def check(got: Any, a: Any, b: Any, *addends: Any, activation: str | None = None) -> None:
    """Compare within roundings of all magnitudes: they add up like steps in random directions."""
    a, b = exact(a), exact(b)
    want, size = a @ b, abs(a) @ abs(b)
    for addend in addends:
        want, size = want + exact(addend), size + abs(exact(addend))
    roundings = 4 + math.sqrt(a.shape[1])

    assert got.dtype == np.float32
    assert got.shape == want.shape
    assert got.flags.c_contiguous
    bound = roundings * 2.0**-24 * size + 1e-37
    np.testing.assert_array_less(abs(exact(got) - activate(want, activation)), bound)


def multiply(a: Any, b: Any, flags: tuple[bool, bool] = (False, False), total: Any = None) -> Any:
    """Run the kernel on operands as they lie."""
    return products.matmul(a, b, transpose_a=flags[0], transpose_b=flags[1], total=total)


def add_up(
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    activation: str | None = None,
    flags: tuple[bool, bool] = (False, False),
) -> Any:
    addends = [array for array in (bias, residual) if array is not None]
    return epilogues.matmul_sum(
        a, b, *addends, transpose_a=flags[0], transpose_b=flags[1],
        bias=bias is not None, residual=residual is not None, activation=activation,
    )  # fmt: skip


@pytest.fixture
def ours_alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the test fail where the library, or anything but one launch, does it."""

    def refuse(*args: Any, **params: Any) -> Any:
        pytest.fail("the product was not left to the kernel for small ones")

    for module in (products, epilogues):
        module._plans.clear()
        monkeypatch.setattr(module, "prepared_product", refuse)
    monkeypatch.setattr(products, "_by_cupy", refuse)
    monkeypatch.setattr(epilogues, "_separate_kernels", lambda *args: refuse)
    yield
    products._plans.clear()
    epilogues._plans.clear()


# Sizes and layouts


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", sampled(60), ids=str)
def test_products_of_all_sizes(
    ours_alone: None, sizes: tuple[int, int, int], flags: tuple[bool, bool]
) -> None:
    m, n, k = sizes
    a, b = draw((m, k)), draw((k, n), 1)

    got = multiply(turn(a, flags[0]), turn(b, flags[1]), flags)

    check(got, a, b)


@pytest.mark.parametrize("tile", small.TILES, ids=str)
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [(33, 31, 257), (64, 36, 64), (8, 8, 2048), (3, 100, 784)])
def test_every_tile_computes_every_size(
    ours_alone: None,
    monkeypatch: pytest.MonkeyPatch,
    tile: Any,
    flags: tuple[bool, bool],
    sizes: tuple[int, int, int],
) -> None:
    monkeypatch.setattr(small, "TILES", (tile,))
    m, n, k = sizes
    a, b, bias, residual = draw((m, k)), draw((k, n), 1), draw((n,), 2), draw((m, n), 3)
    operands = turn(a, flags[0]), turn(b, flags[1])

    check(multiply(*operands, flags), a, b)
    check(add_up(*operands, bias, residual, None, flags), a, b, bias, residual)


@pytest.mark.parametrize("offset", [0, 1, 2, 4])
@pytest.mark.parametrize("width", [60, 64, 65])
def test_parts_of_larger_matrices_are_read_in_place(
    ours_alone: None, offset: int, width: int
) -> None:
    a, b = draw((40, width)), draw((width, 52), 1)

    for depth in (32, 33):
        first, second = a[3:30, offset : offset + depth], b[2 : 2 + depth, offset : offset + 28]
        check(multiply(first, second), first, second)
        check(multiply(first.T, second, (True, False)), first, second)
        check(multiply(first, second.T, (False, True)), first, second)


def test_any_strides_are_read_in_place(ours_alone: None) -> None:
    a, b = draw((60, 80)), draw((80, 60), 1)
    row = cupy.broadcast_to(b[0], (40, 60))

    check(multiply(a[::2, ::2], b[::-2, ::3]), a[::2, ::2], b[::-2, ::3])
    check(multiply(a[::-1, :40], row), a[::-1, :40], row)


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_operands_share_a_plan_whichever_is_unaligned(ours_alone: None, offset: int) -> None:
    a, b = draw((16 * 32 + 4,)), draw((32 * 16 + 4,), 1)
    shifted = a[offset:][: 16 * 32].reshape(16, 32), b[offset:][: 32 * 16].reshape(32, 16)
    aligned = a[: 16 * 32].reshape(16, 32), b[: 32 * 16].reshape(32, 16)

    for first, second in itertools.product((shifted[0], aligned[0]), (shifted[1], aligned[1])):
        check(multiply(first, second), first, second)


# Epilogues


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", sampled(8), ids=str)
def test_sums_and_activations(
    ours_alone: None, sizes: tuple[int, int, int], flags: tuple[bool, bool]
) -> None:
    m, n, k = sizes
    a, b, bias, residual = draw((m, k)), draw((k, n), 1), draw((n,), 2), draw((m, n), 3)
    operands = turn(a, flags[0]), turn(b, flags[1])

    for has_bias, has_residual, activation in FORMS:
        addends = bias if has_bias else None, residual if has_residual else None
        got = add_up(*operands, *addends, activation, flags)
        check(got, a, b, *[x for x in addends if x is not None], activation=activation)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("sizes", [*TYPICAL, (17, 31, 3)], ids=str)
def test_a_product_is_added_in_place(
    ours_alone: None, sizes: tuple[int, int, int], flags: tuple[bool, bool]
) -> None:
    m, n, k = sizes
    a, b, total = draw((m, k)), draw((k, n), 1), draw((m, n), 2)
    before = total.copy()

    done = products.add_product(
        total, turn(a, flags[0]), turn(b, flags[1]), transpose_a=flags[0], transpose_b=flags[1]
    )

    assert done
    check(total, a, b, before)


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_addends_and_totals_at_odd_addresses(ours_alone: None, offset: int) -> None:
    a, b, bias = draw((24, 32)), draw((32, 40), 1), draw((40 + offset,), 2)[offset:]
    residual = draw((24 * 40 + offset,), 3)[offset:].reshape(24, 40)
    before = residual.copy()

    check(add_up(a, b, bias, residual), a, b, bias, residual)
    check(multiply(a, b, total=residual), a, b, before)


def test_what_is_no_number_stays_in_its_row(ours_alone: None) -> None:
    a, b = draw((33, 50)), draw((50, 35), 1)
    a[7, 49] = math.nan
    a[32, 0] = math.inf

    for activation in (None, "relu"):
        got = exact(add_up(a, b, None, None, activation))
        assert np.isnan(got[7]).all()
        assert np.isfinite(np.delete(got, (7, 32), axis=0)).all()
        assert not np.isfinite(exact(multiply(a, b))[32]).any()


def test_subnormal_results_are_kept(ours_alone: None) -> None:
    a, b = cupy.full((4, 1), 1e-30, "float32"), cupy.full((1, 4), 1e-9, "float32")

    assert (exact(multiply(a, b)) > 0).all()


# Order, graphs and choice


@pytest.mark.parametrize("sizes", TYPICAL, ids=str)
def test_two_runs_agree_in_every_bit(ours_alone: None, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, bias, residual = draw((m, k)), draw((k, n), 1), draw((n,), 2), draw((m, n), 3)

    first, again = (add_up(a, b, bias, residual, "gelu_tanh") for _ in range(2))

    assert cupy.asnumpy(first).tobytes() == cupy.asnumpy(again).tobytes()


@pytest.mark.parametrize("sizes", TYPICAL, ids=str)
def test_a_captured_product_reads_its_operands_at_each_launch(
    ours_alone: None, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    a, b, bias, total = draw((m, k)), draw((k, n), 1), draw((n,), 2), draw((m, n), 3)
    later, before = draw((m, k), 4), total.copy()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()

    with stream:
        add_up(a, b, bias, None, "relu")
        multiply(a, b, total=cupy.zeros((m, n), "float32"))
        stream.begin_capture()
        got = add_up(a, b, bias, None, "relu")
        multiply(a, b, total=total)
        graph = stream.end_capture()
        a[...] = later
        graph.launch()
        stream.synchronize()

    check(got, later, b, bias, activation="relu")
    check(total, later, b, before)


@pytest.mark.parametrize("sizes", TYPICAL, ids=str)
def test_typical_products_are_small(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes

    assert small.find_small(draw((m, k)), draw((k, n)), False, False, 0) is not None


@pytest.mark.parametrize(
    "sizes", [(512, 512, 512), (1024, 1024, 16), (64, 64, 4096), (50000, 3, 8)], ids=str
)
def test_other_products_are_left_to_the_library(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    m, n, k = sizes
    a, b, bias = draw((m, k)), draw((k, n), 1), draw((n,), 2)
    asked = []

    def prepared(*args: Any) -> Any:
        asked.append(args)
        return original(*args)

    original = products.prepared_product
    for module in (products, epilogues):
        module._plans.clear()
        monkeypatch.setattr(module, "prepared_product", prepared)

    check(multiply(a, b), a, b)
    check(add_up(a, b, bias), a, b, bias)

    assert len(asked) == 2


def test_other_dtypes_stacks_and_tf32_are_left_to_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = draw((16, 32)), draw((32, 16), 1)

    assert small.find_small(a.astype("float64"), b.astype("float64"), False, False, 0) is None
    assert small.find_small(a[None], b[None], False, False, 0) is None
    monkeypatch.setitem(TF32, "on", True)
    monkeypatch.setattr(products, "find_small", lambda *args: pytest.fail("it was asked"))

    assert multiply(a, b).shape == (16, 16)
