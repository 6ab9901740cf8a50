"""CUDA code of the reductions of loops: combine two values, finish the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.trace.c_source import type_of
from tapegrad.core.trace.expression import Expression, kind_of_dtype
from tapegrad.core.trace.loop import LoopOutput
from tapegrad_cupy.kernels.elementwise.vectors import device_function

_COMBINED = {
    "add": "a + b",
    "multiply": "a * b",
    "maximum": "a > b || a != a ? a : b",
    "minimum": "a < b || a != a ? a : b",
}
_FIRST = {"add": "0", "multiply": "1", "maximum": "-1e308 * 1e308", "minimum": "1e308 * 1e308"}


def combination(k: int, output: LoopOutput) -> str:
    """Return the struct `Combine{k}`, and the function `finish{k}` of the reduced value."""
    assert output.combine is not None
    kind = type_of(output.expression)
    text = (
        f"struct Combine{k} {{ __device__ __forceinline__ {kind} operator()({kind} a, {kind} b)"
        f" const {{ return {_COMBINED[output.combine]}; }} }};\n"
    )
    finish = finish_of(output)
    takes = [f"const {kind} a0"]
    return text + device_function(type_of(finish), f"finish{k}", takes, [finish], ["a0"])


def finish_of(output: LoopOutput) -> Expression:
    """Return the expression of the reduced value, which is its input 0."""
    if output.finish is not None:
        return output.finish
    return Expression("input", output.expression.dtype, value=0)


def first_value(output: LoopOutput) -> str:
    """Return the value that changes nothing when it is combined with others."""
    kind, dtype, combine = type_of(output.expression), dtype_of(output), output.combine or "add"
    if combine in ("maximum", "minimum") and kind_of_dtype(dtype) in "biu":
        return f"({kind})({_end_of(dtype, combine)})"  # infinity converts to any integer
    return f"({kind})({_FIRST[combine]})"


def _end_of(dtype: np.dtype[Any], combine: str) -> str:
    """Return the smallest number of an integer dtype for a maximum, or the largest."""
    if dtype.kind == "b":
        return "0" if combine == "maximum" else "1"
    limits = np.iinfo(dtype)
    if combine == "minimum":
        return f"{limits.max}ull"
    return f"{limits.min + 1}ll - 1" if limits.min else "0"


def dtype_of(output: LoopOutput) -> np.dtype[Any]:
    """Return the dtype of the values that are reduced."""
    dtype = output.expression.dtype
    assert dtype is not None
    return dtype
