"""NVIDIA's run-time compiler through its C interface, which needs neither a GPU nor a driver.

CuPy compiles for the installed device; here the architecture is a parameter.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

INSTALL = (
    "pip install 'cupy-cuda13x>=14' 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' "
    "'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-crt==13.0.*'"
)
"""Part of the extra `dev`, so that `pip install -e '.[dev]'` is enough."""

# What CuPy adds to the options of a kernel.
_CUPY_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")

_SPILLS = re.compile(
    r"Function properties for (\S+)\s+\S+\s+\.?\s*\d+ bytes stack frame, "
    r"(\d+) bytes spill stores, (\d+) bytes spill loads"
)


class MissingError(Exception):
    """The compiler or its headers are not installed; the message says how to get them."""


class Spill(NamedTuple):
    """A function whose variables do not fit into registers, and the bytes that go to memory."""

    function: str
    stored: int
    loaded: int


def spills_of(text: str, options: Sequence[str], architecture: int) -> list[Spill]:
    """Compile for an architecture such as 90; return what spills, or raise SyntaxError."""
    library, includes = _library()
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None))
    try:
        flags = [f"-arch=sm_{architecture}", "--ptxas-options=-v", *_CUPY_OPTIONS, *options]
        flags += [f"-I{folder}" for folder in includes]
        arguments = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
        status = library.nvrtcCompileProgram(program, len(flags), arguments)
        size = ctypes.c_size_t()
        _check(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        _check(library.nvrtcGetProgramLog(program, buffer))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    log = buffer.value.decode()
    if status:
        raise SyntaxError(log)
    return read_spills(log)


def read_spills(log: str) -> list[Spill]:
    """Return the functions that spill, as the assembler reports them; it must report some."""
    found = [Spill(name, int(stored), int(loaded)) for name, stored, loaded in _SPILLS.findall(log)]
    if not found:
        raise ValueError(f"The assembler's report has another form than expected:\n{log}")
    return [spill for spill in found if spill.stored or spill.loaded]


@functools.cache
def _library() -> tuple[Any, tuple[str, ...]]:
    """Return the compiler and the folders of its headers."""
    try:
        from cuda import pathfinder

        path = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
        folders = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    except (ImportError, RuntimeError) as error:
        raise MissingError(f"NVRTC is not installed. Run: {INSTALL}.") from error
    cupy = importlib.util.find_spec("cupy")
    if None in folders or cupy is None or cupy.origin is None:
        raise MissingError(f"The headers of CUDA and CuPy are not installed. Run: {INSTALL}.")
    folders.append(str(Path(cupy.origin).parent / "_core" / "include"))
    return ctypes.CDLL(path), tuple(map(str, folders))


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC returned status {status}.")
