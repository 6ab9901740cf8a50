"""Replayed calls of cuDNN and cuBLASLt: the same bits as by the libraries."""

from __future__ import annotations

import gc
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy import switches
from tapegrad_cupy.kernels.attention import attention
from tapegrad_cupy.kernels.convolution import convolution
from tapegrad_cupy.kernels.products import epilogues, products
from tapegrad_cupy.library_calls import cudnn_handle, library_replay
from tapegrad_cupy.library_calls.library_capture import Launch, Memset, UnfitError, captured
from tapegrad_cupy.library_calls.library_replay import DIFFERS, NOT_YET, ReplayedCall
from tapegrad_cupy.library_calls.replay_check import Output, run_and_compare
from tapegrad_cupy.library_calls.replay_state import replay_state

cupy = pytest.importorskip("cupy")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [BFLOAT16, *map(np.dtype, ("float16", "float32", "float64", "complex64"))]
NEEDS_CUDNN = pytest.mark.skipif(
    cudnn_handle.library()[0] is None, reason="cuDNN is not installed: nothing calls it then."
)
CALLS = 6
"""More than it takes until a call is replayed."""


@pytest.fixture(autouse=True)
def fresh_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ReplayedCall]]:
    """Forget all plans, and keep the calls that are made from now on."""
    made: list[ReplayedCall] = []
    first = ReplayedCall.__init__

    def noted(self: ReplayedCall, call: Callable[..., None], outputs: Sequence[Output]) -> None:
        first(self, call, outputs)
        made.append(self)

    forget()
    monkeypatch.setattr(ReplayedCall, "__init__", noted)
    yield made
    forget()


def forget() -> None:
    convolution.forget_plans()
    for plans in (products._plans, attention._plans, epilogues._plans, epilogues._sums_plans):
        plans.clear()
    products.prepared_product.cache_clear()


def draw(shape: Sequence[int], dtype: Any, seed: int) -> Any:
    value = np.random.default_rng(seed).normal(size=shape)
    return cupy.asarray(value).astype(dtype)


def as_float(x: Any) -> Any:
    return cupy.asnumpy(x).astype("float64")


def check(
    monkeypatch: pytest.MonkeyPatch, made: list[ReplayedCall], run: Callable[[int], Sequence[Any]]
) -> list[ReplayedCall]:
    """Compare all bits of several calls, replayed from the fourth on, with those by the library.

    Return the calls that were examined.
    """

    def bits() -> list[list[bytes]]:
        return [[cupy.asnumpy(x).tobytes() for x in run(seed)] for seed in range(CALLS)]

    replayed = bits()
    often = [call for call in made if call.reason != NOT_YET]
    assert DIFFERS not in [call.reason for call in often]
    forget()
    monkeypatch.setattr(switches, "LIBRARY_REPLAY", False)
    assert replayed == bits()
    return often


# Products


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("sizes", [(64, 64, 64), (96, 200, 56), (513, 1024, 768), (8, 4096, 16)])
def test_products(monkeypatch, fresh_plans, dtype, sizes):
    m, k, n = sizes

    def run(seed: int) -> Sequence[Any]:
        a, b = draw((m, k), dtype, seed), draw((k, n), dtype, seed + 9)
        total = draw((m, n), dtype, seed + 5)
        plain = products.matmul(a, b, transpose_a=False, transpose_b=False)
        turned = products.matmul(b, a, transpose_a=True, transpose_b=True)
        assert products.add_product(total, a, b, transpose_a=False, transpose_b=False)
        return plain, turned, total

    often = check(monkeypatch, fresh_plans, run)

    if dtype == BFLOAT16:
        assert "" in [call.reason for call in often]


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("float32")], ids=lambda dtype: dtype.name)
def test_products_with_a_bias_and_with_sums(monkeypatch, fresh_plans, dtype):
    def run(seed: int) -> Sequence[Any]:
        with tf.device("cuda:0"):
            x, w, b = (
                tf.convert_to_tensor(draw(shape, dtype, seed))
                for shape in ((256, 128), (128, 512), (512,))
            )
            with tf.GradientTape() as tape:
                tape.watch((x, w, b))
                y = tf.nn.relu(tf.matmul(x, w) + b)
            return [y.array, *(g.array for g in tape.gradient(y, (x, w, b)))]

    often = check(monkeypatch, fresh_plans, run)

    if dtype == BFLOAT16:
        assert "" in [call.reason for call in often]


# cuDNN


@NEEDS_CUDNN
@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("float32")], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("channels", [(16, 32), (64, 64), (3, 64)])
def test_convolutions(monkeypatch, fresh_plans, dtype, strides, channels):
    c_in, c_out = channels

    def run(seed: int) -> Sequence[Any]:
        with tf.device("cuda:0"):
            x = tf.convert_to_tensor(draw((8, 16, 16, c_in), dtype, seed))
            w = tf.convert_to_tensor(draw((3, 3, c_in, c_out), dtype, seed + 9))
            with tf.GradientTape() as tape:
                tape.watch((x, w))
                y = tf.nn.conv2d(x, w, strides, "SAME")
            return [y.array, *(g.array for g in tape.gradient(y, (x, w)))]

    often = check(monkeypatch, fresh_plans, run)

    if dtype == BFLOAT16:
        assert "" in [call.reason for call in often]


@NEEDS_CUDNN
@pytest.mark.parametrize("causal", [False, True])
def test_attention(monkeypatch, fresh_plans, causal):
    def run(seed: int) -> Sequence[Any]:
        q, k, v, t = (draw((2, 4, 128, 64), BFLOAT16, seed + 7 * i) for i in range(4))
        y, kept = attention.attention(q, k, v, scale=0.125, causal=causal)
        return y, *attention.attention_gradient(t, q, k, v, y, kept, scale=0.125, causal=causal)

    often = check(monkeypatch, fresh_plans, run)

    assert "" in [call.reason for call in often]


# Around them


def product_call() -> tuple[Any, Any, Any]:
    a, b = draw((512, 512), BFLOAT16, 0), draw((512, 512), BFLOAT16, 1)
    for _ in range(CALLS):
        expected = products.matmul(a, b, transpose_a=False, transpose_b=False)
    return a, b, expected


def test_on_another_stream_and_inside_a_graph():
    a, b, expected = product_call()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        there = products.matmul(a, b, transpose_a=False, transpose_b=False)
    stream.synchronize()
    with tf.device("cuda:0"):
        multiply = tf.function(tf.matmul)
        x, y = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
        recorded = [multiply(x, y) for _ in range(3)][-1]

    assert (there == expected).all()
    assert (recorded.array == expected).all()


def test_unaligned_operands_are_left_to_the_library(fresh_plans):
    a, b, _ = product_call()
    memory = cupy.zeros(512 * 512 + 8, BFLOAT16)
    shifted = memory[8:].reshape(512, 512)
    shifted[...] = a

    for _ in range(CALLS):
        found = products.matmul(shifted, b, transpose_a=False, transpose_b=False)

    exact = as_float(a) @ as_float(b)
    assert abs(as_float(found) - exact).max() < 0.01 * abs(exact).max()
    assert [call.is_replayed for call in fresh_plans] == [True, False, False, False]


def test_threads_do_not_mix_their_addresses():
    _, b, _ = product_call()
    inputs = [draw((512, 512), BFLOAT16, seed) for seed in range(8)]
    expected = [products.matmul(a, b, transpose_a=False, transpose_b=False) for a in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            found = products.matmul(inputs[number], b, transpose_a=False, transpose_b=False)
            if not bool((found == expected[number]).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_call_that_copies_memory_goes_on_being_made():
    source, target = cupy.arange(64.0), cupy.zeros(64)

    def copy(addresses: Sequence[int], stream: int) -> None:
        at, to, _ = addresses
        cupy.cuda.runtime.memcpyAsync(to, at, source.nbytes, 3, stream)

    call = ReplayedCall(copy, [Output(1, target.nbytes)])
    for _ in range(CALLS):
        target[...] = 0
        at, to = source.data.ptr, target.data.ptr
        call((at, to, 0), at | to, cupy.cuda.get_current_stream().ptr)

    assert (target == source).all()
    assert not call.is_replayed
    assert "node of CUDA's kind 1" in call.reason


def test_an_argument_that_changes_by_itself_is_noticed():
    kernel = cupy.RawKernel(
        'extern "C" __global__ void count(long long* x, long long n) { *x = n; }', "count"
    )
    x, calls_made = cupy.zeros(1, cupy.int64), [0]

    def count(addresses: Sequence[int], stream: int) -> None:
        calls_made[0] += 1
        kernel((1,), (1,), (addresses[0], np.int64(calls_made[0])))

    call = ReplayedCall(count, [Output(0, x.nbytes)])
    for _ in range(CALLS):
        call((x.data.ptr, 0), x.data.ptr, cupy.cuda.get_current_stream().ptr)

    assert int(x[0]) == calls_made[0]
    assert "no address" in call.reason


# The self-check


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4096, 1_000_003])
def test_one_bit_that_differs_is_found(size):
    rng = np.random.default_rng(size)
    source = cupy.asarray(rng.integers(0, 256, size, dtype=np.uint8))

    for place in {0, size // 2, size - 1}:
        target = cupy.zeros(size, cupy.uint8)
        wrong = source.copy()
        wrong[place] ^= 1
        results = [
            run_and_compare(
                copier(source), copier(other), [target.data.ptr], [Output(0, size)], stream()
            )
            for other in (source, wrong)
        ]
        assert results == [True, False]
        assert (target == source).all()
        nothing = run_and_compare(
            copier(source), lambda *_: None, [target.data.ptr], [Output(0, size)], stream()
        )
        assert not nothing  # although the result of before lies there


def copier(source: Any) -> Callable[[Sequence[int], int], None]:
    def copy(addresses: Sequence[int], stream: int) -> None:
        cupy.cuda.runtime.memcpyAsync(addresses[0], source.data.ptr, source.nbytes, 3, stream)

    return copy


def stream() -> int:
    address: int = cupy.cuda.get_current_stream().ptr
    return address


def test_a_call_may_read_what_it_overwrites():
    """As a product that is added to its target does."""
    kernel = cupy.RawKernel(
        'extern "C" __global__ void twice(float* x, const float* y) { *x = *x + *y; }', "twice"
    )
    x = cupy.full(1, 3.0, cupy.float32)
    at = x.data.ptr

    def double(addresses: Sequence[int], stream: int) -> None:
        kernel((1,), (1,), tuple(addresses))

    assert run_and_compare(double, double, [at, at], [Output(0, 4)], stream())
    assert float(x[0]) == 6.0


def test_a_replay_that_gives_other_bits_is_not_used(monkeypatch, fresh_plans):
    def written(found: Any, pieces: Any) -> Callable[..., None]:
        return lambda addresses, stream: None

    before = library_replay.count_differing()
    monkeypatch.setattr(library_replay, "_written", written)
    a, b, found = product_call()

    exact = as_float(a) @ as_float(b)
    assert abs(as_float(found) - exact).max() < 0.01 * abs(exact).max()
    assert DIFFERS in [call.reason for call in fresh_plans]
    assert not any(call.is_replayed for call in fresh_plans)
    assert library_replay.count_differing() > before


def test_a_replay_that_cannot_be_launched_is_not_used(monkeypatch, fresh_plans):
    def written(found: Any, pieces: Any) -> Callable[..., None]:
        def fail(addresses: Sequence[int], stream: int) -> None:
            raise RuntimeError("no such kernel")

        return fail

    monkeypatch.setattr(library_replay, "_written", written)
    a, b, found = product_call()

    exact = as_float(a) @ as_float(b)
    assert abs(as_float(found) - exact).max() < 0.01 * abs(exact).max()
    assert "RuntimeError: no such kernel" in [call.reason for call in fresh_plans]


def test_without_memory_for_copies_the_library_goes_on_being_called(monkeypatch, fresh_plans):
    def refuse(*arguments: Any) -> bool:
        raise MemoryError("no room for copies")

    monkeypatch.setattr(library_replay, "run_and_compare", refuse)
    a, b, found = product_call()

    exact = as_float(a) @ as_float(b)
    assert abs(as_float(found) - exact).max() < 0.01 * abs(exact).max()
    assert not any(call.is_replayed for call in fresh_plans)


def test_info_says_whether_calls_are_replayed(monkeypatch):
    assert replay_state().startswith("used: a replayed product of cuBLASLt gave the same bits")
    monkeypatch.setattr(library_replay, "_written", lambda found, pieces: lambda at, stream: None)
    assert replay_state() == f"off for a product of cuBLASLt: {DIFFERS}"
    monkeypatch.setattr(switches, "LIBRARY_REPLAY", False)
    assert "TAPEGRAD_LIBRARY_REPLAY turns it off" in replay_state()


# While a call is captured


class Ring:
    """Garbage that only the collector finds, with memory of the device."""

    def __init__(self, memory: Any) -> None:
        self.memory, self.itself = memory, self


def test_garbage_stays_while_a_call_is_captured():
    """CUDA refuses to free memory during a capture, and then nobody ever does."""
    x, memories, stayed = cupy.ones(64), [cupy.cuda.Memory(256)], []
    often = gc.get_threshold()

    def call(stream: int) -> None:
        cupy.cuda.runtime.memsetAsync(x.data.ptr, 0, x.nbytes, stream)
        ring = weakref.ref(Ring(memories.pop()))
        [[] for _ in range(1000)]  # which calls the collector
        stayed.append(ring() is not None)

    gc.set_threshold(1)
    try:
        found = captured(call)
    finally:
        gc.set_threshold(*often)

    assert [type(one) for one in found] == [Memset]
    assert stayed == [True]
    assert gc.isenabled()


def test_it_can_be_turned_off(monkeypatch, fresh_plans):
    monkeypatch.setattr(switches, "LIBRARY_REPLAY", False)
    a, b, expected = product_call()

    exact = as_float(a) @ as_float(b)
    assert abs(as_float(expected) - exact).max() < 0.01 * abs(exact).max()
    assert {call.reason for call in fresh_plans} == {"it is turned off"}


def launches(*arguments: bytes) -> list[Launch]:
    return [Launch(1, (1, 1, 1), (32, 1, 1), 0, (), blob) for blob in arguments]


def test_addresses_are_found_wherever_they_lie():
    variants = [
        library_replay._shifted((2**40, 3 * 2**40, 0), shifts)
        for shifts in ([0] * 3, *library_replay._SHIFTS)
    ]
    blobs = [struct.pack("<iQfQ", 7, x + 64, 0.5, y) for x, y, _ in variants]

    pieces = library_replay._pieces(launches(*blobs), variants)

    assert pieces == [struct.pack("<i", 7), (0, 64), struct.pack("<f", 0.5), (1, 0), b""]


def test_half_an_address_in_a_gap_stays_and_other_changes_are_refused():
    variants = [
        library_replay._shifted((2**40, 3 * 2**40), shifts)
        for shifts in ([0] * 2, *library_replay._SHIFTS)
    ]
    gaps = [struct.pack("<QIf", x, y % 2**32, 1.0) for x, y in variants]
    sums = [struct.pack("<QI", x, (x + y) % 2**32) for x, y in variants]

    assert library_replay._pieces(launches(*gaps), variants) == [b"", (0, 0), gaps[0][8:]]
    with pytest.raises(UnfitError, match="no address"):
        library_replay._pieces(launches(*sums), variants)
