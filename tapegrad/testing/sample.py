"""Samples: calls of functions with the arguments on which every check runs.

Samples are data. One table of them (tapegrad/testing/samples/) drives all checks: forward against
a reference; VJP, JVP and second order against differences in float64; batching against a loop;
dtypes; other devices.
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
    """A function, makers for its array arguments, and its expected behaviour.

    `function` takes tensors in the order of `args` and returns a tensor or a tuple of tensors.
    `reference` does the same on NumPy arrays. None means that only the derivative is checked, which
    needs a reason in the table. Integer and boolean arguments are not differentiated. `order` is
    the highest derivative that exists at the sample's points. With `records=False`, the function
    reads values on the host, so that `tapegrad.function` runs it eagerly.
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


# Samples of values only: the function has no derivative there, or none that can be checked.
ValueSample = partial(Sample, differentiable=False)


def named(function: Function, args: Sequence[Maker], reference: Function, **options: Any) -> Sample:
    """Make a sample whose name is that of the function."""
    return Sample(function.__name__, function, args, reference, **options)


def alike(
    name: str,
    function: Function,
    args: Sequence[Maker],
    reference: Function,
    *more: Any,
    **options: Any,
) -> Sample:
    """Make a sample of a function that takes the same arguments as its reference."""
    return Sample(
        name,
        lambda *arrays: function(*arrays, *more, **options),
        args,
        lambda *arrays: reference(*arrays, *more, **options),
    )


def like_numpy(
    function: Function, args: Sequence[Maker], *more: Any, case: str = "", **options: Any
) -> Sample:
    """Make a sample of a function that has the same name and arguments in NumPy."""
    name = function.__name__
    label = f"{name}-{case}" if case else name
    return alike(label, function, args, getattr(np, name), *more, **options)


def alike_in_value(
    name: str, function: Function, args: Sequence[Maker], *more: Any, **options: Any
) -> Sample:
    """Make a sample like `alike`, of a function without a derivative."""
    return replace(alike(name, function, args, *more, **options), differentiable=False)


def of_either(name: str, function: Function, args: Sequence[Maker]) -> Sample:
    """Make a sample of an expression that works on tensors and on arrays, such as an index."""
    return Sample(name, function, args, function)


def of_a_list(
    name: str, function: Function, args: Sequence[Maker], reference: Function, *more: Any
) -> Sample:
    """Make a sample of a function of a list of arrays, such as `stack`."""
    return Sample(
        name,
        lambda *arrays: function(list(arrays), *more),
        args,
        lambda *arrays: reference(list(arrays), *more),
    )


def of_scipy(module: str, name: str, *before: Any, **options: Any) -> Function:
    """Return a SciPy function by name, imported at the call: only samples need SciPy."""

    def call(*args: Any) -> Any:
        function = getattr(importlib.import_module(f"scipy.{module}"), name)
        return function(*before, *args, **options)

    return call


def normal(*shape: int) -> Maker:
    """Standard normal numbers at least 0.05 away from 0, where functions may have kinks."""

    def make(rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=shape)
        return np.asarray(x + 0.05 * np.sign(x))

    return make


def uniform(low: float, high: float, *shape: int) -> Maker:
    """Uniform numbers between `low` and `high`."""
    return lambda rng: np.asarray(rng.uniform(low, high, size=shape))


def distinct(*shape: int) -> Maker:
    """Numbers at least 0.1 apart in random order, so that max and sort have no ties."""

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
    """Random booleans."""
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
