"""Loops of recorded programs in other libraries, from bodies that have been translated.

JAX gets its own loops. NumPy and PyTorch run the rounds one after the other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.body import Layout
from tapegrad.program.loops.primitives import (
    conditional_loop_gradient_p,
    conditional_loop_p,
    counted_loop_p,
)

Array = Any
Arrays = Sequence[Array]
Kernel = Callable[..., tuple[Array, ...]]

CONDITIONAL = frozenset({conditional_loop_p.name, conditional_loop_gradient_p.name})
LOOPS = CONDITIONAL | {counted_loop_p.name}
"""Primitives whose derivatives are recorded as loops of their own."""


@dataclass(frozen=True)
class TranslatedBody:
    """One round of a loop as a function of a library."""

    layout: Layout
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    run: Callable[[Arrays], list[Array]]
    array: Callable[[Any, Value], Array]
    """Returns an operand, which may be a number, as an array with the dtype of a value."""

    def given(self, operands: Sequence[Any]) -> list[Array]:
        """Return operands of the loop as arrays, the stacks included."""
        return [self.array(x, spec) for x, spec in zip(operands, self.inputs, strict=True)]


def loop_kernels(library: str, xp: Any, dtype: Callable[[Any], Any], **like: Any) -> dict[str, Any]:
    """Return the kernels of loops; `like` says on which device new arrays are."""
    if library == "jax":
        return {"counted_loop": _scan, "conditional_loop": _while}

    def empty(spec: Value) -> Array:
        return xp.zeros((0, *spec.shape), dtype=dtype(spec.dtype), **like)

    def counted(
        *operands: Any, body: TranslatedBody, length: int, backwards: bool
    ) -> tuple[Array, ...]:
        return _counted(xp.stack, empty, body, body.given(operands), length, backwards)

    return {
        "counted_loop": counted,
        "conditional_loop": _conditional,
        "conditional_loop_gradient": _conditional_gradient,
    }


def _split(layout: Layout, arrays: Arrays) -> tuple[list[Array], list[Array], list[Array]]:
    """Return what a loop carries, its stacks, and what its rounds share."""
    first, last = layout.carried, layout.carried + layout.entries
    return [*arrays[:first]], [*arrays[first:last]], [*arrays[last:]]


def _counted(
    stack: Callable[[list[Array]], Array],
    empty: Callable[[Value], Array],
    body: TranslatedBody,
    arrays: Arrays,
    length: int,
    backwards: bool,
) -> tuple[Array, ...]:
    carried, stacks, shared = _split(body.layout, arrays)
    count = body.layout.carried
    made: list[list[Array]] = [[] for _ in body.outputs[count:]]
    rounds = range(length)
    for k in reversed(rounds) if backwards else rounds:
        results = body.run([*carried, *[x[k] for x in stacks], *shared])
        carried = results[:count]
        for entries, result in zip(made, results[count:], strict=True):
            entries.append(result)
    specs = body.outputs[count:]
    return (
        *carried,
        *[
            stack(entries[::-1] if backwards else entries) if entries else empty(spec)
            for entries, spec in zip(made, specs, strict=True)
        ],
    )


def _conditional(*operands: Any, body: TranslatedBody, most: int | None) -> tuple[Array, ...]:
    carried, _, shared = _split(body.layout, body.given(operands))
    done = 0
    while (most is None or done < most) and bool(carried[0]):
        carried = body.run([*carried, *shared])[: body.layout.carried]
        done += 1
    return tuple(carried)


def _conditional_gradient(
    *operands: Any, body: TranslatedBody, pullback: TranslatedBody, most: int | None
) -> tuple[Array, ...]:
    """Run the rounds again, keep what their rules read, and go back through them."""
    count = body.layout.carried
    split = count + body.layout.shared
    carried, _, shared = _split(body.layout, body.given(operands[:split]))
    kept: list[Arrays] = []
    while (most is None or len(kept) < most) and bool(carried[0]):
        results = body.run([*carried, *shared])
        carried = results[:count]
        kept.append(results[count:])
    own, entries = pullback.layout.carried, pullback.layout.entries
    specs = [*pullback.inputs[:own], *pullback.inputs[own + entries :]]
    given = [pullback.array(x, s) for x, s in zip(operands[split:], specs, strict=True)]
    cotangents, same = given[:own], given[own:]
    while kept:
        cotangents = pullback.run([*cotangents, *kept.pop(), *same])[:own]
    return tuple(cotangents)


def _scan(*operands: Any, body: TranslatedBody, length: int, backwards: bool) -> tuple[Array, ...]:
    jax: Any = importlib.import_module("jax")
    carried, stacks, shared = _split(body.layout, body.given(operands))
    count = body.layout.carried

    def step(before: list[Array], entries: list[Array]) -> tuple[list[Array], list[Array]]:
        results = body.run([*before, *entries, *shared])
        return results[:count], results[count:]

    last, made = jax.lax.scan(step, carried, stacks, length, reverse=backwards)
    return (*last, *made)


def _while(*operands: Any, body: TranslatedBody, most: int | None) -> tuple[Array, ...]:
    jax: Any = importlib.import_module("jax")
    carried, _, shared = _split(body.layout, body.given(operands))
    count = body.layout.carried

    def goes_on(state: tuple[Array, list[Array]]) -> Array:
        done, before = state
        return before[0] if most is None else before[0] & (done < most)

    def step(state: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        done, before = state
        return done + 1, body.run([*before, *shared])[:count]

    _, last = jax.lax.while_loop(goes_on, step, (jax.numpy.zeros((), "int64"), carried))
    return tuple(last)
