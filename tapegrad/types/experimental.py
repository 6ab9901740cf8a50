"""TensorFlow's `tf.types.experimental`: what functions take and are, as types.

`TensorLike` is for annotations. The others are classes for `isinstance`. `TraceType` and
`SupportsTracingProtocol` describe when TensorFlow records a function again; here a recorded
function is recorded again for objects that are not equal, so that their methods are not called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Union, runtime_checkable

import numpy as np

from tapegrad.absent import absence
from tapegrad.core.exports import list_exports as _list_exports
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.program.concrete import ConcreteFunction
from tapegrad.program.function import Function as GenericFunction, Function as PolymorphicFunction

__all__ = [
    "Callable",
    "ConcreteFunction",
    "GenericFunction",
    "PolymorphicFunction",
    "SupportsTracingProtocol",
    "TensorLike",
    "TraceType",
]

_list_exports(globals())

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)
TensorLike: Any = Union[(Tensor, Variable, *_NUMBERS, str, bytes, list, tuple)]
"""What becomes a tensor: tensors, variables, arrays, numbers, text, and lists of these."""

Callable = GenericFunction | ConcreteFunction
"""A recorded function, or one for arguments of one signature."""


class TraceType(ABC):
    """The type of an argument, which distinguishes recordings.

    >>> TraceType.__abstractmethods__ >= {"is_subtype_of"}
    True
    """

    @abstractmethod
    def is_subtype_of(self, other: Any) -> bool:
        """Return whether a recording for the other type serves this one."""

    @abstractmethod
    def most_specific_common_supertype(self, others: Any) -> Any:
        """Return the smallest type that includes all, or None."""

    def placeholder_value(self, placeholder_context: Any = None) -> Any:
        """Return a value of this type."""
        raise NotImplementedError


@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """An object that names its TraceType.

    >>> isinstance(3, SupportsTracingProtocol)
    False
    """

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Return the TraceType of this object."""


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("types.experimental", name)
