"""What the numbers were measured on."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass

import tapegrad
from tapegrad_bench.adapters import LIBRARIES, version_of
from tapegrad_bench.results import Machine


@dataclass(frozen=True)
class Gpu:
    """A CUDA device in words."""

    name: str
    driver: str
    cuda: str


def describe_machine(threads: int, gpu: Gpu | None) -> Machine:
    """Return what a reader of the numbers has to know.

    >>> describe_machine(1, None).threads
    1
    """
    return Machine(
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        threads=threads,
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        gpu=gpu.name if gpu else None,
        driver=gpu.driver if gpu else None,
        cuda=gpu.cuda if gpu else None,
    )


def describe_gpu() -> Gpu | None:
    """Return the CUDA device as CuPy sees it, or None without CuPy."""
    if importlib.util.find_spec("cupy") is None:
        return None
    cupy = importlib.import_module("cupy")
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return Gpu(name, _dotted(runtime.driverGetVersion()), _dotted(runtime.runtimeGetVersion()))


def _dotted(number: int) -> str:
    """13000 is CUDA's way to write 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def versions() -> dict[str, str]:
    """Return the version of Python and of every library that is installed.

    >>> sorted(versions())[:2] != []
    True
    """
    found = {"python": platform.python_version(), "tapegrad": tapegrad.__version__}
    for library in LIBRARIES:
        version = version_of(library)
        if version is not None and library != "tapegrad":
            found[library] = version
    return found


def _cpu_name() -> str:
    """The processor's name: what lscpu says, because Python only knows the family."""
    lscpu = shutil.which("lscpu")
    if lscpu is not None:
        printed = subprocess.run([lscpu], capture_output=True, text=True, check=False).stdout
        for line in printed.splitlines():
            if line.startswith("Model name:"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
