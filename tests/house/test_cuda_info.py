"""Information about CUDA devices and libraries, tested with made-up ones."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

import tapegrad_cupy
from tapegrad import cli
from tapegrad.core.values.device import backend_for, list_devices
from tapegrad.errors import BackendUnavailableError


def device(major: int, minor: int, name: str = "Tesla P100") -> dict[str, object]:
    return {"major": major, "minor": minor, "name": name.encode()}


@pytest.fixture
def libraries(monkeypatch):
    """The module that describes the libraries, on a CuPy without a driver."""
    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(runtimeGetVersion=lambda: 13010))
    products = ModuleType("tapegrad_cupy.kernels.products.products")
    cudnn = ModuleType("tapegrad_cupy.kernels.convolution.cudnn")
    handle = ModuleType("tapegrad_cupy.library_calls.cudnn_handle")
    replay = ModuleType("tapegrad_cupy.library_calls.replay_state")
    references = ModuleType("tapegrad_cupy.runtime.array_references")
    products.REASON = ""
    replay.replay_state = lambda: "used"
    references.why_not_counted = lambda: ""
    cudnn.status = lambda: "convolutions run on cuDNN 9.19"
    handle.library = lambda: (object(), "")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for module in (products, cudnn, handle, replay, references):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        package, _, name = module.__name__.rpartition(".")
        monkeypatch.setattr(importlib.import_module(package), name, module, raising=False)
    monkeypatch.delitem(sys.modules, "tapegrad_cupy.libraries", raising=False)
    yield importlib.import_module("tapegrad_cupy.libraries")
    sys.modules.pop("tapegrad_cupy.libraries", None)


def test_a_device_that_is_too_old_is_named():
    with pytest.raises(BackendUnavailableError) as caught:
        tapegrad_cupy.refuse_old([device(9, 0, "H200"), device(6, 0)])

    assert str(caught.value) == (
        "Backend 'cupy' needs devices of compute capability 7.0 or more. Device 1 is a Tesla P100 "
        "of 6.0; list the others in CUDA_VISIBLE_DEVICES, or use TAPEGRAD_DEVICE=cpu."
    )


def test_devices_from_volta_on_are_taken():
    tapegrad_cupy.refuse_old([device(7, 0), device(7, 5), device(9, 0), device(10, 0)])


def test_loading_refuses_an_old_device(monkeypatch):
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda number: device(5, 2)
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(tapegrad_cupy.importlib, "import_module", lambda name: cupy)

    with pytest.raises(BackendUnavailableError, match=r"Device 0 is a Tesla P100 of 5\.2"):
        tapegrad_cupy.load()


def test_every_library_has_one_line(libraries):
    rows = libraries.libraries()

    assert len(dict(rows)) == len(rows)
    assert dict(rows)["cuBLASLt"] == "used for matrix products"
    assert dict(rows)["cuDNN"] == "convolutions run on cuDNN 9.19"
    assert dict(rows)["library replay"] == "used"


@pytest.mark.parametrize(("cuda", "package"), [(12, "nvidia-cublas-cu12"), (13, "nvidia-cublas")])
def test_without_cublaslt_the_loss_and_the_remedy_are_named(libraries, cuda, package):
    state = libraries.cublaslt_state("cuBLASLt cannot be loaded: no such file", cuda)

    assert state == (
        "missing: cuBLASLt cannot be loaded: no such file. Matrix products go through CuPy "
        "instead, slower and not inside CUDA graphs. "
        f"Run: pip install cuda-pathfinder {package}"
    )


def test_without_cudnn_the_loss_and_the_remedy_are_named(libraries):
    state = libraries.cudnn_state("convolutions run on matrix products", "it is not installed", 13)

    assert state == (
        "convolutions run on matrix products. Convolutions would be faster with it. "
        "Run: pip install nvidia-cudnn-frontend nvidia-cudnn-cu13"
    )


def test_cudnn_that_was_turned_off_needs_no_remedy(libraries):
    reason = "the environment variable TAPEGRAD_CUDNN turns it off"

    assert libraries.cudnn_state("off", reason, 13) == "off"


def test_nvmath_is_mentioned_but_not_needed(libraries):
    assert libraries.nvmath_state(lambda name: None).startswith("not installed, and not needed")
    assert libraries.nvmath_state(lambda name: object()).startswith("installed, and not needed")


def test_info_prints_each_library_once_for_all_devices(capsys, monkeypatch):
    rows = [("cuBLASLt", "used for matrix products"), ("cuDNN", "missing: pip install it")]
    memory = SimpleNamespace(description="H200, 139.8 GiB", libraries=lambda: rows)
    backends = {
        "cuda:0": SimpleNamespace(memory=lambda name: memory),
        "cuda:1": SimpleNamespace(memory=lambda name: memory),
    }
    monkeypatch.setattr(cli, "list_devices", lambda: [*backends, *list_devices()])
    monkeypatch.setattr(cli, "backend_for", lambda name: backends.get(name) or backend_for(name))

    assert cli.main(["info"]) == 0

    printed = capsys.readouterr().out
    assert "cuda:0          H200, 139.8 GiB\ncuda:1          H200, 139.8 GiB\n" in printed
    assert printed.count("cuBLASLt        used for matrix products\n") == 1
    assert printed.count("cuDNN           missing: pip install it\n") == 1
