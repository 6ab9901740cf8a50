"""Normal distributions that are truncated at any bounds."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import DTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import ndtr, ndtri
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.random.primitives import as_shape, draw_uniform
from tapegrad.ops.random.stateless import SeedPair
from tapegrad.ops.shape.functions import broadcast_arrays


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Any:
    """Draw from normal distributions that are truncated at `minvals` and `maxvals`.

    The parameters broadcast to `shape`. Gradients go to all of them.

    >>> x = stateless_parameterized_truncated_normal([5], [1, 2], minvals=1.0, maxvals=1.5)
    >>> bool(x.numpy().min() >= 1.0), bool(x.numpy().max() <= 1.5)
    (True, True)
    """
    wanted = as_shape(shape)
    parameters = common_operands(means, stddevs, minvals, maxvals)
    if any(kind_of(x) != "f" for x in parameters):
        raise DTypeError(
            "stateless_parameterized_truncated_normal needs floating-point parameters. Got dtypes "
            f"{', '.join(str(x.dtype) for x in parameters)}."
        )
    # In double precision, because ndtr is nearly flat far from the mean.
    mean, scale, low, high = (cast(x, "float64") for x in broadcast_arrays(*parameters))
    rank = len(mean.shape)
    if rank > len(wanted) or any(
        n not in (1, m) for n, m in zip(mean.shape[::-1], wanted[::-1], strict=False)
    ):
        raise ShapeError(f"Parameters of shape {tuple(mean.shape)} do not broadcast to {wanted}.")
    first, last = (low - mean) / scale, (high - mean) / scale
    # Reflected, so that more of the interval lies below the mean, where ndtr is precise.
    sign = where(first + last > 0, -1.0, 1.0)
    first, last = minimum(sign * first, sign * last), maximum(sign * first, sign * last)
    start = ndtr(first)
    chance = draw_uniform(SeedPair(seed), wanted, 0.0, 1.0, "float64")
    found = sign * ndtri(start + chance * (ndtr(last) - start)) * scale + mean
    return cast(minimum(maximum(found, low), high), parameters[0].dtype)
