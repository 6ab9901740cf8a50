"""Functions in C of a library that is compiled from one text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tapegrad_numpy.loops.c_declarations import DECLARATIONS
from tapegrad_numpy.loops.cache import CACHE
from tapegrad_numpy.loops.compiler import CompileError, Compiler, compile_library, find
from tapegrad_numpy.loops.libraries import Address, address_of, load


def lone_function(source: str, name: str) -> Address | None:
    """Return a function of the library of a C text; None if it cannot be compiled."""
    compiler = find()
    if compiler is None:
        return None
    key = hashlib.sha256((compiler.identity + source).encode()).hexdigest()[:32]
    try:
        if CACHE.find(key) is None:
            with CACHE.scratch() as folder:
                compile_library(compiler, DECLARATIONS + source, folder / "loops.so")
                CACHE.keep((folder / "loops.so").read_bytes(), [key])
        path = CACHE.find(key)
        return None if path is None else address_of(load(path), name)
    except (CompileError, OSError, AttributeError):
        return None


class EntryPoint:
    """A function that all loops share: compiled when it is needed first, and kept.

    A compiler that fails is not tried again.
    """

    def __init__(self, source: Callable[[], str], name: str) -> None:
        self._source, self._name = source, name
        self._found: Address | None = None
        self._failed: set[Compiler | None] = set()

    def address(self) -> Address | None:
        """Return the function, None if it cannot be compiled."""
        if self._found is None:
            compiler = find()
            if compiler not in self._failed:
                self._found = lone_function(self._source(), self._name)
                if self._found is None:
                    self._failed.add(compiler)
        return self._found
