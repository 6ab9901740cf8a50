"""Compile loops: generate C, then load functions from the cache or run the compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.background import outside_python, with_checkpoints
from tapegrad.core.call_site import warn_outside
from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import Loop
from tapegrad.core.warn_once import warn_once
from tapegrad_numpy.loops import ctypes_calls, direct_calls
from tapegrad_numpy.loops.binding import Run, bound
from tapegrad_numpy.loops.cache import CACHE
from tapegrad_numpy.loops.combining import write_combining
from tapegrad_numpy.loops.compiler import CompileError, Compiler, compile_library, find
from tapegrad_numpy.loops.folding import folded
from tapegrad_numpy.loops.freed_memory import keep_freed_memory
from tapegrad_numpy.loops.libraries import Address, load, parts_of_loop
from tapegrad_numpy.loops.lone_functions import EntryPoint
from tapegrad_numpy.loops.runtime import PARTIAL_RESULTS, runtime_text
from tapegrad_numpy.loops.short_columns import write_short_columns
from tapegrad_numpy.loops.small_results import TEXT as SMALL_RESULTS, flushes, flushing
from tapegrad_numpy.loops.source import Kernel, write_plain
from tapegrad_numpy.loops.stages import with_short_rows, write_stages
from tapegrad_numpy.loops.tiles import TYPES, transposing_text
from tapegrad_numpy.loops.unrolled_columns import write_unrolled_columns
from tapegrad_numpy.loops.vector_maths import FUNCTIONS, calls_library, functions_text

_OF_FEW_COLUMNS = (write_short_columns, write_unrolled_columns)
_WORTH_A_PROCESS = 3
"""The least number of loops per compiler process: most take longer than its start."""


def make_all(loops: Sequence[Loop], *, is_program: bool = False) -> list[Run | None]:
    """Compile loops, new ones together; return None for loops that cannot be compiled."""
    keep_freed_memory()
    if find() is None:
        return [None] * len(loops)
    kernels = [_written(loop, is_program) for loop in with_checkpoints(loops, every=1)]
    made: list[Run | None] = []
    for loop, kernel, address in zip(loops, kernels, addresses_of(kernels)):
        run = bound(loop, kernel, address) if kernel and address else None
        if run is not None and kernel is not None:
            run.__dict__["source"] = kernel.text  # for inspection
        made.append(run)
    return made


def addresses_of(kernels: Sequence[Kernel | None]) -> list[Address | None]:
    """Return the addresses of the compiled functions, None for kernels that have none."""
    compiler = find()
    if compiler is None:
        return [None] * len(kernels)
    keys = [kernel and _key(compiler, kernel) for kernel in kernels]
    functions = _functions(compiler, {k: n for k, n in zip(keys, kernels) if k and n})
    if not direct_calls.are_used() and ctypes_calls.ENTRY.address() is None:
        return [None] * len(kernels)
    return [functions.get(key) if key else None for key in keys]


def _written(loop: Loop, is_program: bool = False) -> Kernel | None:
    loop = folded(loop)
    combines = any(output.combine for output in loop.outputs)
    write = write_stages if loop.stages else write_combining if combines else write_plain
    forms = () if loop.stages else (with_short_rows,) if combines else _OF_FEW_COLUMNS
    try:
        kernel = next((made for form in forms if (made := form(loop))), None) or write(loop)
        return kernel._replace(flushes=flushes(loop, is_program))
    except UntraceableError:
        return None


def _key(compiler: Compiler, kernel: Kernel) -> str:
    digest = _digest_of_shared_text(compiler.identity).copy()
    digest.update(f"{int(kernel.flushes)}{kernel.text}".encode())
    return str(digest.hexdigest())[:32]


@functools.cache
def _digest_of_shared_text(identity: str) -> Any:
    # The text is some hundred times as long as that of a loop.
    return hashlib.sha256((identity + _shared_text()).encode())


@functools.cache
def _shared_text() -> str:
    shared = PARTIAL_RESULTS + _parts_text("name", "work", "close") + SMALL_RESULTS
    shared += "".join(flushing("name"))
    shared += transposing_text(f"transposed_{kind}(" for kind in TYPES)
    return shared + functions_text(FUNCTIONS)


def _parts_text(key: str, work: str, close: str) -> str:
    return f"void *loop_{key}[] = {{{work}, {close}}};\n"


# From text to functions


def _functions(compiler: Compiler, kernels: dict[str, Kernel]) -> dict[str, Address]:
    """The addresses of compiled functions, from the cache or the compiler."""
    found = {key: address for key in kernels if (address := _loaded(key))}
    missing = {key: kernel for key, kernel in kernels.items() if key not in found}
    if missing:
        with outside_python():  # after the sources are written, which takes turns
            _compile_together(compiler, missing)
        found |= {key: address for key in missing if (address := _loaded(key))}
        if any(key not in found and CACHE.find(key) for key in missing):
            warn_once(
                f"Compiled loops in {str(CACHE.folder())!r} cannot be loaded, so operations run "
                "one by one, which gives the same results more slowly. Set TAPEGRAD_CACHE to a "
                "folder on a file system from which programs may run."
            )
    return found


def _loaded(key: str) -> Address | None:
    path = CACHE.find(key)
    if path is None:
        return None
    try:
        return parts_of_loop(load(path), f"loop_{key}")
    except (OSError, ValueError):
        return None


class LibraryFunction(EntryPoint):
    """A function of a separate library, whose source follows that of direct calls."""

    def __init__(self, source: Callable[[], str], name: str) -> None:
        super().__init__(lambda: runtime_text() + direct_calls.call_text() + source(), name)

    def address(self) -> Address | None:
        """Return the function, None if loops are not called directly or it cannot be compiled."""
        return super().address() if direct_calls.are_used() else None


def _compile_together(compiler: Compiler, kernels: dict[str, Kernel]) -> None:
    """Compile kernels in one compiler process, or in a few parallel ones if there are many."""
    count = max(1, min(os.cpu_count() or 1, 4, len(kernels) // _WORTH_A_PROCESS))
    if count == 1:
        _compile(compiler, kernels)
        return
    groups = _equal_shares(kernels, count)
    errors: list[BaseException] = []

    def compile_group(group: dict[str, Kernel]) -> None:
        try:
            _compile(compiler, group)
        except BaseException as error:
            errors.append(error)

    # The threads of an executor would keep the interpreter from ending until they are done.
    threads = [threading.Thread(target=compile_group, args=[g], daemon=True) for g in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _equal_shares(kernels: dict[str, Kernel], count: int) -> list[dict[str, Kernel]]:
    """Divide kernels into groups of about as much text, the longest first."""
    groups: list[dict[str, Kernel]] = [{} for _ in range(count)]
    sizes = [0] * count
    for key, kernel in sorted(kernels.items(), key=lambda item: -len(item[1].text)):
        least = sizes.index(min(sizes))
        groups[least][key] = kernel
        sizes[least] += len(kernel.text)
    return groups


def _compile(compiler: Compiler, kernels: dict[str, Kernel]) -> None:
    """Compile kernels together; if that fails, one by one, and warn about those that fail."""
    try:
        with CACHE.scratch() as folder:
            library, calls = folder / "loops.so", calls_library(_functions_of(kernels))
            compile_library(compiler, _source(kernels), library, calls_nothing=not calls)
            CACHE.keep(library.read_bytes(), list(kernels))
    except (CompileError, OSError) as error:
        if len(kernels) > 1 and isinstance(error, CompileError):
            for key, kernel in kernels.items():
                _compile(compiler, {key: kernel})
            return
        warn_outside(
            f"A fused loop could not be compiled by {shlex.join(compiler.command)}, so its "
            "operations run one by one, which gives the same results more slowly. What went "
            f"wrong: {error}",
        )


def _functions_of(kernels: dict[str, Kernel]) -> frozenset[str]:
    return frozenset[str]().union(*(kernel.functions for kernel in kernels.values()))


def _source(kernels: dict[str, Kernel]) -> str:
    parts = [functions_text(_functions_of(kernels)), PARTIAL_RESULTS, SMALL_RESULTS]
    parts.append(transposing_text([kernel.text for kernel in kernels.values()]))
    for key, kernel in kernels.items():
        text = kernel.text.replace("_KEY", f"_{key}")
        closes = f"close_{key}" if f"close_{key}(" in text else "0"
        around, work = flushing(key) if kernel.flushes else ("", f"work_{key}")
        parts += [around, text, "\n", _parts_text(key, work, closes)]
    return "".join(parts)
