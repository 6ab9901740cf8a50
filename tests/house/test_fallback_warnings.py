"""Fallbacks that would hide a failure warn once: what failed, and what that means."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_cupy
from tapegrad.core.backend import registry
from tapegrad.core.trace.expression import UntraceableError, array_input, number_input, traced
from tapegrad.core.values import device
from tapegrad.core.warn_once import reset_warnings, warn_once
from tapegrad.errors import BackendBrokenError, BackendUnavailableError, MissingRuleError
from tests.house.sources import ROOT

SLOWER = "which gives the same results more slowly."


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset_warnings()
    yield
    reset_warnings()


@pytest.fixture
def given() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_message_is_given_once_whatever_the_cause(given):
    for cause in ("one", "another"):
        warn_once("It failed, so it is slow.", cause)

    assert [str(w.message) for w in given] == ["It failed, so it is slow. What went wrong: one"]


# Devices


def test_a_broken_backend_is_named_when_the_cpu_is_taken_instead(given, monkeypatch):
    def load(name: str) -> Any:
        if name == "cupy":
            raise BackendBrokenError("Backend 'cupy' found CuPy, but cannot import it: libcudart.")
        return registry.get_backend(name)

    monkeypatch.setattr(device, "get_backend", load)

    assert [device._best_device(), device._best_device()] == ["cpu", "cpu"]

    (warning,) = given
    assert str(warning.message) == (
        "CUDA is not used, so tensors are placed on the CPU. "
        "Backend 'cupy' found CuPy, but cannot import it: libcudart."
    )


def test_a_missing_backend_is_no_failure(given, monkeypatch):
    def load(name: str) -> Any:
        if name == "cupy":
            raise BackendUnavailableError("Backend 'cupy' needs CuPy, which is not installed.")
        return registry.get_backend(name)

    monkeypatch.setattr(device, "get_backend", load)

    assert device._best_device() == "cpu"
    assert given == []


def test_a_cupy_that_cannot_be_imported_warns_in_a_program(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('libnvrtc.so is lost')\n")
    search = os.pathsep.join(map(str, [tmp_path, ROOT, ROOT / "backends"]))
    environment = {**os.environ, "PYTHONPATH": search}
    environment.pop("TAPEGRAD_DEVICE", None)
    code = "import tapegrad as tf; print(tf.constant(1.0).device)"
    command = [sys.executable, "-c", code]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "cpu\n"
    assert done.stderr.count("cannot import it: libnvrtc.so is lost. Repair or remove it.") == 1


class CudaError(Exception):
    """What CuPy raises, with CUDA's number of the error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"error {status}")
        self.status = status


@pytest.mark.parametrize(
    ("error", "driver", "kind"),
    [
        (CudaError(35), 0, BackendUnavailableError),
        (CudaError(35), 12000, BackendBrokenError),
        (CudaError(100), 13000, BackendUnavailableError),
        (CudaError(803), 13000, BackendBrokenError),
        (ImportError("libcuda.so.1 is not there"), 0, BackendUnavailableError),
    ],
    ids=["no driver", "old driver", "no device", "driver mismatch", "no library"],
)
def test_a_driver_that_does_not_work_is_told_from_none(monkeypatch, error, driver, kind):
    def count() -> int:
        raise error

    runtime = SimpleNamespace(getDeviceCount=count, driverGetVersion=lambda: driver)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(tapegrad_cupy.importlib, "import_module", lambda name: cupy)

    with pytest.raises(BackendUnavailableError) as caught:
        tapegrad_cupy.load()

    assert type(caught.value) is kind


# Formulas


def test_a_rule_with_a_mistake_is_named_when_it_is_not_fused(given):
    def rule(x: Any) -> Any:
        return x.nonsense

    for _ in range(2):
        with pytest.raises(UntraceableError, match="AttributeError"):
            traced(rule, array_input(0, np.dtype(np.float32)))

    (warning,) = given
    assert f"rule could not be traced, so it is not fused with other operations, {SLOWER}" in str(
        warning.message
    )
    assert "What went wrong: AttributeError: 'Expression' object has no" in str(warning.message)


def missing(x: Any) -> Any:
    raise MissingRuleError("There is no such derivative.")


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x: x if x > 0 else -x, 1),
        (lambda x: x // x, 1),
        (missing, 1),
        # It is traced again with the number itself.
        (lambda x, number: x * number.bit_length(), 2),
    ],
    ids=["reads values", "operator", "no rule", "number"],
)
def test_what_cannot_be_a_formula_is_no_failure(given, function, operands):
    inputs = [array_input(0, np.dtype(np.float32)), number_input(1, int)]

    with pytest.raises(UntraceableError):
        traced(function, *inputs[:operands])

    assert given == []


def test_integer_division_in_a_function_is_no_failure(given):
    divide = tf.function(lambda x, y: tf.truncatediv(x, y) + 1)

    results = [divide(tf.constant([7, -7]), tf.constant([2, 2])).numpy() for _ in range(2)]

    np.testing.assert_array_equal(results, [[4, -2], [4, -2]])
    assert given == []


# CUDA, as far as it can be tested without a device


@pytest.fixture
def cudnn() -> Any:
    pytest.importorskip("cupy")
    return importlib.import_module("tapegrad_cupy.kernels.convolution.cudnn")


class NotSupportedError(Exception):
    """What cuDNN's package raises where it has no engine."""


def plan_that_raises(cudnn: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    def build(*arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(cudnn, "_build", build)
    package = SimpleNamespace(cudnnGraphNotSupportedError=NotSupportedError)
    conv = SimpleNamespace(dtype=np.dtype(np.float32))
    return cudnn._plan(package, "conv_filter_gradient", conv, False)


def test_a_failure_of_cudnn_is_named(cudnn, given, monkeypatch):
    for _ in range(2):
        error = RuntimeError("CUDNN_STATUS_INTERNAL_ERROR")
        assert plan_that_raises(cudnn, monkeypatch, error) is None

    assert [str(w.message) for w in given] == [
        (
            "cuDNN failed to plan conv_filter_gradient in float32, so it runs on matrix products, "
            f"{SLOWER} What went wrong: CUDNN_STATUS_INTERNAL_ERROR"
        )
    ]


@pytest.mark.parametrize(
    "error",
    [
        NotSupportedError(),
        RuntimeError("[cudnn_frontend] Error: No execution plans support the graph."),
        RuntimeError("No valid engine configs for ConvFwd_"),
    ],
)
def test_a_convolution_that_cudnn_does_not_have_is_no_failure(cudnn, given, monkeypatch, error):
    assert plan_that_raises(cudnn, monkeypatch, error) is None
    assert given == []


def try_to_capture(monkeypatch: pytest.MonkeyPatch, error: Exception, is_split: bool) -> Any:
    """Return the run of a program whose capture raises an error."""
    pytest.importorskip("cupy")
    capture = importlib.import_module("tapegrad_cupy.graphs.capture")

    def fail(*arguments: Any) -> Any:
        raise error

    pool = SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setattr(capture, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))
    monkeypatch.setattr(capture, "line_of", lambda error, run: 3 if is_split else None)
    run = capture.Captured(fail, [], [])
    monkeypatch.setattr(run, "_captured", fail)
    assert run._try_to_capture(SimpleNamespace(clear=lambda: None), [], []) is None
    return run


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError("8 GB"), "There is no memory for a CUDA graph: 8 GB"),
        (RuntimeError("capturing"), "It cannot be captured as a CUDA graph: capturing"),
    ],
)
def test_a_program_that_becomes_no_graph_is_named(given, monkeypatch, error, why):
    for _ in range(2):
        assert try_to_capture(monkeypatch, error, is_split=False).reason == why

    assert [str(w.message) for w in given] == [
        (
            "A recorded function could not become a CUDA graph, so it runs launch by launch, "
            f"{SLOWER} What went wrong: {why}"
        )
    ]


def test_a_program_that_is_split_is_no_failure(given, monkeypatch):
    run = try_to_capture(monkeypatch, RuntimeError("capturing"), is_split=True)

    assert run.refused_at == 3
    assert given == []
