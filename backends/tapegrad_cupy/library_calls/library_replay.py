"""Replay cuBLASLt and cuDNN calls as direct launches of their kernels, with other addresses.

A library call costs the host 30 to 80 microseconds, of which a launch is 7. For one plan a library
launches the same kernels with the same arguments except for the addresses. The third call of a plan
is therefore captured three times with different addresses. A word that changes by the same amount
as an operand's address is that address, on its own, inside a structure, or in the descriptor of a
tensor. If every change is explained in this way, later calls insert their addresses and launch the
kernels themselves. Otherwise the library is called as before.

Structures have gaps, in which a library leaves what was on the stack, for example an address or
half of one. Half an address cannot be used as one, so it may stay as it was.

All of this relies on what the libraries happen to do. Before a plan is replayed, its replay runs
once beside the library's call and must give the same bits (replay_check.py). This holds for each
process, so also for each version of a library. TAPEGRAD_LIBRARY_REPLAY=0 turns replays off: an
eager step of the benchmark's convolutional network then takes 1.39 times as long.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import c_uint, c_void_p
from functools import partial
from typing import Any

import cupy

from tapegrad_cupy import switches
from tapegrad_cupy.launch.graph_nodes import UnfitError, driver
from tapegrad_cupy.launch.launch import MOST_BYTES, packing_buffer
from tapegrad_cupy.library_calls.library_capture import Launch, Memset, captured
from tapegrad_cupy.library_calls.replay_check import Call, Output, run_and_compare

CALLS_BEFORE = 2
"""Calls of the library first: it loads kernels at the first, which a capture does not allow."""

_UNALIGNED = 255
"""Addresses with one of these bits might make a library choose another kernel."""

_MOST = 12
"""Addresses that a call may take."""

# How far the addresses are moved, each by another distance: by the alignment that they have in
# common at least, and by more than 32 bits hold.
_SHIFTS = (
    [256 * 7 * 3**k for k in range(_MOST)],
    [256 * 5 * 3**k + (k + 1) * 2**33 for k in range(_MOST)],
)

NOT_YET = "it was not called often enough"
DIFFERS = "its replay gave other bits than the library"

_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_launch_kernel = cupy.cuda.driver.launchKernel
_memset = cupy.cuda.runtime.memsetAsync

Piece = bytes | tuple[int, int]
"""A part of some arguments: bytes that stay, or an operand's number and a distance from it."""


class ReplayedCall:
    """A library call by the addresses of what it reads and writes; 0 is no address.

    The last address is that of scratch memory, which a call need not use. `outputs` are what it
    writes. `reason` says why the call is not replayed, and is "" if it is.
    """

    __slots__ = ("_by_library", "_count", "_device", "_outputs", "_replay", "reason")

    def __init__(self, by_library: Call, outputs: Sequence[Output]) -> None:
        self._by_library = by_library
        self._outputs = outputs
        self._count = 0 if switches.LIBRARY_REPLAY else -1
        self._device = -1
        self._replay: Call | None = None
        self.reason = NOT_YET if switches.LIBRARY_REPLAY else "it is turned off"

    @property
    def is_replayed(self) -> bool:
        """Whether the library is no longer called."""
        return self._replay is not None

    def __call__(self, addresses: Sequence[int], bits: int, stream: int) -> None:
        """Make the call on the current stream; `bits` are those that any of the addresses has."""
        replay = self._replay
        if replay is not None and not bits & _UNALIGNED and self._device == _current_device():
            replay(addresses, stream)
        elif self._count < 0 or bits & _UNALIGNED:
            self._by_library(addresses, stream)
        elif self._count < CALLS_BEFORE or is_capturing():
            self._count += 1
            self._by_library(addresses, stream)
        else:
            self._count = -1
            self._examine(addresses, stream)

    def _examine(self, addresses: Sequence[int], stream: int) -> None:
        """Make the call, and replay it from now on if that gives the same bits."""
        was_called = False

        def by_library(addresses: Sequence[int], stream: int) -> None:
            nonlocal was_called
            self._by_library(addresses, stream)
            was_called = True

        try:
            replay = self._find_replay(addresses)
            if replay is None:
                self.reason = "it launches nothing"
            elif run_and_compare(by_library, replay, addresses, self._outputs, stream):
                self._device, self._replay, self.reason = _current_device(), replay, ""
            else:
                self.reason = DIFFERS
                _differing.append(self.reason)
        # A library raises errors of its own while it is captured, and there may be no memory for
        # the copies. The call is not replayed then. If it failed itself, it fails again below.
        except Exception as error:
            self.reason = f"{type(error).__name__}: {error}"
        if not was_called:
            self._by_library(addresses, stream)

    def _find_replay(self, addresses: Sequence[int]) -> Call | None:
        """Find out what the call launches; nothing runs on the device."""
        variants = [addresses, *(_shifted(addresses, shifts) for shifts in _SHIFTS)]
        # The first capture leaves on the stack what the others will find there.
        captured(partial(self._by_library, addresses))
        found = [captured(partial(self._by_library, at)) for at in variants]
        pieces = [_pieces(same, variants) for same in zip(*found, strict=True)]
        _refuse_lost(pieces, addresses)
        return _written(found[0], pieces) if pieces else None


_differing: list[str] = []


def count_differing() -> int:
    """Return how many plans of this process gave other bits when they were replayed."""
    return len(_differing)


def is_capturing() -> bool:
    """Return whether the current stream is being captured, or may be."""
    try:
        return bool(_current_stream().is_capturing())
    except cupy.cuda.runtime.CUDARuntimeError:
        return True  # the default stream is not asked while another thread captures


def _shifted(addresses: Sequence[int], shifts: Sequence[int]) -> list[int]:
    """Other addresses, but none beyond what CUDA gives out, and none where there was none."""
    return [
        at and (at - shift if at >> 46 else at + shift)
        for at, shift in zip(addresses, shifts, strict=False)
    ]


def _pieces(same: Sequence[Launch | Memset], variants: Sequence[Sequence[int]]) -> list[Piece]:
    """The arguments of what was launched with each of the variants' addresses."""
    first, blobs = same[0], [one.arguments for one in same]
    if any(type(one) is not type(first) or one[:-1] != first[:-1] for one in same):
        raise UnfitError("it launches other kernels at other addresses")
    if len({len(blob) for blob in blobs}) > 1 or len(blobs[0]) > MOST_BYTES:
        raise UnfitError("its arguments are too long or differ in length")
    pieces: list[Piece] = []
    start = at = 0
    while at < len(blobs[0]):
        # Moved addresses differ in their lower half at least. Structures may be packed.
        if len({blob[at : at + 4] for blob in blobs}) == 1:
            at += 4
            continue
        words = [int.from_bytes(blob[at : at + 8], "little") for blob in blobs]
        address = _address(words, variants, 2**64)
        if address is not None:
            pieces += [blobs[0][start:at], address]
            start = at = at + 8
        elif _address([word % 2**32 for word in words], variants, 2**32) is not None:
            at += 4  # the lower half, and what follows is not the upper one
        else:
            shown = ", ".join(f"{word:#x}" for word in words)
            raise UnfitError(f"an argument changes that is no address: {shown}")
    return [*pieces, blobs[0][start:]]


def _address(
    words: Sequence[int], variants: Sequence[Sequence[int]], modulus: int
) -> tuple[int, int] | None:
    """The operand that words moved with, and their distance from it."""
    for number, places in enumerate(zip(*variants, strict=True)):
        distances = {(word - place) % modulus for word, place in zip(words, places, strict=True)}
        if len(distances) == 1:
            return number, words[0] - places[0]
    return None


def _refuse_lost(pieces: Sequence[Sequence[Piece]], addresses: Sequence[int]) -> None:
    """Make sure that every address was found, but for that of scratch memory."""
    found = {piece[0] for some in pieces for piece in some if isinstance(piece, tuple)}
    if any(at and number not in found for number, at in enumerate(addresses[:-1])):
        raise UnfitError("an address is not among its arguments")


# Launches


def _written(found: Sequence[Launch | Memset], pieces: Sequence[Sequence[Piece]]) -> Call:
    """Return all launches as straight Python: loops over them would cost as much as they do."""
    names: dict[str, Any] = {
        "buffer": packing_buffer, "launch": _launch_kernel, "memset": _memset
    }  # fmt: skip
    lines = ["room, extra = buffer.bytes, buffer.extra"]
    for k, (one, parts) in enumerate(zip(found, pieces, strict=True)):
        if isinstance(one, Memset):
            lines.append(_memset_line(one, parts))
        else:
            lines += _launch_lines(one, parts, k, names)
    exec("def call(addresses, stream):\n    " + "\n    ".join(lines), names)
    return names["call"]  # type: ignore[no-any-return]


def _memset_line(found: Memset, pieces: Sequence[Piece]) -> str:
    places = [piece for piece in pieces if isinstance(piece, tuple)]
    if len(places) != 1:
        raise UnfitError("it sets memory of its own to zero")
    return f"memset({_spelled(*places[0])}, 0, {found.size}, stream)"


def _spelled(number: int, distance: int) -> str:
    return f"addresses[{number}] + {distance}"


def _launch_lines(
    found: Launch, pieces: Sequence[Piece], k: int, names: dict[str, Any]
) -> list[str]:
    letters = "".join(f"{len(p)}s" if isinstance(p, bytes) else "q" for p in pieces)
    names[f"pack{k}"] = struct.Struct("<Q" + letters).pack_into
    arguments = [repr(p) if isinstance(p, bytes) else _spelled(*p) for p in pieces]
    pack = f"pack{k}(room, 0, {len(found.arguments)}, {', '.join(arguments)})"
    if found.attributes:
        names[f"launch{k}"] = _with_attributes(found)
        return [pack, f"launch{k}(stream, extra)"]
    sizes = ", ".join(map(str, (*found.grid, *found.block, found.shared)))
    return [pack, f"launch({found.function}, {sizes}, stream, 0, extra)"]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute"""

    _fields_ = [("number", c_uint), ("padding", c_uint), ("value", ctypes.c_char * 64)]


class _Config(ctypes.Structure):
    """CUlaunchConfig"""

    _fields_ = [
        ("size", c_uint * 6),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    ]


def _with_attributes(found: Launch) -> Callable[[int, int], None]:
    """A launch in clusters and the like, which only the driver's newer function can make."""
    attributes = (_Attribute * len(found.attributes))()
    for attribute, (number, value) in zip(attributes, found.attributes, strict=True):
        attribute.number = number
        ctypes.memmove(ctypes.addressof(attribute) + 8, value, 64)
    launch_with = driver().cuLaunchKernelEx
    launch_with.argtypes = [c_void_p] * 4
    # One for each stream, never changed: threads may launch at the same time.
    configs: dict[int, tuple[_Config, int]] = {}
    function = found.function

    def launch(stream: int, extra: int) -> None:
        made = configs.get(stream)
        if made is None:
            config = _Config(
                (*found.grid, *found.block), found.shared, stream,
                ctypes.addressof(attributes), len(attributes),
            )  # fmt: skip
            made = configs[stream] = (config, ctypes.addressof(config))
        status = launch_with(made[1], function, None, extra)
        if status:
            raise cupy.cuda.driver.CUDADriverError(status)

    return launch
