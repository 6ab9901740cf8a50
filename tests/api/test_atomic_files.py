"""Files are replaced atomically, keep their permissions, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tapegrad.core.files import atomic
from tapegrad.core.files.atomic import replacing, sweep

KILLED = """
import os, signal, sys
from tapegrad.core.files import atomic
if sys.argv[2] == "named":
    atomic._open_nameless = lambda folder, mode: None
with atomic.replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["nameless", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With files that have no name until they are complete, and without."""
    if request.param == "named":
        monkeypatch.setattr(atomic, "_open_nameless", lambda folder, mode: None)
    return str(request.param)


def test_a_killed_writer_leaves_nothing_after_the_next_write(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(path), kind]
    done = subprocess.run(command, env=environment, check=False)

    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert kind == "nameless" or len(list(tmp_path.iterdir())) == 2
    with replacing(tmp_path / "b") as file:
        file.write(b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_file_that_is_being_written_is_not_swept(tmp_path: Path, kind: str) -> None:
    with replacing(tmp_path / "a") as file:
        file.write(b"one")
        with replacing(tmp_path / "b") as other:
            other.write(b"two")
        sweep(tmp_path)

    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == b"onetwo"


def test_other_files_are_not_swept(tmp_path: Path) -> None:
    names = [".note.tmp", "a.1-ab.tmp", ".a.b-ab.tmp", ".a.1-ab.tmp.txt"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / ".folder.1-ab.tmp").mkdir()

    sweep(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, ".folder.1-ab.tmp"])


def test_an_error_leaves_the_old_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_private_file_stays_private(tmp_path: Path, kind: str, mode: int) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(mode)

    with replacing(path) as file:
        file.write(b"new")

    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_links_are_kept_or_replaced(tmp_path: Path, kind: str) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    outside.write_bytes(b"old")
    inside.symlink_to(outside)

    with replacing(inside) as file:
        file.write(b"kept")
    assert inside.is_symlink()
    assert outside.read_bytes() == b"kept"

    with replacing(inside, follow_links=False) as file:
        file.write(b"new")
    assert not inside.is_symlink()
    assert (inside.read_bytes(), outside.read_bytes()) == (b"new", b"kept")
