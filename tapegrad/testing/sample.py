"""A sample: one call of a function with the arguments on which every check runs.

Samples are data. One table of them (tapegrad/testing/samples/) drives all checks: forward
against a reference, VJP, JVP and second order against differences in float64, batching against a
loop, dtypes, other devices.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

Function = Callable[..., Any]
Maker = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Sample:
    """A function, makers for its array arguments, and what is expected of it.

    `function` takes tensors in the order of `args` and returns a tensor or a tuple of them.
    `reference` does the same on NumPy arrays (None: `function` is checked by its derivative
    only, which needs a reason in the table). Integer and boolean arguments are not
    differentiated. `order` is the highest derivative that exists at the sample's points. One that
    does not `record` reads values on the host, which a `function` refuses.
    """

    name: str
    function: Function
    args: Sequence[Maker]
    reference: Function | None = None
    order: int = 2
    batches: bool = True
    rtol: float = 1e-6
    differentiable: bool = True
    records: bool = True

    def make(self, seed: int = 0) -> list[np.ndarray]:
        """Return the arguments as NumPy arrays in double precision."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return [maker(rng) for maker in self.args]

    def __repr__(self) -> str:
        return self.name


# A sample of values alone: the function has no derivative there, or none that could be checked.
ValueSample = partial(Sample, differentiable=False)


def named(function: Function, args: Sequence[Maker], reference: Function, **options: Any) -> Sample:
    """Sample a function under its own name."""
    return Sample(function.__name__, function, args, reference, **options)


def alike(
    name: str,
    function: Function,
    args: Sequence[Maker],
    reference: Function,
    *more: Any,
    **options: Any,
) -> Sample:
    """Sample a function that is called as its reference: with the arrays, `more` and `options`."""
    return Sample(
        name,
        lambda *arrays: function(*arrays, *more, **options),
        args,
        lambda *arrays: reference(*arrays, *more, **options),
    )


def like_numpy(
    function: Function, args: Sequence[Maker], *more: Any, case: str = "", **options: Any
) -> Sample:
    """Sample likewise a function that has the name of its reference in NumPy, and this name."""
    name = function.__name__
    label = f"{name}-{case}" if case else name
    return alike(label, function, args, getattr(np, name), *more, **options)


def alike_in_value(
    name: str, function: Function, args: Sequence[Maker], *more: Any, **options: Any
) -> Sample:
    """Sample likewise a function that has no derivative there."""
    return replace(alike(name, function, args, *more, **options), differentiable=False)


def of_either(name: str, function: Function, args: Sequence[Maker]) -> Sample:
    """Sample what is written alike for tensors and for arrays, such as an index."""
    return Sample(name, function, args, function)


def of_a_list(
    name: str, function: Function, args: Sequence[Maker], reference: Function, *more: Any
) -> Sample:
    """Sample a function of a list of arrays, such as `stack`, that is called as its reference."""
    return Sample(
        name,
        lambda *arrays: function(list(arrays), *more),
        args,
        lambda *arrays: reference(list(arrays), *more),
    )


def of_scipy(module: str, name: str, *before: Any, **options: Any) -> Function:
    """Return a function of SciPy by name, imported when it is called: only samples need it."""

    def call(*args: Any) -> Any:
        function = getattr(importlib.import_module(f"scipy.{module}"), name)
        return function(*before, *args, **options)

    return call


def normal(*shape: int) -> Maker:
    """Standard normal numbers, kept away from 0 by 0.05 (kinks sit there)."""

    def make(rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=shape)
        return np.asarray(x + 0.05 * np.sign(x))

    return make


def uniform(low: float, high: float, *shape: int) -> Maker:
    """Uniform numbers between `low` and `high`."""
    return lambda rng: np.asarray(rng.uniform(low, high, size=shape))


def distinct(*shape: int) -> Maker:
    """Numbers at least 0.1 apart in random order: no ties for max, sort and the like."""

    def make(rng: np.random.Generator) -> np.ndarray:
        count = int(np.prod(shape))
        return np.asarray((rng.permutation(count) * 0.37 + 0.1 - 0.18 * count).reshape(shape))

    return make


def complex_normal(*shape: int) -> Maker:
    """Complex numbers with standard normal parts."""
    return lambda rng: np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))


def integers(low: int, high: int, *shape: int) -> Maker:
    """Integers in [low, high), for indices and labels."""
    return lambda rng: np.asarray(rng.integers(low, high, size=shape))


def booleans(*shape: int) -> Maker:
    """Random truth values."""
    return lambda rng: np.asarray(rng.integers(0, 2, size=shape).astype(bool))


def positive_definite(size: int, *batch: int) -> Maker:
    """Well-conditioned symmetric positive definite matrices."""

    def make(rng: np.random.Generator) -> np.ndarray:
        a = rng.normal(size=(*batch, size, size))
        return np.asarray(a @ np.swapaxes(a, -1, -2) + size * np.eye(size))

    return make


def fixed(values: Any) -> Maker:
    """Exactly these values."""
    return lambda rng: np.asarray(values)
