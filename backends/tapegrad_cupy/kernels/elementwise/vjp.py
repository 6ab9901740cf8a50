"""All VJP rules of an elementwise primitive in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.primitive.rule import Rule
from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import (
    EXPRESSIONS,
    UntraceableError,
    array_input,
    number_input,
    traced,
)
from tapegrad_cupy.kernels.elementwise.formula import (
    DTYPES,
    Formula,
    Formulas,
    batched_variants,
    whole_operands,
)
from tapegrad_cupy.launch.cuda_source import Source

Cotangents = Sequence[Any]
SavedReads = list[tuple[int, int]]
"""Which values that a node saved are read: pairs of an input's number and a read of its rule."""


class Vjp:
    """The VJP rules of one primitive.

    A call takes the cotangent, the values that the node saved, flags of the wanted inputs, the
    params, and whether to conjugate around the rules. It returns one cotangent per input, None for
    inputs that are not wanted. It returns None alone if the rules cannot be traced.
    """

    def __init__(self, primitive: Primitive) -> None:
        self._rules: tuple[Rule | None, ...] = primitive.vjp_rules or ()
        self._pullbacks: dict[tuple[tuple[bool, ...], bool], _Pullback] = {}

    def __call__(
        self,
        t: Any,
        saved: Sequence[Any],
        wanted: tuple[bool, ...],
        params: dict[str, Any],
        conjugate: bool,
    ) -> Cotangents | None:
        pullback = self._pullbacks.get((wanted, conjugate))
        if pullback is None:
            pullback = _Pullback(self._rules, wanted, conjugate)
            self._pullbacks[wanted, conjugate] = pullback
        return pullback(t, saved, params)


class _Pullback:
    """The rules of the wanted inputs. A value that several rules read is passed once."""

    def __init__(
        self, rules: Sequence[Rule | None], wanted: tuple[bool, ...], conjugate: bool
    ) -> None:
        self._rules = [
            rule if flag and rule is not None else None for rule, flag in zip(rules, wanted)
        ]
        self._conjugate = conjugate
        self._saved_reads, self._positions = _shared_reads(self._rules)
        self._names = sorted({name for rule in self._rules if rule for name in rule.wants})
        self._is_identity = [rule is not None and _is_identity(rule) for rule in self._rules]
        computed = [
            i for i, rule in enumerate(self._rules) if rule is not None and not self._is_identity[i]
        ]
        self._computed = computed
        self._formula = Formula(self._apply_rules, _not_traced) if computed else None
        self._traceable = not any(
            read.only_shape for rule in self._rules if rule is not None for read in rule.reads
        )

    def __call__(self, t: Any, saved: Sequence[Any], params: dict[str, Any]) -> Cotangents | None:
        if not self._traceable:
            return None
        cotangents: list[Any] = [t if identity else None for identity in self._is_identity]
        if self._formula is None:
            return cotangents
        operands = [saved[i][j] for i, j in self._saved_reads]
        if self._names:
            params = {name: params[name] for name in self._names}
            results = self._formula(t, *operands, **params)
        else:
            results = self._formula(t, *operands)
        if results is None:
            self._traceable = False
            return None
        if len(self._computed) == 1:
            cotangents[self._computed[0]] = results
        else:
            for i, result in zip(self._computed, results):
                cotangents[i] = result
        return cotangents

    def formula(self, dtype: Any) -> Any:
        """Return the expressions of the kernel for one dtype, or None if they cannot be traced."""
        if self._formula is None or not self._traceable:
            return None
        inputs = [array_input(i, dtype) for i in range(1 + len(self._saved_reads))]
        numbers = {n: number_input(len(inputs) + k, float) for k, n in enumerate(self._names)}
        try:
            outputs = traced(self._apply_rules, *inputs, **numbers)
            statements(outputs, [f"a{i}" for i in range(len(inputs) + len(numbers))])
        except UntraceableError:
            return None
        if any(output.name == "input" for output in outputs):
            return None
        return outputs, whole_operands([*inputs, *numbers.values()])

    def _apply_rules(self, t: Any, *values: Any, **params: Any) -> Any:
        """Apply all rules to expressions; `values` are those at `_saved_reads`."""
        conj: Callable[[Any], Any] = EXPRESSIONS.xp.conj
        results = []
        for i in self._computed:
            rule = self._rules[i]
            assert rule is not None
            read = tuple(values[position] for position in self._positions[i])
            if self._conjugate:
                results.append(conj(rule.guarded(conj(t), read, params)))
            else:
                results.append(rule.guarded(t, read, params))
        return tuple(results)


def _not_traced(*args: Any, **params: Any) -> None:
    return None


def _shared_reads(rules: Sequence[Rule | None]) -> tuple[SavedReads, list[list[int]]]:
    """Return the distinct values that the rules read, and for each rule their positions."""
    saved_reads: SavedReads = []
    known: dict[tuple[bool, int | None], int] = {}
    positions: list[list[int]] = []
    for i, rule in enumerate(rules):
        positions.append([])
        for j, read in enumerate(rule.reads if rule is not None else ()):
            value = (read.of_output, read.index)
            if value not in known:
                known[value] = len(saved_reads)
                saved_reads.append((i, j))
            positions[i].append(known[value])
    return saved_reads, positions


def _is_identity(rule: Rule) -> bool:
    """Return whether the rule returns the cotangent unchanged."""
    if rule.reads or rule.wants:
        return False
    t = array_input(0, np.dtype(np.complex64))  # for real numbers conj would be the identity too
    try:
        return traced(rule.function, t)[0] is t
    except UntraceableError:
        return False


def variants() -> Iterator[Source]:
    """Yield the sources for all elementwise primitives, one kernel for all rules of each."""
    formulas: dict[str, Formulas] = {dtype: [] for dtype in DTYPES}
    for dtype, found in formulas.items():
        for primitive in PRIMITIVES.values():
            if primitive.broadcasts and primitive.vjp_rules:
                conjugate = primitive.conjugates and np.dtype(dtype).kind == "c"
                wanted = (True,) * len(primitive.vjp_rules)
                formula = _Pullback(primitive.vjp_rules, wanted, conjugate).formula(np.dtype(dtype))
                if formula is not None:
                    found.append(formula)
    yield from batched_variants("rules", formulas)
