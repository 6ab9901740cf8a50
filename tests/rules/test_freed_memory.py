"""Steps of eager code on large arrays use the memory of the step before."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource
import numpy as np
import tapegrad as tf

x, y = (tf.constant(np.linspace(-2, 3, 1 << 18, dtype=np.float32)) for _ in range(2))

def step():
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        s = tf.sigmoid(x) * y
        t = tf.exp(-tf.square(s)) + tf.nn.relu(y - x)
        loss = tf.reduce_mean(t / (1.0 + tf.abs(x)))
    return tape.gradient(loss, [x, y])

def earlier(z):
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = z
        for _ in range(10):
            y = y * 1.001 + 0.01
        loss = tf.reduce_sum(y)
    return tape.gradient(loss, z)

for _ in range(4):
    earlier(x)  # leaves the heap in a state in which its end was given back
for _ in range(4):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries decide otherwise")
def test_steps_map_no_new_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS], capture_output=True, text=True, check=True, timeout=300
    )

    # One array has 256 pages.
    assert float(done.stdout) < 200
