"""From loops to compiled functions: written down, then found in the cache or compiled."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tapegrad.core.expression import UntraceableError
from tapegrad.core.loop import Loop
from tapegrad_numpy.loops import cache
from tapegrad_numpy.loops.binding import Run, bound
from tapegrad_numpy.loops.combining import write_combining
from tapegrad_numpy.loops.compiler import CompileError, Compiler, compile_library, find
from tapegrad_numpy.loops.runtime import runtime_text, structs_are_known
from tapegrad_numpy.loops.source import Kernel, write_plain
from tapegrad_numpy.loops.vector_maths import FUNCTIONS, functions_text

_WORTH_A_PROCESS = 6
"""How many loops to compile are worth one more process of the compiler."""


def make_all(loops: Sequence[Loop]) -> list[Run | None]:
    """Compile loops, those that are not known yet in one go; None for what C cannot do here."""
    if _compiler() is None:
        return [None] * len(loops)
    kernels = [_written(loop) for loop in loops]
    made: list[Run | None] = []
    for loop, kernel, address in zip(loops, kernels, addresses_of(kernels)):
        run = bound(loop, kernel, address) if kernel and address else None
        if run is not None and kernel is not None:
            run.__dict__["source"] = kernel.text  # for people who want to see it
        made.append(run)
    return made


def addresses_of(kernels: Sequence[Kernel | None]) -> list[int | None]:
    """Where the compiled functions of kernels are; None for those that there are none of."""
    compiler = _compiler()
    if compiler is None:
        return [None] * len(kernels)
    keys = [kernel and _key(compiler, kernel) for kernel in kernels]
    functions = _functions(compiler, {k: n for k, n in zip(keys, kernels) if k and n})
    return [functions.get(key) if key else None for key in keys]


def _compiler() -> Compiler | None:
    """The compiler, if what it makes can be called from this Python."""
    if sys.implementation.name != "cpython" or not structs_are_known():
        return None
    return find()


def _written(loop: Loop) -> Kernel | None:
    try:
        combines = any(output.combine for output in loop.outputs)
        return write_combining(loop) if combines else write_plain(loop)
    except UntraceableError:
        return None


def _key(compiler: Compiler, kernel: Kernel) -> str:
    text = compiler.identity + _shared_text() + kernel.text
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@functools.cache
def _shared_text() -> str:
    return runtime_text() + functions_text(FUNCTIONS)


# From text to functions


def _functions(compiler: Compiler, kernels: dict[str, Kernel]) -> dict[str, int]:
    """The addresses of compiled functions, from the folder or from the compiler."""
    found = {key: address for key in kernels if (address := _loaded(key))}
    missing = {key: kernel for key, kernel in kernels.items() if key not in found}
    if missing:
        _compile_together(compiler, missing)
        found |= {key: address for key in missing if (address := _loaded(key))}
    return found


def _loaded(key: str) -> int | None:
    path = cache.find(key)
    if path is None:
        return None
    try:
        return _address(path, f"loop_{key}")
    except (OSError, AttributeError):
        return None


@functools.cache
def _address(path: Path, name: str) -> int | None:
    library = ctypes.PyDLL(str(path))
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def _compile_together(compiler: Compiler, kernels: dict[str, Kernel]) -> None:
    """Compile in one go, or in a few side by side where there is much to do."""
    count = max(1, min(os.cpu_count() or 1, 4, len(kernels) // _WORTH_A_PROCESS))
    items = list(kernels.items())
    groups = [dict(items[start::count]) for start in range(count)]
    if count == 1:
        _compile(compiler, kernels)
        return
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(_compile, compiler, group) for group in groups]:
            done.result()


def _compile(compiler: Compiler, kernels: dict[str, Kernel]) -> None:
    """Compile all at once; if that fails, one by one, with a warning for those at fault."""
    target = cache.fresh_name()
    try:
        compile_library(compiler, _source(kernels), target)
        cache.keep(target, list(kernels))
    except (CompileError, OSError) as error:
        if len(kernels) > 1 and isinstance(error, CompileError):
            for key, kernel in kernels.items():
                _compile(compiler, {key: kernel})
            return
        warnings.warn(
            f"A fused loop could not be compiled by {compiler.path}, so its operations run one by "
            f"one, which gives the same results more slowly. What went wrong: {error}",
            stacklevel=2,
        )


def _source(kernels: dict[str, Kernel]) -> str:
    names = frozenset[str]().union(*(kernel.functions for kernel in kernels.values()))
    parts = [functions_text(names), runtime_text()]
    for key, kernel in kernels.items():
        text = kernel.text.replace("_KEY", f"_{key}")
        closes = f"close_{key}" if f"close_{key}(" in text else "0"
        parts.append(
            f"{text}\nvoid *loop_{key}(Array *self, Array **given, intptr_t count) {{\n"
            f"    return call(self, given, count, work_{key}, {closes});\n}}\n"
        )
    return "".join(parts)
