"""The kernels of the NumPy backend, with those that run large arrays through compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_numpy.eager.families import CONVOLUTIONS, OF_MANY, OF_ONE, ROWS
from tapegrad_numpy.eager.sizes import LARGE, LARGE_FOR_MANY, MANY_PASSES
from tapegrad_numpy.switches import EAGER_LOOPS

Kernel = Callable[..., Any]

_MOVES = frozenset({
    *("complex", "conj", "identity", "imag", "keep", "linear_index", "live_with", "positive"),
    *("cast", "cast_to_integer", "real", "stop_gradient"),
})  # fmt: skip
"""Elementwise primitives that are no arithmetic, or have a kernel that reads the data once."""

_ndarray = np.ndarray


class EagerKernels(Mapping[str, Kernel]):
    """Kernels by name; elementwise ones have a compiled form for large arrays."""

    def __init__(self, plain: Mapping[str, Kernel]) -> None:
        self.plain = plain

    def __getitem__(self, name: str) -> Kernel:
        primitive = PRIMITIVES.get(name)
        if primitive is None or name in _MOVES or not EAGER_LOOPS:
            return self.plain[name]
        if name in CONVOLUTIONS:
            return of_convolution(name, self.plain[name])
        if name in OF_ONE:
            return of_one(name, self.plain[name])
        if name in OF_MANY:
            return of_many(name, self.plain[name])
        if not (primitive.broadcasts or primitive.by_element or name in ROWS):
            return self.plain[name]
        kernel = self.plain.get(name) or primitive.generic_kernel(np)
        if name in MANY_PASSES:
            return of_many(name, kernel, LARGE_FOR_MANY)
        rules = primitive.vjp_rules or () if primitive.broadcasts else ()
        if len(rules) not in (1, 2):
            return of_many(name, kernel)
        return of_one(name, kernel) if len(rules) == 1 else of_two(name, kernel)

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)


class _Compiled:
    """The compiled form of a kernel."""

    __slots__ = ("_form", "_name", "_plain")

    def __init__(self, name: str, plain: Kernel) -> None:
        self._name, self._plain = name, plain
        self._form: Kernel | None = None

    def __call__(self, *operands: Any, **params: Any) -> Any:
        if self._form is None:
            # Imported with the first large array, because the C generator takes a while to import.
            from tapegrad_numpy.eager.compiled import compiled_form

            self._form = compiled_form(self._name, self._plain)
        return self._form(*operands, **params)


# Spelled out per number of operands, because a small array takes less than a microsecond.


def of_one(name: str, plain: Kernel) -> Kernel:
    """Return the kernel of one operand."""
    compiled = _Compiled(name, plain)

    def kernel(x: Any, **params: Any) -> Any:
        if type(x) is _ndarray and x.size >= LARGE:
            return compiled(x, **params)
        return plain(x, **params) if params else plain(x)  # the usual case takes less time

    return kernel


def of_two(name: str, plain: Kernel) -> Kernel:
    """Return the kernel of two operands, of which one may be a number of Python."""
    compiled = _Compiled(name, plain)

    def kernel(x: Any, y: Any, **params: Any) -> Any:
        if (type(x) is _ndarray and x.size >= LARGE) or (type(y) is _ndarray and y.size >= LARGE):
            return compiled(x, y, **params)
        return plain(x, y, **params) if params else plain(x, y)

    return kernel


def of_many(name: str, plain: Kernel, least: int | None = None) -> Kernel:
    """Return the kernel of any operands, which are large from so many elements."""
    compiled = _Compiled(name, plain)

    def kernel(*operands: Any, **params: Any) -> Any:
        large = LARGE if least is None else min(LARGE, least)
        for operand in operands:
            if type(operand) is _ndarray and operand.size >= large:
                return compiled(*operands, **params)
        return plain(*operands, **params)

    return kernel


def of_convolution(name: str, plain: Kernel) -> Kernel:
    """Return the kernel of a convolution."""
    compiled = _Compiled(name, plain)

    def kernel(x: Any, y: Any, **params: Any) -> Any:
        if x.size >= LARGE or y.size >= LARGE:
            return compiled(x, y, **params)
        return plain(x, y, **params)

    return kernel
