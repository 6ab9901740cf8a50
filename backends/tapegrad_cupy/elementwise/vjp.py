"""All rules of an elementwise primitive in one launch: a cotangent in, one share per input out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.core.c_source import statements
from tapegrad.core.expression import (
    EXPRESSIONS,
    UntraceableError,
    array_input,
    number_input,
    traced,
)
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad.core.rule import Rule
from tapegrad_cupy.compiled import Source
from tapegrad_cupy.elementwise.formula import (
    DTYPES,
    Formula,
    Formulas,
    joined_variants,
    whole_operands,
)

Shares = Sequence[Any]
Picks = list[tuple[int, int]]


class Vjp:
    """The rules of one primitive. What it returns is None where `wanted` says so.

    Called with the cotangent, what the node saved, which inputs are wanted, the params, and whether
    to conjugate around the rules. Returns None if the rules cannot be traced.
    """

    def __init__(self, primitive: Primitive) -> None:
        self._rules: tuple[Rule | None, ...] = primitive.vjp_rules or ()
        self._pulls: dict[tuple[tuple[bool, ...], bool], _Pull] = {}

    def __call__(
        self,
        t: Any,
        saved: Sequence[Any],
        wanted: tuple[bool, ...],
        params: dict[str, Any],
        conjugate: bool,
    ) -> Shares | None:
        pull = self._pulls.get((wanted, conjugate))
        if pull is None:
            pull = _Pull(self._rules, wanted, conjugate)
            self._pulls[wanted, conjugate] = pull
        return pull(t, saved, params)


class _Pull:
    """The rules of the wanted inputs, read together: what two of them read is passed once."""

    def __init__(
        self, rules: Sequence[Rule | None], wanted: tuple[bool, ...], conjugate: bool
    ) -> None:
        self._rules = [
            rule if flag and rule is not None else None for rule, flag in zip(rules, wanted)
        ]
        self._conjugate = conjugate
        self._picks, self._places = _reads(self._rules)
        self._names = sorted({name for rule in self._rules if rule for name in rule.wants})
        self._passes = [rule is not None and _passes_on(rule) for rule in self._rules]
        computed = [
            i for i, rule in enumerate(self._rules) if rule is not None and not self._passes[i]
        ]
        self._computed = computed
        self._formula = Formula(self._together, _not_traced) if computed else None
        self._traceable = not any(
            read.only_shape for rule in self._rules if rule is not None for read in rule.reads
        )

    def __call__(self, t: Any, saved: Sequence[Any], params: dict[str, Any]) -> Shares | None:
        if not self._traceable:
            return None
        shares: list[Any] = [t if passes else None for passes in self._passes]
        if self._formula is None:
            return shares
        operands = [saved[i][j] for i, j in self._picks]
        if self._names:
            params = {name: params[name] for name in self._names}
            results = self._formula(t, *operands, **params)
        else:
            results = self._formula(t, *operands)
        if results is None:
            self._traceable = False
            return None
        if len(self._computed) == 1:
            shares[self._computed[0]] = results
        else:
            for i, result in zip(self._computed, results):
                shares[i] = result
        return shares

    def formula(self, dtype: Any) -> Any:
        """What the kernel computes, for one dtype throughout; None if it cannot be traced."""
        if self._formula is None or not self._traceable:
            return None
        inputs = [array_input(i, dtype) for i in range(1 + len(self._picks))]
        numbers = {n: number_input(len(inputs) + k, float) for k, n in enumerate(self._names)}
        try:
            outputs = traced(self._together, *inputs, **numbers)
            statements(outputs, [f"a{i}" for i in range(len(inputs) + len(numbers))])
        except UntraceableError:
            return None
        if any(output.name == "input" for output in outputs):
            return None
        return outputs, whole_operands([*inputs, *numbers.values()])

    def _together(self, t: Any, *values: Any, **params: Any) -> Any:
        """What the kernel computes, on expressions."""
        conj: Callable[[Any], Any] = EXPRESSIONS.xp.conj
        results = []
        for i in self._computed:
            rule = self._rules[i]
            assert rule is not None
            read = tuple(values[place] for place in self._places[i])
            own = {name: params[name] for name in rule.wants}
            if self._conjugate:
                results.append(conj(rule.function(conj(t), *read, **own)))
            else:
                results.append(rule.function(t, *read, **own))
        return tuple(results)


def _not_traced(*args: Any, **params: Any) -> None:
    return None


def _reads(rules: Sequence[Rule | None]) -> tuple[Picks, list[list[int]]]:
    """Where each value that is read lies among what a node saved, and which rule reads which."""
    picks: Picks = []
    known: dict[tuple[bool, int | None], int] = {}
    places: list[list[int]] = []
    for i, rule in enumerate(rules):
        places.append([])
        for j, read in enumerate(rule.reads if rule is not None else ()):
            what = (read.of_output, read.index)
            if what not in known:
                known[what] = len(picks)
                picks.append((i, j))
            places[i].append(known[what])
    return picks, places


def _passes_on(rule: Rule) -> bool:
    """Whether the rule returns the cotangent as it is, so that there is nothing to compute."""
    if rule.reads or rule.wants:
        return False
    t = array_input(0, np.dtype(np.complex64))  # of real numbers the conjugate passes too
    try:
        return traced(rule.function, t)[0] is t
    except UntraceableError:
        return False


def variants() -> Iterator[Source]:
    """Yield the rules of all elementwise primitives, each primitive's in one kernel."""
    formulas: dict[str, Formulas] = {dtype: [] for dtype in DTYPES}
    for dtype, found in formulas.items():
        for primitive in PRIMITIVES.values():
            if primitive.broadcasts and primitive.vjp_rules:
                conjugate = primitive.conjugates and np.dtype(dtype).kind == "c"
                wanted = (True,) * len(primitive.vjp_rules)
                formula = _Pull(primitive.vjp_rules, wanted, conjugate).formula(np.dtype(dtype))
                if formula is not None:
                    found.append(formula)
    yield from joined_variants("rules", formulas)
