"""The system's C compiler: its path, its flags, and the key of its version for the cache."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tapegrad.core.warn_once import warn_once

# Comparisons with NaN and infinity must be correct, so there is no -ffast-math. GCC's -O1 with
# vectorisation is sufficient for loops and takes half the time of -O3; Clang is fast. By default
# GCC's register allocator compares up to 500 values, which takes half of the compile time of
# expressions with dozens of exponentials. With 100 the code is as fast. So it is if registers are
# allocated for a function at once instead of loop by loop, and, with vectors of 16 bytes, if the
# rest of a vectorised loop is not vectorised again with shorter vectors; both together save a third
# of the compile time. Vectors of x86-64 leave a rest of up to 7 elements, which takes longer than
# the vectors in rows of 20; vectorising it costs a tenth of the compile time.
_LEVELS = {
    "gcc": (
        "-O1",
        "-ftree-vectorize",
        "--param=lra-max-considered-reload-pseudos=100",
        "-fira-region=one",
    ),
    "clang": ("-O2",),
}
_SHORT_REST = ("--param=vect-epilogues-nomask=0",)
_FLAGS = (
    "-std=gnu11", "-w", "-shared", "-fPIC", "-pthread", "-fopenmp-simd", "-fwrapv",
    "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-ffp-contract=off",
)  # fmt: skip
# A linker reads thousands of names of the C library, which takes a quarter of the time of an
# average compilation. Most loops call nothing; with this option, the linker refuses those that do.
_ALONE = ("-nostdlib", "-Wl,-z,defs")
_PLAIN_FLAGS = ("-O2", "-std=gnu11", "-w", "-shared", "-fPIC", "-pthread", "-fwrapv")
_SECONDS = 120


class CompileError(Exception):
    """The compiler failed; the message is its output."""


class Compiler(NamedTuple):
    """A compiler with its flags and version, on which its results depend.

    The command is a path, and further words if $CC has them: `ccache gcc`, `gcc -m64`.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...]
    identity: str
    alone: tuple[str, ...] = ()
    """Further flags for text that calls no library; none if they are not known to save time."""


def find() -> Compiler | None:
    """Return the compiler that $CC names, or the system's; None if there is none."""
    named = os.environ.get("CC", "").strip()
    search = os.environ.get("PATH", "")
    further = os.environ.get("TAPEGRAD_CFLAGS", "")
    if named:
        return _named(named, search, further)
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name, path=search)
        if path is not None:
            return _described((path,), search, further)
    return None


def _named(text: str, search: str, further: str) -> Compiler | None:
    """Return the compiler of a command with arguments, or warn once that there is none."""
    whole = shutil.which(text, path=search)  # the path of a compiler may have spaces
    try:
        words = [text] if whole is not None else shlex.split(text)
        path = whole or shutil.which(words[0], path=search)
        if path is not None:
            return _described((path, *words[1:]), search, further)
        why: object = f"There is no program {words[0]!r}."
    except ValueError as error:  # a quotation mark without its partner
        why = error
    warn_once(
        f"The environment variable CC is {text!r}, which names no compiler, so loops are not "
        "fused, which gives the same results more slowly. Set it to a C compiler, or unset it.",
        why,
    )
    return None


@functools.cache
def _described(command: tuple[str, ...], search: str, further: str) -> Compiler:
    """Describe a compiler; `further` flags, separated by spaces, override the usual ones."""
    # The first word may be a launcher such as ccache, so the other programs count as well.
    programs = [shutil.which(word, path=search) for word in command if not word.startswith("-")]
    files = [Path(program).resolve() for program in programs if program is not None]
    versions = [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    is_clang = any("clang" in file.name for file in files) or platform.system() == "Darwin"
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    level = (*_LEVELS["clang" if is_clang else "gcc"], *(() if is_clang or is_x86 else _SHORT_REST))
    native = "-march=native" if is_x86 else "-mcpu=native"
    flags = (*level, *_FLAGS, *further.split(), native)
    parts = (versions, command[1:], flags, platform.machine(), _processor())
    # Clang turns loops into calls of memset() and memcpy(), so most of them need the library.
    alone = _ALONE if platform.system() == "Linux" and not is_clang else ()
    return Compiler(command, flags, repr(parts), alone)


def _processor() -> str:
    """An identifier of the processor, because code is compiled for this processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    words = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(words)}))


def compile_library(
    compiler: Compiler, source: str, target: Path, *, calls_nothing: bool = False
) -> None:
    """Compile C source to a shared library; `calls_nothing` of the C library, as far as is known.

    A compiler may insert calls, so text that cannot be linked alone is linked with the library.
    """
    refusal = ""
    # Retry with fewer flags if the compiler does not know one.
    attempts = [(flags, "-lm") for flags in (compiler.flags, compiler.flags[:-1], _PLAIN_FLAGS)]
    if calls_nothing and compiler.alone:
        attempts.insert(0, ((*compiler.flags, *compiler.alone), ""))
    for flags, library in attempts:
        command = [*compiler.command, *flags, "-x", "c", "-", "-o", str(target)]
        command += [library] if library else []
        try:
            done = subprocess.run(
                command, input=source, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(str(error)) from error
        if done.returncode == 0:
            return
        refusal = refusal or (done.stderr.strip() if library else "")
    raise CompileError(refusal)
