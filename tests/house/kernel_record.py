"""Record of the CUDA sources that compiled without spills, so that tests compile what is new.

`compiled_kernels.json` holds a digest of each source with all that its machine code depends on:
options, architecture, the version of NVRTC, and of CuPy where the source includes its headers.
A change of any of these makes a source new. To renew the record, which compiles what it does not
hold yet, run `python -m tests.house.kernel_record` (`--most 600` stops after so many seconds and
keeps what it has).
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from zlib import crc32

from tapegrad.core.primitive.primitive import PRIMITIVES
from tests.house import nvrtc

RECORD = Path(__file__).with_name("compiled_kernels.json")

ARCHITECTURES = {80: 20, 90: 1, 100: 20}
"""For each architecture, how many sources there are to one that is compiled."""

_DIGITS = 16


def digest(text: str, options: Sequence[str], architecture: int) -> str:
    """Return what identifies the machine code of a source."""
    versions = _versions("nvidia-cuda-nvrtc")
    if "#include" in text:
        versions += _versions("cupy-cuda13x", "nvidia-cuda-cccl", "nvidia-cuda-runtime")
    content = "\0".join([*versions, str(architecture), *options, text])
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


@functools.cache
def _versions(*packages: str) -> tuple[str, ...]:
    try:
        return tuple(f"{name} {metadata.version(name)}" for name in packages)
    except metadata.PackageNotFoundError as error:
        raise nvrtc.MissingError(f"NVRTC is not installed. Run: {nvrtc.INSTALL}.") from error


def read(path: Path = RECORD) -> frozenset[str]:
    """Return the digests of the sources that compiled without spills."""
    return frozenset(json.loads(path.read_text(encoding="utf-8"))["digests"])


def write(digests: Iterable[str], path: Path = RECORD) -> None:
    note = "Written by python -m tests.house.kernel_record"
    content = {"note": note, "digests": sorted(digests)}
    path.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")


def thinned(sources: Sequence[Any], architecture: int) -> list[Any]:
    """Return the sources to compile for an architecture: a fixed part, but at least one.

    Each source is chosen by its own text: a change of one does not change the choice of others.
    """
    step = ARCHITECTURES[architecture]

    def number(source: Any) -> int:
        return crc32(f"{architecture} {source.text}".encode()) % step

    return [s for s in sources if number(s) == 0] or [min(sources, key=number)]


def sources_of(module: str) -> list[Any]:
    """Return the distinct sources that a module of the CUDA backend yields."""
    loaded = importlib.import_module(module)
    with _only_primitives(_primitives_of_a_new_process()):
        found = list(loaded.variants())
    return list({(source.text, source.options): source for source in found}.values())


# Elementwise kernels are made from all primitives there are: the samples load them.
_LOADED = ("tapegrad_cupy.kernel_sources", "tapegrad.testing.samples")


@functools.cache
def _primitives_of_a_new_process() -> tuple[str, ...]:
    """Return the names of the library's primitives, in an order that no other test changes.

    Tests declare more, and load modules in other orders. A source holds the kernels of forty
    primitives in their order, so that the record would know none of the sources after a new one.
    """
    for name in _LOADED:
        importlib.import_module(name)
    names = "from tapegrad.core.primitive.primitive import PRIMITIVES; print(*PRIMITIVES)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    command = [sys.executable, "-c", f"import {', '.join(_LOADED)}; {names}"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return tuple(done.stdout.split())


@contextmanager
def _only_primitives(names: Iterable[str]) -> Iterator[None]:
    everything = dict(PRIMITIVES)
    PRIMITIVES.clear()
    PRIMITIVES.update({name: everything[name] for name in names})
    try:
        yield
    finally:
        PRIMITIVES.clear()
        PRIMITIVES.update(everything)


def all_sources() -> Iterator[tuple[Any, int]]:
    """Yield each source that tests compile, with each architecture that they compile it for."""
    registry = importlib.import_module("tapegrad_cupy.kernel_sources")
    for module in registry.MODULES:
        sources = sources_of(module.__name__)
        for architecture in ARCHITECTURES:
            for source in thinned(sources, architecture):
                yield source, architecture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("-j", type=int, default=2, metavar="THREADS")
    arguments = parser.parse_args()
    wanted = {digest(s.text, s.options, number): (s, number) for s, number in all_sources()}
    known = read() & wanted.keys() if RECORD.exists() else frozenset[str]()
    deadline = time.monotonic() + arguments.most
    new = {key: case for key, case in wanted.items() if key not in known}
    with ThreadPoolExecutor(arguments.j) as pool:
        results = pool.map(lambda item: _is_sound(*item, deadline), new.items())
        write([*known, *[key for key, sound in zip(new, results) if sound]])


def _is_sound(key: str, case: tuple[Any, int], deadline: float) -> bool:
    source, architecture = case
    if time.monotonic() > deadline:
        return False
    try:
        return not nvrtc.spills_of(source.text, source.options, architecture)
    except SyntaxError:  # the tests say what is wrong with it
        return False


if __name__ == "__main__":
    main()
