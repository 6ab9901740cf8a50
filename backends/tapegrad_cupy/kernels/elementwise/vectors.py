"""CUDA code that eager kernels and loops share: a formula, and a vector of each array.

In the code `p0`, `p1`, ... are inputs, `o0`, `o1`, ... their offsets, and `j` is the position in a
vector of neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapegrad.core.trace.c_source import statements, type_of
from tapegrad.core.trace.expression import Expression
from tapegrad_cupy.kernels.elementwise.fast_division import SPELLINGS


class Read(NamedTuple):
    """How a thread reads an input: the C types in memory and in the formula, and the inner step.

    `inner` is the step in C; `step` is its value, or any other than 0 and 1 if that is not known.
    If it is `gathered`, `g0`, `g1`, ... are the addresses of rows, and `there0`, ... tell whether
    the input has them; otherwise its elements are 0.
    """

    stored: str
    computed: str
    step: int
    inner: str
    gathered: bool = False

    def load(self, i: int, width: int) -> str:
        """Return the statement before the loop over `j`, "" if there is none."""
        start = f"{'g' if self.gathered else 'p'}{i}"
        if self.step == 0:
            return f"const {self.computed} s{i} = {self.there(i, f'widen({start}[o{i}])')};"
        if self.step == 1:
            vector = f"Vec<{self.stored}, {width}>"
            return f"const {vector} x{i} = *(const {vector}*)({start} + o{i});"
        return ""

    def element(self, i: int) -> str:
        """Return the value of element `j` of the vector."""
        if self.step == 0:
            return f"s{i}"
        if self.step == 1:
            return self.there(i, f"widen(x{i}.v[j])")
        start = f"{'g' if self.gathered else 'p'}{i}"
        return self.there(i, f"widen({start}[o{i} + j * (I){self.inner}])")

    def there(self, i: int, value: str) -> str:
        """Return a value, or 0 where a gathered row does not exist."""
        return f"(there{i} ? {value} : ({self.computed})0)" if self.gathered else value


def device_function(
    result: str,
    name: str,
    takes: Sequence[str],
    outputs: Sequence[Expression],
    names: Sequence[str],
) -> str:
    """Return a function of expressions. A void one assigns them to `y0`, `y1`, ..."""
    lines, results = statements(outputs, names, SPELLINGS)
    if result == "void":
        takes = [*takes, *[f"{type_of(output)}& y{k}" for k, output in enumerate(outputs)]]
        lines = [*lines, *[f"y{k} = {value};" for k, value in enumerate(results)]]
    else:
        lines = [*lines, f"return {results[0]};"]
    body = "".join(f"    {line}\n" for line in lines)
    head = f"__device__ __forceinline__ {result} {name}({', '.join(takes)})"
    return f"{head} {{\n{body}}}\n"
