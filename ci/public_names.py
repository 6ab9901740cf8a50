"""Print a program that names everything public in tapegrad, for type checkers to resolve."""

from __future__ import annotations

import types
from collections.abc import Iterator

import tapegrad

DEPTH = 2
"""How many modules deep names are printed: `tapegrad.keras.layers.Dense`."""


def names(module: types.ModuleType, path: str, depth: int = DEPTH) -> Iterator[str]:
    """Yield the public names of a module and of the modules in it."""
    for name in sorted(getattr(module, "__all__", ())):
        yield f"{path}.{name}"
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) and depth:
            yield from names(value, f"{path}.{name}", depth - 1)


if __name__ == "__main__":
    print("import tapegrad")
    print("\n".join(names(tapegrad, "tapegrad")))
