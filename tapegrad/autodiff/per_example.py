"""Gradients per example, also with respect to values that all examples share.

A tape records whole arrays with a leading axis for the examples of each running `vmap`. If a source
has all these axes, one sweep gives its gradient per example. If examples share the source, a sweep
that keeps the examples apart does. In nested `vmap`s each example has its own seed instead, zero
for the other examples, and all seeds are swept together like the rows of a Jacobian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapegrad.autodiff import batching
from tapegrad.autodiff.examples_apart import keeps_apart
from tapegrad.autodiff.jacobian import rows_of
from tapegrad.core.recorder import Node
from tapegrad.core.values.host import place_like
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops import creation
from tapegrad.ops.elementwise import arithmetic, selection
from tapegrad.ops.shape import functions as shapes

Sizes = dict[int, int]
"""The number of examples per level of batching, leading axis first."""

Starts = list[tuple[Node, Any]]


class SweepFunction(Protocol):
    """A sweep from seeds by node to a gradient per source, of which there may be several nodes."""

    def __call__(
        self, starts: Starts, wanted: list[list[Node]], keep: bool, *, level: int | None = None
    ) -> list[Any]: ...


class Source(NamedTuple):
    """The nodes of a source, and the levels of batching at which each example has its own value."""

    nodes: list[Node]
    levels: tuple[int, ...]


def source_of(value: Any, nodes: list[Node], levels: tuple[int, ...]) -> Source:
    """Describe a source of a tape inside the vmaps of `levels`."""
    return Source(nodes, levels if isinstance(value, Variable) else batching.unwrap(value)[1])


class _Pass(NamedTuple):
    """One sweep: for the sources (positions in `chosen`) that share examples of the same levels."""

    starts: Starts
    sizes: Sizes
    shared: tuple[int, ...]
    chosen: list[int]


def gradients(
    sweep: SweepFunction,
    targets: Sequence[Any],
    seeds: Starts,
    sources: Sequence[Source],
    frame: batching.Frame | None,
) -> list[Any]:
    """Return the gradient of targets with respect to each source; `seeds` has one per target."""
    groups = _by_examples(targets, seeds, frame)
    if len(groups) == 1:
        ((levels, (starts, _)),) = groups.items()
        if all([source.levels == levels for source in sources]):  # no source is shared
            grads = sweep(starts, [source.nodes for source in sources], False)
            return [None if grad is None else batching.wrap_levels(grad, levels) for grad in grads]
    passes = [one for starts, sizes in groups.values() for one in _passes(starts, sizes, sources)]
    totals: list[Any] = [None] * len(sources)
    for left, one in zip(reversed(range(len(passes))), passes):
        for position, grad in _run(sweep, one, sources, keep=left > 0):
            grad = batching.wrap_levels(grad, tuple(one.sizes))
            total = totals[position]
            totals[position] = grad if total is None else arithmetic.add(total, grad)
    return totals


def rows(sweep: SweepFunction, starts: Starts, sizes: Sizes, sources: Sequence[Source]) -> Any:
    """Return the gradient with respect to each source, with axes of examples as in `sizes`.

    The seeds have these axes and may be batched (the rows of a Jacobian). The history is kept.
    """
    grads: list[Any] = [None] * len(sources)
    for one in _passes(starts, sizes, sources):
        for position, grad in _run(sweep, one, sources, keep=True):
            grads[position] = grad
    return grads


def examples_of(target: Any, frame: batching.Frame | None) -> tuple[Any, Sizes]:
    """Return a target as the tape records it, and the sizes of its leading axes of examples."""
    if isinstance(target, Variable):  # it is read once per example
        target = batching.per_example(wrap(target.array), frame)
    inside, levels = batching.unwrap(target)
    return inside, dict(zip(levels, inside.array.shape))


def _by_examples(
    targets: Sequence[Any], seeds: Starts, frame: batching.Frame | None
) -> dict[tuple[int, ...], tuple[Starts, Sizes]]:
    """Group seeds by the levels of their targets, and give them the axes of these levels."""
    groups: dict[tuple[int, ...], tuple[Starts, Sizes]] = {}
    for target, (node, seed) in zip(targets, seeds, strict=True):
        inside, sizes = examples_of(target, frame)
        starts, _ = groups.setdefault(tuple(sizes), ([], sizes))
        if isinstance(target, Variable):
            target = batching.wrap_levels(inside, tuple(sizes))
        starts.append((node, batching.align(seed, target)))
    return groups


def _passes(starts: Starts, sizes: Sizes, sources: Sequence[Source]) -> list[_Pass]:
    passes: dict[tuple[int, ...], _Pass] = {}
    for position, source in enumerate(sources):
        if source.nodes and starts:
            shared = tuple(level for level in sizes if level not in source.levels)
            one = passes.setdefault(shared, _Pass(list(starts), sizes, shared, []))
            one.chosen.append(position)
    return list(passes.values())


def _run(
    sweep: SweepFunction, one: _Pass, sources: Sequence[Source], keep: bool
) -> list[tuple[int, Any]]:
    """Sweep once; return positions of sources with their gradients, with axes as in `one.sizes`."""
    wanted = [sources[position].nodes for position in one.chosen]
    if not one.shared:
        grads = sweep(one.starts, wanted, keep)
    else:
        count = math.prod(one.sizes[level] for level in one.shared)
        level = batching.new_level()
        if _keeps_apart(one, wanted):
            found = sweep(one.starts, wanted, keep, level=level)
        else:
            starts = [(node, _one_at_a_time(seed, one, level)) for node, seed in one.starts]
            found = sweep(starts, wanted, keep)
        grads = [
            None if grad is None else _in_order(rows_of(grad, count, level), one) for grad in found
        ]
    return [pair for pair in zip(one.chosen, grads) if pair[1] is not None]


def _keeps_apart(one: _Pass, wanted: Sequence[list[Node]]) -> bool:
    """Whether one sweep can keep the examples apart: rows of a Jacobian have a level already."""
    if len(one.sizes) > 1 or any([batching.is_batched(seed) for _, seed in one.starts]):
        return False
    return keeps_apart([node for node, _ in one.starts], {n for nodes in wanted for n in nodes})


def _one_at_a_time(seed: Any, one: _Pass, level: int) -> Any:
    """Return one seed per example of the shared levels, zero for the other examples."""
    count = math.prod(one.sizes[level] for level in one.shared)
    lengths = [size if level in one.shared else 1 for level, size in one.sizes.items()]
    rest = len(seed.shape) - len(lengths)
    is_own = np.eye(count, dtype=bool).reshape(count, *lengths, *[1] * rest)
    placed = wrap(place_like(is_own, batching.unwrap(seed)[0].array))
    return selection.where(batching.Batched(placed, level), seed, creation.zeros_like(seed))


def _in_order(grad: Any, one: _Pass) -> Any:
    """Bring the axes of a gradient, shared levels first, into the order of `one.sizes`."""
    own = [level for level in one.sizes if level not in one.shared]
    lengths = [one.sizes[level] for level in one.shared]
    grad = shapes.reshape(grad, (*lengths, *grad.shape[1:]))
    order = [[*one.shared, *own].index(level) for level in one.sizes]
    return shapes.permute_dims(grad, [*order, *range(len(order), len(grad.shape))])
