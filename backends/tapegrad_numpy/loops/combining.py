"""C source of loops with reductions, along the innermost axis or along outer ones.

Sums of floating point numbers are accumulated in double with compensation. A reduction is split
into slices by its length alone, so that the number of threads does not change results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tapegrad.core.trace.expression import UntraceableError, kind_of_dtype
from tapegrad.core.trace.loop import Loop, LoopOutput
from tapegrad_numpy.loops.element_types import register, storage, stored
from tapegrad_numpy.loops.formulas import formula
from tapegrad_numpy.loops.layout import COLUMNS
from tapegrad_numpy.loops.source import CUT, WORK, Kernel, Writer, bounds

PIECE = 4096
"""The number of elements along the innermost axis that are reduced to one partial result."""
_LANES = 64
"""The number of partial results where a single one would be a serial dependence."""
_ROWS_TOGETHER = 16
"""The number of rows that are summed in their own precision before accumulation in double."""

Walk = Callable[[str, str, Sequence[str], str], list[str]]
"""Writes the innermost loop: from and to which index, uses of values, reductions of OpenMP."""

_SIGNS = {"add": "+", "multiply": "*"}


class Combination:
    """The C source of one reduced output."""

    def __init__(self, number: int, output: LoopOutput, place: int = -1) -> None:
        assert output.combine is not None
        dtype = output.expression.dtype
        assert dtype is not None
        self.k = number
        self.output = output
        self.type = register(dtype)
        self.target = register(output.dtype)
        self.place = place
        """Its position among all arrays; a stage has none."""
        self.combine = output.combine
        self.floats = kind_of_dtype(dtype) == "f"
        self.sums = self.combine == "add" and self.floats
        self.extreme = self.combine in ("maximum", "minimum")
        self.partial = "double" if self.sums else self.type
        """The C type of partial results along the innermost axis."""
        self.waits = self.extreme or (self.sums and self.type == "double")

    def identity(self) -> str:
        if self.combine in ("add", "multiply"):
            return "0" if self.combine == "add" else "1"
        least = self.combine == "maximum"
        if self.floats:
            return "-INFINITY" if least else "INFINITY"
        if self.type.startswith("unsigned"):
            return "0" if least else f"({self.type})-1"
        bits = f"(8 * sizeof({self.type}) - 1)"
        return f"({self.type})(-1LL << {bits})" if least else f"({self.type})~(-1LL << {bits})"

    def joined(self, into: str, value: str) -> str:
        """Combine a value with an accumulator of the output's type."""
        if not self.extreme:
            return f"{into} {_SIGNS[self.combine]}= {value};"
        sign = ">" if self.combine == "maximum" else "<"
        wins = f"({value} {sign} {into}) | ({value} != {value})"
        if self.floats:
            return f"{into} = choose_{self.type}({wins}, {value}, {into});"
        return f"{into} = {wins} ? {value} : {into};"

    def gathered(self, value: str) -> str:
        """Combine a partial result with the accumulators."""
        if self.sums:
            return f"add_to(&high{self.k}, &low{self.k}, {value});"
        return self.joined(f"high{self.k}", value)

    def taken(self, value: str) -> str:
        """Let the only partial result be the accumulators."""
        return f"high{self.k} = {value};" + (f" low{self.k} = 0;" if self.sums else "")

    def closing(self) -> tuple[str, frozenset[str]]:
        """The function that computes the result from the reduced value, and its callees."""
        lines = [f"static INLINE {self.target} finish{self.k}_KEY({self.type} x0) {{"]
        value, calls = "x0", frozenset[str]()
        if self.output.finish is not None:
            written = formula((self.output.finish,), ["x0"], [0])
            lines += written.once
            value, calls = written.results[0], written.functions
        lines.append(f"return {value};\n}}")
        return "\n".join(lines), calls

    def finished(self, index: str) -> str:
        """The result, from the accumulators."""
        value = f"total(high{self.k}{index}, low{self.k}{index})" if self.sums else self._own(index)
        return f"finish{self.k}_KEY({value})"

    def result(self, index: str, at: str) -> str:
        """Write the result from the accumulators."""
        return self.written(self.finished(index), at)

    def written(self, result: str, at: str) -> str:
        """Write a finished result."""
        dtype = self.output.dtype
        value = stored(dtype, result)
        return f"(({storage(dtype)} *)data[{self.place}])[{at}] = {value};"

    def kept(self, index: str, slot: str) -> str:
        """Store the accumulators in a slot."""
        if self.sums:
            return f"slots[{slot}] = (Slot){{high{self.k}{index}, low{self.k}{index}}};"
        return f"*({self.type} *)&slots[{slot}] = {self._own(index)};"

    def _own(self, index: str) -> str:
        return f"high{self.k}{index}"

    def accumulators(self, size: str) -> list[str]:
        if not self.sums:
            return [f"{self.type} high{self.k}{size};"]
        return [f"double high{self.k}{size}, low{self.k}{size};"]

    def cleared(self, index: str) -> str:
        if self.sums:
            return f"high{self.k}{index} = low{self.k}{index} = 0;"
        return f"high{self.k}{index} = {self.identity()};"

    def slot_joined(self, slot: str) -> str:
        """Combine the accumulators with the slot of another slice."""
        if self.sums:
            return (
                f"low{self.k} += slots[{slot}].low; "
                f"add_to(&high{self.k}, &low{self.k}, slots[{slot}].high);"
            )
        return (
            f"{{ const {self.type} other = *(const {self.type} *)&slots[{slot}]; "
            f"{self.joined(f'high{self.k}', 'other')} }}"
        )


def write_combining(loop: Loop) -> Kernel:
    """Return the kernel of a loop with reductions."""
    writer = Writer(loop)
    first = len(loop.inputs)
    parts = [
        Combination(k, output, first + k)
        for k, output in enumerate(loop.outputs)
        if output.combine is not None
    ]
    if 0 in loop.shape and any(part.extreme for part in parts):
        raise UntraceableError("The maximum or minimum of no elements is undefined.")
    finishing = [part.closing() for part in parts]
    for _, calls in finishing:
        writer.functions |= calls
    along_inner = writer.space.combined[-1]
    deep = math.prod(writer.space.sizes[axis] for axis in writer.space.combined_outer)
    columns = _few_rows if deep <= _ROWS_TOGETHER else _columns
    body = _rows(writer, parts) if along_inner else columns(writer, parts)
    texts = [text for text, _ in finishing]
    text = [*writer.before(), *texts, *body, *_close(parts)]
    result = writer.cut(PIECE)
    slots = result.slices * result.results * len(parts) if result.slices > 1 else 0
    return writer.kernel(text, slots)


def _rows(writer: Writer, parts: list[Combination]) -> list[str]:
    """Reduce along the innermost axis: one result per row."""
    groups = f"task / {CUT['slices']}"
    start = f"({groups}) * {CUT['rows_at_once']}"
    steps = f"{CUT['deep']} * {CUT['pieces']}"
    kept, reduced = writer.space.kept_outer, writer.space.combined_outer
    is_whole = not reduced and writer.space.sizes[-1] <= PIECE
    # A division costs more than a short row.
    divided, left = (f"first ? first {sign} {CUT['pieces']} : 0" for sign in "/%")
    return [
        WORK,
        f"const int64_t slice = task % {CUT['slices']};",
        *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
        *bounds("first", "stop", f"slice * {CUT['share']}", CUT["share"], steps),
        *writer.once(),
        *writer.indices(kept, "row"),
        "for (; row < last; ++row) {",
        *[line for part in parts for line in part.accumulators("")],
        *[part.cleared("") for part in parts],
        f"int64_t deep = {divided}, piece = {left};",
        *writer.indices(reduced, "deep"),
        "for (int64_t step = first; step < stop; ++step) {",
        *bounds("begin", "end", f"piece * {CUT['piece']}", CUT["piece"], CUT["inner"]),
        *writer.row(),
        *inner_sums(parts, writer.formula.results, writer.walk, is_whole=is_whole),
        f"if (++piece == {CUT['pieces']}) {{", "piece = 0;", *writer.advance(reduced), "}",
        "}",
        *_leave(parts, "", "row"),
        *writer.advance(kept),
        "}\n}",
    ]  # fmt: skip


def inner_sums(
    parts: list[Combination], values: Sequence[str], walk: Walk, *, is_whole: bool = False
) -> list[str]:
    """Reduce along the innermost axis from `begin` to `end` with vector instructions.

    With `is_whole` there is nothing to combine the result with.
    """
    if any(part.waits for part in parts):
        return _in_lanes(parts, values, walk)
    before, uses, after = [], [], []
    reductions = ""
    for part in parts:
        k, sign = part.k, _SIGNS[part.combine]
        before.append(f"{part.partial} b{k} = {part.identity()};")
        uses.append(f"b{k} {sign}= {values[k]};")
        after.append(part.taken(f"b{k}") if is_whole else part.gathered(f"b{k}"))
        reductions += f" reduction({sign}:b{k})"
    return [*before, *walk("begin", "end", uses, reductions), *after]


def _in_lanes(parts: list[Combination], values: Sequence[str], walk: Walk) -> list[str]:
    """Reduce with many partial results, because a single one would be a serial dependence."""
    each = "for (int64_t j = 0; j < lanes; ++j) {"
    uses = [p.joined(f"b{p.k}[i - some]", values[p.k]) for p in parts]
    return [
        f"const int64_t lanes = end - begin < {_LANES} ? end - begin : {_LANES};",
        *[f"{part.partial} b{part.k}[{_LANES}];" for part in parts],
        each, *[f"b{part.k}[j] = {part.identity()};" for part in parts], "}",
        f"for (int64_t some = begin; some < end; some += {_LANES}) {{",
        f"const int64_t until = some + {_LANES} < end ? some + {_LANES} : end;",
        *walk("some", "until", uses, ""),
        "}",
        # Combine halves as long as there are whole vectors; what is in the middle remains.
        "int64_t left = lanes;",
        "while (left > 4) {",
        "const int64_t half = left / 2;",
        "left -= half;",
        "#pragma omp simd",
        "for (int64_t j = 0; j < half; ++j) {",
        *[part.joined(f"b{part.k}[j]", f"b{part.k}[j + left]") for part in parts],
        "}\n}",
        "for (int64_t j = 1; j < left; ++j) {",
        *[part.joined(f"b{part.k}[0]", f"b{part.k}[j]") for part in parts],
        "}",
        "if (lanes > 0) {", *[part.gathered(f"b{part.k}[0]") for part in parts], "}",
    ]  # fmt: skip


def _few_rows(writer: Writer, parts: list[Combination]) -> list[str]:
    """Reduce few rows to one: the sums in their own precision are the results."""
    start = f"rest / {CUT['pieces']} * {CUT['rows_at_once']}"
    kept, reduced = writer.space.kept_outer, writer.space.combined_outer
    names = [f"b{part.k}[j]" for part in parts]
    uses = [part.joined(f"b{part.k}[i - begin]", writer.formula.results[part.k]) for part in parts]
    each = ["#pragma omp simd", "for (int64_t j = 0; j < width; ++j) {"]
    at = f"row * {CUT['inner']} + begin + j"
    results = [part.written(f"finish{part.k}_KEY({name})", at) for part, name in zip(parts, names)]
    return [
        WORK,
        "const int64_t rest = task;",
        *bounds("begin", "end", f"rest % {CUT['pieces']} * {CUT['piece']}", CUT["piece"],
                CUT["inner"]),
        *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
        "const int64_t width = end - begin;",
        *[f"{part.type} b{part.k}[{COLUMNS}];" for part in parts],
        *writer.once(),
        *writer.indices(kept, "row"),
        "for (; row < last; ++row) {",
        *writer.indices(reduced, "0"),
        *each, *[f"{name} = {part.identity()};" for part, name in zip(parts, names)], "}",
        f"for (int64_t deep = 0; deep < {CUT['deep']}; ++deep) {{",
        *writer.row(),
        *writer.walk("begin", "end", uses),
        *writer.advance(reduced),
        "}",
        *each, *results, "}",
        *writer.advance(kept),
        "}\n}",
    ]  # fmt: skip


def _columns(writer: Writer, parts: list[Combination]) -> list[str]:
    """Reduce along outer axes: the results are adjacent along the innermost axis."""
    start = f"rest / {CUT['pieces']} * {CUT['rows_at_once']}"
    size = f"[{COLUMNS}]"
    sums = [part for part in parts if part.sums]
    kept, reduced = writer.space.kept_outer, writer.space.combined_outer
    each = "for (int64_t j = 0; j < width; ++j) {"
    uses = []
    for part in parts:
        value = writer.formula.results[part.k]
        if part.sums:
            uses.append(f"b{part.k}[i - begin] += {value};")
        else:
            uses.append(part.joined(f"high{part.k}[i - begin]", value))
    return [
        WORK,
        f"const int64_t slice = task % {CUT['slices']}, rest = task / {CUT['slices']};",
        *bounds("begin", "end", f"rest % {CUT['pieces']} * {CUT['piece']}", CUT["piece"],
                CUT["inner"]),
        *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
        *bounds("first", "stop", f"slice * {CUT['share']}", CUT["share"], CUT["deep"]),
        "const int64_t width = end - begin;",
        *[line for part in parts for line in part.accumulators(size)],
        *[f"{part.type} b{part.k}{size};" for part in sums],
        *writer.once(),
        *writer.indices(kept, "row"),
        "for (; row < last; ++row) {",
        *writer.indices(reduced, "first"),
        each, *[part.cleared("[j]") for part in parts], "}",
        f"for (int64_t some = first; some < stop; some += {_ROWS_TOGETHER}) {{",
        f"const int64_t until = some + {_ROWS_TOGETHER} < stop ? some + {_ROWS_TOGETHER} : stop;",
        each, *[f"b{part.k}[j] = 0;" for part in sums], "}",
        "for (int64_t deep = some; deep < until; ++deep) {",
        *writer.row(),
        *writer.walk("begin", "end", uses),
        *writer.advance(reduced),
        "}",
        "#pragma omp simd",
        each, *[f"add_to(&high{p.k}[j], &low{p.k}[j], b{p.k}[j]);" for p in sums], "}",
        "}",
        each, *_leave(parts, "[j]", f"row * {CUT['inner']} + begin + j"), "}",
        *writer.advance(kept),
        "}\n}",
    ]  # fmt: skip


def _leave(parts: list[Combination], index: str, at: str) -> list[str]:
    """Write results, or store partial results if there are several slices."""
    slot = f"slice * {CUT['results']} + {at}"
    kept = [
        part.kept(index, f"{order} * {CUT['slices']} * {CUT['results']} + {slot}")
        for order, part in enumerate(parts)
    ]
    finished = [part.result(index, at) for part in parts]
    return [f"if ({CUT['slices']} == 1) {{", *finished, "} else {", *kept, "}"]


def _close(parts: list[Combination]) -> list[str]:
    """The function that combines slices, always in the same order."""
    lines = ["static void close_KEY(char **data, const int64_t *z, const Slot *slots) {"]
    lines.append(f"for (int64_t at = 0; at < {CUT['results']}; ++at) {{")
    for order, part in enumerate(parts):
        slot = f"({order} * {CUT['slices']} + slice) * {CUT['results']} + at"
        lines += [
            *part.accumulators(""),
            part.cleared(""),
            f"for (int64_t slice = 0; slice < {CUT['slices']}; ++slice) {{",
            part.slot_joined(slot),
            "}",
            part.result("", "at"),
        ]
    return [*lines, "}\n}"]
