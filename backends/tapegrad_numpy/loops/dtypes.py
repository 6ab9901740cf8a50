"""The dtypes of loops in C."""

LOOP_DTYPES = frozenset({
    "bool",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "bfloat16", "float16", "float32", "float64", "complex64", "complex128",
})  # fmt: skip
"""The dtypes that loops may read, compute and write."""

COMPLEX_PRIMITIVES = frozenset({
    "add", "complex", "conj", "full_like", "identity", "imag", "multiply", "negative", "real",
    "square", "subtract", "where", "zero_with",
})  # fmt: skip
"""The primitives that loops compute with complex numbers."""
