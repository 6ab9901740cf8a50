"""Kernels are compiled by several threads, and the end of the process waits for the compiler."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.house import nvrtc
from tests.house.sources import ROOT

compilation = pytest.importorskip("tapegrad_cupy.launch.parallel_compilation")

_RUNTIME = SimpleNamespace(getDevice=lambda: 3, setDevice=lambda number: None)


class _Kernel:
    """A kernel that counts its compilations."""

    def __init__(self, fails: bool = False, barrier: threading.Barrier | None = None) -> None:
        self.fails, self.barrier = fails, barrier
        self.compiled: list[int] = []

    def is_compiled(self, device: int) -> bool:
        return device in self.compiled

    def prepare(self, device: int) -> None:
        if self.fails:
            raise ValueError("No code.")
        if self.barrier is not None:
            self.barrier.wait(timeout=30)
        self.compiled.append(device)


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(cuda=SimpleNamespace(runtime=_RUNTIME))
    monkeypatch.setattr(compilation, "cupy", module)
    monkeypatch.setattr(compilation.os, "cpu_count", lambda: 4)


def test_each_kernel_is_compiled_once() -> None:
    kernels = [_Kernel() for _ in range(40)]
    compilation.compile_kernels([*kernels, *kernels])
    compilation.compile_kernels(kernels)
    assert [kernel.compiled for kernel in kernels] == [[3]] * 40


def test_kernels_are_compiled_at_the_same_time() -> None:
    barrier = threading.Barrier(4)
    kernels = [_Kernel(), *[_Kernel(barrier=barrier) for _ in range(8)]]
    compilation.compile_kernels(kernels)
    assert all(kernel.compiled for kernel in kernels)


def test_the_first_kernel_is_compiled_alone() -> None:
    threads: list[Any] = []
    kernels = [_Kernel() for _ in range(3)]
    kernels[0].prepare = lambda device: threads.append(threading.active_count())  # type: ignore[method-assign]
    before = threading.active_count()
    compilation.compile_kernels(kernels)
    assert threads == [before]


def test_a_kernel_without_code_leaves_the_others_alone() -> None:
    kernels = [_Kernel(fails=k % 3 == 0) for k in range(12)]
    compilation.compile_kernels(kernels)
    assert [bool(kernel.compiled) for kernel in kernels] == [k % 3 != 0 for k in range(12)]


_SCRIPT = """
import threading
from types import SimpleNamespace
from tapegrad_cupy.launch import parallel_compilation as compilation
from tests.house import nvrtc

begun = []
several = threading.Event()
runtime = SimpleNamespace(getDevice=lambda: 0, setDevice=lambda number: None)
compilation.cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
compilation.os = SimpleNamespace(cpu_count=lambda: 4)

class Kernel:
    def is_compiled(self, device):
        return False

    def prepare(self, device):
        begun.append(self)
        if len(begun) == 6:
            several.set()
        text = "".join(
            f'extern "C" __global__ void k{k}(float* x) {{ x[threadIdx.x] = expf(x[{k}]); }}'
            for k in range(50)
        )
        nvrtc.spills_of(text, [], 90)

kernels = [Kernel() for _ in range(100)]
threading.Thread(target=compilation.compile_kernels, args=[kernels], daemon=True).start()
several.wait()
print("end")
"""


def test_a_process_ends_while_kernels_are_compiled() -> None:
    try:
        nvrtc.spills_of('extern "C" __global__ void k() {}', [], 90)
    except nvrtc.MissingError as error:
        pytest.skip(str(error))
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
