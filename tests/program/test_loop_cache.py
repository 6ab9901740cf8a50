"""Compiled loops are cached on disk, and damaged or foreign files are not loaded."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compile as making, compiler
from tapegrad_numpy.loops.cache import CACHE
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
    make(a_loop(1.5))  # what all loops share is compiled into the usual folder
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
    assert CACHE.folder() != own_folder


def test_a_folder_of_somebody_else_is_not_used(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: own_folder.stat().st_uid + 1)

    assert CACHE.folder() != own_folder


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


# Only this user may have written what is run


def modes_in(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_files_are_private_whatever_the_umask_is(own_folder: Path, mode: int) -> None:
    own_folder.mkdir()
    own_folder.chmod(mode)
    before = os.umask(0)
    try:
        make_all([a_loop(18.5), a_loop(19.5)])
    finally:
        os.umask(before)

    assert modes_in(own_folder) == {0o600}


def test_missing_folders_are_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        CACHE.folder()
    finally:
        os.umask(before)

    assert modes_in(tmp_path) == modes_in(tmp_path / "a") == {0o700}


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602, 0o755])
def test_a_file_that_others_could_open_is_compiled_again(own_folder: Path, mode: int) -> None:
    factor = 20.0 + mode
    make(a_loop(factor))
    (file,) = own_folder.iterdir()
    inode = file.stat().st_ino
    file.chmod(mode)

    assert CACHE.find(file.stem) is None
    assert not file.exists()
    make(a_loop(factor))
    assert file.stat().st_ino != inode or file.stat().st_mode & 0o777 == 0o600


def test_a_link_and_a_file_of_another_user_are_not_loaded(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(a_loop(21.5))
    (file,) = own_folder.iterdir()
    elsewhere = tmp_path / "elsewhere.so"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert CACHE.find(file.stem) is None
    assert elsewhere.exists()

    make(a_loop(21.5))
    mine = file.stat().st_uid
    monkeypatch.setattr(CACHE, "folder", lambda: own_folder)
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert CACHE.find(file.stem) is None


def test_the_compiler_writes_where_nobody_else_can(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    compile_library = making.compile_library

    def watched(found: Any, source: str, target: Path, **options: bool) -> None:
        seen.append(stat.S_IMODE(target.parent.stat().st_mode))
        compile_library(found, source, target, **options)

    monkeypatch.setattr(making, "compile_library", watched)
    own_folder.mkdir(mode=0o755)
    make(a_loop(22.5))

    assert seen == [0o700]


# What is kept does not grow without end


def entry(folder: Path, key: str, size: int, days: float) -> Path:
    path = folder / f"{key}.so"
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    then = time.time() - days * 86400
    os.utime(path, (then, then))
    return path


def test_the_least_recently_used_files_are_removed_first(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_folder.mkdir(mode=0o700)
    monkeypatch.setattr(CACHE, "most_bytes", 1000)
    files = [entry(own_folder, f"k{days}", 300, days) for days in range(6)]
    ancient = entry(own_folder, "ancient", 1, CACHE.most_days + 1)

    CACHE.prune()

    assert [file.exists() for file in files] == [True] * 3 + [False] * 3
    assert not ancient.exists()


def test_a_use_is_marked_and_names_of_one_content_count_once(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CACHE.keep(b"x" * 300, ["a", "b", "c", "d"])
    CACHE.keep(b"y" * 300, ["e"])
    for path in own_folder.iterdir():
        os.utime(path, (time.time() - 86400,) * 2)
    monkeypatch.setattr(CACHE, "most_bytes", 700)
    CACHE.prune()
    assert len(list(own_folder.iterdir())) == 5

    assert CACHE.find("a") is not None
    monkeypatch.setattr(CACHE, "most_bytes", 400)
    CACHE.prune()
    assert sorted(path.stem for path in own_folder.iterdir()) == ["a", "b", "c", "d"]


def test_the_first_compilation_of_a_process_prunes(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_folder.mkdir(mode=0o700)
    ancient = entry(own_folder, "ancient", 1, CACHE.most_days + 1)
    monkeypatch.setattr(CACHE, "_unchecked", CACHE.most_bytes)

    make(a_loop(23.5))

    assert not ancient.exists()


def test_what_a_killed_compilation_left_is_removed_and_a_living_one_is_not(
    own_folder: Path,
) -> None:
    program = (
        "import os, signal\n"
        "from tapegrad_numpy.loops.cache import CACHE\n"
        "with CACHE.scratch() as folder:\n"
        "    (folder / 'loops.so').write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert len(list(own_folder.iterdir())) == 1

    with CACHE.scratch() as living:
        CACHE.prune()
        assert list(own_folder.iterdir()) == [living]
    assert not list(own_folder.iterdir())


# $CC and home folders


def test_a_compiler_may_have_a_launcher_and_arguments(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = compiler.find()
    assert usual is not None
    launcher = tmp_path / "a folder" / "launch"
    launcher.parent.mkdir()
    launcher.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nexec "$@"\n')
    launcher.chmod(0o700)
    monkeypatch.setenv("CC", f"'{launcher}' {usual.command[0]} -DOWN=1")

    found = compiler.find()
    run = make(a_loop(24.5))

    assert found is not None
    assert found.command == (str(launcher), usual.command[0], "-DOWN=1")
    assert run([np.ones(6)], [None])[0].tolist() == [24.5] * 6
    assert "-DOWN=1" in Path(f"{launcher}.log").read_text()
    monkeypatch.setenv("CC", str(launcher))  # a path with a space and no quotation marks
    only = compiler.find()
    assert only is not None
    assert only.command == (str(launcher),)


@pytest.mark.parametrize("named", ["no-such-compiler", "ccache-that-is-not-there gcc", "'gcc"])
def test_a_compiler_that_does_not_exist_is_reported_once(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", named)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert make_all([a_loop(1.5)]) == make_all([a_loop(2.5)]) == [None]

    assert len(seen) == 1
    assert f"CC is {named!r}, which names no compiler" in str(seen[0].message)


@pytest.mark.parametrize("home", ["", "not/absolute", "/proc/nowhere"])
def test_without_a_usable_home_there_is_a_temporary_folder(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TAPEGRAD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)

    assert CACHE.folder().name.startswith("tapegrad-")
    assert make(a_loop(25.5))([np.ones(6)], [None])[0].tolist() == [25.5] * 6
