"""Dropout with a random mask, which the gradient reuses."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import elementwise
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.random.generator import source_for
from tapegrad.ops.random.primitives import Source, as_shape, draw_mask
from tapegrad.ops.random.stateless import SeedPair


def _masked_scale(xp: Any, x: Any, mask: Any, *, scale: float) -> Any:
    return xp.where(mask, x * scale, xp.zeros_like(x))


# The tape keeps the boolean mask, which takes a quarter of the memory of float32 factors.
masked_scale_p: Primitive = elementwise(
    "masked_scale",
    lambda t, x2, *, scale: masked_scale_p(t, x2, scale=scale),
    None,
    forward=_masked_scale,
)


def dropout(
    x: Any,
    rate: float,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    *,
    rng: Any = None,
) -> Any:
    """Set elements to 0 with probability `rate` and scale the others up by 1 / (1 - rate).

    `noise_shape` broadcasts to the shape of `x`: elements that share a mask entry are dropped
    together. `rng` is a Generator to use instead of the global one.

    >>> import numpy as np
    >>> set(dropout(np.ones(100), rate=0.5).tolist()) <= {0.0, 2.0}
    True
    """
    return apply_dropout(as_operand(x), rate, noise_shape, source_for(seed) if rng is None else rng)


def stateless_dropout(
    x: Any,
    rate: float,
    seed: Any,
    rng_alg: Any = "auto_select",
    noise_shape: Any = None,
    name: str | None = None,
) -> Any:
    """Apply dropout with the mask that a pair of seeds determines.

    >>> stateless_dropout([1.0, 1.0], rate=0.0, seed=[1, 2]).tolist()
    [1.0, 1.0]
    """
    return apply_dropout(as_operand(x), rate, noise_shape, SeedPair(seed))


def general_dropout(
    x: Any, rate: float, uniform_sampler: Any, noise_shape: Any = None, name: str | None = None
) -> Any:
    """Apply dropout with a mask from a function that draws numbers from [0, 1).

    `uniform_sampler` gets the arguments `shape` and `dtype`.

    >>> from tapegrad import ones
    >>> general_dropout([1.0, 2.0], 0.5, lambda shape, dtype: 0.9 * ones(shape, dtype)).tolist()
    [2.0, 4.0]
    """
    x, rate = as_operand(x), _checked_rate(rate)
    if rate == 0.0:
        return x
    shape = _noise_shape(noise_shape, tuple(x.shape))
    numbers = as_operand(uniform_sampler(shape=shape, dtype=x.dtype))
    if tuple(numbers.shape) != shape:
        raise ShapeError(f"uniform_sampler must return the shape {shape}. Got {numbers.shape}.")
    return masked_scale_p(x, numbers >= rate, scale=1.0 / (1.0 - rate))


def apply_dropout(x: Any, rate: float, noise_shape: Any, source: Source) -> Any:
    """Apply dropout with a mask drawn from `source`."""
    rate = _checked_rate(rate)
    if rate == 0.0:
        return x
    with device(x.device):  # draw the mask on the device of the values
        mask = draw_mask(source, _noise_shape(noise_shape, tuple(x.shape)), rate)
    return masked_scale_p(x, mask, scale=1.0 / (1.0 - rate))


def _checked_rate(rate: float) -> float:
    rate = float(rate)
    if not 0.0 <= rate < 1.0:
        raise ArgumentError(f"dropout takes a rate in [0, 1). Got {rate}.")
    return rate


def _noise_shape(noise_shape: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if noise_shape is None:
        return shape
    if any(n is None for n in noise_shape):
        noise_shape = [n if m is None else m for m, n in zip(noise_shape, shape, strict=True)]
    wanted = as_shape(noise_shape, "noise_shape")
    if len(wanted) > len(shape) or any(m not in (1, n) for m, n in zip(wanted[::-1], shape[::-1])):
        raise ShapeError(f"noise_shape must broadcast to {shape}. Got {wanted}.")
    return wanted
