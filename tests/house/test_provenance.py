"""The provenance of benchmark results and test records: the revision and a hash of the sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tapegrad_bench.provenance import current_commit, source_digest

GIT = shutil.which("git")


def git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}
    command = [str(GIT), "-C", str(folder), *arguments]
    environment = {**os.environ, **identity}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.mark.skipif(GIT is None, reason="there is no git")
def test_the_commit_is_gits_and_changes_are_marked(tmp_path, monkeypatch):
    monkeypatch.delenv("TAPEGRAD_COMMIT", raising=False)
    (tmp_path / "code.py").write_text("x = 1\n")
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "gpu-report.json").write_text("{}\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]

    (tmp_path / "ci" / "gpu-report.json").write_text('{"files": {}}\n')
    assert current_commit(tmp_path) == head  # a run that writes its report changes no source

    (tmp_path / "code.py").write_text("x = 2\n")
    assert current_commit(tmp_path) == f"{head}+changes"

    monkeypatch.setenv("TAPEGRAD_COMMIT", "stated")
    assert current_commit(tmp_path) == "stated"


def test_without_git_the_commit_is_stated_or_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_COMMIT", "stated")
    assert current_commit(tmp_path) == "stated"

    monkeypatch.delenv("TAPEGRAD_COMMIT")
    assert current_commit(tmp_path) == "unknown"


def test_the_digest_follows_contents_and_names_but_not_the_place(tmp_path):
    def digest(place: str, files: dict[str, str]) -> str:
        folder = tmp_path / place / "package"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return source_digest([folder])

    first = digest("a", {"one.py": "x = 1", "two.py": ""})

    assert digest("b", {"one.py": "x = 1", "two.py": "", "notes.txt": "!"}) == first
    assert digest("c", {"one.py": "x = 2", "two.py": ""}) != first
    assert digest("d", {"one.py": "x = 1", "three.py": ""}) != first
    assert digest("e", {"one.py": "", "two.py": "x = 1"}) != first


def test_the_digest_covers_the_package_its_backends_and_the_benchmarks():
    root = Path(__file__).resolve().parents[2]
    places = ("tapegrad", "backends/tapegrad_numpy", "backends/tapegrad_cupy",
              "benchmarks/tapegrad_bench")  # fmt: skip

    folders = [root / place for place in places]
    assert source_digest() == source_digest(folders)
    zoo = root / "benchmarks" / "tapegrad_zoo"
    assert source_digest(more=["tapegrad_zoo"]) == source_digest([*folders, zoo])
