"""Functions in C that instructions call: how a primitive becomes one.

A `Functions` has C text with functions `int name(const int64_t *h, char **data)`. They read the
numbers of an instruction at `h` and the addresses of its arrays at `data`, and return 0, NO_MEMORY
or IN_PYTHON. The latter means that the steps of the sequence have to run from Python, where they
raise the error that belongs to the operands. A function is compiled when the first program needs
it, and alone: a text has functions of many names and dtypes, of which programs need few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from string import Template
from typing import Any, NamedTuple

from tapegrad.core.backend.native_sequences import Layout, NativeStep
from tapegrad_numpy.loops.compile import LibraryFunction
from tapegrad_numpy.sequences.runtime import CALL

Made = list[NativeStep] | None
Writer = Callable[[Sequence[Layout], Sequence[Layout], Mapping[str, Any]], Made]
"""Maps the layouts of operands and results, and params, to instructions; None to use Python."""

C_TYPES = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}

_HEAD = """
enum { NO_MEMORY = 2, IN_PYTHON = 3 };
"""


class Functions:
    """A library of functions; `text` returns its source when it is needed first."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._found: dict[str, LibraryFunction] = {}

    def step(
        self,
        name: str,
        arrays: Iterable[int],
        numbers: Iterable[int],
        work: int,
        offsets: Mapping[int, int] | None = None,
    ) -> Made:
        """Return the instruction that calls a function with arrays, by position, and numbers.

        None if there is no compiler. `offsets` has the bytes at which some arrays begin.
        """
        if name not in self._found:
            source = partial(self._source, name)
            self._found[name] = LibraryFunction(source, f"only_{name}")
        address = self._found[name].address()
        if address is None:
            return None
        places = tuple((k, (offsets or {}).get(k, 0)) for k in arrays)
        return [NativeStep(CALL, places, (int(address), *numbers), (address,), work)]

    def _source(self, name: str) -> str:
        return _HEAD + _only(name, self._text())


_SIGNATURE = "(const int64_t *h, char **data)"
_PUBLIC = re.compile(r"(?<!static )(?<!typedef )\bint (\w+)" + re.escape(_SIGNATURE))


def _only(name: str, text: str) -> str:
    """Return C text whose only public function calls the given one.

    The compiler drops the functions that are not called before it works on them.
    """
    hidden = _PUBLIC.sub(rf"static int \1{_SIGNATURE}", text)
    return f"{hidden}\nint only_{name}{_SIGNATURE} {{ return {name}(h, data); }}\n"


def for_dtypes(template: str, dtypes: Iterable[str]) -> str:
    """Return C text once per dtype: `$T` becomes its type and `$N` its name.

    `$R` is the type of real parts, `$W` the type in double precision.
    """
    marked = Template(template.replace("$N_", "${N}_"))
    return "".join(
        marked.substitute(
            T=kind,
            N=name,
            R=kind.removesuffix(" _Complex"),
            W=kind.replace("float", "double"),
        )
        for name in dtypes
        for kind in [C_TYPES[name]]
    )


class Along(NamedTuple):
    """An array as `outer` blocks of `length` rows of `inner` elements."""

    outer: int
    length: int
    inner: int


def along(shape: Sequence[int], axes: Sequence[int]) -> Along | None:
    """Return how a contiguous array lies along axes; None if other axes are between them."""
    wide = [axis for axis in sorted(axes) if shape[axis] != 1]
    if not wide:
        return Along(prod(shape), 1, 1)
    first, last = wide[0], wide[-1]
    between = [axis for axis in range(first, last) if shape[axis] != 1]
    if len(between) != len(wide) - 1:
        return None
    return Along(prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :]))


def are_contiguous(layouts: Iterable[Layout]) -> bool:
    """Return whether the elements of all arrays follow each other."""
    return all(layout.is_contiguous for layout in layouts)


def parts_along(operands: Sequence[Layout], axes: int | Sequence[int]) -> Along | None:
    """Return how the first operand lies along axes; None if an array is empty or not contiguous."""
    if not operands[0].size or not are_contiguous(operands):
        return None
    return along(operands[0].shape, (axes,) if isinstance(axes, int) else axes)


def either(first: Writer, second: Writer) -> Writer:
    """Return the writer that asks a second one where the first does not know a call."""

    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        made = first(operands, results, params)
        return second(operands, results, params) if made is None else made

    return write
