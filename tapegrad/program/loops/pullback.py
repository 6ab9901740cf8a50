"""Record one round of a loop together with its gradient, and divide them into two bodies.

The gradients of what all rounds share, such as weights, are sums over the rounds. A sum of products
`transpose(a) @ b` is one product of the stacked factors after the loop, and a sum of sums is one
sum. The other ones are carried from round to round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.ops.creation import zeros_like
from tapegrad.program.forward_backward import WholeTape
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.body import Body, Layout
from tapegrad.program.loops.body_recording import BodyRecording
from tapegrad.program.loops.tracing import (
    Round,
    Sources,
    Step,
    Tensors,
    body_of,
    finished_round,
    placed,
    results_of,
)
from tapegrad.program.record.effects import silence, without_effects
from tapegrad.program.record.isolation import recorded_by
from tapegrad.program.record.recording import Recorded, Recording


@dataclass(frozen=True)
class LaterSum:
    """A gradient that one operation on stacks computes after the loop."""

    source: int
    """The position of the tensor or variable."""
    call: Call
    """The operation as one round would compute it."""
    stacks: list[tuple[str, int]]
    """For each operand, the kind and the position of its stack: "cotangent", "kept", "given" or
    "pulled"."""


@dataclass
class Pullback:
    """A round and its gradient, each as a body.

    The pullback carries the cotangents of what the loop carries, then the sums of the cotangents of
    what its rounds share. Its entries are the cotangents of the loop's stacks, what the round has
    kept, and entries of the loop's own stacks.
    """

    round: Round
    forward_calls: Sequence[Call]
    """The calls of the round without its gradient."""
    forward: Body
    backward: Body
    floating: list[int]
    """The positions of carried values that have cotangents."""
    seeded: list[int]
    """The positions of the loop's stacks whose cotangents are entries."""
    reread: list[int]
    """The positions of the loop's own stacks whose entries the pullback reads."""
    shared: list[Recorded]
    """What the pullback reads from outside of the loop."""
    sums: list[int]
    """The positions of tensors and variables, in this order, whose cotangents are carried."""
    pulled: list[int]
    """The positions of the loop's own stacks that get cotangents, one entry per round."""
    later: list[LaterSum] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)
    """What each round keeps, as values of its recording."""

    @property
    def kept_by_rounds(self) -> int:
        """How much of it the rounds of the pullback read; the rest is read after the loop."""
        return self.backward.layout.entries - len(self.seeded) - len(self.reread)

    @property
    def followed(self) -> list[int]:
        """The positions of all tensors and variables that have cotangents."""
        return [*self.sums, *[one.source for one in self.later]]


@dataclass
class _Swept:
    """A recorded round with its reverse sweep, before it is divided."""

    round: Round
    cut: int
    """The number of calls of the round itself."""
    bars: list[Value]
    """The cotangents of what the round carries."""
    seeds: list[Value]
    """The cotangents of what the round makes."""
    totals: list[Value]
    """The sums before this round."""
    outputs: list[Value]
    """New cotangents, new sums, and cotangents of the entries."""
    pulled: int
    """How many of them are cotangents of entries."""
    later: list[tuple[int, Call]]


def trace_with_gradient(
    step: Step,
    carried: Sequence[Any],
    entries: Sequence[Any],
    around: Recording,
    sources: Sources,
    has_stacks: bool = True,
) -> Pullback:
    """Record one round and its reverse sweep; `has_stacks` if it may keep a stack of a value.

    Without stacks the round may have effects.
    """
    recording = BodyRecording(around)
    with using_stack(EMPTY), recorded_by(recording), without_effects():
        first, second, given = placed(recording, carried, entries)
        before, inside = given[: len(first)], given[len(first) :]
        floating = [k for k, x in enumerate(before) if x.dtype.is_differentiable]
        wanted = [k for k, follows in enumerate(sources.entries) if follows]
        with WholeTape() as tape, _as_leaves(sources.tensors, tape):
            own = [*[before[k] for k in floating], *[inside[k] for k in wanted]]
            if own:
                tape.watch(own)
            new, made = results_of(step(before, inside), before)
            found = finished_round(recording, first, second, new, made, not has_stacks)
            cut = len(recording.calls)
            outer = [*sources.tensors, *sources.variables]
            seeds, seeded, grads = _sweep(recording, tape, new, made, floating, [*own, *outer])
        bars, rest = seeds[: len(floating)], grads[len(floating) :]
        # Zeros are constants of the body, since other ones would be made anew in each round.
        after = [_zeros(t.array) if grad is None else grad for t, grad in zip(bars, grads)]
        later = _later_sums(recording, cut, rest[len(wanted) :]) if has_stacks else []
        known = {k for k, _ in later}
        of_outer = [None if k in known else g for k, g in enumerate(rest[len(wanted) :])]
        sums, totals = _summed(recording, outer, of_outer)
        pulled = [k for k, grad in zip(wanted, rest) if grad is not None]
        results = [*after, *[total for _, total in totals]]
        results += [grad for grad in rest[: len(wanted)] if grad is not None]
        swept = _Swept(
            found,
            cut,
            [seed.array.value for seed in bars],
            [seed.array.value for seed in seeds[len(floating) :]],
            [value for value, _ in totals],
            [recording.value_in(as_operand(grad).array) for grad in results],
            len(pulled),
            later,
        )
    recording.closed = True
    return _divided(swept, floating, seeded, sums, pulled)


def _sweep(
    recording: BodyRecording,
    tape: GradientTape,
    new: Tensors,
    made: Tensors,
    floating: list[int],
    leaves: list[Any],
) -> tuple[Tensors, list[int], list[Any]]:
    """Sweep from the results of a round; return seeds, which stacks have one, and gradients."""

    def depends(tensor: Tensor) -> bool:
        return tensor.node is not None and tape.token in tensor.node.tokens

    seeded = [k for k, y in enumerate(made) if y.dtype.is_differentiable and depends(y)]
    targets = [*[new[k] for k in floating], *[made[k] for k in seeded]]
    seeds = [wrap(recording.take_input(_zeros(y.array).array)) for y in targets]
    pairs = [(y, seed) for y, seed in zip(targets, seeds) if depends(y)]
    if not pairs:
        return seeds, seeded, [None] * len(leaves)
    with silence():
        grads = tape.gradient([y for y, _ in pairs], leaves, [seed for _, seed in pairs])
    return seeds, seeded, grads


def _later_sums(recording: BodyRecording, cut: int, grads: Sequence[Any]) -> list[tuple[int, Call]]:
    """Return the gradients, by position, that can be computed from stacks after the loop."""
    makers = {value.number: call for call in recording.calls[cut:] for value in call.results}
    varying = {value.number for call in recording.calls for value in call.results}
    varying |= {value.number for value in recording.inputs}
    found = []
    for k, grad in enumerate(grads):
        array = grad.array if type(grad) is Tensor else None
        call = makers.get(array.value.number) if type(array) is Recorded else None
        if call is None or not _is_sum_over_examples(call):
            continue
        if all(isinstance(x, Value) and x.number in varying for x in call.operands):
            found.append((k, call))
    return found


def _is_sum_over_examples(call: Call) -> bool:
    """Whether the sum over rounds of the call's results is one call on stacked operands."""
    params, name = call.params, call.primitive.name
    if name == "sum":
        return not params["keepdims"]
    is_product = name == "matmul" and params["transpose_a"] and not params["transpose_b"]
    return bool(is_product) and all(len(value.shape) == 2 for value in call.reads)


def _summed(
    recording: BodyRecording, outer: list[Any], grads: list[Any]
) -> tuple[list[int], list[tuple[Value, Any]]]:
    """Add the cotangents of what all rounds share to sums that are carried."""
    places, totals = [], []
    for k, (source, grad) in enumerate(zip(outer, grads, strict=True)):
        if grad is not None:
            before = recording.take_input(_zeros(source.array).array)
            totals.append((before.value, wrap(before) + as_operand(grad)))
            places.append(k)
    return places, totals


def _divided(
    swept: _Swept, floating: list[int], seeded: list[int], sums: list[int], pulled: list[int]
) -> Pullback:
    """Divide a recorded round with its sweep into two bodies."""
    found, recording = swept.round, swept.round.recording
    factors = [value for _, call in swept.later for value in call.reads]
    calls = _needed(recording.calls[swept.cut :], [*swept.outputs, *factors])
    inside = {value.number for call in calls for value in call.results}
    inputs = [*swept.bars, *swept.totals]
    inside |= {value.number for value in inputs}
    known = inside | {value.number for value in swept.seeds} | set(recording.constants)
    reads = [value for call in calls for value in call.reads] + swept.outputs
    read = {value.number: value for value in reads if value.number not in known}
    shared = [(value, array) for value, array in found.shared if value.number in read]
    reread = [k for k, value in enumerate(found.entries) if value.number in read]
    elsewhere = {value.number for value, _ in shared} | {value.number for value in found.entries}
    kept = [value for number, value in read.items() if number not in elsewhere]
    rest = known | elsewhere | set(read)
    only_factors = {v.number: v for v in factors if v.number not in rest}
    entries = [*swept.seeds, *kept, *[found.entries[k] for k in reread]]
    made = {value.number for value in swept.outputs[len(inputs) :]}
    more = {v.number: v for v in factors if v.number in inside and v.number not in made}
    outputs = [*swept.outputs, *more.values()]
    graph = Graph(
        (*inputs, *entries, *[value for value, _ in shared]),
        {},
        recording.constants,
        tuple(calls),
        tuple(outputs),
    )
    layout = Layout(len(inputs), len(entries), len(shared), len(outputs) - len(inputs))
    stacks = {
        "cotangent": swept.seeds,
        "kept": [*kept, *only_factors.values()],
        "given": found.entries,
        "pulled": outputs[len(inputs) :],
    }
    later = [
        LaterSum(k, call, [_stack_of(value, stacks) for value in call.reads])
        for k, call in swept.later
    ]
    own = recording.calls[: swept.cut]
    return Pullback(
        found,
        own,
        body_of(found, [*kept, *only_factors.values()], own),
        Body(graph, layout),
        floating,
        seeded,
        reread,
        [array for _, array in shared],
        sums,
        pulled,
        later,
        [*kept, *only_factors.values()],
    )


def _needed(calls: Sequence[Call], results: Sequence[Value]) -> list[Call]:
    """Return the calls that the results depend on."""
    needed = {value.number for value in results}
    kept = []
    for call in reversed(calls):
        if any(value.number in needed for value in call.results):
            kept.append(call)
            needed.update(value.number for value in call.reads)
    return kept[::-1]


def _stack_of(value: Value, stacks: dict[str, Any]) -> tuple[str, int]:
    """Return the kind and the position of the stack that has a value of each round."""
    for kind, values in stacks.items():
        for place, one in enumerate(values):
            if one.number == value.number:
                return kind, place
    raise AssertionError(f"There is no stack of {value}.")


def _zeros(array: Any) -> Tensor:
    """Return zeros like an array, not recorded."""
    zeros: Tensor = zeros_like(wrap(array.array if type(array) is Recorded else array))
    return zeros


@contextmanager
def _as_leaves(tensors: Tensors, tape: GradientTape) -> Iterator[None]:
    """Let a tape follow tensors from outside as if nothing had computed them."""
    nodes = [tensor.node for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.node = None
        if tensors:
            tape.watch(tensors)
        yield
    finally:
        for tensor, node in zip(tensors, nodes):
            tensor.node = node
