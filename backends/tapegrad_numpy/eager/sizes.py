"""Which arrays are large."""

from __future__ import annotations

LARGE = 1 << 15
"""The number of elements from which a compiled loop takes at most as long as NumPy.

It says alone which form computes, so that results do not depend on the number of threads.
"""

LARGE_FOR_MANY = 1 << 12
"""The same for kernels that pass over their operands many times in NumPy."""

MANY_PASSES = frozenset({
    *("elu", "erf", "erfc", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope", "log_sigmoid"),
    *("logaddexp", "mish", "ndtr", "sigmoid", "silu", "silu_slope", "softplus"),
})  # fmt: skip
"""Primitives whose kernels in NumPy take 20 to 240 us for 8,192 elements, and loops 6 to 20 us."""
