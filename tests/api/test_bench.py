"""`tapegrad bench`: its runner, its command, and its errors."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapegrad import cli
from tapegrad.errors import ArgumentError
from tapegrad_bench import footprint, runner
from tapegrad_bench.adapters import CONTENDERS, Contender, reason_without
from tapegrad_bench.adapters.library import OnHost, Prepared
from tapegrad_bench.command import main
from tapegrad_bench.options import Group, Options, plan
from tapegrad_bench.progress import Lines, progress_on
from tapegrad_bench.results import Status
from tapegrad_bench.runner import Runner
from tapegrad_bench.timing import steps_per_repeat, time_turn
from tapegrad_bench.workloads import WORKLOADS
from tests.house.sources import ROOT

EAGER, _, NUMPY = CONTENDERS[:3]


@pytest.fixture(autouse=True, scope="module")
def _few_repeats():
    # Budgets stay generous, so that nothing depends on how busy the machine is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tapegrad_bench.contest.MOST_REPEATS", 4)
        yield


@pytest.fixture(autouse=True)
def _importable_adapters(monkeypatch):
    # Worker processes inherit the path; they know nothing of pytest's import mode.
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def misbehaving(mode: str) -> Contender:
    return Contender("numpy", mode, "bench_adapters", ("cpu",), f"misbehaving {mode}", False)


def small_group(*contenders: Contender, workload: str = "chain", device: str = "cpu") -> Group:
    chosen = WORKLOADS[workload]
    return Group(chosen, chosen.check, chosen.dtypes["cpu"], device, contenders)


def run_groups(*groups: Group, budget: float = 5.0, with_ceilings: bool = False):
    options = Options(devices=("cpu",), budget=budget)
    made = Runner(options, groups, Lines(None, len(groups)))
    if not with_ceilings:  # they take longer than what most of these tests look at
        made._measure_ceilings = lambda: None
    return made.run()


# The runner


def test_misbehaving_contenders_get_a_cell_that_says_so_and_the_run_goes_on():
    modes = ("honest", "lying", "shrinking", "raising", "refusing", "crashing")

    run = run_groups(small_group(*map(misbehaving, modes)))

    found = {cell.mode: (cell.status, cell.reason) for cell in run.cells}
    assert found["honest"] == (Status.OK, "")
    assert found["lying"][0] is Status.WRONG
    assert "gradient 1 differs from the reference by 0.01" in found["lying"][1]
    assert found["shrinking"][0] is Status.WRONG
    assert found["raising"] == (Status.FAILED, "ValueError: No such luck.")
    assert found["refusing"] == (Status.SKIPPED, "It does not want to.")
    assert found["crashing"][0] is Status.FAILED
    assert "exit status -9" in found["crashing"][1]
    assert "So long." in found["crashing"][1]


def test_a_contender_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr("tapegrad_bench.contest.PATIENCE", {"cpu": 1.0})
    group = small_group(misbehaving("honest"), misbehaving("sleeping"))

    run = run_groups(group, group, budget=2.0)

    honest, sleeping, _, again = run.cells
    assert honest.status is Status.OK
    assert (sleeping.status, again.status) == (Status.SKIPPED, Status.SKIPPED)
    assert "It was not ready in time" in sleeping.reason
    assert "an earlier row took it too long" in again.reason


def test_a_run_writes_times_memory_and_ceilings():
    run = run_groups(small_group(EAGER, NUMPY, workload="mlp_small"), with_ceilings=True)

    for cell in run.cells:
        assert cell.status is Status.OK
        assert len(cell.times) >= 3
        assert all(time > 0 for time in cell.times)
        assert cell.warmup >= 3
        assert cell.loss_error < 1e-4
        assert cell.flops_needed > 0
    assert run.complete
    assert run.ceiling("cpu", "float32").copy_tb_per_s > 0
    assert run.machine.threads == 1
    assert run.versions["numpy"] == np.__version__


def test_ctrl_c_keeps_what_was_measured(monkeypatch):
    original, calls = runner.Contest._time_once, []

    def press_ctrl_c(contest, entry):
        calls.append(entry)
        if len(calls) == 4:
            raise KeyboardInterrupt
        original(contest, entry)

    monkeypatch.setattr(runner.Contest, "_time_once", press_ctrl_c)
    first = small_group(misbehaving("honest"), NUMPY)

    run = run_groups(first, small_group(NUMPY, workload="hvp"))

    assert not run.complete
    assert [len(cell.times) for cell in run.cells] == [2, 1, 0]
    assert run.cells[2].reason == "The run was interrupted before this was measured."


def test_ctrl_c_while_contenders_are_prepared_ends_their_processes(monkeypatch):
    def press_ctrl_c(contest, expected):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Contest, "_judge_losses", press_ctrl_c)

    run = run_groups(small_group(NUMPY))

    assert [cell.status for cell in run.cells] == [Status.SKIPPED]


def test_a_budget_that_is_spent_says_so(monkeypatch):
    monkeypatch.setattr("tapegrad_bench.contest.LEAST_REPEATS", 1)

    run = run_groups(small_group(NUMPY), small_group(NUMPY, workload="hvp"), budget=1e-6)

    assert not run.complete
    assert "The budget ran out" in run.cells[-1].reason


@pytest.mark.skipif(reason_without("cuda") is None, reason="there is a CUDA device here")
def test_without_a_gpu_cuda_cells_say_why():
    group = replace(small_group(*CONTENDERS[:2], CONTENDERS[4]), device="cuda")

    run = run_groups(group)

    assert [cell.library for cell in run.cells] == ["tapegrad", "tapegrad"]
    assert {cell.status for cell in run.cells} == {Status.ABSENT}
    assert "CuPy" in run.cells[0].reason


def test_a_device_whose_ceiling_cannot_be_measured_gets_its_times(monkeypatch):
    # Everything that the runner does on CUDA, with an adapter that does not need it.
    monkeypatch.setattr(runner, "reason_without", lambda device: None)
    monkeypatch.setattr("tapegrad_bench.timing.QUANTUM", {"cuda": 0.001})
    group = replace(small_group(misbehaving("honest")), device="cuda")

    run = run_groups(group, group, with_ceilings=True)

    assert [cell.status for cell in run.cells] == [Status.OK, Status.OK]
    assert [cell.launches for cell in run.cells] == [None, None]
    assert run.ceilings == ()


def test_an_absent_library_is_listed_as_absent(monkeypatch):
    absent = replace(NUMPY, library="nosuchlibrary")

    run = run_groups(small_group(absent))

    assert [cell.reason for cell in run.cells] == ["nosuchlibrary is not installed."]


def test_a_repeat_is_long_enough_to_be_timed():
    assert steps_per_repeat(1e-5, "cpu") == 400
    assert steps_per_repeat(1e-12, "cpu") == 1000
    assert steps_per_repeat(5.0, "cpu") == 1


def test_the_first_step_after_a_pause_is_not_counted():
    steps = []

    def slow_at_first():
        time.sleep(0.0 if steps else 0.2)
        steps.append(1)

    seconds, _ = time_turn(OnHost(), Prepared(slow_at_first, lambda result: [], lambda: None), 3)

    assert len(steps) == 4
    assert seconds < 0.05


# What a library costs before it computes


def test_an_import_is_timed_and_a_failing_one_named(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise OSError('no driver')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert footprint.import_seconds("json") < footprint.import_seconds("numpy")
    with pytest.raises(RuntimeError, match="`import broken_library` failed: OSError: no driver"):
        footprint.import_seconds("broken_library")


def test_our_own_size_on_disk_is_that_of_the_packages():
    packages = "tapegrad", "backends", "benchmarks/tapegrad_bench"
    places = [place for name in packages for place in os.walk(ROOT / name)]
    files = [Path(folder, name) for folder, _, names in places for name in names]
    files = [file for file in files if file.parent != ROOT / "backends"]  # beside the packages
    sizes = [file.stat().st_size for file in files if file.parent.name != "__pycache__"]

    assert footprint.installed_megabytes("tapegrad") == pytest.approx(sum(sizes) / 1e6)
    assert sum(sizes) > 0.5e6


# Words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(workloads=("chian",)), "no workload 'chian'. There are: .*mean 'chain'?"),
        (Options(devices=("tpu",)), "no device 'tpu'. There are: cpu, cuda."),
        (Options(peers=("troch",)), "no peer 'troch'. There are: none, numpy, .*'torch'?"),
        (Options(dtypes=("float8",)), "no dtype 'float8'. There are: float64, float32, "),
        (Options(sizes=("huge",), workloads=("chain",)), "no size 'huge'. There are: default, "),
        (Options(budget=0.0), "--budget must be a positive number of seconds. Got 0.0."),
        (Options(threads=0), "--threads must be at least 1. Got 0."),
    ],
)  # fmt: skip
def test_unknown_words_get_the_list_of_those_that_exist(options, message):
    with pytest.raises(ArgumentError, match=message):
        plan(options)


def test_the_command_says_it_in_one_line(capsys):
    assert cli.main(["bench", "--workloads", "chian"]) == 2

    assert capsys.readouterr().err.startswith("tapegrad: There is no workload 'chian'.")


def test_the_usual_rows_are_those_of_each_device():
    groups = [group for group in plan(Options()) if not group.is_extra]

    cpu = [group.workload.name for group in groups if group.device == "cpu"]
    cuda = [group.workload.name for group in groups if group.device == "cuda"]
    assert cpu == [
        "scalar_chain", "chain", "elementwise", "mlp_small", "mlp_mid", "rnn", "hvp", "jacobian",
        "import", "install",
    ]  # fmt: skip
    assert cuda == [
        "chain", "elementwise", "softmax_xent", "layernorm", "mlp_small", "mlp_large", "rnn",
        "convnet", "gpt2",
    ]  # fmt: skip


def test_peers_are_chosen_by_library_or_mode():
    (group,) = plan(Options(devices=("cuda",), workloads=("rnn",), peers=("torch:compile", "jax")))

    assert [contender.name for contender in group.contenders] == [
        "tapegrad:eager",
        "tapegrad:function",
        "torch:compile",
        "jax:jit",
    ]


@pytest.mark.parametrize(
    ("device", "workload", "modes"),
    [
        ("cpu", "mlp_small", "eager compile max-autotune"),
        ("cpu", "rnn", "eager compile max-autotune nn"),
        ("cuda", "mlp_small", "eager compile compile-overhead max-autotune graph"),
        ("cuda", "rnn", "eager compile compile-overhead max-autotune graph nn nn-graph"),
    ],
)
def test_torch_takes_part_in_all_its_modes(device, workload, modes):
    group, *_ = plan(Options(devices=(device,), workloads=(workload,), peers=("torch",)))

    found = [contender.mode for contender in group.contenders if contender.library == "torch"]
    assert found == modes.split()


def test_sizes_are_chosen_by_word_or_label():
    options = Options(devices=("cpu",), workloads=("elementwise",))

    def labels(*sizes):
        groups = plan(replace(options, sizes=sizes))
        return [group.workload.size(group.dims).label for group in groups]

    assert labels("default") == ["2^20"]
    assert labels("small") == ["1000"]
    assert labels("2^10", "2^12") == ["2^10", "2^12"]
    assert labels("scaling")[:3] == ["2^20", "2^10", "2^12"]


def test_a_plain_run_shows_how_time_grows_after_all_rows():
    groups = plan(Options(devices=("cpu",)))
    growing = [group for group in groups if group.is_extra]

    assert {group.workload.name for group in growing} == {"elementwise", "mlp_small"}
    assert groups[-len(growing) :] == growing
    assert {c.name for group in growing for c in group.contenders} == {"tapegrad:eager"}


# The command


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What one call of the command printed, and the folder that it wrote to."""
    folder, printed = tmp_path_factory.mktemp("results"), io.StringIO()
    arguments = ["--devices", "cpu", "--workloads", "jacobian", "--sizes", "small"]
    with contextlib.redirect_stdout(printed):
        status = main([*arguments, "--peers", "numpy", "--budget", "5", "--output", str(folder)])
    assert status == 0
    return printed.getvalue(), folder


def test_the_command_writes_results_and_a_page(written):
    printed, folder = written

    assert "jacobian" in printed
    (results,) = folder.glob("*.json")
    cells = json.loads(results.read_text())["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok", "ok"]
    (page,) = folder.glob("*.html")
    assert "jacobian" in page.read_text()


def test_the_command_compares_two_files(written, capsys):
    (results,) = written[1].glob("*.json")

    assert main(["--compare", str(results), str(results)]) == 0

    assert capsys.readouterr().out


def test_nothing_to_run_is_an_error():
    with pytest.raises(ArgumentError, match="Nothing is left to run"):
        main(["--workloads", "import", "--devices", "cuda"])


# Progress


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_without_rich_progress_is_lines_of_text(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    stream = Terminal()

    with progress_on(stream, 2) as progress:
        progress.say("first")
        progress.detail("repeat 1")
        progress.advance()
        progress.say("second")

    lines = stream.text.splitlines()
    assert [line.partition("] ")[2] for line in lines] == ["first", "second"]
    assert "1/2" in lines[1]


def test_with_rich_a_bar_shows_what_is_done():
    pytest.importorskip("rich")
    stream = Terminal()

    with progress_on(stream, 2) as progress:
        progress.say("the [first] row")
        progress.advance()

    assert "the [first] row" in stream.text


def test_workers_find_what_the_runner_finds():
    assert str(Path(__file__).parent) in sys.path
