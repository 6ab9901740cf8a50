"""Run code with real Keras on tapegrad in a process of its own, because Keras has one backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from tests.house.sources import ROOT

needs_keras = pytest.mark.skipif(
    find_spec("keras") is None, reason="Keras is not installed; ci/keras.sh installs it"
)
START = """
import json
import numpy as np
import tapegrad as tf
import keras_tapegrad
import keras
from keras import layers, ops

rng = np.random.default_rng(0)
x = rng.normal(size=(96, 6)).astype("float32")
y = x[:, :3].argmax(axis=1)


def model():
    keras.utils.set_random_seed(1)
    made = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"], run_eagerly=eager)
    return made


eager = False
"""


def run(code: str) -> Any:
    paths = [str(ROOT), str(ROOT / "backends")]
    environment = {**os.environ, "KERAS_BACKEND": "tapegrad", "TAPEGRAD_DEVICE": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [sys.executable, "-c", START + code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
