"""Files stay below a size limit."""

from __future__ import annotations

from pathlib import Path

from tests.house.sources import ROOT

MOST_LINES = 600
FOLDERS = ("tapegrad", "backends", "tests", "benchmarks", "ci", "examples")
SUFFIXES = {".py", ".sh", ".c", ".cu", ".h", ".cuh"}


def long_files(root: Path) -> list[str]:
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*"))
    sizes = [(path, count_lines(path)) for path in paths if path.suffix in SUFFIXES]
    return [f"{path.relative_to(root)}: {size} lines" for path, size in sizes if size > MOST_LINES]


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_file_is_longer_than_600_lines():
    assert long_files(ROOT) == []


def test_a_long_file_is_noticed(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "just_right.py").write_text("pass\n" * MOST_LINES)
    (tmp_path / "ci" / "too_long.py").write_text("pass\n" * (MOST_LINES + 1))

    assert long_files(tmp_path) == [f"{Path('ci', 'too_long.py')}: 601 lines"]
