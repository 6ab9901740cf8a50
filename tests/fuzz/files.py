"""Hostile files: every loader reads a damaged file, or refuses it in words and changes nothing.

python -m tests.fuzz.files --seconds 600 --seed 1
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.errors import TapegradError
from tests.fuzz.command import FaultError, main
from tests.fuzz.damage import damaged
from tests.fuzz.loaders import Loader, all_loaders

LIMIT_S = 10
MOST_BYTES = 1 << 30


@cache
def loaders() -> list[tuple[Loader, dict[str, bytes]]]:
    """Return the loaders with the valid files of each."""
    found = []
    for loader in all_loaders():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.write(Path(folder))
            loader.load(Path(folder))
            paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
            files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        found.append((loader, files))
    return found


def damaged_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage one file of a zip archive and pack it again, so that its checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[int(rng.integers(len(files)))]
    if rng.integers(6) == 0:
        del files[name]
    else:
        files[name] = damaged(files[name], rng)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for one, content in files.items():
            archive.writestr(one, content)
    return made.getvalue()


def damaged_files(files: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """Return the files with one of them damaged or missing."""
    name = sorted(files)[int(rng.integers(len(files)))]
    data = files[name]
    if rng.integers(20) == 0:
        return {key: value for key, value in files.items() if key != name}
    if data.startswith(b"PK\x03\x04") and rng.integers(2):
        return {**files, name: damaged_archive(data, rng)}
    return {**files, name: damaged(data, rng)}


class OutOfTimeError(BaseException):
    """A call took longer than the limit."""


def _stop(*_: Any) -> None:
    raise OutOfTimeError


def _outcome(loader: Loader, folder: Path) -> BaseException | None:
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            loader.load(folder)
    except (Exception, OutOfTimeError) as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def is_refusal(error: BaseException) -> bool:
    """Whether an error is one that a caller can expect of a file."""
    return isinstance(error, TapegradError | FileNotFoundError)


def check(seed: int) -> Counter[str]:
    """Damage the files of one loader and load them."""
    rng = np.random.default_rng(seed)
    loader, files = loaders()[seed % len(loaders())]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, data in damaged_files(files, rng).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        result = _in_child(loader, folder) if loader.may_crash else _loaded(loader, folder)
    if result.startswith("!"):
        raise FaultError(f"{loader.name}: {result[1:]}")
    return Counter({"files": 1, result: 1})


def _loaded(loader: Loader, folder: Path) -> str:
    """Return "loaded" or "refused", or a sentence about a fault after an exclamation mark."""
    before = loader.state() if loader.state else None
    error = _outcome(loader, folder)
    if error is None:
        return "loaded"
    if not is_refusal(error):
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "/tapegrad" in f.filename]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else "?"
        return f"!{type(error).__name__}: {str(error)[:200]} [{place}]"
    if loader.state and not _same(before, loader.state()):
        return f"!a load that failed changed values: {error}"
    return "refused"


def _in_child(loader: Loader, folder: Path) -> str:
    """Load in a process of its own: HDF5's library may crash or never return."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _loaded(loader, folder).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        is_ready = select.select([file], [], [], 2 * LIMIT_S)[0]
        if not is_ready:
            os.kill(child, signal.SIGKILL)
        text = file.read().decode()
    os.waitpid(child, 0)
    return text or "crashed in HDF5"


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
               for a, b in zip(one, other, strict=True))  # fmt: skip


def limit_memory() -> None:
    """Let a header that asks for too much memory fail instead of filling the machine."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))


if __name__ == "__main__":
    loaders()
    limit_memory()
    sys.exit(main(check, __doc__.partition("\n")[0]))
