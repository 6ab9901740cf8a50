"""The scripts in ci/, as far as they can be tested without installing anything."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BASH = shutil.which("bash")
CANDIDATES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")

pytestmark = pytest.mark.skipif(BASH is None, reason="the scripts are for bash")


def run_bash(code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `code` after ci/common.sh, with the programs in `path` before all others."""
    search = os.pathsep.join(filter(None, [path and str(path), os.environ["PATH"]]))
    return subprocess.run(
        [str(BASH), "-c", f"set -euo pipefail; source ci/common.sh; {code}"],
        cwd=ROOT,
        env={**os.environ, "PATH": search},
        capture_output=True,
        text=True,
    )


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!{BASH}\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("script", sorted((ROOT / "ci").glob("*.sh")), ids=lambda path: path.name)
def test_the_script_is_valid_bash(script):
    done = subprocess.run([str(BASH), "-n", str(script)], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_machine_without_a_new_enough_python_gets_a_sentence(tmp_path):
    for name in CANDIDATES:
        write_program(tmp_path / name, "exit 1")

    done = run_bash("find_python", tmp_path)

    assert done.returncode == 1
    assert "tapegrad needs Python 3.11 or newer" in done.stderr


def test_the_first_python_that_is_new_enough_is_taken(tmp_path):
    for name in CANDIDATES:
        write_program(tmp_path / name, "exit 1")
    write_program(tmp_path / "python3.12", f'exec "{sys.executable}" "$@"')

    assert run_bash("find_python", tmp_path).stdout == f"{tmp_path / 'python3.12'}\n"


def test_a_failed_step_does_not_hide_the_next_one_and_fails_the_run():
    done = run_bash('step "first" false; step "second" true; step "third" false; finish')

    assert done.returncode == 1
    assert "== second" in done.stdout
    assert done.stderr == "FAILED: first,third\n"


def test_a_run_without_failures_succeeds():
    done = run_bash('step "only" true; finish')

    assert (done.returncode, done.stderr) == (0, "")


def test_the_lowest_versions_are_the_bounds_of_the_project():
    lowest = runpy.run_path(str(ROOT / "ci" / "lowest_versions.py"))["lowest"]
    project = (
        '[project]\ndependencies = ["numpy>=2.4.2"]\n[project.optional-dependencies]\n'
        'dev = ["ruff>=0.9", "scipy>=1.17", "cupy-cuda13x>=14; sys_platform == \'linux\'"]\n'
    )

    assert lowest(project) == ["numpy==2.4.2", "scipy==1.17"]
    with pytest.raises(SystemExit, match=r"'numpy~=2\.4' in pyproject\.toml must have the form"):
        lowest(project.replace("numpy>=2.4.2", "numpy~=2.4"))
    assert "numpy==" in " ".join(lowest((ROOT / "pyproject.toml").read_text("utf-8")))


def test_ci_prints_what_is_stale_on_the_gpu_and_does_not_fail_for_it():
    lines = (ROOT / "ci" / "test.sh").read_text("utf-8").splitlines()

    assert '"$PYTHON" ci/gpu_report.py --check || true' in lines
