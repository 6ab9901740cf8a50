"""The stubs are those that ci/stubs.py makes, and the program that mypy checks also runs."""

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stubs_say_what_the_functions_return():
    command = [sys.executable, str(ROOT / "ci" / "stubs.py"), "--check"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_mypy_checks_the_typed_program_and_the_program_runs():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "tests/typing/program.py" in settings["tool"]["mypy"]["files"]

    names = runpy.run_path(str(ROOT / "tests" / "typing" / "program.py"))

    assert names["loss"].numpy() == 5.0
