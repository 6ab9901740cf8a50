"""Reports of recorded runs of the zoo: tables, the page, and the section of the README."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapegrad_bench.process import TooSlowError
from tapegrad_zoo import readme, record, runner
from tapegrad_zoo.page import page
from tapegrad_zoo.record import Half
from tapegrad_zoo.report import mean_table, spelling_table, tables_of, worst_table
from tests.api.zoo_stand_ins import ENTRIES, PROGRAMS, Process, make_zoo


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A function that makes a zoo whose processes answer as a `Process`."""

    def make(process, name="zoo.json", **settings):
        return make_zoo(monkeypatch, tmp_path / name, process, **settings)

    return make


@pytest.fixture
def recorded(zoo):
    """A record with both halves and some spellings."""
    halves = [[e for e in PROGRAMS if e.is_on_workbench is flag][:2] for flag in (True, False)]
    spellings = [e for e in ENTRIES.values() if e.spelling][:2]
    chosen = [*halves[0], *halves[1], *spellings]
    names = [entry.name for entry in chosen]
    factors = [4.0, 1.0, 0.5, 0.5, 1.0, 3.0]
    times = {(name, "tapegrad"): 1e-3 / f for name, f in zip(names, factors)}
    ours = zoo(Process({**times, "jax": 1e-3, "torch": 8e-3}))
    ours.run(chosen, 60, lambda words: None)
    return ours.record, names


def texts(table):
    return [[entry.text for entry in line] for line in table.rows]


def test_a_record_is_complete_when_all_programs_of_the_zoo_have_a_row(zoo, monkeypatch):
    monkeypatch.setattr(runner, "entries", lambda: PROGRAMS[:2])
    ours = zoo(Process())

    ours.run(PROGRAMS[:1], 60, lambda words: None)
    assert not ours.record.run.complete
    assert "no: 1 of 2 programs" in [line[1] for line in texts(tables_of(ours.record)[0])]

    ours.run(PROGRAMS[:2], 60, lambda words: None)
    assert ours.record.run.complete
    assert "yes: 2 of 2 programs" in [line[1] for line in texts(tables_of(ours.record)[0])]


def test_a_record_without_the_size_of_the_zoo_is_not_called_complete(zoo):
    ours = zoo(Process())
    ours.run(PROGRAMS[:1], 60, lambda words: None)

    old = replace(ours.record, size=0)

    words = "1 programs; how many there were was not recorded"
    assert words in [line[1] for line in texts(tables_of(old)[0])]


def test_the_means_of_both_halves_stand_apart(recorded):
    lines = texts(mean_table(recorded[0]))

    counts = ["2 of 2", "2 of 2", "2 of 2"]
    assert ["workbench", "jax jit", "2.00x", "2.50x", *counts] in lines
    assert ["examination", "jax jit", "0.500x", "0.500x", "0 of 2", *counts[1:]] in lines
    assert ["workbench", "torch best", "16.0x", "20.0x", *counts] in lines


def test_means_tell_rows_with_all_modes_from_rows_where_only_eager_mode_ran(zoo):
    half = [entry for entry in PROGRAMS if entry.is_on_workbench][:3]
    late = {(half[2].name, "torch", "compile"): TooSlowError("no answer within 9 seconds")}
    ours = zoo(Process({"tapegrad": 1e-3, "torch": 4e-3, **late, (half[2].name, "torch"): 1e-3}))
    ours.run(half, 60, lambda words: None)

    lines = {line[1]: line[2:] for line in texts(mean_table(ours.record))}

    assert lines["torch best"] == ["2.52x", "4.00x", "3 of 3", "2 of 3", "3 of 3"]
    assert lines["torch best, compiled"] == ["4.00x", "4.00x", "2 of 2", "2 of 2", "2 of 3"]
    assert lines["torch compile"][2:] == ["2 of 2", "2 of 2", "2 of 3"]


def test_the_page_and_the_readme_show_medians_beside_means(recorded):
    found = recorded[0]

    assert "median</th>" in page(found)
    assert "| half | peer | geometric mean | median |" in readme.written({"laptop": found})


def test_the_worst_rows_come_first_and_spellings_are_not_among_them(recorded):
    found, names = recorded

    lines = texts(worst_table(found))

    assert [line[0] for line in lines[:2]] == sorted(names[2:4])
    assert len(lines) == 4


def test_spellings_compare_the_slowest_with_the_fastest(recorded):
    (line,) = texts(spelling_table(recorded[0]))

    assert line[-3:] == ["2", "3.00x", "1.00x"]


def test_the_page_has_a_sorted_chart_of_each_half(recorded):
    found, names = recorded

    markup = page(found)

    assert "workbench: ratio to the peers by program" in markup
    assert "examination: ratio to the peers by program" in markup
    chart = markup[markup.index("workbench: ratio to the peers") :]
    assert chart.index(f">{names[1]}<") < chart.index(f">{names[0]}<")


def test_every_table_has_as_many_entries_as_columns(recorded):
    for table in tables_of(recorded[0]):
        assert {len(line) for line in table.rows} == {len(table.columns)}, table.title


# The section of benchmarks/README.md.


def test_the_section_of_the_readme_is_up_to_date():
    assert readme.main(["--check"]) == 0


def test_the_section_is_written_and_says_which_device_has_no_record(recorded, tmp_path):
    folder = tmp_path / "results" / "zoo"
    record.save(replace(recorded[0], remark="A shared machine."), folder / "laptop.json")
    path = tmp_path / "README.md"
    path.write_text(f"above\n{readme.BEGIN}\nold\n{readme.END}\nbelow\n", encoding="utf-8")

    assert readme.main(["--check"], tmp_path) == 1
    assert readme.main([], tmp_path) == 0
    assert readme.main(["--check"], tmp_path) == 0

    text = path.read_text(encoding="utf-8")
    assert "### Zoo: laptop\n\nMeasured at revision " in text
    assert "A shared machine." in text
    assert "No run of the zoo is recorded on cuda." in text
    assert text.endswith("\nbelow\n")
    assert {half.value for half in Half} <= set(text.split())
