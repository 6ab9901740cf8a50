"""Machines without CUDA: no CuPy, or CuPy without a driver. Everything runs on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

NO_CUPY = "import sys; sys.modules['cupy'] = None\n"
NEEDS_CUPY = "Backend 'cupy' needs CuPy, which is not installed. In a checkout of "
NEEDS_DEVICE = "Backend 'cupy' needs a CUDA device and its driver. CuPy says: "

TRAIN = """
import tapegrad as tf
from tapegrad.core.values.device import list_devices
x = tf.Variable(3.0)
with tf.GradientTape() as tape:
    y = x * x
print(x.device, float(tape.gradient(y, x)), list_devices())
"""
ASK_FOR_CUDA = """
import tapegrad as tf
try:
    tf.device('cuda:0').__enter__()
except tf.errors.BackendUnavailableError as error:
    print(error)
"""
INFO = "from tapegrad.cli import main; main(['info'])"

# A CuPy that finds no driver, for systems that the real one has no wheels for.
DRIVERLESS = """
class _Runtime:
    def getDeviceCount(self):
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

class cuda:
    runtime = _Runtime()
"""


# A CuPy that creates its folder when it is imported, as the real one does.
WITH_FOLDER = """
import os
_default = os.path.expanduser('~/.cupy/kernel_cache')
os.makedirs(os.environ.get('CUPY_CACHE_DIR', _default), exist_ok=True)
"""
BROKEN = "raise OSError('a file of CuPy cannot be read')"


def run(code: str, *paths: Path, home: str | None = None) -> str:
    """Run `code` in a fresh process that sees no GPU, with `paths` before all others."""
    search = os.pathsep.join(map(str, [*paths, ROOT, ROOT / "backends"]))
    environment = {**os.environ, "PYTHONPATH": search, "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("TAPEGRAD_DEVICE", None)
    if home is not None:
        for name in ("CUPY_CACHE_DIR", "TAPEGRAD_CACHE", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        environment["HOME"] = home
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def driverless(tmp_path):
    (tmp_path / "cupy.py").write_text(DRIVERLESS)
    return tmp_path


def test_without_cupy_gradients_are_computed_on_the_cpu():
    assert run(NO_CUPY + TRAIN) == "cpu 6.0 ['cpu']\n"


def test_without_cupy_the_cuda_device_says_what_to_install():
    assert run(NO_CUPY + ASK_FOR_CUDA).startswith(NEEDS_CUPY)


def test_without_cupy_info_names_the_reason():
    assert f"backend cupy    unavailable: {NEEDS_CUPY}" in run(NO_CUPY + INFO)


def test_without_a_driver_gradients_are_computed_on_the_cpu(driverless):
    assert run(TRAIN, driverless) == "cpu 6.0 ['cpu']\n"


def test_without_a_driver_the_cuda_device_says_what_is_missing(driverless):
    printed = run(ASK_FOR_CUDA, driverless)

    assert printed.startswith(NEEDS_DEVICE + "cudaErrorInsufficientDriver: ")
    assert "Run nvidia-smi to see whether they are there, or use the device 'cpu'." in printed


def test_without_a_driver_info_names_the_reason(driverless):
    assert f"backend cupy    unavailable: {NEEDS_DEVICE}" in run(INFO, driverless)


@pytest.mark.parametrize("home", ["", "not/absolute", "/proc/nowhere"])
def test_without_a_usable_home_everything_works(tmp_path, home):
    (tmp_path / "cupy.py").write_text(WITH_FOLDER + DRIVERLESS)

    assert run(TRAIN, tmp_path, home=home) == "cpu 6.0 ['cpu']\n"
    assert run(ASK_FOR_CUDA, tmp_path, home=home).startswith(NEEDS_DEVICE)
    assert run(TRAIN, home=home) == "cpu 6.0 ['cpu']\n"  # with what is installed


def test_a_usable_home_is_used(tmp_path):
    (tmp_path / "cupy.py").write_text(WITH_FOLDER + DRIVERLESS)

    run(TRAIN, tmp_path, home=str(tmp_path / "home"))

    assert (tmp_path / "home" / ".cupy" / "kernel_cache").is_dir()


def test_whatever_a_broken_cupy_raises_is_explained(tmp_path):
    (tmp_path / "cupy.py").write_text(BROKEN)

    printed = run(ASK_FOR_CUDA, tmp_path)

    assert printed.startswith("Backend 'cupy' found CuPy, but cannot import it: a file of CuPy")


# What is installed, real CuPy or none, must do the same.


def test_what_is_installed_here_trains_on_the_cpu_when_no_gpu_is_seen():
    assert run(TRAIN) == "cpu 6.0 ['cpu']\n"


def test_what_is_installed_here_says_why_there_is_no_cuda_device():
    assert run(ASK_FOR_CUDA).startswith("Backend 'cupy' ")


def test_what_is_installed_here_says_so_in_info():
    printed = run(INFO)

    assert "backend cupy    unavailable: Backend 'cupy' " in printed
    assert "default device  cpu (CUDA is not used: the line of backend cupy says why)" in printed
