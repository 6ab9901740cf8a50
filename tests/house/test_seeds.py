"""The number that chooses the tests of a run; see `tests/seeds.py`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.seeds import seed_of_commit


def test_the_seed_changes_with_the_files_of_the_commit_alone(tmp_path: Path) -> None:
    def commit(message: str, text: str) -> int:
        (tmp_path / "file").write_text(text, encoding="utf-8")
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        for words in (["init", "-q"], ["add", "file"], [*who, "commit", "-qm", message]):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
        return seed_of_commit(tmp_path)

    assert seed_of_commit(tmp_path / "missing") == 0
    first = commit("one", "a")
    (tmp_path / "file").write_text("not committed", encoding="utf-8")
    assert seed_of_commit(tmp_path) == first
    second = commit("two", "b")
    assert first != second
    assert commit("three", "a") == first
    assert 0 <= first < 1_000_000
