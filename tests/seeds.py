"""The number that rotates what a run of the tests chooses: a new one for each commit.

Tests with more cases than one run can afford take a part of them, chosen by this number. It comes
from the sources, so that two runs of one commit choose the same and end the same. Set TAPEGRAD_SEED
to repeat the choice of another run, also after a change, and TAPEGRAD_LONG=1 to take all cases.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")


def seed_of_sources(root: Path) -> int:
    """Return a number below a million from the contents of all Python files that tests run."""
    found = hashlib.sha256()
    for folder in ("tapegrad", "backends", "benchmarks", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return int(found.hexdigest(), 16) % 1_000_000


if "TAPEGRAD_SEED" not in os.environ:
    # The processes of pytest-xdist read it, so that they choose the same tests.
    os.environ["TAPEGRAD_SEED"] = str(seed_of_sources(Path(__file__).parents[1]))
SEED = int(os.environ["TAPEGRAD_SEED"])

LONG = os.environ.get("TAPEGRAD_LONG") == "1"

QUICK_FLAGS = "-Og"
"""Flags of the C compiler for the cases that are not chosen to be compiled as users do.

Programs take three fifths of the usual time, and less than with -O0, whose code is longer: long
formulas 120 ms in place of 270.
"""


def is_chosen(name: str, one_in: int, seed: int = SEED) -> bool:
    """Whether a case is among the one in so many that a run takes."""
    return one_in <= 1 or crc32(f"{seed} {name}".encode()) % one_in == 0


def chosen(cases: Iterable[T], one_in: int, name: Callable[[T], str] = repr) -> list[T]:
    """Return about one case in so many, by its name; all of them in a long run."""
    return [case for case in cases if LONG or is_chosen(name(case), one_in)]


def program_seeds(count: int, most: int, first: int = 0, seed: int = SEED) -> list[int]:
    """Return seeds of random programs: some from `first` on stay, others are new for each commit.

    A long run takes `most` of them. Tests with different `first` get different new seeds.
    """
    half = (most if LONG else count) // 2
    new = (seed % 10_000 + 1) * 100_000 + first
    return [*range(first, first + half), *range(new, new + half)]
