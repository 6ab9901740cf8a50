"""SciPy's functions take tensors by the Array API, and what they compute is recorded.

SciPy reads its environment variable once, so the calls run in a process of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from scipy import special

import tapegrad

# What SciPy 1.17 computes in compiled code or hands to NumPy. Each tells so until a SciPy computes
# it by the Array API; none is wrong in silence.
ON_THE_HOST = {
    'vq.kmeans2(o, o[:3], minit="matrix")[0]',
    "fft.dct(v)",
    "integrate.simpson(v)",
    "linalg.inv(m)",
    "linalg.solve(m, q)",
    "signal.lfilter(q, q + 1, v)",
    "signal.medfilt(v, 3)",
    "signal.welch(v, nperseg=8)[1]",
    "distance.cdist(o, o)",
    "special.nctdtr(y, x, x)",
    "special.sph_harm_y(1, 1, x, y)",
    "stats.kendalltau(v, w).statistic",
    "stats.linregress(v, w).slope",
}


@pytest.fixture(scope="module")
def outcomes():
    run = subprocess.run(
        [sys.executable, "-m", "tests.numpy.scipy_calls"],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_values_and_gradients_are_right(outcomes):
    others = {call: text for call, text in outcomes.items() if call not in ON_THE_HOST}

    assert {call: text for call, text in others.items() if text != "right"} == {}
    assert len(others) >= 80


def test_what_leaves_the_tape_is_told(outcomes):
    for call in ON_THE_HOST:
        assert outcomes[call] == "right" or outcomes[call].startswith("told"), call


def test_plain_scipy_ufuncs_are_recorded():
    """Without the environment variable SciPy's ufuncs ask tensors, as NumPy's do."""
    x = tapegrad.constant([0.5, 1.5])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = special.gammaln(x)

    gradient = tape.gradient(y, x)
    assert abs(gradient.numpy() - special.digamma(x.numpy())).max() < 1e-5
