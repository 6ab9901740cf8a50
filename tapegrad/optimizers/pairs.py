"""Check pairs of gradient and variable before an optimizer changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tapegrad.autodiff.explain import why_without_gradient
from tapegrad.core.argument_checks import refuse
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.index_check import refuse_out_of_range
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DeviceError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.replicas import sum_over_processes
from tapegrad.ops.collective.sharded_weights import is_summed

_PAIR = (tuple, list)


def checked_pairs(grads_and_vars: Iterable[Any]) -> tuple[list[tuple[Any, Variable]], str]:
    """Return the pairs with a gradient, and a text that names the variables without one.

    The text ends with the lines where values left the tape, if that is the reason.
    """
    pairs: list[tuple[Any, Variable]] = []
    missing: list[Variable] = []
    kind, has_one_device = None, False
    if isinstance(grads_and_vars, type) or not hasattr(grads_and_vars, "__iter__"):
        refuse("apply_gradients", "grads_and_vars", grads_and_vars, "(gradient, variable) pairs")
    for position, pair in enumerate(grads_and_vars):
        if (type(pair) is not tuple and not isinstance(pair, _PAIR)) or len(pair) != 2:
            raise ArgumentTypeError(
                f"Entry {position} must be a (gradient, variable) pair. "
                f"Got {type(pair).__name__}; use zip(gradients, variables)."
            )
        gradient, variable = pair
        if type(gradient) is Tensor and type(variable) is Variable:
            array, target = gradient.array, variable.array
            if type(array) is not kind:
                kind = type(array)
                backend = backend_of(array)
                has_one_device = len(backend.devices()) == 1
            # The common case first, because this runs for each variable at each step.
            if (
                type(target) is kind
                and array.dtype == target.dtype
                and array.shape == target.shape
                and (has_one_device or backend.device_of(array) == backend.device_of(target))
            ):
                pairs.append((gradient, variable))
                continue
        if not isinstance(variable, Variable):
            raise ArgumentTypeError(
                f"Entry {position} pairs a gradient with {type(variable).__name__}; expected a "
                "Variable. The order is (gradient, variable)."
            )
        if gradient is None:
            missing.append(variable)
        else:
            pairs.append((_checked_gradient(gradient, variable), variable))
    return pairs, _about_missing(missing, is_all=not pairs)


def _about_missing(missing: list[Variable], is_all: bool) -> str:
    """Return a text about variables without a gradient; raise an error if no variable has one."""
    if not missing:
        return ""
    names = ", ".join([variable.name for variable in missing])
    if is_all:
        raise ArgumentError(
            f"No gradients provided for any variable: {names}."
            f"{why_without_gradient(missing)} tape.explain(loss, variable) says why."
        )
    return f"{names}; they are not changed.{why_without_gradient(missing)}"


def _checked_gradient(gradient: Any, variable: Variable) -> Any:
    """Return a gradient in the dtype of the variable, or raise an error that names the variable."""
    if not isinstance(gradient, Tensor | IndexedSlices):
        gradient = to_tensor(gradient, like=variable.read_value())
    if isinstance(gradient, IndexedSlices) and gradient.dense_shape is None:
        gradient = IndexedSlices(gradient.values, gradient.indices, variable.shape)
    if tuple(gradient.shape) != tuple(variable.shape):
        raise ShapeError(
            f"The gradient of {variable.name!r} must have shape {variable.shape}. "
            f"Got {gradient.shape}."
        )
    if isinstance(gradient, IndexedSlices) and type(gradient.indices.array) is np.ndarray:
        what = f"The gradient of {variable.name!r}"
        refuse_out_of_range(what, gradient.indices.array, variable.shape[0], 0)
    if gradient.dtype.is_complex and not variable.dtype.is_complex:
        raise ArgumentTypeError(
            f"The gradient of {variable.name!r} ({variable.dtype}) must be real. "
            f"Got {gradient.dtype}."
        )
    if gradient.device != variable.device:
        raise DeviceError(
            f"The gradient of {variable.name!r} must be on its device {variable.device!r}. "
            f"Got {gradient.device!r}; move it with tapegrad.to_device(x, {variable.device!r})."
        )
    return gradient if gradient.dtype == variable.dtype else _cast(gradient, variable.dtype)


def _cast(gradient: Any, dtype: Any) -> Any:
    if not isinstance(gradient, IndexedSlices):
        return cast(gradient, dtype)
    return IndexedSlices(cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)


def summed_pairs(
    pairs: Sequence[tuple[Any, Variable]], when: Any = None
) -> list[tuple[Any, Variable]]:
    """Return the pairs with gradients that are added over all processes; they become dense.

    The tape has already added those of sharded weights. Nothing is added unless `when`, a boolean
    tensor, is true.
    """
    found = [*pairs]
    places = [k for k, (_, variable) in enumerate(pairs) if not is_summed(variable)]
    totals = sum_over_processes([as_operand(pairs[k][0]) for k in places], when)
    for k, total in zip(places, totals):
        found[k] = total, pairs[k][1]
    return found
