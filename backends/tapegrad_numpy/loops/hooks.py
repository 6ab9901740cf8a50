"""The hooks "loop", "loops" and "fixed": C for fused loops, and for products of fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tapegrad_numpy.loops.recycling import recycled
from tapegrad_numpy.products import KERNELS as PRODUCTS


class _Maker:
    """Compiles loops, unknown ones in one go; None for those that C cannot do here."""

    dtypes = frozenset({
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64",
    })  # fmt: skip
    """What loops may read, compute and write."""

    recycled = staticmethod(recycled)
    """Where arrays for large results of programs come from."""

    def __call__(self, loops: Sequence[Any]) -> list[Callable[..., Any] | None]:
        # What writes and compiles C is loaded with the first loop: most programs have none.
        making = import_module("tapegrad_numpy.loops.making")
        made: list[Callable[..., Any] | None] = making.make_all(loops)
        return made


make_all = _Maker()


def make(loop: Any) -> Callable[..., Any] | None:
    """Compile one loop."""
    return make_all([loop])[0]


def matvecs(a: Any, *xs: Any, transpose: bool) -> list[Any]:
    """Return the products of a matrix (or its transpose) with several vectors."""
    return [np.matmul(x, a) if transpose else np.matmul(a, x) for x in xs]


class _Fixer:
    """Makes kernels of calls whose shapes are known, in one go; None where nothing is gained."""

    plain: Mapping[str, Callable[..., Any]] = {**PRODUCTS, "matvecs": matvecs}
    names = frozenset({"matmul", "matvec", "matvecs"})
    """The primitives that it may be asked for."""

    def __call__(self, requests: Sequence[Any]) -> list[Callable[..., Any] | None]:
        fixed = import_module("tapegrad_numpy.loops.fixed")
        made: list[Callable[..., Any] | None] = fixed.make_fixed(requests, self.plain)
        return made


KERNELS = {
    "loop": make,
    "loops": make_all,
    "fixed": _Fixer(),
    "matvecs": matvecs,
}
