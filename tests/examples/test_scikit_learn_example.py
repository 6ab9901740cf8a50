"""The example with scikit-learn; SciPy reads an environment variable when it is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "scikit_learn.py"


def test_estimators_have_the_gradients_of_differences() -> None:
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLE), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    assert "logistic regression" in done.stdout
