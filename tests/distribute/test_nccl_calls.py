"""What the communicator on NCCL asks of NCCL; a library that copies in memory stands in for it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapegrad.core.backend.communication import World
from tapegrad.errors import AbortedError, BackendUnavailableError

pytest.importorskip("cupy")
nccl = pytest.importorskip("tapegrad_cupy.nccl")
repeated_calls = pytest.importorskip("tapegrad_cupy.graphs.repeated_calls")
capture_memory = pytest.importorskip("tapegrad_cupy.graphs.capture_memory")


class Comm:
    """The communicator of a library, for one process; its signatures are those of CuPy."""

    def __init__(self, library: Library, count: int, identifier: bytes, rank: int) -> None:
        assert type(identifier) is bytes
        assert (count, identifier, rank) == (1, library.identifier, 0)
        self._library, self._said = library, library.said
        self._sent: list[tuple[int, int]] = []

    def _copy(self, name: str, given: int, result: int, size: int) -> None:
        self._said.append(name)
        ctypes.memmove(result, given, size)

    def allReduce(self, given: int, result: int, count: int, kind: int, op: int, at: int) -> None:  # noqa: N802
        self._copy(f"allReduce {op}", given, result, count * kind)

    def reduceScatter(  # noqa: N802
        self, given: int, result: int, count: int, kind: int, op: int, at: int
    ) -> None:
        self._copy("reduceScatter", given, result, count * kind)

    def allGather(self, given: int, result: int, count: int, kind: int, at: int) -> None:  # noqa: N802
        self._copy("allGather", given, result, count * kind)

    def broadcast(self, given: int, result: int, count: int, kind: int, root: int, at: int) -> None:
        self._copy("broadcast", given, result, count * kind)

    def send(self, given: int, count: int, kind: int, peer: int, at: int) -> None:
        assert self._library.in_group  # outside of a group it would wait for the receiver
        self._said.append("send")
        self._sent.append((given, count * kind))

    def recv(self, result: int, count: int, kind: int, peer: int, at: int) -> None:
        assert self._library.in_group
        given, size = self._sent.pop(0)
        assert size == count * kind
        self._copy("recv", given, result, size)

    def destroy(self) -> None:
        self._said.append("destroy")

    def check_async_error(self) -> None:
        if self._library.failure:
            raise self._library.NcclError(self._library.failure)

    def abort(self) -> None:
        self._said.append("abort")
        self._library.is_aborted.set()


class Library:
    """NCCL's module in CuPy; the number of a dtype is its size."""

    available = True
    NCCL_SUM, NCCL_MAX, NCCL_MIN = 0, 2, 3
    NCCL_INT8 = NCCL_UINT8 = 1
    NCCL_FLOAT16 = NCCL_BFLOAT16 = 2
    NCCL_INT32 = NCCL_UINT32 = NCCL_FLOAT32 = 4
    NCCL_INT64 = NCCL_UINT64 = NCCL_FLOAT64 = 8
    NcclError = RuntimeError

    def __init__(self) -> None:
        self.said: list[str] = []
        self.in_group = False
        self.is_aborted = threading.Event()
        self.failure = ""
        self.identifier = bytes(range(128, 256))

    def get_unique_id(self) -> bytes:
        return self.identifier

    def NcclCommunicator(self, count: int, identifier: bytes, rank: int) -> Comm:  # noqa: N802
        return Comm(self, count, identifier, rank)

    def groupStart(self) -> None:  # noqa: N802
        self.in_group = True

    def groupEnd(self) -> None:  # noqa: N802
        self.in_group = False


class Peers:
    """A control channel that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[str | None] = []
        self.texts: dict[str, str] = {}
        self.waiting: list[Callable[[], None]] = []

    def on_loss(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def begin(self, call: str | None, is_new: bool = True) -> None:
        if is_new:
            self.calls.append(call)

    def poll(self) -> None: ...

    def end(self) -> None: ...

    def publish(self, key: str, value: str) -> None:
        self.texts[key] = value

    def look_up(self, key: str) -> str:
        return self.texts[key]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Library, Peers]:
    """A communicator on NumPy arrays, its library and its peers."""
    contiguous = {"_contiguous": lambda x: np.asarray(x, order="C"), "_stream": lambda: 0}
    like = {"_empty": lambda shape, x: np.empty(shape, x.dtype), "_at": lambda x: x.ctypes.data}
    for name, function in {**contiguous, **like}.items():
        monkeypatch.setattr(nccl, name, function)
    monkeypatch.setattr(nccl.cupy, "array", np.array)
    library, peers = Library(), Peers()
    communicator = nccl.NcclCommunicator(World(peers=peers), library)
    return communicator, library, peers


def test_calls_give_nccl_addresses_counts_and_dtypes(made: Any) -> None:
    communicator, library, peers = made
    for dtype in ("float16", "int64", "float32", "complex128", "uint8"):
        x = np.arange(6).reshape(1, 6).astype(dtype)
        for found, expected in (
            (communicator.all_reduce(x, "sum"), x),
            (communicator.reduce_scatter(x), x[0]),
            (communicator.all_gather(x), x[None]),
            (communicator.broadcast(x, 0), x),
            (communicator.all_to_all(x), x),
        ):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)

    assert library.said[:4] == ["allReduce 0", "reduceScatter", "allGather", "broadcast"]
    assert peers.calls[0] == "all_reduce(sum) float16[1, 6]"


def test_a_send_starts_with_the_next_call(made: Any) -> None:
    communicator, library, _ = made
    x = np.arange(3.0)

    communicator.send(x, 0)
    x[:] = 7  # what is sent is a copy
    assert library.said == []
    assert communicator.recv(x, 0).tolist() == [0, 1, 2]
    communicator.send(x, 0)
    communicator.all_reduce(x, "max")

    assert library.said == ["send", "recv", "send", "allReduce 2"]


def test_calls_of_a_graph_are_compared_at_its_launches(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicator, library, peers = made
    x = np.arange(3.0)

    monkeypatch.setitem(capture_memory.STATE, "capturing", True)
    with repeated_calls.collected_calls() as calls:
        communicator.all_reduce(x, "min")
    monkeypatch.setitem(capture_memory.STATE, "capturing", False)
    assert peers.calls == []
    for _ in range(2):
        repeated_calls.repeat(calls)

    assert peers.calls == 2 * ["all_reduce(min) float64[3]"]
    monkeypatch.setattr(nccl.cupy.cuda, "Device", lambda: Device())
    communicator.close()  # would wait for the graph
    assert "destroy" not in library.said


def test_a_loss_ends_the_calls_of_an_elastic_world(made: Any) -> None:
    _, library, peers = made
    assert peers.waiting == []  # elsewhere the control channel ends the process

    nccl.NcclCommunicator(World(peers=peers, is_elastic=True), library)
    (say_loss,) = peers.waiting
    say_loss()

    assert library.is_aborted.wait(10)


def test_a_failure_of_an_earlier_call_is_raised_by_the_next_one(made: Any) -> None:
    communicator, library, _ = made
    communicator.all_gather(np.ones(3))
    library.failure = "NCCL_ERROR_REMOTE_ERROR: remote process exited"

    with pytest.raises(AbortedError, match="in an earlier call: NCCL_ERROR_REMOTE_ERROR"):
        communicator.all_gather(np.ones(3))


def test_sums_are_written_over_operands_that_die(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicator, _, _ = made
    stream = Stream()
    monkeypatch.setattr(nccl.cupy.cuda, "Stream", lambda non_blocking: stream)
    monkeypatch.setattr(nccl.cupy.cuda, "get_current_stream", lambda: stream)
    monkeypatch.setattr(nccl, "_event", lambda stream: "event")
    x = np.arange(6.0).reshape(2, 3)

    over = communicator.start_all_reduce(x, "sum", over=True)
    new = communicator.start_all_reduce(x, "sum")
    transposed = communicator.start_all_reduce(x.T, "sum", over=True)
    rows = communicator.start_all_gather(x)
    part = communicator.start_reduce_scatter(x[None])

    assert over is x
    assert not np.may_share_memory(new, x)
    assert not np.may_share_memory(transposed, x)
    waited = [communicator.wait(one) for one in (over, new, transposed.T, rows[0], part, x)]
    for found in waited:
        np.testing.assert_array_equal(found, x)
    assert stream.waits == 10 * ["event"]  # five starts and waits; `x` had been waited for
    assert communicator._started == {}


class Stream:
    """A stream that notes for which events it waits."""

    ptr = 0

    def __init__(self) -> None:
        self.waits: list[Any] = []

    def wait_event(self, event: Any) -> None:
        self.waits.append(event)


def test_a_process_computes_on_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    monkeypatch.setattr(nccl.cupy.cuda, "Device", lambda number: Used(used, number))

    nccl.Nccl().use("cuda:3")

    assert used == [3]


class Used:
    def __init__(self, used: list[int], number: int) -> None:
        self._used, self._number = used, number

    def use(self) -> None:
        self._used.append(self._number)


class Device:
    def synchronize(self) -> None: ...


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl.cupy.cuda, "nccl", Library(), raising=False)
    monkeypatch.setattr(Library, "available", False)
    monkeypatch.setattr(nccl.cupy.cuda.runtime, "runtimeGetVersion", lambda: 13000, raising=False)

    with pytest.raises(BackendUnavailableError, match="pip install nvidia-nccl-cu13"):
        nccl._load_nccl()
