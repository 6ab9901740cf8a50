"""Copies of batches to a device, on simulated streams that run as early or as late as allowed.

The memory of the simulated device is memory of the host. A stream runs only when something waits
for it, or, if it is eager, as soon as the events that it waits for are reached. A missing event or
a buffer that is reused too early is then a wrong value.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
import pytest

from tapegrad_cupy.runtime import array_references, host_to_device, staging
from tapegrad_cupy.runtime.host_to_device import (
    LEAST_OVERLAPPED,
    MOST_KEPT,
    MOST_PACKED,
    MOST_PACKS,
    place_batch,
    place_gathered,
    release_buffers,
)


class Event:
    def __init__(self, **_: Any) -> None:
        self.stream: Any = None
        self.reached = True

    def record(self, stream: Stream) -> None:
        self.stream, self.reached = stream, False

        def reach() -> None:
            self.reached = True

        stream.add(reach)

    def synchronize(self) -> None:
        self.stream.run_until(self)


class Stream:
    """Work that is done in order; `is_eager` says when."""

    streams: list[Stream] = []  # noqa: RUF012
    first_is_eager = True

    def __init__(self, non_blocking: bool = True) -> None:
        # If the home stream is as late as possible, the others are as early as possible.
        self.is_eager = self.first_is_eager if not self.streams else not self.first_is_eager
        self.work: deque[Callable[[], None] | Event] = deque()
        self.streams.append(self)
        self.ptr = len(self.streams) << 8

    def add(self, work: Callable[[], None] | Event) -> None:
        self.work.append(work)
        self.advance()

    def advance(self) -> None:
        """Do what may be done now, if the stream is eager."""
        while self.is_eager and self.work:
            if isinstance(self.work[0], Event) and not self.work[0].reached:
                return
            self.do_next()

    def do_next(self) -> None:
        work = self.work[0]
        if isinstance(work, Event):
            if not work.reached:
                work.synchronize()
            if self.work and self.work[0] is work:  # it was not done meanwhile
                self.work.popleft()
        else:
            self.work.popleft()
            work()
            for stream in self.streams:
                if stream is not self:
                    stream.advance()

    def run_until(self, event: Event) -> None:
        while not event.reached:
            self.do_next()

    def synchronize(self) -> None:
        while self.work:
            self.do_next()

    def wait_event(self, event: Event) -> None:
        self.add(event)

    def record(self, event: Event) -> Event:
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        return False


class Device:
    """The memory of the simulated device, and how often it was asked for some."""

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray] = {}
        self.allocations = self.copies = 0

    def alloc(self, size: int) -> Any:
        self.allocations += 1
        block = np.full(size + 256, 0xEE, np.uint8)
        address = -(-block.ctypes.data // 256) * 256
        self.blocks[address] = block
        memory = cupy.cuda.UnownedMemory(address, size, None, 0)
        return cupy.cuda.MemoryPointer(memory, 0)

    def copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        self.copies += 1
        assert kind == 1
        (found,) = [one for one in Stream.streams if one.ptr == stream]
        found.add(lambda: ctypes.memmove(target, source, size) and None)


def read(array: Any) -> np.ndarray:
    """The values of an array of the simulated device."""
    raw = ctypes.string_at(array.data.ptr, array.nbytes)
    return np.frombuffer(raw, array.dtype).reshape(array.shape)


@pytest.fixture(params=["home is late", "home is eager"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    Stream.streams.clear()
    monkeypatch.setattr(Stream, "first_is_eager", request.param == "home is eager")
    stream, device = Stream(), Device()
    monkeypatch.setattr(cupy.cuda, "Event", Event)
    monkeypatch.setattr(cupy.cuda, "Stream", Stream)
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", bytearray)
    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", device.copy)
    monkeypatch.setattr(host_to_device, "check_not_capturing", lambda *_: None)
    monkeypatch.setattr(host_to_device, "_current_device", lambda: 0)
    monkeypatch.setattr(host_to_device, "_current_stream", lambda: stream)
    monkeypatch.setattr(array_references, "why_not_counted", lambda: "")
    monkeypatch.setattr(host_to_device, "_uploads", type(host_to_device._uploads)())
    stream.device = device  # type: ignore[attr-defined]
    with cupy.cuda.using_allocator(device.alloc):
        yield stream
        release_buffers()
    for one in Stream.streams:
        one.synchronize()


def device_of(home: Any) -> Device:
    found: Device = home.device
    return found


SIZES = {"tiny": 100, "packed": MOST_PACKED // 32, "overlapped": LEAST_OVERLAPPED // 4}


@pytest.mark.parametrize("as_one", [True, False])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_each_step_reads_its_batch_although_the_host_overwrites_it(
    home: Stream, size: int, as_one: bool
) -> None:
    x, y = np.empty(size, "float64"), np.empty((3, size), "int32").T
    found: list[tuple[float, float, int, int]] = []

    def step(arrays: list[Any]) -> Callable[[], None]:
        kinds = [(array.shape, array.dtype, array.data.ptr) for array in arrays]

        def run() -> None:
            values = [
                np.frombuffer(
                    ctypes.string_at(at, int(np.prod(shape)) * dtype.itemsize), dtype
                ).reshape(shape)
                for shape, dtype, at in kinds
            ]
            found.append(tuple(f(v) for v in values for f in (np.min, np.max)))  # type: ignore[arg-type]

        return run

    for k in range(40):
        x[...], y[...] = k + 0.5, -k
        home.add(step(place_batch([x, y], as_one)))  # the arrays are released here
        x[...], y[...] = -1, 99
    home.synchronize()

    assert found == [(k + 0.5, k + 0.5, -k, -k) for k in range(40)]


def test_memory_of_batches_is_used_again(home: Stream) -> None:
    value = np.zeros(LEAST_OVERLAPPED, np.uint8)
    for _ in range(50):
        place_batch([value, value[:300]], False)

    assert device_of(home).allocations == 4  # two sets alternate


def test_memory_that_an_array_or_a_view_has_is_not_used_again(home: Stream) -> None:
    value = np.empty(LEAST_OVERLAPPED // 4, "float32")
    kept = []
    for k in range(30):
        value[...] = k
        (array,) = place_batch([value], True)
        kept.append(array if k % 2 else array[5:9])
        del array
    home.synchronize()

    assert [read(array).max() for array in kept] == list(range(30))
    assert [read(array).min() for array in kept] == list(range(30))


def test_copies_do_not_wait_for_the_last_step(home: Stream) -> None:
    value = np.ones(LEAST_OVERLAPPED, np.uint8)
    for _ in range(3):
        place_batch([value], False)
    home.synchronize()
    (copying,) = [one for one in Stream.streams if one is not home]
    home.is_eager, copying.is_eager = False, True

    home.add(lambda: None)  # the step that is still to come
    place_batch([value], False)
    home.add(lambda: None)

    assert not copying.work
    assert home.work


def test_few_buffers_are_kept_for_other_sizes(home: Stream) -> None:
    for size in range(40):
        place_batch([np.zeros(LEAST_OVERLAPPED + 1000 * size, np.uint8)], False)
    (uploads,) = host_to_device._uploads.values()

    assert len(uploads._buffers._free) <= MOST_KEPT
    assert not len(uploads._buffers._used) > 1
    release_buffers()
    assert not uploads._buffers._free


def test_small_batches_take_one_copy_and_others_one_per_array(home: Stream) -> None:
    counts = []
    for size, as_one in ((10, True), (10, False), (LEAST_OVERLAPPED, True)):
        before = device_of(home).copies
        arrays = place_batch([np.zeros(size, "uint8"), np.ones((2, 3)), np.array(7)], as_one)
        counts.append(device_of(home).copies - before)
        home.synchronize()
        assert read(arrays[1]).tolist() == [[1.0] * 3] * 2
        assert read(arrays[2]) == 7
        assert all(array.data.ptr % 256 == 0 for array in arrays)
    assert counts == [1, 3, 3]


def test_empty_arrays_scalars_and_other_byte_orders(home: Stream) -> None:
    values = [np.zeros((0, 3), "float32"), np.array(-0.0), np.arange(5, dtype=">i4")[::-1]]
    for repeat in (1, 40_000):
        given = [*values, np.ones((repeat, 2))]
        arrays = place_batch(given, True)
        home.synchronize()
        for array, value in zip(arrays, given, strict=True):
            assert array.dtype.isnative
            np.testing.assert_array_equal(read(array), value)
        assert np.signbit(read(arrays[1]))


def test_rows_are_gathered(home: Stream) -> None:
    data, labels = np.arange(600.0).reshape(100, 6), np.arange(100)
    rng = np.random.default_rng(0)
    found, expected = [], []
    for _ in range(20):
        rows = rng.integers(0, 100, 50)
        found.append(place_gathered([data, labels], rows))
        expected.append((data[rows], labels[rows]))
    home.synchronize()

    for arrays, values in zip(found, expected, strict=True):
        for array, value in zip(arrays, values, strict=True):
            np.testing.assert_array_equal(read(array), value)


def test_a_full_ring_makes_the_host_wait_for_the_oldest_copies(home: Stream) -> None:
    ring, target = staging.PinnedRing(home), device_of(home).alloc(2**20)
    seen: list[int] = []
    for k in range(64):
        ring.send(np.full(2**20, k, np.uint8), target.ptr)
        home.add(lambda: seen.append(ctypes.string_at(target.ptr, 1)[0]))
    waiting = len(home.work)
    home.synchronize()

    assert seen == list(range(64))
    assert ring.size == 4 * 2**20
    assert waiting < 32


def test_without_page_locked_memory_ordinary_memory_serves(
    home: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(size: int) -> Any:
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", refuse)
    (array,) = place_batch([np.arange(7)], True)
    home.synchronize()

    assert read(array).tolist() == list(range(7))


def test_small_batches_are_the_same_arrays_again_unless_something_holds_them(home: Stream) -> None:
    values = [np.zeros((4, 3)), np.arange(5)]
    first = place_batch(values, True)
    addresses = [array.data.ptr for array in first]
    view = first[1][1:]
    del first

    second = place_batch([values[0], values[1] + 10], True)
    home.synchronize()
    assert [array.data.ptr for array in second] != addresses
    assert read(view).tolist() == [1, 2, 3, 4]
    again = [array.data.ptr for array in second]
    del second

    assert [array.data.ptr for array in place_batch(values, True)] == again
    home.synchronize()
    assert read(view).tolist() == [1, 2, 3, 4]


def test_many_kinds_of_small_batches_are_forgotten(home: Stream) -> None:
    kept = []
    for size in range(1, 2 * MOST_PACKS):
        kept += place_batch([np.full(size, size, "uint8")], True)
    (uploads,) = host_to_device._uploads.values()

    assert len(uploads._packs) <= MOST_PACKS
    home.synchronize()
    assert [read(array).max() for array in kept] == list(range(1, 2 * MOST_PACKS))
