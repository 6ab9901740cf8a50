"""Loops that call nothing of the C library are linked without it."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.vector_maths import FUNCTIONS, calls_library, functions_text

FOUND = compiler.find()

pytestmark = pytest.mark.skipif(
    FOUND is None or not FOUND.alone, reason="The compiler always links libraries."
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the compiler."""
    seen: list[list[str]] = []
    run: Any = subprocess.run

    def watched(command: list[str], **options: Any) -> Any:
        seen.append(command)
        return run(command, **options)

    monkeypatch.setattr(compiler.subprocess, "run", watched)
    return seen


def test_functions_that_call_no_library_are_linked_alone(
    tmp_path: Path, runs: list[list[str]]
) -> None:
    alone = sorted(name for name in FUNCTIONS if not calls_library([name]))
    two = ("copysign", "larger", "log_of_sum", "log2_of_sum", "power_of_root", "smaller")
    two += ("times_power_of_two", "whole_power")
    text = functions_text(alone)
    for name in alone:
        for kind in ("float", "double"):
            given = "x, y" if name in two else "x"
            text += (
                f"{kind} {name}_of_{kind}({kind} x, {kind} y) {{ return tg_{name}({given}); }}\n"
            )

    assert FOUND is not None
    compiler.compile_library(FOUND, text, tmp_path / "a.so", calls_nothing=True)

    assert len(runs) == 1
    function = ctypes.CDLL(str(tmp_path / "a.so")).exp_of_double
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    assert function(0.75, 0.0) == pytest.approx(math.exp(0.75), rel=1e-15)
    assert {"sin", "tan", "fmod", "floored_remainder"}.isdisjoint(alone)


def test_what_cannot_be_linked_alone_is_linked_with_the_library(
    tmp_path: Path, runs: list[list[str]]
) -> None:
    text = "double cosh(double); double f(double x) { return cosh(x); }"

    assert FOUND is not None
    compiler.compile_library(FOUND, text, tmp_path / "a.so", calls_nothing=True)

    assert [command[-1] == "-lm" for command in runs] == [False, True]
    function = ctypes.CDLL(str(tmp_path / "a.so")).f
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    assert function(0.75) == pytest.approx(math.cosh(0.75), rel=1e-15)


def test_an_error_is_that_of_the_usual_command(tmp_path: Path) -> None:
    assert FOUND is not None
    with pytest.raises(compiler.CompileError, match="expected"):
        compiler.compile_library(FOUND, "int f( {", tmp_path / "a.so", calls_nothing=True)
