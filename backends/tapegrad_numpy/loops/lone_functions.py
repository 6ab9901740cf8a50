"""Functions in C of a library that is compiled from one text."""

from __future__ import annotations

import hashlib

from tapegrad_numpy.loops.cache import CACHE
from tapegrad_numpy.loops.compiler import CompileError, compile_library, find
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
                compile_library(compiler, "#include <stdint.h>\n" + source, folder / "loops.so")
                CACHE.keep((folder / "loops.so").read_bytes(), [key])
        path = CACHE.find(key)
        return None if path is None else address_of(load(path), name)
    except (CompileError, OSError, AttributeError):
        return None
