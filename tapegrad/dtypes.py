"""TensorFlow's `tf.dtypes` names."""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.values.dtypes import (
    DType,
    __getattr__ as _usual,
    as_dtype,
    bool_ as bool,
    complex64,
    complex128,
    float16,
    float16 as half,
    float32,
    float64,
    float64 as double,
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
from tapegrad.ops.composed import saturate_cast
from tapegrad.ops.elementwise.complex_numbers import complex

__all__ = [
    "DType",
    "as_dtype",
    "bool",
    "cast",
    "complex",
    "complex128",
    "complex64",
    "double",
    "float16",
    "float32",
    "float64",
    "half",
    "int16",
    "int32",
    "int64",
    "int8",
    "saturate_cast",
    "string",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]


def __getattr__(name: str) -> _Any:
    if name == "bfloat16":
        return _usual(name)
    raise _absence("dtypes", name)
