# Made by ci/stubs.py, never by hand.
import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tapegrad.core.values.tensor import Tensor

def bitwise_and(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the bits set in both x and y.
    """
def bitwise_or(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the bits set in x or y.
    """
def bitwise_xor(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the bits set in either x or y, not both.
    """
def invert(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x with every bit flipped.
    """
def left_shift(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x << y.
    """
def right_shift(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x >> y.
    """
