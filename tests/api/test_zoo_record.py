"""Recorded runs of the zoo: rows, resumption, merging, limits and reports."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad_bench.process import MemoryExhaustedError, TooSlowError, WorkerError
from tapegrad_bench.results import Ceiling, Status
from tapegrad_zoo import record, row, runner
from tapegrad_zoo.__main__ import main
from tapegrad_zoo.limits import least_cost
from tapegrad_zoo.measure import Ready, Session
from tapegrad_zoo.program import Cost
from tapegrad_zoo.report import (
    ratios_of,
    rows_of,
)
from tapegrad_zoo.row import Clock, Contest, Row
from tests.api.zoo_stand_ins import ENTRIES, MODES, PROGRAMS, Process, SlowProcess, Stub, make_zoo


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A function that makes a zoo whose processes answer as a `Process`."""

    def make(process, name="zoo.json", **settings):
        return make_zoo(monkeypatch, tmp_path / name, process, **settings)

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
    assert kinds.index("turn") == 2 + 2 * len(MODES) + len(MODES)  # those of the first, again


def test_no_process_of_another_program_is_there_while_steps_are_timed(zoo):
    process = Process()
    names = [entry.name for entry in PROGRAMS[:3]]

    zoo(process, side_by_side=3).run(PROGRAMS[:3], 60, lambda words: None)

    running = set()
    beside = {name: set() for name in names}
    for asked, *contender in process.asked:
        key = tuple(contender[:3])
        if asked == "prepare":
            running.add(key)
        elif asked == "stop":
            running.discard(key)
        elif asked == "turn":
            beside[key[0]] |= {other[0] for other in running}
    assert beside == {name: {name} for name in names}
    first = [asked for asked, *_ in process.asked].index("turn")
    kinds = [asked for asked, *_ in process.asked[first:]]
    assert {*kinds[: kinds.index("evidence")]} <= {"turn", "usage"}


def test_the_first_call_is_that_of_the_first_process(zoo):
    class Timed(Process):
        def answer(self, contender, name, *arguments, timeout=None):
            count = [asked for asked, *_ in self.asked].count("prepare")
            found = super().answer(contender, name, *arguments, timeout=timeout)
            return Ready(float(count < len(MODES)), found.loss) if name == "prepare" else found

    ours = zoo(Timed(), side_by_side=2)
    ours.run(PROGRAMS[:1], 60, lambda words: None)

    assert {cell.compile_seconds for cell in ours.record.run.cells} == {1.0}


def test_a_ceiling_that_the_record_has_is_not_measured_again(zoo):
    process = Process()
    zoo(process).run(PROGRAMS[:1], 60, lambda words: None)
    zoo(process).run(PROGRAMS[:2], 60, lambda words: None)

    assert len(PROGRAMS[:2]) == len({cell.workload for cell in zoo(process).record.run.cells})
    assert [asked for asked, *_ in process.asked].count("ceiling") == 1


def test_a_program_that_disagrees_is_not_timed(zoo):
    process = Process(complaints=["jax and torch: loss differs"])

    zoo(process)

    measured = Row(Contest("cpu", 1, MODES, 0.1), PROGRAMS[0], Clock(60, 5))
    measured.prepare(Stub(process))
    measured.measure()
    cells = measured.cells()

    assert {(cell.status, cell.reason) for cell in cells} == {
        (Status.WRONG, "jax and torch: loss differs")
    }
    assert {name for name, *_ in process.asked} == {"check", "stop"}


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


def test_a_check_without_an_answer_says_nothing_about_the_results(zoo):
    ours = zoo(Process(check=TooSlowError("no answer within 59 seconds")))
    said = []

    ours.run(PROGRAMS[:1], 60, said.append)

    ended = {(cell.status, cell.reason) for cell in ours.record.run.cells}
    assert ended == {(Status.FAILED, "The check failed: no answer within 59 seconds")}
    assert said[0].endswith("not timed. The check failed: no answer within 59 seconds")


def test_a_step_without_evidence_in_time_has_failed(zoo):
    late = TooSlowError("no answer within 59 seconds")
    ours = zoo(Process(results={"jax": late}))

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert cells["jax jit"].status is Status.FAILED
    assert cells["jax jit"].reason == "no answer within 59 seconds"


# Memory.


LACK = MemoryExhaustedError("It ran out of memory: CUDA out of memory.")


def asked_of(process, *contender):
    """Return the places of the requests to a contender, and of the ends of its process."""
    return [
        (place, name)
        for place, (name, *rest) in enumerate(process.asked)
        if tuple(rest[: len(contender)]) == contender
    ]


@pytest.mark.parametrize("side_by_side", [1, 2])
def test_what_runs_out_of_memory_is_tried_again_alone(zoo, side_by_side):
    first, second = (entry.name for entry in PROGRAMS[:2])
    process = Process(once={(first, "torch", "eager"): LACK})
    ours = zoo(process, side_by_side=side_by_side)

    ours.run(PROGRAMS[:2], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.cells_of(first)}
    assert cells["torch eager"].status is Status.OK
    assert cells["torch eager"].times
    prepared = [p for p, n in asked_of(process, first, "torch", "eager") if n == "prepare"]
    assert len(prepared) == 2
    others = [(program, *mode) for program in (first, second) for mode in MODES]
    others.remove((first, "torch", "eager"))
    for other in others[: None if side_by_side == 2 else len(MODES) - 1]:
        before = [name for place, name in asked_of(process, *other) if place < prepared[1]]
        assert before[-1] == "stop"
        assert ("evidence" in before) == (other[0] == first)


def test_it_is_tried_again_only_once(zoo):
    process = Process({"jax": LACK})
    ours = zoo(process, side_by_side=2)

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert (cells["jax jit"].status, cells["jax jit"].reason) == (Status.FAILED, str(LACK))
    asked = asked_of(process, PROGRAMS[0].name, "jax", "jit")
    assert [name for _, name in asked].count("prepare") == 2


def test_results_of_a_second_try_are_compared_with_those_of_the_first(zoo):
    name = PROGRAMS[0].name
    process = Process(once={(name, "jax", "jit"): LACK}, results={"jax": 1.5})
    ours = zoo(process, side_by_side=2)

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    cells = {cell.contender: cell for cell in ours.record.run.cells}
    assert cells["jax jit"].status is Status.WRONG
    assert cells["jax jit"].reason.startswith("After the timing: It disagrees with")


def test_a_check_that_runs_out_of_memory_is_made_again(zoo):
    process = Process(once={"check": LACK})
    ours = zoo(process, side_by_side=2)

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    assert {cell.status for cell in ours.record.run.cells} == {Status.OK}
    assert [name for name, *_ in process.asked].count("check") == 2


def test_without_time_for_a_second_try_the_row_is_left_to_the_next_command(zoo, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(row.time, "monotonic", lambda: now[0])
    process = SlowProcess(now, ())
    process.once = {(PROGRAMS[1].name, "torch", "compile"): LACK}

    ours = zoo(process)
    ours.run(PROGRAMS[:2], 40, lambda words: None)

    assert {*ours.record.places} == {PROGRAMS[0].name}


# Budgets, resumption, merging.


@pytest.mark.parametrize(("patience", "seconds"), [(None, 10), (25.0, 25)])
def test_patience_is_a_share_of_the_budget_unless_it_is_given(patience, seconds):
    process = Process(check=TooSlowError("late"))

    with pytest.raises(TooSlowError):
        Clock(60, 6, patience).request(Stub(process), "check", "resnet", ())

    assert process.timeouts == [pytest.approx(seconds, abs=0.5)]


def test_a_request_may_have_less_patience_than_others(zoo):
    process = Process(check=TooSlowError("late"))
    clock = Clock(60, 6, 25.0)

    for most in (7.0, 40.0):
        with pytest.raises(TooSlowError):
            clock.request(Stub(process), "check", "resnet", (), most=most)

    assert process.timeouts == [pytest.approx(7, abs=0.5), pytest.approx(25, abs=0.5)]
    assert not clock.was_too_short


def test_only_torch_compile_has_the_patience_for_compilers(zoo):
    process = Process()
    ours = zoo(process, patience=20.0, compile_patience=4.0)

    ours.run(PROGRAMS[:1], 60, lambda words: None)

    pairs = zip([words for words in process.asked if words[0] != "stop"], process.timeouts)
    prepared = {tuple(words[2:4]): timeout for words, timeout in pairs if words[0] == "prepare"}
    assert [pair for pair in MODES if prepared[pair] < 5] == [("torch", "compile")]
    assert min(prepared[pair] for pair in MODES[:3]) > 15


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
        (["--patience", "0"], "--patience must be a positive number of seconds. Got 0."),
        (["--compile-patience", "-1"], "--compile-patience must be a positive number of seconds."),
        (["no_such_program"], "The zoo has no program or family no_such_program."),
    ],
    ids=["shard", "peer", "patience", "compile patience", "name"],
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
    seconds, usage, evidence = session.turn(), session.usage(), session.evidence()

    program = ENTRIES["huber_library"].program
    params, (batch,) = program.draw("cpu")
    data = sum(v.size * min(v.itemsize, 4) for v in [*params.values(), *batch.values()])
    assert ready.loss is not None
    assert 0 < seconds < ready.first_seconds
    assert usage.needed is not None
    assert usage.needed.bytes >= data
    gradients = [f"the gradient of {name}" for name in params]
    assert {*evidence.outputs[0]} == {"the loss", *gradients}
