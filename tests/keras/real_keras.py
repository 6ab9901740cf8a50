"""Run code with real Keras on tapegrad in a process apart, because Keras has one backend."""

from __future__ import annotations

import atexit
import functools
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


SERVE = """
import os, sys, tempfile, traceback


def carry_out(code):
    # Runs in a fork, whose output goes to files.
    status = 1
    try:
        exec(compile(code, "<string>", "exec"), globals())
        status = 0
    except SystemExit as error:
        status = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            carry_out(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        print(json.dumps([status, out.read(), err.read()]), flush=True)
"""


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start a process that imports Keras once, and then forks for each test."""
    paths = [str(ROOT), str(ROOT / "backends")]
    environment = {**os.environ, "KERAS_BACKEND": "tapegrad", "TAPEGRAD_DEVICE": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    process = subprocess.Popen(
        [sys.executable, "-c", START + SERVE],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)  # its input ends, and so does the process
    return process


def run(code: str) -> Any:
    """Run code after START in a new process; return the JSON of the last line that it prints."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(code) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, "the process with Keras has ended; its message is above"
    status, out, err = json.loads(answer)
    assert status == 0, err
    return json.loads(out.splitlines()[-1])
