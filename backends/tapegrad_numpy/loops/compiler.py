"""The system's C compiler: its path, its flags, and the key of its version for the cache."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

# Comparisons with NaN and infinity must be correct, so there is no -ffast-math. GCC's -O1 with
# vectorisation is sufficient for loops and takes half the time of -O3; Clang is fast. By default
# GCC's register allocator compares up to 500 values, which takes half of the compile time of
# expressions with dozens of exponentials. With 100 the code is as fast.
_LEVELS = {
    "gcc": ("-O1", "-ftree-vectorize", "--param=lra-max-considered-reload-pseudos=100"),
    "clang": ("-O2",),
}
_FLAGS = (
    "-std=gnu11", "-w", "-shared", "-fPIC", "-pthread", "-fopenmp-simd", "-fwrapv",
    "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-ffp-contract=off",
)  # fmt: skip
_PLAIN_FLAGS = ("-O2", "-std=gnu11", "-w", "-shared", "-fPIC", "-pthread", "-fwrapv")
_SECONDS = 120


class CompileError(Exception):
    """The compiler failed; the message is its output."""


class Compiler(NamedTuple):
    """A compiler with its flags and version, on which its results depend."""

    path: str
    flags: tuple[str, ...]
    identity: str


def find() -> Compiler | None:
    """Return the compiler that $CC names, or the system's; None if there is none."""
    named = os.environ.get("CC")
    search = os.environ.get("PATH", "")
    for name in (named,) if named else ("cc", "gcc", "clang"):
        path = shutil.which(name, path=search)
        if path is not None:
            return _described(path, os.environ.get("TAPEGRAD_CFLAGS", ""))
    return None


@functools.cache
def _described(path: str, further: str) -> Compiler:
    """Describe a compiler; `further` flags, separated by spaces, override the usual ones."""
    file = Path(path).resolve()
    status = file.stat()
    is_clang = "clang" in file.name or platform.system() == "Darwin"
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    flags = (*_LEVELS["clang" if is_clang else "gcc"], *_FLAGS, *further.split(), native)
    parts = (file, status.st_size, status.st_mtime_ns, flags, platform.machine(), _processor())
    return Compiler(path, flags, repr(parts))


def _processor() -> str:
    """An identifier of the processor, because code is compiled for this processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    words = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(words)}))


def compile_library(compiler: Compiler, source: str, target: Path) -> None:
    """Compile C source to a shared library."""
    refusal = ""
    # Retry with fewer flags if the compiler does not know one.
    for flags in (compiler.flags, compiler.flags[:-1], _PLAIN_FLAGS):
        command = [compiler.path, *flags, "-x", "c", "-", "-o", str(target), "-lm"]
        try:
            done = subprocess.run(
                command, input=source, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(str(error)) from error
        if done.returncode == 0:
            return
        refusal = refusal or done.stderr.strip()
    raise CompileError(refusal)
