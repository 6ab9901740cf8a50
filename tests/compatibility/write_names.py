"""Write `public_names.txt`: every public name of the library on the path.

    PYTHONPATH=$OLD:$OLD/backends:$OLD/benchmarks python tests/compatibility/write_names.py $OLD

A line is `module:name`. The module is one that an import statement accepts, and the name may have
dots: `tapegrad.numpy.lib:stride_tricks.as_strided`. The argument is the checkout whose README and
documentation are searched for further names; see write_files.py for how to make one.

Public are the names in `__all__` of `tapegrad` and of the modules that these names lead to, the
modules of `tapegrad.compat.autograd`, and the names that the documentation mentions. Members of
classes are not listed: many of them are internal.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent
TARGET = FOLDER / "public_names.txt"
_DISTRIBUTIONS = (
    "beta",
    "chi2",
    "dirichlet",
    "gamma",
    "multivariate_normal",
    "norm",
    "poisson",
    "t",
)
FURTHER = tuple(
    f"tapegrad.compat.autograd.{name}"
    for name in (
        *("misc.fixed_points", "misc.flatten", "misc.optimizers", "misc.tracers"),
        *("numpy.numpy_vjps", "test_util", "util", "wrap_util"),
        *(f"scipy.stats.{name}" for name in _DISTRIBUTIONS),
    )
)
"""Modules without an `__all__` that users of autograd import."""

SINGLE = {"tapegrad.cli:main", "tapegrad.demo.digits:load_digits"}
"""The entry point of the command line, and a function that the examples import."""

FUNCTIONS = ("cdf", "logcdf", "logpdf", "logpmf", "logsf", "pdf", "pmf", "sf")
"""What modules of distributions find when it is first used, so that `dir` does not show it."""

ABBREVIATIONS = {"tf": "tapegrad", "keras": "tapegrad.keras", "tapegrad": "tapegrad"}


def main() -> None:
    import_module("tapegrad")
    names = {line for path, module in public_modules() for line in names_in(path, module)}
    names |= SINGLE
    pages = [Path(sys.argv[1], "README.md"), *sorted(Path(sys.argv[1], "docs").glob("*.md"))]
    for page in pages:
        names.update(documented(page.read_text(encoding="utf-8")))
    TARGET.write_text("\n".join(sorted(names)) + "\n", encoding="utf-8")
    sys.stdout.write(f"{TARGET}: {len(names):,} names\n")


def import_module(name: str) -> ModuleType:
    return importlib.import_module(name)


# Modules


def public_modules() -> Iterator[tuple[str, ModuleType]]:
    """The modules that users name, each by every path that leads to it."""
    yield from reachable("tapegrad", import_module("tapegrad"), ())
    autograd = import_module("tapegrad.compat.autograd")
    for found in pkgutil.walk_packages(autograd.__path__, "tapegrad.compat.autograd."):
        if hasattr(import_module(found.name), "__all__"):
            yield found.name, import_module(found.name)
    for name in FURTHER:
        yield name, import_module(name)


def reachable(
    path: str, module: ModuleType, above: tuple[ModuleType, ...]
) -> Iterator[tuple[str, ModuleType]]:
    yield path, module
    for name in own_names(module):
        value = getattr(module, name)
        is_ours = isinstance(value, ModuleType) and value.__name__.startswith("tapegrad.")
        if is_ours and value not in above:
            yield from reachable(f"{path}.{name}", value, (*above, module))


def own_names(module: ModuleType) -> list[str]:
    """The names in `__all__`; without one, those that the module defines and its submodules."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return list(declared)
    last = module.__name__.rpartition(".")[2]
    if last in _DISTRIBUTIONS:  # other functions come from SciPy, if that is installed
        distribution = getattr(import_module("tapegrad.scipy.stats"), last)
        return [name for name in FUNCTIONS if hasattr(distribution, name)]
    visible = [name for name in dir(module) if not name.startswith("_")]
    return [name for name in visible if belongs(getattr(module, name), name, module)]


def belongs(value: Any, name: str, module: ModuleType) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ == f"{module.__name__}.{name}" and "__path__" in vars(module)
    return getattr(value, "__module__", None) == module.__name__


# Names


def names_in(path: str, module: ModuleType) -> list[str]:
    """The lines for the names of a module."""
    importable, inner = split(path)
    prefix = f"{importable}:{inner}." if inner else f"{importable}:"
    return [f"{prefix}{name}" for name in own_names(module)]


def split(path: str) -> tuple[str, str]:
    """Split a path into the module that an import statement accepts and the rest."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        if ".".join(parts[:count]) in sys.modules:
            return ".".join(parts[:count]), ".".join(parts[count:])
    raise ValueError(path)


# Documentation


def documented(text: str) -> Iterator[str]:
    """The names on a page that exist, as in `tf.GradientTape` or `from tapegrad import nn`."""
    for imported in re.finditer(r"^from (tapegrad[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        for name in imported[2].split(","):
            yield f"{imported[1]}:{name.split()[0]}"
    for mention in re.finditer(r"(?<![\w.])(tf|keras|tapegrad)((?:\.[A-Za-z_]\w*)+)", text):
        whole = ABBREVIATIONS[mention[1]] + mention[2]
        line = resolved(whole)
        if line is not None:
            yield line


def resolved(path: str) -> str | None:
    """The line for a dotted name, or None if there is no such name."""
    parts = path.split(".")
    place: Any = import_module(parts[0])
    for number, part in enumerate(parts[1:], 1):
        if not hasattr(place, part):
            return None
        place = (
            inspect.getattr_static(place, part) if isinstance(place, type) else getattr(place, part)
        )
        if part.startswith("_") or not isinstance(place, ModuleType | type):
            parts = parts[: number + 1]
            break
    importable, inner = split(".".join(parts))
    return f"{importable}:{inner}" if inner else None


if __name__ == "__main__":
    main()
