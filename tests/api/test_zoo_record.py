"""Recorded runs of the zoo: rows, resumption, merging, limits and reports."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad_bench.evidence import Evidence, digest
from tapegrad_bench.process import TooSlowError, WorkerError
from tapegrad_bench.results import Ceiling, Status
from tapegrad_zoo import readme, record, row, runner
from tapegrad_zoo.__main__ import main
from tapegrad_zoo.limits import least_cost
from tapegrad_zoo.measure import Ready, Session, Usage
from tapegrad_zoo.page import page
from tapegrad_zoo.program import Cost, entries
from tapegrad_zoo.record import Half
from tapegrad_zoo.report import (
    mean_table,
    ratios_of,
    rows_of,
    spelling_table,
    tables_of,
    worst_table,
)
from tapegrad_zoo.row import Clock, Contest, Row
from tapegrad_zoo.runner import Zoo

ENTRIES = {entry.name: entry for entry in entries()}
PROGRAMS = [entry for entry in ENTRIES.values() if not entry.spelling]
MODES = [("tapegrad", "function"), ("jax", "jit"), ("torch", "eager"), ("torch", "compile")]
NEEDED = Cost(bytes=2e6, operations=4e6)


class Process:
    """Stands in for all processes: answers from a table of seconds and losses."""

    def __init__(self, times=None, losses=None, complaints=(), results=None):
        self.times, self.losses, self.complaints = times or {}, losses or {}, list(complaints)
        self.results = results or {}
        self.asked = []

    def answer(self, contender, name, *arguments, timeout=None):
        self.asked.append((name, *(arguments or contender)))
        if name == "check":
            return self.complaints
        if name == "ceiling":
            return Ceiling("cpu", "float32", copy_tb_per_s=0.01, matmul_tflop_per_s=0.05)
        program, library, *_ = contender
        seconds = self.times.get((program, library), self.times.get(library, 1.0))
        if isinstance(seconds, Exception):
            raise seconds
        if name == "prepare":
            return Ready(0.5, self.losses.get(library, 1.0))
        if name == "evidence":
            result = self.results.get((program, library), self.results.get(library, 1.0))
            return Evidence(({"the result": digest(np.array([result, 2.0]))},))
        return (
            seconds if name == "turn" else Usage(2**20, NEEDED if library == "tapegrad" else None)
        )


class Stub:
    """One process."""

    def __init__(self, process):
        self.process, self.contender = process, ()

    def request(self, name, *arguments, timeout=None):
        if name == "prepare":
            self.contender = arguments
        return self.process.answer(self.contender, name, *arguments, timeout=timeout)

    def stop(self):
        pass


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A function that makes a zoo whose processes answer as a `Process`."""

    def make(process, name="zoo.json", modes=MODES, side_by_side=1):
        monkeypatch.setattr(row, "worker", lambda device, threads: Stub(process))
        monkeypatch.setattr(row, "reason_absent", lambda library: None)
        monkeypatch.setattr(runner, "worker", lambda device, threads: Stub(process))
        monkeypatch.setattr(runner, "Worker", lambda *args, **settings: Stub(process))
        monkeypatch.setattr(runner, "versions", lambda: {"python": "3.12"})
        monkeypatch.setattr(runner, "current_commit", lambda: "abc123")
        monkeypatch.setattr(runner, "source_digest", lambda more: "0" * 64)
        return Zoo(tmp_path / name, Contest("cpu", 1, modes, 0.1, side_by_side))

    return make


# Rows.


def test_a_row_has_ratios_first_calls_memory_and_the_limit(zoo):
    ours = zoo(Process({"tapegrad": 2e-3, "jax": 1e-3, "torch": 8e-3}))

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    (found,) = rows_of(ours.record.run)
    function = found.cells["tapegrad function"]
    assert ratios_of(found) == pytest.approx(
        {"jax jit": 0.5, "torch eager": 4.0, "torch compile": 4.0, "torch best": 4.0}
    )
    assert (function.compile_seconds, function.peak_host_bytes) == (0.5, 2**20)
    # 2 MB at 10 GB/s take 200 us, 4 M operations at 50 G/s take 80 us.
    assert ours.record.run.floor(function) == pytest.approx(2e-4)
    assert ours.record.run.times_the_floor(found.cells["jax jit"]) == pytest.approx(5.0)


def test_contenders_take_turns(zoo):
    process = Process()

    zoo(process).run(PROGRAMS[:1], 60, lambda words: None)

    asked = [words for words in process.asked if words[0] == "turn"]
    turns = [(library, mode) for _, _, library, mode, *_ in asked]
    assert turns[: 2 * len(MODES)] == [*MODES, *MODES]


def test_programs_are_prepared_side_by_side_and_timed_one_by_one(zoo):
    process = Process()

    zoo(process, side_by_side=2).run(PROGRAMS[:3], 60, lambda words: None)

    names = [entry.name for entry in PROGRAMS[:3]]
    of_program = {
        step: [arguments[0] for asked, *arguments in process.asked if asked == step]
        for step in ("check", "prepare", "turn")
    }
    assert {*of_program["check"][:2]} == {*of_program["prepare"][: 2 * len(MODES)]} == {*names[:2]}
    assert [*dict.fromkeys(of_program["turn"])] == names
    kinds = [asked for asked, *_ in process.asked if asked in of_program]
    assert kinds.index("turn") == 2 + 2 * len(MODES)


def test_a_program_that_disagrees_is_not_timed(zoo):
    process = Process(complaints=["jax and torch: loss differs"])

    zoo(process)

    measured = Row(Contest("cpu", 1, MODES, 0.1), PROGRAMS[0], Clock(60, 5))
    measured.prepare(Stub(process))
    cells = measured.cells()

    assert {(cell.status, cell.reason) for cell in cells} == {
        (Status.WRONG, "jax and torch: loss differs")
    }
    assert [name for name, *_ in process.asked] == ["check"]


def test_a_contender_whose_loss_is_wrong_has_no_time(zoo):
    ours = zoo(Process(losses={"tapegrad": 1.1}))

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert cells["tapegrad function"].status is Status.WRONG
    assert cells["tapegrad function"].reason == "Its first loss is 1.1, that of the others 1."
    assert cells["jax jit"].status is Status.OK


def test_a_step_whose_results_are_wrong_after_the_timing_has_no_time(zoo):
    ours = zoo(Process(results={"tapegrad": 1.5}))

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert cells["tapegrad function"].status is Status.WRONG
    assert cells["tapegrad function"].reason.startswith("After the timing: It disagrees with jax")
    assert cells["jax jit"].status is cells["torch eager"].status is Status.OK


def test_a_mode_that_needs_what_was_not_compiled_in_time_is_not_tried(zoo, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(row.time, "monotonic", lambda: now[0])
    process = SlowProcess(now, (PROGRAMS[0].name, "torch"))
    modes = [*MODES[:2], ("torch", "compile"), ("torch", "graph")]

    ours = zoo(process, modes=modes)
    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert cells["torch compile"].reason == "no answer within 10 seconds"
    assert cells["torch graph"].reason == "Another mode of it was not compiled in time."
    assert cells["jax jit"].status is Status.OK


def test_a_contender_that_fails_wins_nothing_and_the_others_go_on(zoo):
    ours = zoo(Process({"jax": WorkerError("It ran out of memory: 9 GB")}))

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    (found,) = rows_of(ours.record.run)
    assert found.cells["jax jit"].status is Status.FAILED
    assert "jax jit" not in ratios_of(found)
    assert ratios_of(found)["torch eager"] == 1.0


def test_a_peer_that_is_not_installed_has_a_cell_that_says_so(zoo, monkeypatch):
    ours = zoo(Process())
    absent = {"jax": "jax is not installed."}
    monkeypatch.setattr(row, "reason_absent", absent.get)

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert (cells["jax jit"].status, cells["jax jit"].reason) == (
        Status.ABSENT,
        "jax is not installed.",
    )
    assert cells["torch eager"].status is Status.OK


# Budgets, resumption, merging.


def test_a_later_command_goes_on_and_measures_nothing_twice(zoo):
    first = Process()
    zoo(first).run(PROGRAMS[:2], 60, lambda words: None)
    second = Process()
    again = zoo(second)

    again.run(PROGRAMS[:3], 60, lambda words: None)

    measured = {arguments[0] for name, *arguments in second.asked if name == "prepare"}
    assert measured == {PROGRAMS[2].name}
    assert {*again.record.places} == {entry.name for entry in PROGRAMS[:3]}


def test_a_row_that_lacks_a_contender_is_measured_anew(zoo):
    zoo(Process(), modes=MODES[:2]).run(PROGRAMS[:1], 60, lambda words: None)

    assert zoo(Process(), modes=MODES[:2]).missing(PROGRAMS[:1]) == []
    assert zoo(Process()).missing(PROGRAMS[:1]) == PROGRAMS[:1]


class SlowProcess(Process):
    """Has one contender that needs more time than it is given, by a clock that the test turns."""

    def __init__(self, now, slow):
        super().__init__()
        self.now, self.slow = now, slow

    def answer(self, contender, name, *arguments, timeout=None):
        if name == "prepare" and arguments[:2] == self.slow:
            self.now[0] += timeout
            raise TooSlowError(f"no answer within {timeout:.0f} seconds")
        self.now[0] += 5.0 if name == "prepare" else 0.0
        return super().answer(contender, name, *arguments, timeout=timeout)


def test_a_row_that_the_budget_cuts_is_left_to_the_next_command(zoo, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(row.time, "monotonic", lambda: now[0])
    ours = zoo(SlowProcess(now, (PROGRAMS[1].name, "torch")))

    # Four first calls of 5 s, two of the next row, then 6 s are left for one that takes longer.
    ours.run(PROGRAMS[:3], 36, lambda words: None)
    assert {*ours.record.places} == {PROGRAMS[0].name}

    # Here it comes first, and each contender has its share.
    ours.run(PROGRAMS[:3], 36, lambda words: None)
    cells = {cell.contender: cell for cell in ours.record.cells_of(PROGRAMS[1].name)}
    assert cells["torch compile"].reason == "no answer within 6 seconds"
    assert cells["jax jit"].status is Status.OK


def test_nothing_starts_after_the_budget(zoo):
    ours = zoo(Process())

    ours.run(PROGRAMS[:1], 0, lambda words: None)

    assert ours.record.run.cells == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": "f" * 64}, "digest of the sources 000000000000 and ffffffffffff"),
        ({"versions": {"python": "1.5"}}, r"python 3\.12 and 1\.5"),
    ],
    ids=["sources", "versions"],
)
def test_a_record_of_something_else_is_refused_with_a_sentence(zoo, tmp_path, change, words):
    ours = zoo(Process())
    ours.run(PROGRAMS[:1], 60, lambda words: None)
    other = replace(ours.record, run=replace(ours.record.run, **change))
    record.save(other, tmp_path / "zoo.json")

    with pytest.raises(ArgumentError, match=rf"zoo\.json cannot be merged .*: {words}\."):
        zoo(Process())


def test_rows_with_batches_elsewhere_are_refused(zoo, tmp_path):
    ours = zoo(Process())
    ours.run(PROGRAMS[:1], 60, lambda words: None)
    record.save(replace(ours.record, batches="host"), tmp_path / "zoo.json")

    with pytest.raises(ArgumentError, match=r"cannot be merged .*: batches on the device and host"):
        zoo(Process())


def test_shards_in_two_files_become_one_record(zoo, tmp_path):
    zoo(Process(), "one.json").run(PROGRAMS[0:1], 60, lambda words: None)
    zoo(Process(), "two.json").run(PROGRAMS[1:2], 60, lambda words: None)
    both = zoo(Process(), "both.json")

    both.add(tmp_path / "one.json")
    both.add(tmp_path / "two.json")

    kept = record.load(tmp_path / "both.json")
    assert {*kept.places} == {entry.name for entry in PROGRAMS[:2]}
    assert len(kept.run.ceilings) == 1


def test_the_best_rates_of_all_commands_are_the_ceiling(zoo):
    ours = zoo(Process())
    ours.run(PROGRAMS[:1], 60, lambda words: None)

    both = ours.record.with_ceiling(Ceiling("cpu", "float32", 0.02, 0.04))

    assert both.run.ceilings == (Ceiling("cpu", "float32", 0.02, 0.05),)


def test_a_record_is_read_as_it_was_written_with_one_line_per_cell(zoo, tmp_path):
    ours = zoo(Process())
    ours.run(PROGRAMS[:1], 60, lambda words: None)

    assert record.load(tmp_path / "zoo.json") == ours.record
    assert len((tmp_path / "zoo.json").read_text().splitlines()) == len(MODES) + 2


@pytest.mark.parametrize("text", ["[", "{}", '{"schema": 99, "run": {}}'])
def test_a_file_that_is_no_record_gets_a_sentence(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)

    with pytest.raises(ArgumentError, match=r"bad\.json"):
        record.load(tmp_path / "bad.json")


def test_shards_share_the_programs_out():
    parts = [runner.shard(PROGRAMS, index, 3) for index in (1, 2, 3)]

    names = sorted(entry.name for part in parts for entry in part)
    assert names == sorted(entry.name for entry in PROGRAMS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shard", "3/2"], "--shard must be like 1/4"),
        (["--peers", "numpy"], "--peers takes jax, jax:jit, torch, .*. Got numpy."),
        (["no_such_program"], "The zoo has no program or family no_such_program."),
    ],
    ids=["shard", "peer", "name"],
)
def test_a_wrong_word_gets_a_sentence(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        main(arguments)


# What a step needs at least.


def graph_of(function, *arguments):
    compiled = tf.function(function)
    compiled(*arguments)
    return compiled.program(*arguments).graph


def test_inputs_and_results_count_once_and_products_by_their_operations():
    a, b = tf.ones([4, 8]), tf.ones([8, 2])

    found = least_cost(graph_of(lambda a, b: tf.exp(a @ b) + tf.sin(a @ b), a, b))

    assert found == Cost(bytes=4 * (32 + 16 + 8), operations=2 * 4 * 8 * 2)


def test_a_variable_is_read_and_written_once():
    x = tf.Variable(np.ones(100, np.float32))

    found = least_cost(graph_of(lambda g: x.assign_sub(0.1 * g).read_value().sum(), tf.ones([100])))

    assert found.bytes == 4 * (100 + 100 + 100 + 1)


def test_rows_that_are_not_gathered_do_not_count():
    table, rows = tf.ones([1000, 16]), tf.constant([3, 5])

    found = least_cost(graph_of(lambda t, r: tf.gather(t, r), table, rows))

    indices = rows.dtype.size * 2
    assert found.bytes == 4 * (2 * 16 + 2 * 16) + indices


@pytest.fixture
def session():
    """What a process of the zoo does; it switches the garbage collector off."""
    yield Session("cpu")
    gc.enable()


def test_a_process_times_a_program_and_tells_what_it_needs(session):
    ready = session.prepare("huber_library", "tapegrad", "function", 0.01)
    seconds, usage, evidence = session.turn(), session.finish(), session.evidence()

    program = ENTRIES["huber_library"].program
    params, (batch,) = program.draw("cpu")
    data = sum(v.size * min(v.itemsize, 4) for v in [*params.values(), *batch.values()])
    assert ready.loss is not None
    assert 0 < seconds < ready.first_seconds
    assert usage.needed is not None
    assert usage.needed.bytes >= data
    gradients = [f"the gradient of {name}" for name in params]
    assert {*evidence.outputs[0]} == {"the loss", *gradients}


# Reports.


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


def test_the_means_of_both_halves_stand_apart(recorded):
    lines = texts(mean_table(recorded[0]))

    assert ["workbench", "jax jit", "2.00x", "2 of 2", "2 of 2"] in lines
    assert ["examination", "jax jit", "0.500x", "0 of 2", "2 of 2"] in lines
    assert ["workbench", "torch best", "16.0x", "2 of 2", "2 of 2"] in lines


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
