"""Split long expressions into stages: one short loop per few steps, block by block.

A processor looks ahead a few hundred instructions. If one vector has a longer chain of dependent
steps, vectors are computed one after the other. Short loops let them overlap.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NamedTuple

BLOCK = 256
"""The number of elements per block; intermediate values of a block stay in the cache."""
MOST_STAGES = 32
STEPS = 10
"""The number of dependent steps per stage; an elementary function ends a stage."""
_WORTH_IT = 6
"""The fewest statements after the first stage, because storing intermediate values costs time."""

_NAME = re.compile(r"\b[vx]\d+\b")
_LINE = re.compile(r"const (.+) (v\d+) = (.+);")
_HEAVY = re.compile(
    r"\btg_(exp2?|expm1|tanh|log|log1p|cbrt|erf|erfc|normcdf|pow|log_of_sum|log2_of_sum)\("
)


class Stage(NamedTuple):
    """The statements of one loop."""

    lines: list[str]
    reads: list[str]
    """Names that are read from arrays, and names from earlier stages."""
    hands_on: list[str]
    """Names that later stages read."""


class Staged(NamedTuple):
    """All stages, and the C types of the intermediate values."""

    stages: list[Stage]
    types: dict[str, str]


def staged(lines: Sequence[str], wanted: Sequence[str], given: Container[str]) -> Staged | None:
    """Divide statements into stages; the last one has the values that `wanted` reads.

    The names in `given` are read from arrays. Return None if staging would not help.
    """
    ready: dict[str, int] = {}  # the number of dependent steps before a name is known
    types: dict[str, str] = {}
    by_stage: list[list[str]] = [[] for _ in range(MOST_STAGES)]
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match is not None
        start = max((ready.get(name, 0) for name in _NAME.findall(match[3])), default=0)
        stage = min(start // STEPS, MOST_STAGES - 1)
        by_stage[stage].append(line)
        types[match[2]] = "unsigned char" if match[1] == "bool" else match[1]
        is_heavy = _HEAVY.search(match[3]) is not None
        ready[match[2]] = (stage + 1) * STEPS if is_heavy else start + 1
    last = min(max(ready.values(), default=0) // STEPS, MOST_STAGES - 1)
    if last == 0 or sum(map(len, by_stage[1:])) + len(wanted) < _WORTH_IT:
        return None
    by_stage = _with_own_conditions(by_stage[: last + 1], wanted)
    return Staged(_connected(by_stage, wanted, given), types)


def _with_own_conditions(by_stage: list[list[str]], wanted: Sequence[str]) -> list[list[str]]:
    """Let each stage compute the conditions that it reads.

    GCC does not vectorise a loop with vectors of 64 bits that reads conditions from an array.
    """
    conditions = {_defined(line): line for lines in by_stage for line in lines if _is_bool(line)}
    found = []
    for number, lines in enumerate(by_stage):
        texts = [*lines, *(wanted if number == len(by_stage) - 1 else ())]
        waiting, missing = [name for text in texts for name in _NAME.findall(text)], set[str]()
        own = {_defined(line) for line in lines}
        while waiting:
            name = waiting.pop()
            if name in conditions and name not in own and name not in missing:
                missing.add(name)
                waiting += _NAME.findall(conditions[name])
        found.append([*(line for name, line in conditions.items() if name in missing), *lines])
    return found


def _is_bool(line: str) -> bool:
    return line.startswith("const bool ")


def _defined(line: str) -> str:
    """The name that a statement defines."""
    return line.partition(" = ")[0].rpartition(" ")[2]


def _connected(
    by_stage: list[list[str]], wanted: Sequence[str], given: Container[str]
) -> list[Stage]:
    made: list[set[str]] = []
    used: list[set[str]] = []
    for lines in by_stage:
        made.append({_defined(line) for line in lines})
        used.append({name for line in lines for name in _NAME.findall(line)})
    used[-1] |= {name for text in wanted for name in _NAME.findall(text)}
    missing = [names - own for names, own in zip(used, made)]
    stages = []
    for number, lines in enumerate(by_stage):
        before = set[str]().union(*made[:number])
        after = set[str]().union(*missing[number + 1 :])
        stages.append(Stage(lines, sorted(missing[number]), sorted(made[number] & after)))
        stages[-1].reads[:] = [name for name in stages[-1].reads if name in before or name in given]
    return stages
