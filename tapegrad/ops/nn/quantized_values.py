"""Rounding of floats to the values of scaled integers, with 0 as one of them."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.operand import common_operands, normalize_axis
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.rounding import floor, rint
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.nn.fake_quantization import with_gradient_of
from tapegrad.ops.reduction.primitives import max as largest, min as smallest
from tapegrad.ops.shape.primitives import reshape_p

ROUNDING = {"HALF_TO_EVEN": rint, "HALF_UP": lambda x: floor(x + 0.5)}


def quantize_and_dequantize(
    input: Any,  # TensorFlow's name
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Any:
    """Round to the multiples of one step that integers of `num_bits` bits can stand for.

    With `range_given` the range is from `input_min` to `input_max`, otherwise that of the values.
    With `axis`, each entry along it has its own range. Gradients pass for values from `input_min`
    to `input_max`.

    >>> quantize_and_dequantize([-1.0, 0.3, 1.0], -1.0, 1.0, num_bits=3, range_given=True).tolist()
    [-1.0, 0.3333333432674408, 1.0]
    """
    x, low, high = common_operands(input, input_min, input_max)
    low, high = _ends(x, low, high, axis)
    least, most = _integers(num_bits, signed_input, narrow_range)
    if round_mode not in ROUNDING:
        raise ArgumentError(f"round_mode must be HALF_TO_EVEN or HALF_UP. Got {round_mode!r}.")
    first, last = (low, high) if range_given else _extent(x, axis)
    scale, step = _scale(stop_gradient(first), stop_gradient(last), least, most)
    inside = minimum(maximum(x, least * step), most * step) if range_given else x
    rounded = minimum(ROUNDING[round_mode](inside * scale), most) * step
    has_gradient = logical_and(x >= low, x <= high)
    return with_gradient_of(rounded, where(has_gradient, x, zeros_like(x)))


quantize_and_dequantize_v2 = quantize_and_dequantize


def _ends(x: Any, low: Any, high: Any, axis: int | None) -> tuple[Any, Any]:
    """Return the ends of the range with the rank of x, if there is one range for each entry."""
    if any(kind_of(part) != "f" for part in (x, low, high)):
        raise DTypeError(
            f"quantize_and_dequantize needs floating-point numbers. Got dtype {x.dtype}."
        )
    shape: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()
    if axis is not None:
        axis = normalize_axis(axis, len(x.shape), "quantize_and_dequantize")
        shape = (x.shape[axis],)
        wide = (x.shape[axis], *[1] * (len(x.shape) - axis - 1))
    if tuple(low.shape) != shape or tuple(high.shape) != shape:
        raise ShapeError(
            f"quantize_and_dequantize needs input_min and input_max of shape {shape}. "
            f"Got {tuple(low.shape)} and {tuple(high.shape)}."
        )
    return reshape_p(low, shape=wide), reshape_p(high, shape=wide)


def _integers(num_bits: Any, signed: Any, narrow: Any) -> tuple[float, float]:
    bits = check_whole("num_bits", num_bits, "quantize_and_dequantize")
    if not 1 < bits < 63:
        raise ArgumentError(f"quantize_and_dequantize takes num_bits from 2 to 62. Got {bits}.")
    if not signed:
        return 0.0, float(2**bits - 1)
    return float(-(2 ** (bits - 1)) + bool(narrow)), float(2 ** (bits - 1) - 1)


def _extent(x: Any, axis: int | None) -> tuple[Any, Any]:
    others = None
    if axis is not None:
        kept = normalize_axis(axis, len(x.shape), "quantize_and_dequantize")
        others = tuple(k for k in range(len(x.shape)) if k != kept)
    return smallest(x, axis=others, keepdims=True), largest(x, axis=others, keepdims=True)


def _scale(first: Any, last: Any, least: float, most: float) -> tuple[Any, Any]:
    """Return the integers per unit and their reciprocal: the finer range that holds both ends."""
    by_first = first / least if least else zeros_like(first)
    step = maximum(maximum(by_first, last / most), 0.0)
    return divide_no_nan(1.0, step), step
