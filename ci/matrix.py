"""Use the wheel with several versions of Python and NumPy, each in a fresh environment.

    python ci/matrix.py                          # what is recorded as the matrix
    python ci/matrix.py --only 3.13 newest       # one cell of it
    python ci/matrix.py --tests tests/rules      # run tests in each cell, too

A Python that is not on this machine is skipped and recorded as missing. In each cell the wheel and
the sdist are built once, the wheel is installed, and `tapegrad doctor`, the demo and a program from
the README run outside of the source tree. The record is `ci/support.json`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "ci" / "support.json"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NUMPYS = ("oldest", "newest")

PROGRAM = """
import tapegrad as tf

w = tf.Variable([[0.1], [0.2]])
x = tf.constant([[3.0, 4.0]])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.tanh(x @ w) ** 2)
gradient = tape.gradient(loss, w).numpy()
assert abs(gradient[0, 0] - 1.7252417) < 1e-5, gradient
assert "site-packages" in tf.__file__, tf.__file__
"""


def oldest_numpy() -> str:
    """Return the oldest NumPy that pyproject.toml allows."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (requirement,) = tomllib.loads(text)["project"]["dependencies"]
    found = re.fullmatch(r"numpy>=([\d.]+)", requirement)
    assert found is not None, requirement
    return found[1]


def find_python(version: str) -> str | None:
    """Return an interpreter of a version, from the PATH or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python"))
    for candidate in (f"python{version}", *map(str, installed)):
        path = shutil.which(candidate)
        if path and _runs(path, version):
            return path
    return None


def _runs(path: str, version: str) -> bool:
    """Return whether a program is that Python; one on the PATH may stand for a missing one."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def build(folder: Path) -> Path:
    """Build the sdist, and the wheel from it; return the wheel."""
    python = folder / "build" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "build"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "build"], check=True)
    subprocess.run(
        [python, "-m", "build", "--outdir", folder / "dist", ROOT], check=True, capture_output=True
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def cell(
    python: str, numpy: str, wheel: Path, folder: Path, tests: Sequence[str]
) -> dict[str, Any]:
    """Install the wheel into a fresh environment and use it; return what was seen."""
    venv = folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([python, "-m", "venv", venv], check=True)
    ours = venv / "bin" / "python"
    wanted = [f"numpy=={oldest_numpy()}"] if numpy == "oldest" else ["numpy"]
    wanted += ["pytest", "hypothesis", "scipy", "ml-dtypes"] if tests else []
    subprocess.run([ours, "-m", "pip", "install", "--quiet", wheel, *wanted], check=True)
    commands: dict[str, list[str | Path]] = {
        "program": [ours, "-I", "-c", PROGRAM],
        "doctor": [venv / "bin" / "tapegrad", "doctor"],
        "demo": [venv / "bin" / "tapegrad", "demo", "--epochs", "2"],
    }
    results = {name: _passes(command, folder) for name, command in commands.items()}
    if tests:
        results["tests"] = _passes(
            [ours, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], ROOT
        )
    code = "import sys, numpy; print(sys.version.split()[0], numpy.__version__)"
    versions = subprocess.run([ours, "-c", code], capture_output=True, text=True, check=True)
    exact, version = versions.stdout.split()
    date = dt.datetime.now(dt.UTC).date().isoformat()
    return {"python": exact, "numpy": version, "date": date, "results": results}


def _passes(command: Sequence[str | Path], folder: Path) -> bool:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return done.returncode == 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs=2, metavar=("PYTHON", "NUMPY"), help="one cell")
    parser.add_argument("--tests", nargs="*", default=[], help="tests to run in each cell")
    options = parser.parse_args(argv)
    cells = [tuple(options.only)] if options.only else [(p, n) for p in PYTHONS for n in NUMPYS]
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        wheel = build(folder)
        for version, numpy in cells:
            python = find_python(version)
            found = None if python is None else cell(python, numpy, wheel, folder, options.tests)
            record.setdefault("matrix", {})[f"{version} {numpy}"] = found
            failed += found is not None and not all(found["results"].values())
            print(f"Python {version}, {numpy} NumPy: {found or 'this Python is not installed'}")
    now = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    text = json.dumps({**now, "matrix": record["matrix"]}, indent=1, sort_keys=True)
    RECORD.write_text(text + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
