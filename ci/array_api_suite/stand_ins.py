"""Put functions of tapegrad.scipy in the place of SciPy's, in test modules that were imported.

A stand-in turns NumPy arrays among its arguments into tensors, and tensors in its result into NumPy
arrays, so the assertions of the tests stay as they are. A written argument, such as `output=` of
the filters, is copied back.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad
import tapegrad.numpy as tnp

PARTS = ("linalg", "ndimage", "stats", "special", "signal")
ARRAYS = (tapegrad.Tensor, tapegrad.Variable)


class Count:
    """The number of calls of stand-ins so far."""

    calls = 0


def to_tensors(value: Any, written: list[tuple[Any, Any]]) -> Any:
    """Return a value with tensors in place of NumPy arrays; `written` gets the pairs."""
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        try:
            tensor = tnp.array(value)
        except TypeError:  # a dtype that tensors do not have
            return value
        written.append((value, tensor))
        return tensor
    if type(value) in (list, tuple):
        return type(value)(to_tensors(part, written) for part in value)
    if type(value) is dict:
        return {name: to_tensors(part, written) for name, part in value.items()}
    return value


def to_numpy(value: Any) -> Any:
    """Return a result with NumPy arrays in place of tensors; no axes make a number."""
    if isinstance(value, ARRAYS):
        return np.array(value.numpy())[()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if type(value).__module__.startswith("tapegrad."):
            return Result(value)
        return type(value)(*map(to_numpy, value))
    if type(value) in (list, tuple):
        return type(value)(map(to_numpy, value))
    if type(value) is dict:
        return {name: to_numpy(part) for name, part in value.items()}
    if type(value).__module__.startswith("tapegrad.scipy") and not isinstance(value, type):
        return Object(value)
    return value


def stand_in(function: Callable[..., Any], named: Any) -> Callable[..., Any]:
    """Return the function on NumPy arrays, under the name of SciPy's."""

    def call(*positional: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        Count.calls += 1
        written: list[tuple[Any, Any]] = []
        arguments = [to_tensors(value, written) for value in positional]
        chosen = {name: to_tensors(value, written) for name, value in options.items()}
        result = function(*arguments, **chosen)
        for theirs, ours in written:
            if not np.array_equal(theirs, ours.numpy(), equal_nan=True):
                np.copyto(theirs, ours.numpy(), casting="unsafe")
        return (
            next((a for a, b in written if b is result), None)
            if written and any(b is result for _, b in written)
            else to_numpy(result)
        )

    return functools.wraps(named)(call) if callable(named) else call


class Object:
    """An object of tapegrad.scipy, such as a distribution, whose methods are stand-ins.

    `theirs` is SciPy's object. It draws the samples, which depend on the generator.
    """

    def __init__(self, inside: Any, theirs: Any = None) -> None:
        self.inside, self.theirs = inside, theirs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "rvs" and self.theirs is not None:
            return self.theirs.rvs
        found = getattr(self.inside, name)
        return stand_in(found, found) if callable(found) else to_numpy(found)

    def __call__(self, *positional: Any, **options: Any) -> Any:
        found = stand_in(self.inside, self.inside)(*positional, **options)
        if isinstance(found, Object) and self.theirs is not None:
            found.theirs = self.theirs(*positional, **options)
        return found


class Result(tuple[Any, ...]):
    """A named tuple of tapegrad.scipy with NumPy arrays; its methods are stand-ins."""

    inside: Any

    def __new__(cls, inside: Any) -> Result:
        """Make the tuple from the one of tensors."""
        made = super().__new__(cls, map(to_numpy, inside))
        made.inside = inside
        return made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inside, name)
        return stand_in(found, found) if callable(found) else to_numpy(found)


class Part(types.ModuleType):
    """A module of SciPy with stand-ins; all other names are SciPy's."""

    def __init__(self, theirs: types.ModuleType, names: dict[str, Any]) -> None:
        super().__init__(theirs.__name__)
        self.theirs = theirs
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.theirs, name)


def replacements() -> tuple[dict[int, Any], list[Any]]:
    """Return {id of SciPy's object: stand-in}, and the objects, which keep their ids so."""
    found: dict[int, Any] = {}
    held: list[Any] = []
    for part in PARTS:
        theirs = importlib.import_module(f"scipy.{part}")
        ours = importlib.import_module(f"tapegrad.scipy.{part}")
        names: dict[str, Any] = {}
        for name in ours.__all__:
            named, value = getattr(theirs, name, None), getattr(ours, name)
            if named is None:
                continue
            is_function = isinstance(value, types.FunctionType | type)
            names[name] = stand_in(value, named) if is_function else Object(value, named)
            found[id(named)] = names[name]
            held.append(named)
        found[id(theirs)] = Part(theirs, names)
        held.append(theirs)
    return found, held


def replace_in(namespace: Any, found: dict[int, Any], depth: int = 0) -> None:
    """Replace SciPy's objects among the attributes of a module or of a class of tests."""
    own = getattr(namespace, "__name__", None)
    for name, value in list(vars(namespace).items()):
        inner = value.__func__ if isinstance(value, staticmethod) else value
        if id(inner) in found:
            other = found[id(inner)]
            setattr(namespace, name, staticmethod(other) if inner is not value else other)
        elif isinstance(value, type) and value.__module__ == own and depth == 0:
            replace_in(value, found, 1)
