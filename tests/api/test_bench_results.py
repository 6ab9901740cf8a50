"""Result files of benchmark runs, comparison of two runs, and scaling with size."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from tapegrad.errors import ArgumentError
from tapegrad_bench.compare import Verdict, compare, compare_files, find_drift
from tapegrad_bench.options import Options, plan
from tapegrad_bench.results import Run, Size, Status, from_json, load, save, to_json
from tapegrad_bench.rows import rows_of
from tapegrad_bench.scaling import find_crossovers, find_series, fit_power_law
from tests.bench_runs import MACHINE, make_cell, make_full_run, make_run, power_law


@pytest.fixture
def run() -> Run:
    return make_full_run()


# The file.


def test_a_run_survives_its_file(run, tmp_path):
    save(run, tmp_path / "new" / "run.json")

    assert load(tmp_path / "new" / "run.json") == run


def test_the_file_also_holds_what_follows_from_the_times():
    cell = make_cell(time=1e-3, noise=0.1)

    (entry,) = to_json(make_run(cell))["cells"]

    assert entry["median"] == 1e-3
    assert entry["spread"] == pytest.approx(1e-4)
    assert entry["tb_per_s"] == pytest.approx(24 * 2**20 / 1e-3 / 1e12)
    assert entry["tflop_per_s"] == pytest.approx(8 * 2**20 / 1e-3 / 1e12)
    assert entry["percent_of_ceiling"] == pytest.approx(100 * 24 * 2**20 / 0.02e12 / 1e-3)


def test_times_that_do_not_count_give_no_figures():
    cell = make_cell(status=Status.WRONG, reason="dx is off")

    assert (cell.median, cell.spread, cell.tb_per_s, cell.tflop_per_s) == (None,) * 4


def test_an_error_that_is_not_a_number_is_written_as_null():
    cell = make_cell(status=Status.WRONG, reason="the loss is nan", loss_error=float("nan"))

    assert to_json(make_run(cell))["cells"][0]["loss_error"] is None


def test_a_file_of_another_schema_is_refused_with_advice(run):
    plain = {**to_json(run), "schema": 99}

    with pytest.raises(ArgumentError, match=r"old\.json must have schema 1\. Got 99\. Measure"):
        from_json(plain, "old.json")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("cells", 0, "size", "elements"), "many", r"cells\[0\]\.size\.elements must be a whole"),
        (("cells", 0, "times"), 3, r"cells\[0\]\.times must be a list\. Got 3\."),
        (("cells", 0, "times"), [1, None], r"times\[1\] must be a finite number\. Got None\."),
        (("cells", 0, "status"), "fine", r"must be one of ok, absent, .*\. Got 'fine'\."),
        (("cells", 0, "colour"), "red", r"has a key 'colour' that does not exist\. Keys: work"),
        (("cells", 0, "times"), [], r"A cell with status 'ok' must have times\."),
        (("cells", 0, "status"), "failed", r"status 'failed' must give a reason\."),
        (("cells", 0, "times"), [-1.0], r"Times must not be negative\."),
        (("machine", "cores"), True, r"machine\.cores must be a whole number\. Got True\."),
        (("versions",), ["numpy"], r"versions must be an object\."),
        (("started",), "today", r"started must be a date and time in ISO 8601\. Got 'today'\."),
    ],
)
def test_a_value_that_does_not_fit_is_named(run, place, value, message):
    plain = to_json(run)
    inner = plain
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value

    with pytest.raises(ArgumentError, match=message):
        from_json(plain)


def test_a_missing_key_is_named(run):
    plain = to_json(run)
    del plain["machine"]["cpu"]

    with pytest.raises(ArgumentError, match=r"machine must have a key 'cpu'\. It has none\."):
        from_json(plain)


def test_files_that_are_no_results_get_a_sentence(tmp_path):
    (tmp_path / "text.json").write_text("once upon a time")
    (tmp_path / "list.json").write_text("[1, 2]")

    with pytest.raises(ArgumentError, match="There is no results file"):
        load(tmp_path / "none.json")
    with pytest.raises(ArgumentError, match=r"text\.json must be a JSON file\. It is not"):
        load(tmp_path / "text.json")
    with pytest.raises(ArgumentError, match=r"list\.json must be a JSON object with a key 'sch"):
        load(tmp_path / "list.json")


# Two runs.


def test_a_change_within_the_spread_is_none():
    (change,) = compare(
        make_run(make_cell(time=1.00, noise=0.1)), make_run(make_cell(time=1.08, noise=0.1))
    )

    assert change.verdict is Verdict.SAME
    assert change.moved == pytest.approx(0.08)
    assert change.noise == pytest.approx(0.1 * 2**0.5)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(1.30, Verdict.WORSE), (0.70, Verdict.BETTER), (1.0, Verdict.SAME)],
)
def test_a_change_beyond_the_spread_is_reported(after, verdict):
    old, new = make_cell(time=1.0, noise=0.1), make_cell(time=after, noise=0.1)

    (change,) = compare(make_run(old), make_run(new))

    assert change.verdict is verdict


def test_cells_that_come_go_break_and_mend_are_told_apart():
    broken = {"status": Status.FAILED, "times": (), "reason": "ValueError: no"}
    before = make_run(make_cell(mode="a"), make_cell(mode="b"), make_cell(mode="c", **broken))
    after = make_run(make_cell(mode="b", **broken), make_cell(mode="c"), make_cell(mode="d"))

    verdicts = {change.cell.mode: change.verdict for change in compare(before, after)}

    assert verdicts == {
        "a": Verdict.REMOVED,
        "b": Verdict.BROKEN,
        "c": Verdict.MENDED,
        "d": Verdict.ADDED,
    }


def test_more_launches_are_worse_even_in_the_same_time():
    changes = compare(make_run(make_cell(launches=10)), make_run(make_cell(launches=11)))

    assert [(c.measure, c.verdict) for c in changes] == [
        ("time", Verdict.SAME),
        ("launches", Verdict.WORSE),
    ]


def test_what_the_machine_does_is_seen_in_the_peers():
    def timed(factor):
        peers = [make_cell(name, time=factor) for name in ("torch", "autograd")]
        return make_run(make_cell(time=5.0), *peers)

    assert find_drift(compare(timed(1.0), timed(1.2))) == pytest.approx(0.2)


def compare_on_disk(tmp_path, before: Run, after: Run) -> tuple[int, str]:
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    for path, kept in zip(paths, (before, after)):
        save(kept, path)
    stream = io.StringIO()
    return compare_files(*paths, stream), stream.getvalue()


def test_a_regression_of_ours_is_shown_and_fails(tmp_path):
    code, shown = compare_on_disk(
        tmp_path, make_run(make_cell(time=1e-3)), make_run(make_cell(time=2e-3))
    )

    assert code == 1
    assert "+100.0 %" in shown
    assert shown.endswith("1 worse.\n")


def test_a_slower_peer_and_a_faster_tapegrad_do_not_fail(tmp_path):
    before = make_run(make_cell(time=2e-3), make_cell("torch", time=1e-3))
    after = make_run(make_cell(time=1e-3), make_cell("torch", time=2e-3))

    code, shown = compare_on_disk(tmp_path, before, after)

    assert code == 0
    assert shown.endswith("1 better, 1 worse.\n")


def test_runs_without_a_difference_say_no_change(tmp_path, run):
    code, shown = compare_on_disk(tmp_path, run, run)

    assert (code, shown) == (0, "13 no change.\n")


def test_other_machines_and_versions_are_pointed_out(tmp_path):
    before = make_run(make_cell())
    after = replace(before, machine=replace(MACHINE, cores=64), versions={"python": "3.13"})

    _, shown = compare_on_disk(tmp_path, before, after)

    assert "from different machines or settings" in shown
    assert "python differs: 3.12.1 before, 3.13 after." in shown
    assert "torch differs: 2.11 before, absent after." in shown


# Scaling.


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 2.0])
def test_the_fit_of_an_exact_power_law_is_exact(slope):
    fit = fit_power_law([(n, 3e-6 * n**slope) for n in (10, 100, 5000, 10**6)])

    assert fit.slope == pytest.approx(slope, abs=1e-12)
    assert fit.at(777) == pytest.approx(3e-6 * 777**slope)


def test_one_size_has_no_slope():
    with pytest.raises(ArgumentError, match=r"two different sizes or more\. Got 1 usable of 2"):
        fit_power_law([(10, 1.0), (20, 0.0)])


def test_the_slope_at_large_sizes_sees_past_fixed_costs():
    (series,) = find_series(make_run(*power_law("cpu", 1e-9, 1.0, fixed=1e-5)))

    assert series.fit.slope < 0.8
    assert series.large_fit.slope == pytest.approx(1.0, abs=0.05)


def test_the_gpu_pays_where_the_lines_cross():
    cells = [*power_law("cpu", 1e-9, 1.0), *power_law("cuda", 1e-4, 0.0)]

    (crossover,) = find_crossovers(make_run(*cells))

    assert crossover.size == pytest.approx(1e5)
    assert crossover.sentence == "the GPU is faster from about 100k elements on"


def test_a_gpu_that_never_or_always_pays_is_said_so():
    cpu = power_law("cpu", 1e-9, 1.0)

    (never,) = find_crossovers(make_run(*cpu, *power_law("cuda", 2e-9, 1.0)))
    (always,) = find_crossovers(make_run(*cpu, *power_law("cuda", 5e-10, 1.0)))

    assert never.sentence == "the CPU is faster up to 4.19M elements"
    assert always.sentence == "the GPU is faster at every size measured, 1024 elements and more"


def test_each_axis_is_a_series_of_its_own():
    sizes = [
        Size("base", 3200, batch=32, depth=10),
        Size("batch", 6400, batch=64, depth=10),
        Size("deep", 3200, batch=32, depth=20),
        Size("long", 6400, batch=32, depth=20),
        Size("wide", 9600, batch=32, depth=10),
    ]
    run = make_run(*[make_cell(size=size) for size in sizes])

    found = {(one.axis, tuple(size for size, _ in one.points)) for one in find_series(run)}

    assert found == {
        ("batch", (32, 64)),
        ("depth", (10, 20)),
        ("elements", (3200, 9600)),
        ("elements", (3200, 6400)),
    }


def test_sizes_in_which_everything_grows_are_a_series_by_elements():
    sizes = [Size(str(width), width * width, batch=width) for width in (16, 32, 64)]

    (series,) = find_series(make_run(*[make_cell(size=size) for size in sizes]))

    assert series.axis == "elements"
    assert [size for size, _ in series.points] == [256, 1024, 4096]


def test_two_cells_of_one_contender_are_refused():
    run = make_run(make_cell(time=1.0), make_cell(time=2.0))

    with pytest.raises(ArgumentError, match="two cells of tapegrad eager at elementwise, 2\\^20"):
        rows_of(run)


def test_no_size_is_planned_twice():
    planned = [
        (group.workload.name, str(group.dims), group.dtype, group.device, contender.name)
        for group in plan(Options())
        for contender in group.contenders
    ]

    assert len(set(planned)) == len(planned)
