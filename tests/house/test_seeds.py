"""The number that chooses the tests of a run; see `tests/seeds.py`."""

from __future__ import annotations

from pathlib import Path

from tests.seeds import seed_of_sources


def test_the_seed_changes_with_the_sources_alone(tmp_path: Path) -> None:
    source = tmp_path / "tapegrad" / "inner" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_bytes(b"x = 1\n")
    first = seed_of_sources(tmp_path)

    (tmp_path / "tapegrad" / "notes.md").write_bytes(b"no source")
    (tmp_path / "made.py").write_bytes(b"y = 1\n")
    assert seed_of_sources(tmp_path) == first
    source.write_bytes(b"x = 2\n")
    second = seed_of_sources(tmp_path)
    source.write_bytes(b"x = 1\n")
    moved = source.rename(source.with_name("b.py"))
    assert len({first, second, seed_of_sources(tmp_path)}) == 3
    moved.rename(source)
    assert seed_of_sources(tmp_path) == first
    assert 0 <= first < 1_000_000
