"""TensorFlow's `tf.dtypes` names."""

from tapegrad.core.values.dtypes import (
    DType,
    __getattr__ as __getattr__,
    as_dtype,
    bool_ as bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.complex_numbers import complex

__all__ = [
    "DType",
    "as_dtype",
    "bool",
    "cast",
    "complex",
    "complex128",
    "complex64",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "string",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]
