"""Forward mode over loops: the rounds carry values and their tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.batching import in_frame
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.core.recorder import Stack, common_tokens, using_stack
from tapegrad.ops.creation import zeros_like
from tapegrad.program.loops.tracing import Sources, Tensors, apart, results_of


class LoopJvp:
    """The JVP rule of a loop, from the tangents of its operands to those of its results."""

    reads = wants = ()

    def __init__(self, loop: Any, sources: Sources) -> None:
        self._loop = loop
        self._outer = [*sources.tensors, *sources.variables]

    def read_again(self, operation: Any) -> tuple[()]:
        return ()

    def __call__(self, tangents: Sequence[Any], read: Any, params: Any) -> list[Any]:
        with self._loop.from_its_beginning():
            return self.pushed(tangents, False)[1]

    def pushed(self, tangents: Sequence[Any], has_values: bool) -> tuple[Tensors, list[Any]]:
        """Return the results of the loop, if they are wanted, and their tangents."""
        loop = self._loop
        count, last = len(loop.carried), len(loop.carried) + len(loop.stacks)
        floating = [k for k, x in enumerate(loop.carried) if x.dtype.is_differentiable]
        moving = [k for k, t in enumerate(tangents[count:last]) if t is not None]
        zeros = [zeros_like(x) if t is None else t for x, t in zip(loop.carried, tangents)]
        start = [*loop.carried, *[zeros[k] for k in floating]]
        stacks = [*loop.stacks, *[tangents[count + k] for k in moving]]
        pairs = [(x, t) for x, t in zip(self._outer, tangents[last:]) if t is not None]
        pushed: list[int] = []

        def push(before: Tensors, entries: Tensors) -> tuple[Sequence[Any], Sequence[Any]]:
            own, given = apart(before[:count]), apart(entries[: len(loop.stacks)])
            primals = [*[own[k] for k in floating], *[given[k] for k in moving]]
            moved = [*before[count:], *entries[len(loop.stacks) :], *[t for _, t in pairs]]
            with ForwardAccumulator([*primals, *[x for x, _ in pairs]], moved) as accumulator:
                new, made = results_of(loop.step(own, given), own)
            pushed[:] = [k for k, x in enumerate(made) if x.dtype.is_differentiable]
            wanted = [*[new[k] for k in floating], *[made[k] for k in pushed]]
            dots = accumulator.jvp(wanted, UnconnectedGradients.ZERO)
            values = made if has_values else []
            return [*new, *dots[: len(floating)]], [*values, *dots[len(floating) :]]

        # Operations inside vmap are on whole arrays; a round knows its own examples.
        with in_frame(None):
            final, made = loop.over_tensors(push, start, stacks)
        values = made[: len(made) - len(pushed)]
        of_carried = dict(zip(floating, final[count:]))
        of_made = dict(zip(pushed, made[len(values) :]))
        dots = [of_carried.get(k) for k in range(count)]
        dots += [of_made.get(k) for k in range(loop.count_of_made)]
        return [*final[:count], *values], dots


class _Known:
    """A JVP rule whose tangents are known."""

    def __init__(self, tangents: list[Any]) -> None:
        self._tangents = tangents

    def read_again(self, operation: Any) -> tuple[()]:
        return ()

    def __call__(self, tangents: Sequence[Any], read: Any, params: Any) -> list[Any]:
        return self._tangents


def pushed_alone(loop: Any, sources: Sources, stack: Stack) -> Tensors | None:
    """Record values and tangents as one loop if one accumulator and nothing else follows it."""
    operands = loop.followed_operands(sources)
    tokens = common_tokens(stack, tuple([x.node for x in operands]))
    followers = [recorder for recorder in stack.recorders if recorder.token in tokens]
    if len(followers) != 1 or not isinstance(followers[0], ForwardAccumulator):
        return None
    (accumulator,) = followers
    tangents = [accumulator.tangent_of(x.node) for x in operands]
    with using_stack(stack.below(accumulator)):
        values, dots = LoopJvp(loop, sources).pushed(tangents, True)
    tensors: Tensors = loop.attached(stack, None, _Known(dots), sources, [x.array for x in values])
    return tensors


def keep_history(loop: Any, sources: Sources, stack: Stack) -> bool:
    """Whether a recorder that follows the loop may ask for its VJP."""
    nodes = tuple([x.node for x in loop.followed_operands(sources)])
    return any(token.keeps_history for token in common_tokens(stack, nodes))
