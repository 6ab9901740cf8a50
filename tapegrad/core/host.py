"""The one place where values cross between host and device, and where that can be watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import numpy as np

from tapegrad.core.backend import Array, Backend, Reading, backend_of
from tapegrad.core.device import backend_for, current_device, resolve_device
from tapegrad.core.dtypes import as_dtype
from tapegrad.core.recorder import Node, note_cut
from tapegrad.core.recovery import run_again_on


class Guard(Protocol):
    """Somebody who wants to know about copies from a device to the host."""

    def note(self, transfer: Transfer, innermost: bool) -> None:
        """Take note of a transfer before it happens, or raise to forbid it."""


class Transfer:
    """A copy to the host that is about to happen; `how` is the call that asks for it.

    `waits` says whether the host waits for the device: it does unless it asks by `fetch_later`.
    """

    __slots__ = ("device", "how", "nbytes", "value", "waits")

    def __init__(self, how: str, value: str, nbytes: int, device: str, waits: bool) -> None:
        self.how = how
        self.waits = waits
        self.value = value
        self.nbytes = nbytes
        self.device = device


_guards: ContextVar[tuple[Guard, ...]] = ContextVar("tapegrad_transfer_guards", default=())


@contextmanager
def guarded_by(guard: Guard) -> Iterator[None]:
    """Let `guard` hear of every copy to the host that this thread makes inside the block."""
    token = _guards.set((*_guards.get(), guard))
    try:
        yield
    finally:
        _guards.reset(token)


def fetch(array: Array, node: Node | None, how: str) -> np.ndarray:
    """Copy a device array to the host; `how` names the user's call.

    `node` is the value's node when the copy may feed further computation that no tape sees.
    """
    if node is not None:
        note_cut(f"left the tape through {how}", (node,))
    note_read(array, how)
    return backend_of(array).to_host(array)


class Later:
    """A value on its way to the host, from `Tensor.numpy_later`.

    >>> import tapegrad
    >>> loss = tapegrad.constant(0.5).numpy_later()
    >>> float(loss.result())
    0.5
    """

    __slots__ = ("_reading",)

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def done(self) -> bool:
        """Return whether the value has arrived, so that `result` returns at once."""
        return self._reading.done()

    def result(self) -> Any:
        """Return the value as `Tensor.numpy` does, waiting for it if need be."""
        value = self._reading.result()
        return value[()] if value.ndim == 0 else value


def fetch_later(array: Array, node: Node | None, how: str) -> Later:
    """Begin to copy a device array to the host; the host goes on at once."""
    if node is not None:
        note_cut(f"left the tape through {how}", (node,))
    note_read(array, how, waits=False)
    backend = backend_of(array)
    return Later(backend.memory(backend.device_of(array)).read_later(array))


def note_read(array: Array, how: str, nbytes: int | None = None, waits: bool = True) -> None:
    """Tell the guards that the host is about to read `array`, or only `nbytes` made from it.

    Needed by itself only where a library reads on its own, e.g. to know how many entries a mask
    selects.
    """
    guards = _guards.get()
    if not guards:
        return
    backend = backend_of(array)
    device = backend.device_of(array)
    if device == "cpu":
        return
    dtype = backend.dtype_of(array)
    size = int(np.prod(array.shape, dtype=np.int64)) * dtype.itemsize
    value = f"{as_dtype(dtype)}{list(array.shape)}"
    transfer = Transfer(how, value, size if nbytes is None else nbytes, device, waits)
    for guard in reversed(guards):
        guard.note(transfer, guard is guards[-1])


def place(value: np.ndarray, device: str | None = None) -> Array:
    """Copy a host array to `device` (by default the current one)."""
    name = resolve_device(device) if device is not None else current_device()
    return _put(backend_for(name), value, name)


def place_like(value: np.ndarray, array: Array) -> Array:
    """Copy a host array to the device that holds `array`."""
    backend = backend_of(array)
    return _put(backend, value, backend.device_of(array))


def _put(backend: Backend, value: np.ndarray, device: str) -> Array:
    try:
        return backend.from_host(value, device)
    except MemoryError as error:
        what = f"Copying {value.nbytes:,} bytes to the device"
        again = partial(backend.from_host, value, device)
        return run_again_on(backend, device, what, again, error)


def move(array: Array, device: str, how: str = "to_device()") -> Array:
    """Copy an array to another device, through the host where the backends differ."""
    if backend_of(array).device_of(array) == device:
        return array
    return _put(backend_for(device), fetch(array, None, how), device)


def devices_of(arrays: Sequence[Array]) -> list[str]:
    """Names of the devices that hold the arrays, each once, in order."""
    return list(dict.fromkeys(backend_of(array).device_of(array) for array in arrays))
