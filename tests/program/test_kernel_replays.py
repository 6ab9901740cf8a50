"""Replays of kernel launches tell operands apart, also when the first call had one array twice.

The launches are recorded where the GPU's backend does it, with a stand-in for CuPy: arrays in host
memory, and one kernel that subtracts.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

SUBTRACT = 7
"""The handle of the one kernel."""


class Memory:
    """An allocation, or a place in one."""

    device_id = 0

    def __init__(self, owner: Any, ptr: int) -> None:
        self.owner, self.ptr = owner, ptr

    def __add__(self, offset: int) -> Memory:
        return Memory(self.owner, self.ptr + offset)


class Pool:
    """Memories that follow one another without a gap, if their sizes are multiples of 16 bytes."""

    def __init__(self) -> None:
        self.bytes = np.zeros(4096, np.uint8)
        self.next = -(-self.bytes.ctypes.data // 16) * 16

    def __call__(self, size: int) -> Memory:
        memory = Memory(self.bytes, self.next)
        self.next += -(-size // 16) * 16
        return memory


allocate = Pool()


class Array:
    """A contiguous array of float64."""

    _c_contiguous = True

    def __init__(self, shape: Any, dtype: Any, data: Memory, strides: Any = None) -> None:
        self.shape, self.dtype, self.data, self.strides = shape, dtype, data, strides
        self.nbytes = 8 * shape[0]

    def __getitem__(self, part: slice) -> Array:
        start, stop, _ = part.indices(self.shape[0])
        return Array((stop - start,), self.dtype, self.data + 8 * start, self.strides)

    def tolist(self) -> list[float]:
        return (ctypes.c_double * self.shape[0]).from_address(self.data.ptr)[:]


def array(*values: float) -> Array:
    made = Array((len(values),), np.dtype("float64"), allocate(8 * len(values)))
    (ctypes.c_double * len(values)).from_address(made.data.ptr)[:] = values
    return made


def launch(function: int, *rest: Any) -> None:
    """Read the packed arguments (result, two operands, length) as the driver does."""
    assert function == SUBTRACT
    places = (ctypes.c_void_p * 4).from_address(rest[-2])
    numbers = [ctypes.c_int64.from_address(place).value for place in places]
    subtract(*numbers)


def subtract(result: int, one: int, other: int, length: int) -> None:
    kind = ctypes.c_double * length
    pairs = zip(kind.from_address(one)[:], kind.from_address(other)[:])
    kind.from_address(result)[:] = [a - b for a, b in pairs]


@pytest.fixture
def replay(monkeypatch):
    """The module of replays, over the stand-in."""
    allocators = [allocate]

    @contextmanager
    def using_allocator(allocator: Any) -> Any:
        allocators.append(allocator)
        yield
        allocators.pop()

    cupy: Any = ModuleType("cupy")
    cupy.ndarray = Array
    cupy.cuda = SimpleNamespace(
        alloc=lambda size: allocators[-1](size),
        get_allocator=lambda: allocators[-1],
        using_allocator=using_allocator,
        is_available=lambda: False,
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        runtime=SimpleNamespace(getDevice=lambda: 0),
        driver=SimpleNamespace(launchKernel=launch),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    found = importlib.util.find_spec("tapegrad_cupy.launch.replay")
    spec = importlib.util.spec_from_file_location("replay_on_a_stand_in", found.origin)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Kernel:
    """The kernel as CuPy's classes have it."""

    kernel = SimpleNamespace(ptr=SUBTRACT)

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
        *arrays, length = args
        subtract(*[each.data.ptr for each in arrays], length)


@pytest.fixture
def difference(replay):
    """A function of two arrays by one launch, and a list that grows when it is really called."""
    kernel = replay.RecordedKernel(Kernel())
    calls = []

    def function(one: Array, other: Array) -> Array:
        calls.append((one, other))
        length = other.shape[0]
        one = one if one.nbytes else other
        result = Array((length,), one.dtype, sys.modules["cupy"].cuda.alloc(8 * length), (8,))
        kernel((1,), (length,), (result, one, other, length))
        return result

    return replay.with_replay(function, lambda operand: operand), calls


def test_the_second_call_is_a_replay(difference):
    subtracted, calls = difference
    subtracted(array(1.0, 2.0), array(3.0, 5.0))

    assert subtracted(array(10.0, 20.0), array(1.0, 2.0)).tolist() == [9.0, 18.0]
    assert len(calls) == 1


def test_a_call_with_one_array_twice_is_not_replayed_for_two(difference):
    subtracted, _ = difference
    x = array(1.0, 2.0)

    assert subtracted(x, x).tolist() == [0.0, 0.0]
    assert subtracted(array(10.0, 20.0), x).tolist() == [9.0, 18.0]
    assert subtracted(x, array(10.0, 20.0)).tolist() == [-9.0, -18.0]


def test_a_call_with_overlapping_views_is_not_replayed_for_others(difference):
    subtracted, _ = difference
    x = array(1.0, 2.0, 4.0, 8.0)

    assert subtracted(x, x[2:]).tolist() == [-3.0, -6.0]
    assert subtracted(x, array(10.0, 20.0)).tolist() == [-9.0, -18.0]


def test_a_replay_takes_one_array_twice(difference):
    subtracted, calls = difference
    x = array(1.0, 2.0)
    subtracted(x, array(3.0, 5.0))

    assert subtracted(x, x).tolist() == [0.0, 0.0]
    assert len(calls) == 1


def test_an_empty_operand_is_not_taken_for_the_memory_behind_it(difference):
    subtracted, _ = difference
    x, before = array(1.0, 2.0), array(3.0, 4.0)
    subtracted(before[2:], x)  # the result lies where the empty operand points to
    before, behind = array(3.0, 4.0), array(5.0, 6.0)

    assert subtracted(before[2:], x).tolist() == [0.0, 0.0]
    assert behind.tolist() == [5.0, 6.0]
