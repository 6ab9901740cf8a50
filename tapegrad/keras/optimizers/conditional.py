"""Conditional optimizer steps, decided on the device.

A step is always computed. If the condition is false, every variable gets its old value back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad.core.commit import restoring
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.functions import reduce_all
from tapegrad.ops.shape.functions import to_device
from tapegrad.ops.shape.joining import stack

Pairs = Sequence[tuple[Any, Variable]]
"""Pairs of a gradient and its variable."""


def on_device(x: Any, device: str) -> Any:
    """Return a tensor on a device; the tensor itself if it is already there."""
    # The lookup of a device by name is slow compared to the arithmetic of a step.
    return x if x.device == device else to_device(x, device)


def run_where(condition: Any, places: Iterable[Variable], step: Callable[[], None]) -> None:
    """Run `step`, and restore the variables `places` unless `condition` holds.

    >>> import tapegrad
    >>> w = tapegrad.Variable(1.0)
    >>> run_where(tapegrad.constant(False), [w], lambda: w.assign(2.0, read_value=False))
    >>> float(w)
    1.0
    """
    known = list({place.number: place for place in places}.values())
    before = [place.array for place in known]
    with restoring(known):
        step()
        for place, old in zip(known, before, strict=True):
            if place.array is not old:
                here = on_device(condition, place.device)
                place.array = where(here, wrap(place.array), wrap(old)).array


def divided(gradient: Any, divisor: Any) -> Any:
    """Return a dense or sparse gradient divided by a number or a tensor of one element."""
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    if not isinstance(divisor, float):
        divisor = cast(on_device(divisor, values.device), values.dtype)
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(values / divisor, gradient.indices, gradient.dense_shape)
    return values / divisor


def zero_unless(condition: Any, gradient: Any) -> Any:
    """Return a dense or sparse gradient, set to zeros unless the condition holds."""
    if isinstance(gradient, IndexedSlices):
        values = zero_unless(condition, gradient.values)
        return IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return where(on_device(condition, gradient.device), gradient, zeros_like(gradient))


def are_finite(gradients: Sequence[Any], device: str) -> Any:
    """Return a boolean tensor on a device: whether all elements of all gradients are finite."""
    values = [g.values if isinstance(g, IndexedSlices) else g for g in gradients]
    return reduce_all(stack([on_device(reduce_all(isfinite(x)), device) for x in values]))
