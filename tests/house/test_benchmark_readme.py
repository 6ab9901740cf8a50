"""The tables in benchmarks/README.md are generated from benchmarks/results/."""

from __future__ import annotations

import runpy

import pytest

from tapegrad.errors import TapegradError
from tapegrad_bench.provenance import source_digest
from tapegrad_bench.report_markdown import insert
from tapegrad_bench.results import Cell, Machine, Run, Size, Status, save
from tests.house.sources import ROOT

SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "readme_table.py"), run_name="readme_table")
main = SCRIPT["main"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "results").mkdir()
    page = f"# Title\n\n{SCRIPT['BEGIN']}\nold\n{SCRIPT['END']}\nlast line\n"
    (tmp_path / "README.md").write_text(page, encoding="utf-8")
    return tmp_path


def write_result(folder, digest: str = "", sets: int | None = None) -> None:
    machine = Machine(cpu="A|B <fast>", cores=2, threads=1, os="Linux")
    cell = Cell(
        "chain", Size("1024", 1024), "float32", "cpu", "tapegrad", "eager", Status.OK, times=(1e-3,)
    )
    started = "2026-01-02T03:04:05+00:00"
    versions = {"python": "3.12"}
    run = Run(started, machine, versions, (cell,), commit="abc123", digest=digest, sets=sets)
    save(run, folder / "results" / "laptop.json")


def test_the_page_is_up_to_date():
    assert main(["--check"]) == 0


def test_without_results_the_page_says_so(folder):
    assert main([], folder) == 0

    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.endswith(f"\n\nNo results are recorded yet.\n\n{SCRIPT['END']}\nlast line\n")


def test_a_result_becomes_a_table_and_a_second_time_nothing_changes(folder):
    write_result(folder)

    assert main([], folder) == 0

    page = (folder / "README.md").read_text(encoding="utf-8")
    assert "### laptop\n" in page
    assert "| CPU | A\\|B &lt;fast>, 2 cores |" in page
    assert "| chain | 1024, float32 | **1.00 ms** |" in page
    assert main(["--check"], folder) == 0


def test_a_page_out_of_date_fails_the_check_and_is_left_as_it_is(folder, capsys):
    page = (folder / "README.md").read_text(encoding="utf-8")

    assert main(["--check"], folder) == 1

    assert "out of date. Run: python benchmarks/readme_table.py" in capsys.readouterr().err
    assert (folder / "README.md").read_text(encoding="utf-8") == page


def test_a_bad_result_or_a_bad_word_gets_a_sentence(folder, capsys):
    (folder / "results" / "bad.json").write_text("{}")

    assert main([], folder) == 2
    assert main(["--chek"], folder) == 2

    shown = capsys.readouterr().err
    assert "bad.json must be a JSON object with a key 'schema'" in shown
    assert "Usage: python benchmarks/readme_table.py [--check]" in shown


def test_a_page_without_markers_gets_a_sentence():
    with pytest.raises(TapegradError, match=r"README\.md must have the lines '<!-- results: beg"):
        insert("# Title\n", SCRIPT["BEGIN"], SCRIPT["END"], "tables")


def test_the_page_names_the_revision_and_stale_results_are_named(folder, capsys):
    write_result(folder)

    main([], folder)

    page = (folder / "README.md").read_text(encoding="utf-8")
    assert "### laptop\n\nMeasured at revision abc123, 2026-01-02, with one fixed batch.\n" in page
    assert "| revision | abc123 |\n| digest of the sources | not recorded |" in page
    printed = capsys.readouterr().out
    assert printed == (
        "laptop.json was measured at revision abc123; the sources have changed since.\n"
    )


def test_the_page_says_how_many_batches_the_steps_had(folder):
    write_result(folder, sets=8)

    main([], folder)

    page = (folder / "README.md").read_text(encoding="utf-8")
    assert "2026-01-02, with 8 batches in turn.\n" in page


def test_results_of_the_present_sources_are_not_stale(folder, capsys):
    write_result(folder, source_digest())

    main([], folder)

    assert capsys.readouterr().out == ""
