"""Compiled loops give the same results by direct calls and by ctypes, and the self-check works."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad import cli
from tapegrad.core import ownership
from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy import self_checks, switches
from tapegrad_numpy.loops import binding, compile as making, compiler, direct_calls
from tapegrad_numpy.loops.lone_functions import EntryPoint
from tapegrad_numpy.loops.source import write_plain

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compile the entry point again, into an empty folder."""
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path / "kept"))
    again = EntryPoint(direct_calls.entry_text, "call_loop")
    monkeypatch.setattr(direct_calls, "ENTRY", again)


def turn_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "DIRECT_CALLS", False)


def a_loop(shape: tuple[int, ...], dtype: Any = F8) -> Loop:
    """Twice the first input plus the second, which is a scalar."""
    inputs = LoopInput(shape, shape, dtype), LoopInput((), (1,) * len(shape), dtype)
    formula = array_input(0, dtype) * 2.0 + array_input(1, dtype)
    return Loop(shape, inputs, (LoopOutput(formula, shape),))


def caller_of(loop: Loop) -> Callable[..., int]:
    kernel = write_plain(loop)
    (address,) = making.addresses_of([kernel])
    assert address is not None
    arrays = [(given.dtype, given.shape) for given in loop.inputs]
    arrays += [(output.dtype, output.shape) for output in loop.outputs]
    return binding.caller(arrays, len(loop.inputs), kernel, address)


# Direct calls and ctypes

MATRIX = np.arange(6.0).reshape(2, 3)
UNALIGNED = np.frombuffer(bytearray(50), np.uint8)[1:49].view(F8).reshape(2, 3)
CASES: dict[str, tuple[Any, Any, Any, int]] = {
    "arrays": (MATRIX, np.array(3.0), np.empty((2, 3)), 0),
    "a scalar": (MATRIX, np.float64(3.0), np.empty((2, 3)), 0),
    "another shape of the same size": (MATRIX.reshape(6), np.float64(3.0), np.empty((3, 2)), 0),
    "a read-only input": (np.frombuffer(MATRIX.tobytes()), np.float64(1.0), np.empty(6), 0),
    "a scalar of another dtype": (MATRIX, np.float32(3.0), np.empty((2, 3)), 1),
    "an input of another dtype": (MATRIX.astype(F4), np.float64(3.0), np.empty((2, 3)), 1),
    "an input of another size": (MATRIX[:1], np.float64(3.0), np.empty((2, 3)), 1),
    "an input that is not in order": (MATRIX.T, np.float64(3.0), np.empty((2, 3)), 1),
    "an input that is not aligned": (UNALIGNED, np.float64(3.0), np.empty((2, 3)), 1),
    "an input of another type": ([1.0], np.float64(3.0), np.empty((2, 3)), 1),
    "an output that is not in order": (MATRIX, np.float64(3.0), np.empty((3, 2)).T, 1),
    "a read-only output": (MATRIX, np.float64(3.0), np.frombuffer(bytes(48)).reshape(2, 3), 1),
    "a scalar as output": (MATRIX, np.float64(3.0), np.float64(0.0), 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "by ctypes"])
def test_arrays_that_do_not_fit_are_refused(
    name: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, output, code = CASES[name]
    if not is_direct:
        turn_off(monkeypatch)

    assert caller_of(a_loop((2, 3)))(first, second, output) == code

    if code == 0:
        expected = np.asarray(first).reshape(-1) * 2.0 + second
        np.testing.assert_array_equal(np.asarray(output).reshape(-1), expected)


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "by ctypes"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 4), (700_000,)], ids=str)
def test_sizes_from_nothing_to_several_threads(
    shape: tuple[int, ...], is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEGRAD_THREADS", "2")
    if not is_direct:
        turn_off(monkeypatch)
    x = np.random.default_rng(0).normal(size=shape).astype(F4)
    function = caller_of(a_loop(shape, F4))
    output = np.empty(shape, F4)

    assert function(x, np.float32(0.5), output) == 0
    np.testing.assert_array_equal(output, x * np.float32(2.0) + np.float32(0.5))
    assert function(x, output) == 1


def test_a_builtin_function_is_used_only_where_calls_are_direct(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builtin = type(len)

    assert type(caller_of(a_loop((3,)))) is builtin
    turn_off(monkeypatch)
    assert type(caller_of(a_loop((3,)))) is not builtin


# The self-check

OTHER_STRUCTS = {
    "a field more before the data": ("    char *data;", "    void *more; char *data;"),
    "a wider rank": ("    int rank;", "    char *more; int rank;"),
    "shape and strides in the other order": ("*shape, *strides", "*strides, *shape"),
    "no base": ("void *base, *descr", "void *descr, *base"),
    "other flags": ("    int flags;", "    int more, flags;"),
}


@pytest.mark.parametrize("name", OTHER_STRUCTS)
def test_compiled_code_that_expects_other_structs_is_noticed(
    name: str, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = OTHER_STRUCTS[name]
    assert direct_calls._TEXT.count(before) == 1
    monkeypatch.setattr(direct_calls, "_TEXT", direct_calls._TEXT.replace(before, after))
    if name == "a field more before the data":
        # The numbers of the check lie behind the same field.
        entries = direct_calls._ENTRIES.replace(
            "(const int64_t *)self->data", "(const int64_t *)self->more"
        )
        monkeypatch.setattr(direct_calls, "_ENTRIES", entries)
    x, output = np.arange(3.0), np.empty(3)

    function = caller_of(a_loop((3,)))

    assert direct_calls.why_not_used().startswith("compiled code does not find field")
    assert function(x, np.float64(1.0), output) == 0
    np.testing.assert_array_equal(output, 2.0 * x + 1.0)


def test_structs_that_ctypes_does_not_find_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    direct_calls._structs_are_known.cache_clear()
    fields = list(direct_calls._Array._fields_)

    class Other(direct_calls.ctypes.Structure):
        _fields_ = (fields[0], ("more", direct_calls.ctypes.c_void_p), *fields[1:])

    monkeypatch.setattr(direct_calls, "_Array", Other)
    try:
        assert "have other structs than expected" in direct_calls.why_not_used()
    finally:
        direct_calls._structs_are_known.cache_clear()


def test_info_has_a_line_only_for_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert self_checks.failed_checks() == []
    turn_off(monkeypatch)
    monkeypatch.setattr(ownership, "_reasons", ["a test turns them off"])

    assert self_checks.failed_checks() == [
        (
            "direct calls",
            (
                "off: compiled loops are called by ctypes, because the environment variable "
                "TAPEGRAD_DIRECT_CALLS turns them off"
            ),
        ),
        (
            "in-place writes",
            "off: arrays are copied before they are written, because a test turns them off",
        ),
    ]


def test_info_prints_what_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turn_off(monkeypatch)

    assert cli.main(["info"]) == 0
    printed = capsys.readouterr().out
    assert "\ndirect calls    off: compiled loops are called by ctypes, because" in printed
    assert "in-place writes" not in printed


@pytest.mark.parametrize(("value", "expected"), [("0", "False"), ("1", "True")])
def test_the_environment_variable_turns_direct_calls_off(value: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tapegrad_numpy.switches import *; print(DIRECT_CALLS)"],
        env={**os.environ, "TAPEGRAD_DIRECT_CALLS": value},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == expected
