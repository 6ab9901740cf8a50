"""The stubs are those that ci/stubs.py makes, and the program that mypy checks also runs."""

import ast
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


def of_any_class(source: str) -> list[int]:
    """The lines of `__new__` that return Any: Pyright takes all objects of such a class for Any."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and node.name == "__new__"
        and isinstance(node.returns, ast.Name)
        and node.returns.id == "Any"
    ]


def test_type_checkers_know_the_class_of_new_objects():
    found = {
        str(path): lines
        for path in (ROOT / "tapegrad").rglob("*.py")
        if (lines := of_any_class(path.read_text(encoding="utf-8")))
    }

    assert found == {}


def test_a_class_of_unknown_objects_is_found():
    assert of_any_class("class A:\n    def __new__(cls) -> Any:\n        pass\n") == [2]
