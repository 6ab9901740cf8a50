"""The command line: output and errors."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import tapegrad
from tapegrad import cli
from tapegrad.commands import doctor
from tapegrad.core.values.device import reset_default_device
from tapegrad_bench.workloads import WORKLOADS
from tests.house.sources import ROOT


@pytest.fixture
def fresh_default_device():
    reset_default_device()
    yield
    reset_default_device()


def test_without_a_command_the_help_lists_all_of_them(capsys):
    assert cli.main([]) == 0

    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in cli.COMMANDS)


def test_an_unknown_command_lists_those_that_exist(capsys):
    assert cli.main(["inof"]) == 2

    assert capsys.readouterr().err == (
        "tapegrad: There is no command 'inof'. Commands: info, doctor, demo, bench, run, report. "
        "Did you mean 'info'?\n"
    )


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])

    assert stop.value.code == 0
    assert capsys.readouterr().out == f"tapegrad {tapegrad.__version__}\n"


def test_info_shows_versions_and_devices(capsys):
    assert cli.main(["info"]) == 0

    printed = capsys.readouterr().out
    for text in (tapegrad.__version__, platform.python_version(), np.__version__):
        assert text in printed
    assert "backend numpy   devices: cpu\n" in printed


@pytest.mark.usefixtures("fresh_default_device")
def test_info_says_that_the_environment_chose_the_device(capsys, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_DEVICE", "cpu")

    cli.main(["info"])

    assert "default device  cpu (set by the environment variable TAPEGRAD_DEVICE)" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [
        (
            "cpu",
            "unavailable: CuPy is missing.",
            "cpu (CUDA is not used: the line of",
        ),
        ("cuda:0", "devices: cuda:0", "cuda:0 (CUDA is available; "),
    ],
)
def test_info_says_why_cuda_is_or_is_not_used(name, status, line, capsys, monkeypatch):
    monkeypatch.delenv("TAPEGRAD_DEVICE", raising=False)
    monkeypatch.setattr(cli, "default_device", lambda: name)
    monkeypatch.setattr(cli, "describe_backends", lambda: [("cupy", status)])

    cli.main(["info"])

    assert line in capsys.readouterr().out


def test_an_error_of_tapegrad_becomes_one_sentence(capsys):
    assert cli.main(["demo", "--device", "abacus"]) == 2

    error = capsys.readouterr().err
    assert error.startswith("tapegrad: There is no device 'abacus'.")
    assert error.count("\n") == 1


def test_python_dash_m_runs_the_same_commands(tmp_path):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    command = [sys.executable, "-m", "tapegrad", "nonsense"]

    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True
    )

    assert done.returncode == 2
    assert b"There is no command 'nonsense'" in done.stderr


def test_info_as_json_has_the_same_rows(capsys):
    assert cli.main(["info", "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert rows["tapegrad"] == tapegrad.__version__
    assert {"NumPy", "BLAS", "C compiler", "ml_dtypes", "backend numpy", "default device"} <= set(
        rows
    )


@pytest.mark.usefixtures("fresh_default_device")
def test_info_with_an_unknown_device_reports_all_and_fails(capsys, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_DEVICE", "foo")

    assert cli.main(["info"]) == 2

    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].startswith(
        "default device  none, because of TAPEGRAD_DEVICE: There is no device 'foo'."
    )
    assert "C compiler" in printed.out
    assert printed.err == ""


def test_info_says_the_reason_against_cuda_once(capsys):
    cli.main(["info"])

    assert capsys.readouterr().out.count("Backend 'cupy'") <= 1


def test_doctor_finds_nothing_wrong_here(capsys):
    assert cli.main(["doctor", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert {row["state"] for row in found if row["device"] == "cpu"} == {"ok"}
    assert len([row for row in found if row["device"] == "cpu"]) == len(doctor.CHECKS)


def test_doctor_fails_with_the_reason(capsys, monkeypatch):
    def broken():
        raise ArithmeticError("a result is off by 1")

    monkeypatch.setattr(doctor, "CHECKS", {"sums": broken})

    assert cli.main(["doctor"]) == 1

    printed = capsys.readouterr().out
    assert "failed  sums on cpu" in printed
    assert "ArithmeticError: a result is off by 1" in printed
    assert "checks failed." in printed


def test_doctor_notices_a_wrong_result():
    with pytest.raises(ArithmeticError, match=r"off by 0\.5"):
        doctor._expect_close([1.0, 2.5], [1.0, 2.0], 1e-3)
    with pytest.raises(ArithmeticError, match="off by nan"):
        doctor._expect_close([np.nan], [1.0], 1e-3)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_a_command_shows_examples(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])

    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert f"examples:\n  tapegrad {name}" in printed
    assert "--json" in printed


def test_the_demo_prints_json(capsys):
    assert cli.main(["demo", "--epochs", "1", "--device", "cpu", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["device"] == "cpu"
    assert 0.5 < found["accuracy"] <= 1.0


def test_run_prints_json_at_its_end(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(3)")

    assert cli.main(["run", "-n", "1", "--json", str(program)]) == 3

    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["processes"], found["status"]) == (1, 3)


def test_a_command_whose_output_is_closed_ends_without_a_traceback():
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")])
    command = f"{sys.executable} -m tapegrad info --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == cli.CLOSED
    assert "Traceback" not in done.stderr


def test_doctor_fails_if_the_environment_names_no_device(capsys, monkeypatch, fresh_default_device):
    monkeypatch.setenv("TAPEGRAD_DEVICE", "foo")
    monkeypatch.setattr(doctor, "CHECKS", {})

    assert cli.main(["doctor"]) == 1

    assert "failed  TAPEGRAD_DEVICE" in capsys.readouterr().out


def test_run_without_a_program_asks_for_the_program(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run"])

    assert capsys.readouterr().err.endswith("arguments are required: -n, program\n")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_shows_only_defaults_that_users_can_type(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])

    printed = capsys.readouterr().out
    assert "default: None" not in printed
    assert "default: False" not in printed


def test_the_workloads_in_the_help_of_bench_exist(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])

    words = capsys.readouterr().out.split("examples:")[1].split()
    named = [word for before, word in pairwise(words) if before == "--workloads"]
    assert named
    assert set(named) <= set(WORKLOADS)
