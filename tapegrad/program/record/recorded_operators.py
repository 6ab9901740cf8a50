"""Python operators of recorded arrays, which call the kernels of primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES


def bind_operators(array_type: type) -> None:
    """Set operators on an array type that call the kernels of primitives."""
    pairs = {
        "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "divide",
        "__pow__": "pow", "__lt__": "less", "__le__": "less_equal", "__gt__": "greater",
        "__ge__": "greater_equal", "__eq__": "equal", "__ne__": "not_equal",
        "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
        "__floordiv__": "floor_divide", "__mod__": "remainder", "__matmul__": "matmul",
    }  # fmt: skip
    for method, name in pairs.items():
        setattr(array_type, method, _operator(array_type, name, swapped=False))
        reflected = method.replace("__", "__r", 1)
        if name not in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            setattr(array_type, reflected, _operator(array_type, name, swapped=True))
    for method, name in {
        "__neg__": "negative",
        "__abs__": "abs",
        "__invert__": "bitwise_invert",
    }.items():
        setattr(array_type, method, _unary(array_type, name))
    for method, name in {"__iadd__": "add", "__imul__": "multiply", "__isub__": "subtract"}.items():
        setattr(array_type, method, _in_place(array_type, name))
    setattr(array_type, "__hash__", object.__hash__)  # noqa: B010  # `==` is elementwise


def _operator(array_type: type, name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        kernel = PRIMITIVES[name].kernel(array_type)
        params = {"transpose_a": False, "transpose_b": False} if name == "matmul" else {}
        return kernel(other, self, **params) if swapped else kernel(self, other, **params)

    return method


def _unary(array_type: type, name: str) -> Callable[[Any], Any]:
    return lambda self: PRIMITIVES[name].kernel(array_type)(self)


def _in_place(array_type: type, name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        made = PRIMITIVES[name].kernel(array_type)(self, other)
        self.array, self.value = made.array, made.value
        return self

    return method
