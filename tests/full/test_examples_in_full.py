"""The examples in full, on a GPU: each reaches what its docstring states. CI runs them in short."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = "import {0}, json; print(); print(json.dumps({0}.main(), default=float))"


def run(name: str) -> dict[str, float]:
    """Run an example in a process of its own; return its results."""
    ended = start("-c", RUN.format(name))
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=EXAMPLES,
        env={**os.environ, "TAPEGRAD_DEVICE": "cuda"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended


def test_digits():
    found = re.search(r"held-out accuracy ([\d.]+)%", start("digits.py").stdout)

    assert found is not None
    assert float(found[1]) > 97.5


def test_convnet():
    results = run("convnet")

    assert results["accuracy"] > 0.94
    assert results["linear_accuracy"] == pytest.approx(0.227, abs=0.01)


def test_gpt():
    assert run("gpt")["loss"] == pytest.approx(1.82, abs=0.02)


def test_vae():
    results = run("vae")

    assert results["bound"] == pytest.approx(-17.8, abs=0.2)
    assert results["wrong_pixels"] < 0.05


def test_gan():
    results = run("gan")

    assert results["modes_covered"] == 8
    assert results["good_points"] > 0.75  # which roundings decide, see its docstring


def test_meta_learning():
    results = run("meta_learning")

    # Means and three standard deviations of runs whose first weights differ in the last bit.
    assert results["meta_1"] < 0.46
    assert results["meta_5"] < 0.36
    assert results["ordinary_1"] == pytest.approx(2.03, abs=0.1)
    assert results["ordinary_5"] == pytest.approx(1.56, abs=0.1)


def test_per_example_gradients():
    results = run("per_example_gradients")

    assert max(results["vectorized_map_error"], results["jacobian_error"]) < 1e-6
    assert results["private_accuracy"] == pytest.approx(0.941, abs=0.015)
    assert results["no_noise_accuracy"] == pytest.approx(0.949, abs=0.015)


def test_physics_informed():
    results = run("physics_informed")

    assert results["error at the start"] == pytest.approx(0.70, abs=0.01)
    assert results["relative error"] < 0.001


def test_gaussian_process():
    results = run("gaussian_process")

    assert results["length scale"] == pytest.approx(0.483, abs=0.001)
    assert results["amplitude"] == pytest.approx(1.409, abs=0.001)
    assert results["noise"] == pytest.approx(0.188, abs=0.001)
    assert results["error"] == pytest.approx(0.046, abs=0.001)


def test_neural_ode():
    results = run("neural_ode")

    assert results["error at the start"] == pytest.approx(2.28, abs=0.01)
    assert results["error"] < 0.02


def test_cart_pole():
    results = run("cart_pole")

    assert results["first episodes"] == pytest.approx(18, abs=1)
    assert results["last episodes"] > 420
