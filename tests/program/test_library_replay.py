"""When library calls are replayed, tested without a device by made-up calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("cupy")

from tapegrad_cupy import switches
from tapegrad_cupy.library_calls import cublaslt, library_replay
from tapegrad_cupy.library_calls.library_replay import CALLS_BEFORE, DIFFERS, NOT_YET, ReplayedCall
from tapegrad_cupy.library_calls.product_steps import Gemm
from tapegrad_cupy.library_calls.replay_check import Output

CALLS = CALLS_BEFORE + 4


class Device:
    """Notes who was called; `agrees` is what a comparison of bits says."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.agrees = True
        self.is_capturing = False
        self.number = 0

    def by_library(self, addresses: Sequence[int], stream: int) -> None:
        self.made.append("library")

    def replay(self, addresses: Sequence[int], stream: int) -> None:
        self.made.append("replay")

    def compare(self, by_library: Callable[..., None], *arguments: Any) -> bool:
        by_library((), 0)
        return self.agrees


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(library_replay, "run_and_compare", made.compare)
    monkeypatch.setattr(library_replay, "is_capturing", lambda: made.is_capturing)
    monkeypatch.setattr(library_replay, "_current_device", lambda: made.number)
    monkeypatch.setattr(ReplayedCall, "_find_replay", lambda self, addresses: made.replay)
    monkeypatch.setattr(library_replay, "_differing", [])
    return made


def run(call: ReplayedCall, times: int = CALLS, bits: int = 0) -> None:
    for _ in range(times):
        call((256, 512, 0), bits, 0)


def test_calls_are_replayed_after_bits_agreed(device: Device) -> None:
    call = ReplayedCall(device.by_library, [Output(1, 8)])
    assert call.reason == NOT_YET

    run(call)

    assert device.made == ["library"] * (CALLS_BEFORE + 1) + ["replay"] * 3
    assert (call.is_replayed, call.reason) == (True, "")


def test_a_replay_with_other_bits_is_never_used(device: Device) -> None:
    device.agrees = False
    call = ReplayedCall(device.by_library, [Output(1, 8)])

    run(call)

    assert device.made == ["library"] * CALLS
    assert (call.is_replayed, call.reason) == (False, DIFFERS)
    assert library_replay.count_differing() == 1


@pytest.mark.parametrize("part", ["capture", "comparison"])
def test_an_error_leaves_the_call_to_the_library(
    part: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise MemoryError("no room")

    if part == "capture":
        monkeypatch.setattr(ReplayedCall, "_find_replay", fail)
    else:
        monkeypatch.setattr(library_replay, "run_and_compare", fail)
    call = ReplayedCall(device.by_library, [Output(1, 8)])

    run(call)

    assert device.made == ["library"] * CALLS
    assert call.reason == "MemoryError: no room"


def test_an_error_after_the_call_does_not_repeat_it(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(by_library: Callable[..., None], *arguments: Any) -> bool:
        by_library((), 0)
        raise RuntimeError("launch failed")

    monkeypatch.setattr(library_replay, "run_and_compare", compare)
    call = ReplayedCall(device.by_library, [Output(1, 8)])

    run(call)

    assert device.made == ["library"] * CALLS
    assert call.reason == "RuntimeError: launch failed"


def test_an_error_of_the_library_is_raised(device: Device) -> None:
    calls = []

    def by_library(addresses: Sequence[int], stream: int) -> None:
        calls.append(addresses)
        if len(calls) > CALLS_BEFORE:
            raise ValueError("wrong operands")

    call = ReplayedCall(by_library, [Output(1, 8)])
    run(call, CALLS_BEFORE)

    with pytest.raises(ValueError, match="wrong operands"):
        run(call, 1)


def test_nothing_is_examined_inside_a_capture(device: Device) -> None:
    call = ReplayedCall(device.by_library, [Output(1, 8)])
    device.is_capturing = True
    run(call)
    assert device.made == ["library"] * CALLS

    device.is_capturing = False
    run(call, 2)

    assert device.made == ["library"] * (CALLS + 1) + ["replay"]


def test_unaligned_operands_and_other_devices_are_left_to_the_library(device: Device) -> None:
    call = ReplayedCall(device.by_library, [Output(1, 8)])
    run(call, bits=16)
    assert call.reason == NOT_YET
    run(call)
    device.made.clear()

    run(call, 1, bits=16)
    device.number = 1
    run(call, 1)
    device.number = 0
    run(call, 1)

    assert device.made == ["library", "library", "replay"]


def test_the_switch_turns_replays_off(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "LIBRARY_REPLAY", False)
    call = ReplayedCall(device.by_library, [Output(1, 8)])

    run(call)

    assert device.made == ["library"] * CALLS
    assert call.reason == "it is turned off"


def test_what_a_product_writes() -> None:
    one = Gemm(3, 5, 7, False, False, 3, 7)
    stack, dense = one._replace(batch=4, stride_d=20), one._replace(batch=4, stride_d=15)

    assert cublaslt._outputs(one, 2, cublaslt.BIAS) == [Output(2, 30)]
    assert cublaslt._outputs(stack, 4, cublaslt.PLAIN) == [Output(2, 4 * (3 * 20 + 15), True)]
    assert cublaslt._outputs(dense, 4, cublaslt.PLAIN) == [Output(2, 4 * 4 * 15)]
    assert cublaslt._outputs(one, 2, cublaslt.SUMS_OF_A) == [Output(2, 30), Output(4, 6)]
    assert cublaslt._outputs(one, 2, cublaslt.SUMS_OF_B) == [Output(2, 30), Output(4, 10)]
