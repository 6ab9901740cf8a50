"""Primitives whose kernels have compiled forms for large arrays, beside elementwise ones."""

from __future__ import annotations

ROWS = frozenset({
    *("log_softmax", "log_softmax_gradient", "normalize", "normalize_gradient", "softmax"),
    *("softmax_gradient", "sparse_cross_entropy"),
})  # fmt: skip
"""Primitives of rows that have a compiled form."""

OF_ONE = frozenset({
    *("cumulative_logsumexp", "cumulative_prod", "cumulative_sum", "logsumexp", "max", "mean"),
    *("max_pool", "min", "overlap_and_add", "prod", "sum", "top_k"),
})  # fmt: skip
"""Primitives of one array that have a compiled form."""

OF_MANY = frozenset({
    *("avg_pool_gradient", "linear_recurrence", "matmul_stack", "pool_scatter"),
    *("scatter_along_axis", "segment_extreme", "segment_sum", "segment_ties", "take_add"),
    "triangular_solve",
})  # fmt: skip
"""Primitives of several arrays that have a compiled form."""

CONVOLUTIONS = frozenset({"conv", "conv_input_gradient", "conv_filter_gradient"})
"""Convolutions, whose compiled forms depend on the number of groups."""
