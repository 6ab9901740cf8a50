"""Where a NaN or an infinity was made: make the calls of a graph one by one and look at each."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.number_checks import largest, share_of
from tapegrad.program.graph.graph import Call, Graph, InnerProgram, Value, last_uses

Rounds = Generator[tuple[Graph, list[Any]], Sequence[Any], None]
"""Yields the graph and the inputs of each round of a loop, and takes its results."""


@dataclass(frozen=True)
class Origin:
    """The call that made a NaN or an infinity, or the value that had it from the beginning."""

    is_nan: bool
    call: Call | None = None
    given: tuple[str, int] | None = None
    """ "input", "variable" or "constant", and its position."""
    share: str = ""
    """How many elements are affected, in words."""
    before: Origin | None = None
    """Where the infinities come from that the call has read."""
    rounds: tuple[int, ...] = ()
    """The rounds of the loops in which it happened, the outermost first, from 0."""

    def sentence(self) -> str:
        """Name the operation, the line and the pass."""
        assert self.call is not None
        made = "NaN" if self.is_nan else "infinities"
        where = "".join(f", in round {number} of a loop" for number in self.rounds)
        verb = f"became {made if self.is_nan else 'infinite'} in the backward pass"
        if not self.call.is_backward:
            verb = f"made {made} in the forward pass"
        text = f"{self._operation()} {verb}{where}: {self.share}."
        if self.before is not None and self.before.call is not None:
            verb = "was infinite" if self.before.call.is_backward else "made infinities"
            text += f" Before that, {self.before._operation(False)} {verb}."
        return text

    def _operation(self, starts: bool = True) -> str:
        assert self.call is not None
        name = self.call.function or self.call.primitive.name
        text = f"{name} at {self.call.site or 'an unknown line'}"
        if not self.call.is_backward:
            return text
        return f"{'The' if starts else 'the'} gradient of {text}"


def located(
    graph: Graph,
    inputs: Sequence[Array],
    variables: Sequence[Array],
    target: int,
    with_infinite: bool,
) -> Origin | None:
    """Return where the NaN in a value comes from, or else the infinity; None if it has neither."""
    trace = _Trace(graph, inputs, variables)
    size = trace.sizes.get(target, 0.0)
    if math.isnan(size):
        return trace.origin(target, is_nan=True)
    if math.isinf(size) and with_infinite:
        return trace.origin(target, is_nan=False)
    return None


class _Trace:
    """The calls of a graph, made one by one, and the sizes of all values."""

    def __init__(
        self, graph: Graph, inputs: Sequence[Array], variables: Sequence[Array] = ()
    ) -> None:
        self.graph = graph
        self.sizes: dict[int, float] = {}
        self._values: dict[int, Any] = dict(graph.constants)
        self._values.update(zip([value.number for value in graph.inputs], inputs))
        read = [value.number for value in graph.variables.values()]
        self._values.update(zip(read, variables))
        self.sizes.update({number: largest(array) for number, array in self._values.items()})
        self._makers: dict[int, int] = {}
        self._shares: dict[int, str] = {}
        self._loops: dict[int, list[Any]] = {}
        """The operands of loops that made what their operands did not have."""
        kept = set(graph.constants) | {value.number for value in graph.outputs}
        for place, dead in enumerate(last_uses(graph.calls, kept)):
            self._make(place)
            for number in dead:
                self._values.pop(number, None)

    @property
    def outputs(self) -> list[Any]:
        return [self._values[value.number] for value in self.graph.outputs]

    def _make(self, place: int) -> None:
        call = self.graph.calls[place]
        operands = [self._values[o.number] if isinstance(o, Value) else o for o in call.operands]
        made = call.primitive.kernel(call.array_type)(*operands, **call.params)
        results = made if isinstance(made, tuple | list) else (made,)
        for value, array in zip(call.results, results):
            size = largest(array)
            self._values[value.number], self.sizes[value.number] = array, size
            self._makers[value.number] = place
            if not math.isfinite(size) and place not in self._shares and self._is_new(call, size):
                self._shares[place] = share_of(array)
                if any(isinstance(param, InnerProgram) for param in call.params.values()):
                    self._loops[place] = operands

    def _is_new(self, call: Call, size: float) -> bool:
        test = math.isnan if math.isnan(size) else math.isinf
        return not any(test(self.sizes[value.number]) for value in call.reads)

    def origin(self, target: int, is_nan: bool) -> Origin | None:
        """Return the first call, or given value, from which the target has its NaN or infinity."""
        test = math.isnan if is_nan else math.isinf
        waiting, seen = [target], set[int]()
        calls: list[int] = []
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            place = self._makers.get(number)
            if place is None:
                return Origin(is_nan, given=self._given(number))
            reads = self.graph.calls[place].reads
            found = [value.number for value in reads if test(self.sizes[value.number])]
            waiting += found
            if not found:
                calls.append(place)
        return self._at(min(calls), is_nan)

    def _given(self, number: int) -> tuple[str, int]:
        kinds = {
            "input": [value.number for value in self.graph.inputs],
            "variable": [value.number for value in self.graph.variables.values()],
        }
        for kind, numbers in kinds.items():
            if number in numbers:
                return kind, numbers.index(number)
        return "constant", 0

    def _at(self, place: int, is_nan: bool) -> Origin:
        call = self.graph.calls[place]
        if place in self._loops:
            inside = _inside(call, self._loops[place], is_nan)
            if inside is not None:
                return inside
        before = None
        if is_nan:
            infinite = [v.number for v in call.reads if math.isinf(self.sizes[v.number])]
            before = self.origin(infinite[0], is_nan=False) if infinite else None
        return Origin(is_nan, call, share=self._shares.get(place, ""), before=before)


def _inside(call: Call, operands: Sequence[Any], is_nan: bool) -> Origin | None:
    """Return where the rounds of a loop make a NaN or an infinity."""
    rounds = _rounds(call, operands)
    test = math.isnan if is_nan else math.isinf
    number, graph = 0, None
    try:
        now, inputs = next(rounds)
        while True:
            number = number + 1 if now is graph else 0
            graph = now
            trace = _Trace(now, inputs)
            for value in now.outputs:
                if test(trace.sizes[value.number]):
                    found = trace.origin(value.number, is_nan)
                    if found is not None and found.call is not None:
                        return replace(found, rounds=(number, *found.rounds))
            now, inputs = rounds.send(trace.outputs)
    except StopIteration:
        return None


def _rounds(call: Call, operands: Sequence[Any]) -> Rounds:
    """Yield what each round of a loop runs, in order."""
    params = call.params
    body: Any = params.get("body")
    if body is None:
        return
    layout = body.layout
    carried = list(operands[: layout.carried])
    rest = operands[layout.carried :]
    if "length" in params:
        stacks, shared = rest[: layout.entries], rest[layout.entries :]
        order = range(params["length"])
        for k in reversed(order) if params["backwards"] else order:
            entries = [stack[k, ...] for stack in stacks]
            results = yield body.recorded, [*carried, *entries, *shared]
            carried = list(results[: layout.carried])
        return
    shared, cotangents = rest[: layout.shared], rest[layout.shared :]
    kept: list[Sequence[Any]] = []
    for _ in _while(carried, params["most"]):
        results = yield body.recorded, [*carried, *shared]
        carried[:] = results[: layout.carried]
        kept.append(results[layout.carried :])
    pullback: Any = params.get("pullback")
    if pullback is None:
        return
    own = pullback.layout.carried
    carried, shared = list(cotangents[:own]), cotangents[own:]
    while kept:
        results = yield pullback.recorded, [*carried, *kept.pop(), *shared]
        carried = list(results[:own])


def _while(carried: list[Any], most: int | None) -> Iterator[None]:
    """Go on while the first carried value, which changes meanwhile, is true."""
    done = 0
    while (most is None or done < most) and bool(backend_of(carried[0]).to_host(carried[0])):
        yield
        done += 1
