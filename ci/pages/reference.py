"""The API reference: a page for each public module, written from docstrings.

Elementwise functions are declared in one line and have no example in their docstring. Their example
is a call that is made while the page is written, so that its result is right.

python ci/pages/reference.py    list the public names that lack a sentence or an example
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import itertools
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT), str(ROOT / "backends")]
from example_calls import CALLS, WITHOUT  # noqa: E402

ELSEWHERE = {
    "tapegrad.compat.autograd": "NumPy's names with the signatures of NumPy",
    "tapegrad.experimental.numpy": "the module tapegrad.numpy",
    "tapegrad.math.special": "the module tapegrad.special",
}
"""Modules without a page, each with the reason."""

ELEMENTWISE = ("tapegrad", "tapegrad.math", "tapegrad.nn", "tapegrad.bitwise", "tapegrad.special",
               "tapegrad.math.special", "tapegrad.numpy", "tapegrad.numpy.special",
               "tapegrad.scipy.special", "tapegrad.keras.ops")  # fmt: skip
"""Where functions whose docstrings have no example are called on a few numbers."""

ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    ([0.25, 0.5],),
    ([1.5, 2.0],),
    ([1, 2],),
    ([0.25, 0.5], [0.5, 0.75]),
    ([1.5, 2.0], [0.5, 1.0]),
    ([1, 2], [3, 4]),
    ([True, False], [True, True]),
    (1, [0.5, 0.75]),
    ([0.5, 1.0], [1.5, 2.0], [0.25, 0.5]),
    (1, 2, [0.5, 0.75]),
)


@dataclass(frozen=True)
class Entry:
    """A public name of a module."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """Return the full name."""
        return f"{self.module}.{self.name}"

    @property
    def words(self) -> str:
        """Return the docstring without indentation."""
        return inspect.cleandoc(str(getattr(self.value, "__doc__", None) or ""))

    @property
    def sentence(self) -> str:
        """Return the first sentence of the docstring."""
        return " ".join(self.words.split("\n\n")[0].split())


def modules() -> dict[str, ModuleType]:
    """Return the public modules by the names under which users find them.

    >>> list(modules())[:2]
    ['tapegrad', 'tapegrad.audio']
    """
    found: dict[str, ModuleType] = {}
    seen: set[int] = set()

    def visit(module: ModuleType, path: str) -> None:
        if id(module) in seen or path in ELSEWHERE or not module.__name__.startswith("tapegrad"):
            return
        seen.add(id(module))
        found[path] = module
        names = [(name, getattr(module, name)) for name in public_names(module)]
        inner = [(name, value) for name, value in names if isinstance(value, ModuleType)]
        for name, value in inner:
            visit(value, f"{path}.{name}")

    visit(importlib.import_module("tapegrad"), "tapegrad")
    return dict(sorted(found.items()))


def public_names(module: ModuleType) -> list[str]:
    """Return the names of `__all__`, or those that the module defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Return all public functions and classes, each under every name."""
    return tuple(
        Entry(path, name, value)
        for path, module in modules().items()
        for name in public_names(module)
        if is_documented(value := getattr(module, name))
    )


def is_documented(value: object) -> bool:
    """Whether a name needs an entry: a function or a class, but no module and no constant."""
    return callable(value) and not isinstance(value, ModuleType)


def needs_example(entry: Entry) -> bool:
    """Whether users need an example: not for errors, dtypes and types of annotations."""
    value = entry.value
    if not inspect.isclass(value):
        return True
    return not issubclass(value, Exception | np.generic) and entry.module != "tapegrad.extend"


def example(entry: Entry) -> str:
    """Return the example of an entry as lines of a session, or nothing."""
    if ">>>" in entry.words:
        return ""
    if entry.path in CALLS:
        return session(CALLS[entry.path])
    if entry.module not in ELEMENTWISE or inspect.isclass(entry.value):
        return ""
    for arguments in ARGUMENTS:
        result = _call(entry.value, arguments)
        if result is not None:
            written = ", ".join(repr(argument) for argument in arguments)
            short = entry.path.replace("tapegrad", "tf", 1)
            return f">>> import tapegrad as tf\n>>> {short}({written})\n{result}"
    return ""


def session(calls: list[str]) -> str:
    """Run statements as an interpreter does, and return them with what it prints.

    >>> session(["x = 2", "x + 1"])
    '>>> import tapegrad as tf\\n>>> x = 2\\n>>> x + 1\\n3'
    """
    names = {"tf": importlib.import_module("tapegrad")}
    lines = [">>> import tapegrad as tf"]
    for call in calls:
        shown = call.replace("\n", "\n... ")
        lines.append(f">>> {shown}")
        with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(call, "<example>", "single"), names)
        lines += printed.getvalue().splitlines()
    return "\n".join(lines)


def _call(function: Any, arguments: tuple[Any, ...]) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*arguments)
        except Exception:  # the arguments are not for this function
            return None
    parts = result if isinstance(result, tuple) else (result,)
    if not all(np.all(np.isfinite(np.asarray(part, dtype=complex))) for part in parts):
        return None
    return repr(result)


def lacking(entry: Entry) -> str:
    """Return what an entry lacks, or nothing."""
    if not entry.words:
        return "a sentence"
    has_example = ">>>" in entry.words or not needs_example(entry) or bool(example(entry))
    return "" if has_example else "an example"


# Pages ---------------------------------------------------------------------------------------


def page(path: str, module: ModuleType, homes: dict[int, Entry]) -> str:
    """Return the page of a module. `homes` has the entry at which each object is described."""
    found = [entry for entry in entries() if entry.module == path]
    own = [entry for entry in found if homes[id(entry.value)] is entry]
    head = markdown(inspect.cleandoc(module.__doc__ or ""))
    return "\n\n".join([f"# {path}", head, *summary(found, homes), *map(description, own)]) + "\n"


def summary(found: list[Entry], homes: dict[int, Entry]) -> Iterator[str]:
    """Yield a table of the names with their first sentences."""
    if not found:
        return
    lines = ["| name | |", "|:--|:--|"]
    for entry in found:
        home = homes[id(entry.value)]
        words = _escaped(home.sentence).replace("|", "\\|")
        lines.append(f"| {{py:obj}}`{entry.name} <{home.path}>` | {words} |")
    yield "\n".join(lines)


def description(entry: Entry) -> str:
    """Return the description of a function or a class with its methods."""
    kind = "class" if inspect.isclass(entry.value) else "function"
    body = [markdown(entry.words)]
    shown = example(entry)
    if shown:
        body.append(f"```pycon\n{shown}\n```")
    if kind == "class":
        body += [method(name, value) for name, value in methods(entry.value)]
    inner = "\n\n".join(part for part in body if part)
    return f"::::{{py:{kind}}} {entry.path}{signature(entry.value)}\n\n{inner}\n::::"


def methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented public methods that a class defines."""
    for name, value in vars(owner).items():
        plain = getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(plain) and plain.__doc__:
            yield name, plain


def method(name: str, value: Any) -> str:
    """Return the description of a method."""
    words = markdown(inspect.cleandoc(value.__doc__))
    return f":::{{py:method}} {name}{signature(value, skip_self=True)}\n\n{words}\n:::"


def signature(value: Any, skip_self: bool = False) -> str:
    """Return the parameters without annotations, which are mostly `Any`."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    if skip_self and plain and plain[0].name in ("self", "cls"):
        plain = plain[1:]
    return re.sub(r"<[^<>]*>", "...", str(inspect.Signature(plain))).replace("\n", " ")


def markdown(words: str) -> str:
    """Return a docstring as Markdown, with its examples in fences."""
    blocks = []
    for is_code, lines in itertools.groupby(_marked(words), key=lambda pair: pair[0]):
        text = textwrap.dedent("\n".join(line for _, line in lines)).strip("\n")
        if text:
            blocks.append(f"```pycon\n{text}\n```" if is_code else _escaped(text))
    return "\n\n".join(blocks)


def _marked(words: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines, each with whether it is part of an example."""
    is_code = False
    for line in words.splitlines():
        is_code = line.lstrip().startswith(">>>") or (is_code and bool(line.strip()))
        yield is_code, line


def _escaped(text: str) -> str:
    """Return prose in which Markdown reads no HTML and no emphasis outside of code."""
    parts = re.split(r"(`[^`]*`|^(?: {4}.*\n?)+)", text, flags=re.MULTILINE)
    return "".join(
        part if place % 2 else re.sub(r"([<*_\[\]])", r"\\\1", part)
        for place, part in enumerate(parts)
    )


def homes_of_objects() -> dict[int, Entry]:
    """Return for each object the entry that describes it: the one with the shortest module."""
    homes: dict[int, Entry] = {}
    for entry in sorted(entries(), key=lambda entry: entry.module.count(".")):
        homes.setdefault(id(entry.value), entry)
    return homes


def write(folder: Path) -> list[str]:
    """Write a page for each module and return their names, the packages first."""
    homes, names = homes_of_objects(), []
    folder.mkdir(parents=True, exist_ok=True)
    for path, module in modules().items():
        if any(entry.module == path for entry in entries()):
            (folder / f"{path}.md").write_text(page(path, module, homes), encoding="utf-8")
            names.append(path)
    return names


def missing() -> dict[str, str]:
    """Return {public name: what it lacks}, once for each object."""
    homes = homes_of_objects().values()
    return {entry.path: lack for entry in homes if (lack := lacking(entry))}


def check() -> int:
    """Print the public names that lack words or an example without a reason; return 1 if any do."""
    absent = missing()
    for path, lack in absent.items():
        if path not in WITHOUT:
            print(f"{path} lacks {lack}. Add it to the docstring, or a call to {CALLS_FILE}.")
    for path in sorted(WITHOUT.keys() - absent.keys()):
        print(f"{path} is in WITHOUT in {CALLS_FILE}, but it lacks nothing.")
    count = len(homes_of_objects())
    print(f"{count - len(absent)} of {count} public functions and classes have an example.")
    return int(absent.keys() != WITHOUT.keys())


CALLS_FILE = "ci/pages/example_calls.py"

if __name__ == "__main__":
    sys.exit(check())
