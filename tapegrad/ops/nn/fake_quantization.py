"""Rounding of floats to the few values that integers of some bits stand for.

The results are floats. Gradients pass where the values are inside of the range; the ends of the
range get those of the values beyond them.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.shape.primitives import sum_to_shape


def _levels(name: str, num_bits: Any, narrow_range: bool) -> tuple[float, float]:
    bits = check_whole("num_bits", num_bits, name)
    if not 2 <= bits <= 16:
        raise ArgumentError(f"{name} takes num_bits from 2 to 16. Got {bits}.")
    return float(bool(narrow_range)), float(2**bits - 1)


def _nudged(low: Any, high: Any, least: float, most: float) -> tuple[Any, Any, Any]:
    """Move a range by less than a step, so that 0 is one of its values; return it and the step."""
    is_empty = logical_and(low == 0, high == 0)
    step = where(is_empty, 1.0, high - low) / (most - least)
    zero = minimum(maximum(least - low / step, least), most)
    zero = floor(zero + 0.5)
    return (
        where(is_empty, 0.0, (least - zero) * step),
        where(is_empty, 0.0, (most - zero) * step),
        step,
    )


def _operands(name: str, inputs: Any, low: Any, high: Any, rank: int) -> list[Any]:
    x, low, high = common_operands(inputs, low, high)
    if any(kind_of(part) != "f" for part in (x, low, high)):
        raise DTypeError(f"{name} needs floating-point numbers. Got dtype {x.dtype}.")
    shape = tuple(x.shape[-1:]) if rank else ()
    if (rank and not x.shape) or tuple(low.shape) != shape or tuple(high.shape) != shape:
        words = "one entry for each channel" if rank else "no axes"
        raise ShapeError(
            f"{name} needs min and max with {words}. Got shapes {tuple(low.shape)} and "
            f"{tuple(high.shape)} for inputs of shape {tuple(x.shape)}."
        )
    return [x, low, high]


def _quantized(name: str, given: list[Any], num_bits: Any, narrow_range: bool) -> Any:
    x, low, high = given
    first, last, step = _nudged(low, high, *_levels(name, num_bits, narrow_range))
    clipped = minimum(maximum(x, first), last)
    rounded = floor((clipped - first) / step + 0.5) * step + first
    is_empty = logical_and(low == 0, high == 0)
    inside = where(x < first, low, where(x > last, high, x))
    source = where(is_empty, x, inside)
    return with_gradient_of(where(is_empty, 0.0, rounded), source)


def with_gradient_of(value: Any, source: Any) -> Any:
    """Return a value whose gradient goes to `source`, which must be finite."""
    return stop_gradient(value) + (source - stop_gradient(source))


def _gradients(name: str, t: Any, given: list[Any], num_bits: Any, narrow_range: bool) -> Any:
    x, low, high = given
    if tuple(t.shape) != tuple(x.shape):
        raise ShapeError(
            f"{name} needs gradients of the shape of the inputs. Got {tuple(t.shape)} and "
            f"{tuple(x.shape)}."
        )
    first, last, _ = _nudged(low, high, *_levels(name, num_bits, narrow_range))
    is_used = (low != 0) | (high != 0)
    below, above = logical_and(x < first, is_used), logical_and(x > last, is_used)
    none = zeros_like(t)
    return (
        where(below | above, none, t),
        sum_to_shape(where(below, t, none), tuple(low.shape)),
        sum_to_shape(where(above, t, none), tuple(high.shape)),
    )


def _range(name: str, inputs: Any, min: Any, max: Any) -> list[Any]:
    x = as_operand(inputs)
    if not float(min) < float(max):
        raise ArgumentError(f"{name} needs min < max. Got {min} and {max}.")
    return _operands(name, x, float(min), float(max), 0)


def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Round to the 2**num_bits values of a range, which is moved so that 0 is one of them.

    >>> fake_quant_with_min_max_args([-9.0, 0.2, 1.0], min=-2.0, max=1.0, num_bits=2).tolist()
    [-2.0, 0.0, 1.0]
    """
    title = "fake_quant_with_min_max_args"
    return _quantized(title, _range(title, inputs, min, max), num_bits, narrow_range)


def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return the gradient of `fake_quant_with_min_max_args`.

    >>> fake_quant_with_min_max_args_gradient([1.0, 1.0], [-9.0, 2.0]).tolist()
    [0.0, 1.0]
    """
    title = "fake_quant_with_min_max_args_gradient"
    given = _range(title, inputs, min, max)
    return _gradients(title, as_operand(gradients), given, num_bits, narrow_range)[0]


def fake_quant_with_min_max_vars(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Round to the 2**num_bits values of a range whose ends are tensors, with gradients to them.

    >>> fake_quant_with_min_max_vars([-9.0, 0.2, 1.0], -2.0, 1.0, num_bits=2).tolist()
    [-2.0, 0.0, 1.0]
    """
    title = "fake_quant_with_min_max_vars"
    return _quantized(title, _operands(title, inputs, min, max, 0), num_bits, narrow_range)


def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return the gradients of `fake_quant_with_min_max_vars` to the inputs, min and max.

    >>> x, low, high = fake_quant_with_min_max_vars_gradient([1.0, 1.0], [-9.0, 2.0], -6.0, 6.0)
    >>> x.tolist(), float(low), float(high)
    ([0.0, 1.0], 1.0, 0.0)
    """
    title = "fake_quant_with_min_max_vars_gradient"
    given = _operands(title, inputs, min, max, 0)
    return _gradients(title, as_operand(gradients), given, num_bits, narrow_range)


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Round to the values of one range for each channel, in the last axis.

    >>> x = [[-9.0, 5.0]]
    >>> fake_quant_with_min_max_vars_per_channel(x, [-2.0, -3.0], [1.0, 3.0], 2).tolist()
    [[-2.0, 2.0]]
    """
    title = "fake_quant_with_min_max_vars_per_channel"
    return _quantized(title, _operands(title, inputs, min, max, 1), num_bits, narrow_range)


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return the gradients of `fake_quant_with_min_max_vars_per_channel`.

    >>> found = fake_quant_with_min_max_vars_per_channel_gradient(
    ...     [[1.0, 1.0]], [[-9.0, 2.0]], [-2.0, -3.0], [1.0, 3.0]
    ... )
    >>> [part.tolist() for part in found]
    [[[0.0, 1.0]], [1.0, 0.0], [0.0, 0.0]]
    """
    title = "fake_quant_with_min_max_vars_per_channel_gradient"
    given = _operands(title, inputs, min, max, 1)
    return _gradients(title, as_operand(gradients), given, num_bits, narrow_range)
