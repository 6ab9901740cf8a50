"""The command line: output and errors."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import tapegrad
from tapegrad import cli
from tapegrad.core.values.device import reset_default_device
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
        "tapegrad: There is no command 'inof'. Commands: info, demo, bench, run. "
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
        ("cpu", "unavailable: CuPy is missing.", "cpu (CUDA is not used: CuPy is missing.)"),
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
