"""`import tapegrad` is fast and imports no library but NumPy. Each test is a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.house.sources import ROOT

MOST_SECONDS = 0.045
MOST_OF_NUMPY = 0.5
"""The limit on slow machines, as a share of the time that NumPy's own import takes."""
TRIES = 15
PATHS = [str(ROOT), str(ROOT / "backends")]
ABSENT = {"cupy", "cupyx", "scipy", "torch", "rich", "array_api_strict", "matplotlib"}


def run_python(code: str, *extra_paths: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*extra_paths, *PATHS])}
    # Users import compiled files; without this the compiler would be timed in every try.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def libraries_loaded_by(module: str, *extra_paths: str) -> set[str]:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(run_python(code, *extra_paths).split())


def seconds_to_import(modules: list[str], *extra_paths: str) -> list[float]:
    """The processor time of each import, one after the other in one new process."""
    lines = ["import time"]
    for module in modules:
        lines += ["start = time.process_time()", f"import {module}"]
        lines += ["print(time.process_time() - start)"]
    return [float(seconds) for seconds in run_python("\n".join(lines), *extra_paths).split()]


def is_cheap_beside_numpy(module: str, *extra_paths: str) -> bool:
    """Whether one try is within the limit.

    Other processes can slow a core down for as long as this test lasts. They slow NumPy's import
    down by the same factor, so a share of its time is allowed too.
    """
    of_numpy, of_module = seconds_to_import(["numpy", module], *extra_paths)
    return of_module <= max(MOST_SECONDS, MOST_OF_NUMPY * of_numpy)


def is_ever(check: Callable[[], bool]) -> bool:
    """Whether one of several tries succeeds: disturbances can only slow an import down."""
    return any(check() for _ in range(TRIES))


def test_import_tapegrad_costs_at_most_45_ms_or_half_of_numpys_import():
    assert is_ever(lambda: is_cheap_beside_numpy("tapegrad"))


def test_import_tapegrad_loads_no_optional_library():
    assert libraries_loaded_by("tapegrad") & ABSENT == set()


@pytest.mark.parametrize("use", ["x.sum()", "np.hypot(x, x)", "tapegrad.float32(3)"])
def test_the_numpy_namespace_loads_on_first_use(use):
    lines = [
        "import sys, numpy as np, tapegrad",
        "x = tapegrad.constant([1.0])",
        "before = 'tapegrad.numpy' in sys.modules",
        use,
        "print(before, 'tapegrad.numpy' in sys.modules)",
    ]

    assert run_python("\n".join(lines)).split() == ["False", "True"]


def test_a_slow_import_is_noticed(tmp_path):
    busy = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
    (tmp_path / "slow_to_import.py").write_text(busy)

    assert not is_cheap_beside_numpy("slow_to_import", str(tmp_path))


def test_the_time_of_an_import_is_what_is_measured():
    of_sys, of_asyncio = seconds_to_import(["sys", "asyncio"])

    assert of_sys < of_asyncio


@pytest.mark.parametrize("library", ["cupy", "rich"])
def test_a_library_loaded_on_import_is_noticed(library, tmp_path):
    (tmp_path / f"{library}.py").touch()
    (tmp_path / "careless.py").write_text(f"import {library}\n")

    assert libraries_loaded_by("careless", str(tmp_path)) & ABSENT == {library}
