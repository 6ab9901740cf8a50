"""Put a mutant into a process that has already imported the module: its functions get new code."""

from __future__ import annotations

import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

Key = tuple[str, int, str]
"""The file, the first line and the qualified name of a function."""


def codes(code: CodeType, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CodeType]]:
    """Yield the code of all functions of a module, each with the path of names to it."""
    names: dict[str, int] = defaultdict(int)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names[inner.co_name] += 1
            place = (*at, f"{inner.co_name} {names[inner.co_name]}")
            yield place, inner
            yield from codes(inner, place)


@dataclass
class Functions:
    """The functions of a process that come from files below a folder."""

    known: dict[Key, list[FunctionType]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def below(cls, folder: Path) -> Functions:
        """Find all functions, also those that the garbage collector was told to spare."""
        found = cls()
        gc.unfreeze()
        for value in gc.get_objects():
            if type(value) is FunctionType and value.__code__.co_filename.startswith(str(folder)):
                found.known[_key(value.__code__)].append(value)
        gc.freeze()
        return found

    def change(self, path: Path, source: bytes, changed: bytes) -> bool:
        """Give the functions of a file the code of a changed file; return whether one has it."""
        old = dict(codes(compile(source, str(path), "exec", dont_inherit=True)))
        new = dict(codes(compile(changed, str(path), "exec", dont_inherit=True)))
        is_changed = False
        for place, code in old.items():
            other = new.get(place)
            if other is None or code == other or not code.co_flags & inspect.CO_OPTIMIZED:
                continue
            for function in self.known.get(_key(code), ()):
                if function.__code__.co_code == code.co_code:
                    try:
                        function.__code__ = other
                    except ValueError:  # the change needs other variables of outer functions
                        return False
                    is_changed = True
        return is_changed


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_qualname
