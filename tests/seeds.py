"""The number that rotates what a run of the tests chooses: a new one each day.

Tests with more cases than one run can afford take a part of them, chosen by this number. Set
TAPEGRAD_SEED to repeat the choice of another run, and TAPEGRAD_LONG=1 to take all cases.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

# Set in the environment too, so that the processes of pytest-xdist choose the same tests.
SEED = int(os.environ.setdefault("TAPEGRAD_SEED", str(dt.date.today().toordinal())))

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
    """Return seeds of random programs: from `first` on some that stay, and as many new each day.

    A long run takes `most` of them. Tests with different `first` get different new seeds.
    """
    half = (most if LONG else count) // 2
    new = (seed % 10_000 + 1) * 100_000 + first
    return [*range(first, first + half), *range(new, new + half)]
