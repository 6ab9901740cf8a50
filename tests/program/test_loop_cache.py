"""Compiled loops are cached on disk, and damaged or foreign files are not loaded."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import cache, compile as making, compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

F8 = np.dtype(np.float64)
make_all = CLoopCompiler().compile


def make(loop: Loop) -> Any:
    made = make_all([loop])[0]
    assert made is not None
    return made


def a_loop(factor: float) -> Loop:
    given = LoopInput((6,), (6,), F8)
    return Loop((6,), (given,), (LoopOutput(array_input(0, F8) * factor, (6,)),))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_a_second_use_compiles_nothing(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_all([a_loop(2.5), a_loop(3.5)])
    monkeypatch.setattr(making, "compile_library", None)

    function = make(a_loop(3.5))

    np.testing.assert_array_equal(function((np.ones(6),), (None,))[0], np.full(6, 3.5))
    assert len(list(own_folder.iterdir())) == 2
    assert own_folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["cut off", "other content"])
def test_a_damaged_file_is_compiled_again(own_folder: Path, damage: str) -> None:
    make(a_loop(4.5 if damage == "cut off" else 5.5))
    (file,) = own_folder.iterdir()
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:3000] if damage == "cut off" else b"no library")

    function = make(a_loop(4.5 if damage == "cut off" else 5.5))

    assert function((np.zeros(6),), (None,))[0].tolist() == [0.0] * 6
    assert len(file.read_bytes()) > 3000


def test_a_folder_that_others_can_write_to_is_not_used(own_folder: Path) -> None:
    own_folder.mkdir()
    own_folder.chmod(0o777)

    function = make(a_loop(6.5))

    assert function((np.ones(6),), (None,))[0].tolist() == [6.5] * 6
    assert not list(own_folder.iterdir())
    assert cache.folder() != own_folder


def test_a_folder_of_somebody_else_is_not_used(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: own_folder.stat().st_uid + 1)

    assert cache.folder() != own_folder


def test_further_flags_override_the_usual_ones_and_are_part_of_the_key(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = compiler.find()
    make(a_loop(17.0))
    kept = set(own_folder.iterdir())

    monkeypatch.setenv("TAPEGRAD_CFLAGS", "-O0 -g")
    found = compiler.find()
    run = make(a_loop(17.0))

    assert usual is not None
    assert found is not None
    assert found.identity != usual.identity
    levels = [flag for flag in found.flags if flag.startswith("-O")]
    assert levels[-1] == "-O0"
    assert "-g" in found.flags
    assert found.flags[-1] == usual.flags[-1]  # the one that is left out first
    assert set(own_folder.iterdir()) > kept
    np.testing.assert_array_equal(run([np.arange(6.0)], [None])[0], 17.0 * np.arange(6.0))


def test_without_a_compiler_there_are_no_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)

    assert make_all([a_loop(1.5), a_loop(2.5)]) == [None, None]


def test_a_compiler_that_fails_is_reported_once_per_loop(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = shutil.which("false")
    assert failing is not None
    monkeypatch.setenv("CC", failing)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = make_all([a_loop(8.5)])

    assert made == [None]
    assert len(seen) == 1
    assert "A fused loop could not be compiled by" in str(seen[0].message)
