"""The system's C compiler: where it is, how it is called, and what says that it is the same."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

# Comparisons with NaN and infinity have to be right, so there is no -ffast-math. The code of loops
# is simple enough for GCC's -O1 with vectors, which takes half the time of -O3; Clang is quick.
# GCC weighs up to 500 values against each other when registers run out, which took half the time of
# formulas with dozens of exponentials. With 100, code of 24 such calls runs as fast as before.
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
    """The compiler refused a source; the message is what it said."""


class Compiler(NamedTuple):
    """A compiler and what its results depend on beside the source."""

    path: str
    flags: tuple[str, ...]
    identity: str


def find() -> Compiler | None:
    """The compiler that $CC names, or the system's; None if there is none."""
    named = os.environ.get("CC")
    search = os.environ.get("PATH", "")
    for name in (named,) if named else ("cc", "gcc", "clang"):
        path = shutil.which(name, path=search)
        if path is not None:
            return _described(path)
    return None


@functools.cache
def _described(path: str) -> Compiler:
    file = Path(path).resolve()
    status = file.stat()
    is_clang = "clang" in file.name or platform.system() == "Darwin"
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    flags = (*_LEVELS["clang" if is_clang else "gcc"], *_FLAGS, native)
    parts = (file, status.st_size, status.st_mtime_ns, flags, platform.machine(), _processor())
    return Compiler(path, flags, repr(parts))


def _processor() -> str:
    """What tells processors apart, because the code is made for the one at hand."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    words = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(words)}))


def compile_library(compiler: Compiler, source: str, target: Path) -> None:
    """Compile C text to a shared library."""
    refusal = ""
    # Compilers that do not know a flag get fewer of them.
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
