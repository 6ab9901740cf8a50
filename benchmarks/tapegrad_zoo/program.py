"""What a program of the zoo is: its data, sizes, and one version per library.

A file of `programs/` defines `PROGRAM`, or `SPELLINGS`, a dictionary of programs with the same
mathematics in other words. Nothing here imports any of the libraries.

A version is a function `on_library(dims, half)` that imports the library and returns a function of
two dictionaries with arrays of that library: the parameters and a batch. That function returns

- the loss, a scalar, if the program trains or differentiates. The harness takes the gradients by
  all parameters, and makes an update if the program has an optimizer;
- a dictionary of results if the program is a step of its own (`Kind.STEP`), such as one with
  several losses, per-example gradients or products with a Hessian. New parameters are among them.

`half` casts an array to the precision of matrix products: bfloat16 where `dtypes` says so, and
otherwise the dtype that the array has.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo import programs

Array = Any
"""An array of some library."""
Arrays = dict[str, Array]
Values = dict[str, np.ndarray]
Dims = Mapping[str, int]
Half = Callable[[Array], Array]
Version = Callable[[Dims, Half], Callable[[Arrays, Arrays], Any]]

LIBRARIES = ("tapegrad", "jax", "torch")
SEED = 0
DRAWERS = 4
"""Threads that draw batches for a GPU."""


class Kind(StrEnum):
    """What one step of a program is."""

    TRAINING = "training"
    """A loss, its gradients by the parameters, and the optimizer's update."""
    GRADIENT = "gradient"
    """A loss and its gradients by the parameters."""
    STEP = "step"
    """Whatever the program itself returns."""


@dataclass(frozen=True)
class Optimizer:
    """An update rule: "sgd", "momentum" or "adam"."""

    name: str
    rate: float
    momentum: float = 0.9
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class Cost:
    """The bytes that one step has to move and the operations that it has to make, at least."""

    bytes: float
    operations: float


@dataclass(frozen=True)
class Program:
    """A program for all libraries.

    `make` draws the parameters and one batch in double precision, or as integers. `sizes` has the
    keys "check" (small enough for a second in double precision), "cpu" and "cuda". `dtypes` has the
    precision of arrays on "cpu" and "cuda": float32, float64, or bfloat16 for float32 parameters
    whose products `half` casts.
    """

    summary: str
    kind: Kind
    make: Callable[[np.random.Generator, Dims], tuple[Values, Values]]
    on_tapegrad: Version
    on_jax: Version
    on_torch: Version
    sizes: Mapping[str, Dims]
    cost: Callable[[Dims], Cost]
    optimizer: Optimizer | None = None
    dtypes: Mapping[str, str] = field(default_factory=lambda: {"cpu": "float32", "cuda": "float32"})
    tolerance: float = 1e-7
    """The relative difference of results that is allowed in double precision."""

    def __post_init__(self) -> None:
        if (self.optimizer is not None) != (self.kind is Kind.TRAINING):
            raise ValueError("A program that trains has an optimizer, and no other has one.")
        if set(self.sizes) != {"check", "cpu", "cuda"}:
            raise ValueError(f"sizes must be check, cpu and cuda. Got {sorted(self.sizes)}.")

    def version(self, library: str) -> Version:
        """Return the version of a library."""
        found: Version = getattr(self, f"on_{library}")
        return found

    def draw(self, size: str, batches: int = 1) -> tuple[Values, list[Values]]:
        """Return the parameters and some batches, which differ from each other."""
        dims = self.sizes[size]
        # Large draws take seconds. On the CPU one thread makes them, whose memory is measured.
        with ThreadPoolExecutor(DRAWERS if size == "cuda" else 1) as pool:
            drawn = pool.map(partial(self._draw, dims), range(batches))
            params, batch = next(drawn)
            return params, [batch, *[other for _, other in drawn]]

    def _draw(self, dims: Dims, place: int) -> tuple[Values, Values]:
        params, batch = self.make(np.random.default_rng(SEED + place), dims)
        return (params if place == 0 else {}), batch


@dataclass(frozen=True)
class Entry:
    """A program with its place in the zoo; `spelling` is "" unless its file has several."""

    module: str
    spelling: str
    program: Program

    @property
    def name(self) -> str:
        file = self.module.rpartition(".")[2]
        return f"{file}_{self.spelling}" if self.spelling else file

    @property
    def family(self) -> str:
        return self.module.split(".")[-2]

    @property
    def is_on_workbench(self) -> bool:
        """Whether the program may be looked at while the library is made faster.

        The name of the file alone decides, before anything is timed. The others are the
        examination.
        """
        file = self.module.rpartition(".")[2]
        return hashlib.sha256(file.encode()).digest()[0] % 2 == 0


def entries(wanted: str | None = None) -> Iterator[Entry]:
    """Yield all programs, ordered by family and name, or those that `wanted` may name.

    >>> [entry.name for entry in entries("vae")]
    ['vae']
    """
    found = pkgutil.walk_packages(programs.__path__, f"{programs.__name__}.")
    for name in sorted(info.name for info in found if not info.ispkg):
        file = name.rpartition(".")[2]
        if wanted is not None and wanted != file and not wanted.startswith(f"{file}_"):
            continue  # a process that needs one program imports no others
        module = importlib.import_module(name)
        if hasattr(module, "PROGRAM"):
            yield Entry(name, "", module.PROGRAM)
        for spelling, program in getattr(module, "SPELLINGS", {}).items():
            yield Entry(name, spelling, program)
