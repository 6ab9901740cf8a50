"""The dtypes of loops in C."""

LOOP_DTYPES = frozenset({
    "bool",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "float32", "float64",
})  # fmt: skip
"""The dtypes that loops may read, compute and write."""
