"""All copies between host and device, and the guards that observe them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import numpy as np

from tapegrad.core.backend.protocol import Array, Backend, Reading
from tapegrad.core.backend.registry import backend_of, capabilities_of
from tapegrad.core.exits import note_exit
from tapegrad.core.memory_trace import note_array
from tapegrad.core.out_of_memory import recover_on
from tapegrad.core.recorder import Node
from tapegrad.core.values.device import backend_for, current_device, resolve_device
from tapegrad.core.values.dtypes import as_dtype


class Guard(Protocol):
    """An observer of copies from a device to the host."""

    def note(self, transfer: Transfer, innermost: bool) -> None:
        """Handle a transfer before it happens; raise an exception to forbid it."""


class Transfer:
    """A copy to the host that is about to happen; `how` is the user's call.

    `waits` is true if the host waits for the device, which is so except for `fetch_later`.
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
    """Notify `guard` of every copy to the host that this thread makes inside the block."""
    token = _guards.set((*_guards.get(), guard))
    try:
        yield
    finally:
        _guards.reset(token)


def fetch(array: Array, node: Node | None, how: str) -> np.ndarray:
    """Copy a device array to the host; `how` names the user's call.

    `node` is the value's node if the copy may be used in a computation that no tape records.
    """
    if node is not None:
        note_exit(how, node)
    note_read(array, how)
    return backend_of(array).to_host(array)


class Later:
    """The future of an asynchronous copy to the host, from `Tensor.numpy_later`.

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
        """Wait for the copy and return the value as `Tensor.numpy` does."""
        value = self._reading.result()
        return value[()] if value.ndim == 0 else value


def fetch_later(array: Array, node: Node | None, how: str) -> Later:
    """Start an asynchronous copy of a device array to the host."""
    if node is not None:
        note_exit(how, node)
    note_read(array, how, waits=False)
    backend = backend_of(array)
    return Later(backend.memory(backend.device_of(array)).read_later(array))


def note_read(array: Array, how: str, nbytes: int | None = None, waits: bool = True) -> None:
    """Notify the guards that the host is about to read `array`, or `nbytes` computed from it.

    Call it directly only if a library does the copy, e.g. to count the entries of a mask.
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


def array_type() -> type:
    """Return the type of the arrays of the current device."""
    return backend_for(current_device()).array_types[0]


def place_together(
    values: Sequence[np.ndarray], like: Array = None, as_one: bool = False
) -> list[Array]:
    """Copy host arrays that are used together to the current device, or to that of `like`.

    A device may copy them while it still computes what was submitted before. With `as_one` they
    may be parts of one block of memory, which is freed when none of them is in use.
    """
    backend = backend_for(current_device()) if like is None else backend_of(like)
    device = current_device() if like is None else backend.device_of(like)
    batches = capabilities_of(backend.array_types[0]).batches
    if batches is None or not values:
        return [_put(backend, value, device) for value in values]
    try:
        return batches.place(values, device, as_one)
    except MemoryError as error:
        what = f"Copying {sum(value.nbytes for value in values):,} bytes to the device"
        again = partial(batches.place, values, device, as_one)
        found: list[Array] = recover_on(backend, device, what, again, error)
        return found


def _put(backend: Backend, value: np.ndarray, device: str) -> Array:
    if not value.dtype.isnative:  # kernels would read the bytes in the wrong order
        value = value.astype(value.dtype.newbyteorder("="))
    try:
        placed = backend.from_host(value, device)
    except MemoryError as error:
        what = f"Copying {value.nbytes:,} bytes to the device"
        again = partial(backend.from_host, value, device)
        placed = recover_on(backend, device, what, again, error)
    note_array(placed)
    return placed


def move(array: Array, device: str, how: str = "to_device()") -> Array:
    """Copy an array to another device, through the host where the backends differ."""
    if backend_of(array).device_of(array) == device:
        return array
    return _put(backend_for(device), fetch(array, None, how), device)


def devices_of(arrays: Sequence[Array]) -> list[str]:
    """Names of the devices that hold the arrays, each once, in order."""
    return list(dict.fromkeys(backend_of(array).device_of(array) for array in arrays))
