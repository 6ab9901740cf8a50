"""The hooks "loop" and "loops": fused loops become functions on NumPy arrays, by C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tapegrad_numpy.loops.recycling import recycled


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


KERNELS: dict[str, Callable[..., Any]] = {"loop": make, "loops": make_all}
