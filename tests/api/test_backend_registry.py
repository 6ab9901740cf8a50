"""Backend lookup: the built-in table first, then installed plugins, else an error."""

from __future__ import annotations

import sys

import pytest

import tapegrad as tf
from tapegrad.core.backend import registry as backends
from tapegrad.core.backend.registry import backend_names, get_backend, unregister_backend
from tapegrad.core.values import device as devices
from tapegrad.errors import BackendUnavailableError
from tapegrad.testing.battery import check_memory
from tapegrad_numpy.backend import NumpyBackend

PLUGIN = """
import numpy as np
from tapegrad_numpy.backend import NumpyBackend

class Ndarray(np.ndarray):
    pass

class Abacus(NumpyBackend):
    name = "abacus"
    array_types = (Ndarray,)

    def devices(self):
        return ["abacus:0"]

    def device_of(self, array):
        return "abacus:0"

    def from_host(self, value, device):
        return np.array(value).view(Ndarray)

def load():
    return Abacus()
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed distribution that announces a backend by entry point."""
    (tmp_path / "abacus_plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "abacus_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tapegrad.backends]\nabacus = abacus_plugin:load\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    unregister_backend("abacus")


@pytest.mark.usefixtures("plugin")
def test_an_installed_plugin_is_found_by_its_entry_point():
    get_backend("numpy")  # loaded before: it must not claim the plugin's kind of ndarray
    assert "abacus" in backend_names()
    with tf.device("abacus:0"):
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x

        gradient = tape.gradient(y, x)

    assert (x.device, gradient.device) == ("abacus:0", "abacus:0")
    assert gradient.numpy().tolist() == [2.0, 4.0]


def test_without_the_plugin_its_name_is_unknown():
    assert "abacus" not in backend_names()
    with pytest.raises(ValueError, match=r"There is no backend 'abacus'\. Backends: numpy, "):
        get_backend("abacus")


def test_an_unknown_device_lists_those_that_exist():
    with pytest.raises(ValueError, match=r"no device 'tpu:0'.*Use one of: .*cpu"):
        devices.resolve_device("tpu:0")


def test_a_backend_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    unregister_backend("cupy")

    with pytest.raises(BackendUnavailableError, match=r"needs CuPy.*pip install '\.\[cuda13\]'"):
        get_backend("cupy")


@pytest.mark.parametrize("spelling", ["cpu", "CPU:0", "/CPU:0", "/device:CPU:0"])
def test_the_environment_chooses_the_default_device(monkeypatch, spelling):
    monkeypatch.setenv("TAPEGRAD_DEVICE", spelling)
    devices.reset_default_device()

    assert devices.default_device() == "cpu"


def test_an_environment_that_asks_for_no_device_is_told(monkeypatch):
    monkeypatch.setenv("TAPEGRAD_DEVICE", "abacus")
    devices.reset_default_device()

    with pytest.raises(ValueError, match="no device 'abacus'"):
        devices.default_device()


@pytest.fixture(autouse=True)
def fresh_default():
    yield
    devices.reset_default_device()


def test_known_devices_are_found_without_looking_through_installed_packages(monkeypatch):
    def refuse():
        raise AssertionError("installed packages are looked through")

    monkeypatch.setattr(backends, "_entry_points", refuse)

    with tf.device("cpu:0"):
        assert devices.current_device() == "cpu"


def test_the_battery_says_what_memory_must_return():
    class Forgetful(NumpyBackend):
        def memory(self, device):
            return None

    with pytest.raises(AssertionError, match=r"must return an object .*NoneType"):
        check_memory(Forgetful())
