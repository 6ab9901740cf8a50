"""The functions that `tapegrad.core.values.array_interface` declares."""

from __future__ import annotations

from tapegrad.numpy import checked as array_namespace
from tapegrad.numpy.creation import asarray
from tapegrad.numpy.methods import METHODS, PROPERTIES, SETTERS
from tapegrad.numpy.namesakes import (
    namesake as find_function,
    ufunc_method as find_ufunc_method,
)

__all__ = [
    "METHODS",
    "PROPERTIES",
    "SETTERS",
    "array_namespace",
    "asarray",
    "find_function",
    "find_ufunc_method",
]
