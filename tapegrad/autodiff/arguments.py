"""Argument checks of the tape's methods, and warnings that do not repeat."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tapegrad.autodiff import batching
from tapegrad.core.argument_checks import described
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.call_site import warn_outside
from tapegrad.core.exits import CutLog
from tapegrad.core.values import nest
from tapegrad.core.values.convert import adapter_of, to_tensor
from tapegrad.core.values.shared import copy_of
from tapegrad.core.values.tensor import SharedTensor, Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast

_VALUES = (Tensor, Variable, batching.Batched)
_warned: set[str] = set()
_few_times = [5]


class UnconnectedGradients(enum.Enum):
    """What `gradient` returns for a source that the target does not depend on.

    >>> import tapegrad
    >>> x, y = tapegrad.Variable(1.0), tapegrad.Variable(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     z = x * x
    >>> float(tape.gradient(z, y, unconnected_gradients=UnconnectedGradients.ZERO))
    0.0
    """

    NONE = "none"
    ZERO = "zero"


def check_function(f: Any, name: str) -> None:
    """Raise unless `f` is a function that `name` can transform."""
    if not callable(f):
        raise ArgumentTypeError(f"{name} takes a function. Got {type(f).__name__}: {described(f)}.")


def variable_in(leaf: Any) -> Any:
    """Return the variable that an object of another library holds, or the leaf itself.

    Such an object returns its variable from `__tapegrad_variable__`, as Keras' variables do.
    """
    if type(leaf) in _VALUES:
        return leaf
    holder = getattr(type(leaf), "__tapegrad_variable__", None)
    return leaf if holder is None else holder(leaf)


def check_watchable(leaf: Any, position: int) -> None:
    if type(leaf) not in _VALUES and not isinstance(leaf, _VALUES):
        raise ArgumentError(
            f"watch() takes tensors and variables. Entry {position} is {type(leaf).__name__} "
            f"({type(leaf).__module__}); wrap it with tapegrad.constant(...) first."
        )


def check_tensors(
    leaves: list[Any],
    argument: str,
    in_sight: Callable[[], AbstractContextManager[Any]] = nullcontext,
    log: CutLog | None = None,
) -> list[Any]:
    """Return the leaves as tensors and variables; raise for the first that is neither.

    Sparse gradients become dense inside `in_sight()`, so that a tape records the conversion. `log`
    is the recorder that may know where the value left it.
    """
    checked = []
    for position, leaf in enumerate(map(variable_in, leaves)):
        if type(leaf) in _VALUES or isinstance(leaf, _VALUES):
            checked.append(leaf)
        elif not isinstance(leaf, list | tuple) and adapter_of(leaf) is not None:
            with in_sight():
                checked.append(to_tensor(leaf))
        else:
            from tapegrad.autodiff.explain import where_left  # slow to import

            raise ArgumentTypeError(
                f"{argument} must hold tensors or variables. Entry {position} is "
                f"{type(leaf).__name__}; compute it from tensors, or wrap inputs with "
                f"tapegrad.constant(...) and watch them.{'' if log is None else where_left(log)}"
            )
    return checked


def seeds_for(targets: list[Any], output_gradients: Any) -> list[Any]:
    """Return the cotangents to start from: `output_gradients`, ones by default."""
    if output_gradients is None:
        return [creation.ones_like(target) for target in targets]
    given = nest.flatten(output_gradients)
    if len(given) != len(targets) and len(targets) == 1:
        given = [output_gradients]
    if len(given) != len(targets):
        raise ArgumentError(
            f"output_gradients must have one entry per target: {len(targets)}. Got {len(given)}."
        )
    return [
        creation.ones_like(target) if seed is None else _fit_seed(seed, target, position)
        for position, (seed, target) in enumerate(zip(given, targets, strict=True))
    ]


def may_have_zeros(seeds: list[Any]) -> bool:
    """Whether a seed contains zeros; true where that cannot be read at once, as on a device."""
    for seed in seeds:
        array = seed.array if type(seed) is Tensor else None
        if not isinstance(array, np.ndarray | np.generic):
            return True
        if np.count_nonzero(array) < array.size:
            return True
    return False


def _fit_seed(seed: Any, target: Any, position: int) -> Any:
    if not batching.is_batched(seed):
        seed = to_tensor(seed, like=None if batching.is_batched(target) else to_tensor(target))
        if type(seed) is SharedTensor:  # a gradient may be its seed
            seed = wrap(copy_of(seed.array))
    if seed.dtype != target.dtype:
        seed = cast.cast(seed, target.dtype)
    if tuple(seed.shape) != tuple(target.shape):
        raise ShapeError(
            f"output_gradients[{position}] must have its target's shape {target.shape}. "
            f"Got {seed.shape}."
        )
    return _recorded_like(seed, target)


def _recorded_like(seed: Any, target: Any) -> Any:
    """Turn a seed from outside a recording into a constant of the recording."""
    if type(seed) is not Tensor or type(target) is not Tensor:
        return seed
    if type(seed.array) is type(target.array):
        return seed
    adoption = capabilities_of(type(target.array)).adoption
    if adoption is None:
        return seed
    return wrap(adoption.adopt(target.array, [seed.array])[0], seed.node)


def as_unconnected(value: Any) -> UnconnectedGradients:
    if type(value) is UnconnectedGradients:
        return value
    try:
        return UnconnectedGradients(value)
    except ValueError:
        raise ArgumentError(
            f"unconnected_gradients must be 'none' or 'zero'. Got {value!r}."
        ) from None


def warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warn_outside(message)


def warn_few_times(message: str) -> None:
    """Warn about a dtype without derivatives, at most five times per process."""
    if _few_times[0] > 0:
        _few_times[0] -= 1
        warn_outside(message)
