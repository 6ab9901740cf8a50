"""C statements of expressions, by the level of the loop at which they run."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import Expression, UntraceableError
from tapegrad_numpy.loops.dtypes import LOOP_DTYPES
from tapegrad_numpy.loops.element_types import CASTS, HALVES, in_c, name_of
from tapegrad_numpy.loops.vector_maths import FAR, FUNCTIONS

_CALL = re.compile(r"\b(?!cfloat\(|cdouble\()([a-z]\w*)\(")
_NAME = re.compile(r"\b[vx]\d+\b")
_LINE = re.compile(r"const .+ (v\d+) = (.+);")
_CHOICE = re.compile(r"(const (float|double) v\d+ = )([vx]\d+) \? (.+) : (.+);")
FAR_CALL = re.compile(r"\btg_(" + "|".join(FAR) + r")\(")


class Formula(NamedTuple):
    """Statements by the loop level at which they run, and the names of the results."""

    once: list[str]
    """Statements that depend on inputs of one element only."""
    per_row: list[str]
    """Statements that are invariant along the innermost axis.

    As those per element, they call functions in FAR by the names of vectorised ones.
    """
    per_element: list[str]
    results: list[str]
    functions: frozenset[str]


def formula(
    expressions: Sequence[Expression], names: Sequence[str], levels: Sequence[int]
) -> Formula:
    """Generate statements; the level of an input (0, 1 or 2) is the loop that changes it."""
    _refuse_dtypes(expressions)
    lines, results = statements(expressions, names, _OF_FLOATS, _OF_COMPLEX, CASTS)
    lines, results = [in_c(line) for line in lines], [in_c(result) for result in results]
    level_of = dict(zip(names, levels))
    functions: set[str] = set()
    by_level: tuple[list[str], list[str], list[str]] = ([], [], [])
    masks = _bool_inputs(expressions, names)
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match is not None
        functions.update(_CALL.findall(match[2]))
        text = line.replace(match[2], _CALL.sub(r"tg_\1(", match[2]))
        level = max((level_of[name] for name in _NAME.findall(match[2])), default=0)
        level_of[match[1]] = level
        if line.startswith("const bool ") and masks & {*_NAME.findall(match[2])}:
            masks.add(match[1])
        if level == 2:
            by_level[2].append(_with_masks(text, level_of, masks))
        else:
            # GCC does not vectorise loops in which a bool of the row becomes a number.
            text = re.sub(r"^const bool ", "const int ", text)
            by_level[level].append(text if level else for_all_arguments(text))
    unknown = functions - FUNCTIONS
    if unknown:
        raise UntraceableError(f"C has no {', '.join(sorted(unknown))}.")
    once, per_row, per_element = by_level
    return Formula(once, per_row, per_element, results, frozenset(functions))


def _bool_inputs(expressions: Sequence[Expression], names: Sequence[str]) -> set[str]:
    """Return the names of the inputs that are arrays of bools."""
    waiting, seen, found = list(expressions), set[int](), set[str]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.operands
            if node.name == "input" and node.dtype is not None and node.dtype.kind == "b":
                found.add(names[int(node.value)])
    return found


def _with_masks(line: str, level_of: Mapping[str, int], masks: Collection[str]) -> str:
    """Choose by masks where a loop with the condition is not vectorised by GCC.

    These are conditions that are the same for all elements of a row, and bools in memory that
    choose between numbers of eight times their size.
    """
    match = _CHOICE.fullmatch(line)
    if match is None:
        return line
    of_bytes = match[3] in masks and match[2] == "double"
    if level_of[match[3]] == 2 and not of_bytes:
        return line
    return f"{match[1]}choose_{match[2]}({match[3]}, {match[4]}, {match[5]});"


def for_all_arguments(line: str) -> str:
    """Return a statement with the functions of the C library instead of those in FAR."""
    return FAR_CALL.sub(r"far_\1(", line)


def _extreme(node: Expression) -> str:
    """Return the formula of a maximum or minimum; a NaN operand gives NaN.

    The larger of 0.0 and -0.0 is 0.0 and the smaller is -0.0, as in IEEE 754. If one operand is a
    number, a comparison says as much.
    """
    is_largest = node.name == "maximum"
    sign = ">" if is_largest else "<"
    for place, operand in enumerate(node.operands):
        if operand.name == "constant":
            wins_ties = not operand.value and (math.copysign(1.0, operand.value) > 0) == is_largest
            if not operand.value and wins_ties == (place == 0):
                sign += "="
            return f"{{0}} {sign} {{1}} || {{0}} != {{0}} ? {{0}} : {{1}}"
    return "larger({0}, {1})" if is_largest else "smaller({0}, {1})"


_MOST_HALVES, _MOST_WHOLE = 7, 12
"""The largest exponents, in halves and whole, for which a root and products replace a power."""


def _power(node: Expression) -> str | None:
    """Return the formula of a power with an exponent such as -1.5 or 4, None for others.

    Powers are computed in double precision, which takes ten times as long.
    """
    base, exponent = node.operands
    number = exponent.value if exponent.name == "constant" else 0
    if base.dtype != node.dtype or abs(number) > _MOST_WHOLE:
        return None
    if number in (0, 1, 2, 3) or 2 * number % 1:
        return None
    if number % 1 == 0:
        return f"whole_power({{0}}, {int(number)})"
    halves = 2 * number
    return f"power_of_root({{0}}, {int(halves)})" if abs(halves) <= _MOST_HALVES else None


_OF_FLOATS = {"maximum": _extreme, "minimum": _extreme, "pow": _power}

_OF_COMPLEX = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "MUL_{T}({0}, {1})",
    "negative": "-{0}",
    "square": "MUL_{T}({0}, {0})",
    "conj": "~{0}",
    "real": "__real__ {0}",
    "imag": "__imag__ {0}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "where": "{0} ? {1} : {2}",
}
"""Formulas in GNU C. Its own product has special cases for infinite factors, NumPy's has not."""

_OF_BITS = frozenset({"nextafter", "spacing"})
"""Functions whose results depend on the precision of their operands."""


def _refuse_dtypes(expressions: Iterable[Expression]) -> None:
    waiting, seen = list(expressions), set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.operands
        if node.dtype is None:
            continue
        name = name_of(node.dtype)
        if name not in LOOP_DTYPES or (name in HALVES and node.name in _OF_BITS):
            raise UntraceableError(f"Loops in C do not compute {node.name} of {name}.")
