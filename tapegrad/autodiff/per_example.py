"""Gradients per example, also by values that examples share.

A tape records whole arrays, with an axis for the examples of each running `vmap`. A source that
has all axes of the target gets its gradient per example for nothing. In the gradient by one that
examples share, they would be added up, so the seeds are swept one example at a time: as the rows
of a jacobian are, all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.autodiff import batching
from tapegrad.autodiff.jacobian import rows_of
from tapegrad.core.host import place_like
from tapegrad.core.recorder import Node
from tapegrad.core.tensor import wrap
from tapegrad.core.variable import Variable
from tapegrad.ops import arithmetic, creation, selection, shape as shapes

Sizes = dict[int, int]
"""The number of examples per level of batching, leading axis first."""

Starts = list[tuple[Node, Any]]
SweepFunction = Callable[[Starts, list[list[Node]], bool], list[Any]]
"""Takes seeds by node, the nodes of each source, and whether to keep the history."""


class Source(NamedTuple):
    """The nodes of a source, and the levels of batching that it has a value for each example of."""

    nodes: list[Node]
    levels: tuple[int, ...]


def source_of(value: Any, nodes: list[Node], levels: tuple[int, ...]) -> Source:
    """Describe a source of a tape inside the vmaps of `levels`: it reads variables per example."""
    return Source(nodes, levels if isinstance(value, Variable) else batching.peel(value)[1])


class _Pass(NamedTuple):
    """One sweep: by the sources (their positions) that share the examples of the same levels."""

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
    """Return the gradients of targets, with a seed by node for each, by each source."""
    groups = _by_examples(targets, seeds, frame)
    if len(groups) == 1:
        ((levels, (starts, _)),) = groups.items()
        if all([source.levels == levels for source in sources]):  # nothing is shared: one sweep
            grads = sweep(starts, [source.nodes for source in sources], False)
            return [None if grad is None else batching.dress(grad, levels) for grad in grads]
    passes = [one for starts, sizes in groups.values() for one in _passes(starts, sizes, sources)]
    totals: list[Any] = [None] * len(sources)
    for left, one in zip(reversed(range(len(passes))), passes):
        for position, grad in _run(sweep, one, sources, keep=left > 0):
            share = batching.dress(grad, tuple(one.sizes))
            total = totals[position]
            totals[position] = share if total is None else arithmetic.add(total, share)
    return totals


def rows(sweep: SweepFunction, starts: Starts, sizes: Sizes, sources: Sequence[Source]) -> Any:
    """Return the gradients by each source with the axes of examples in `sizes`; keep the history.

    The seeds are given with these axes, and may be batched: rows of a jacobian.
    """
    grads: list[Any] = [None] * len(sources)
    for one in _passes(starts, sizes, sources):
        for position, grad in _run(sweep, one, sources, keep=True):
            grads[position] = grad
    return grads


def examples_of(target: Any, frame: batching.Frame | None) -> tuple[Any, Sizes]:
    """Return a target as the tape knows it, and the examples that its leading axes stand for."""
    if isinstance(target, Variable):  # it is read once per example
        target = batching.per_example(wrap(target.array), frame)
    inside, levels = batching.peel(target)
    return inside, dict(zip(levels, inside.array.shape))


def _by_examples(
    targets: Sequence[Any], seeds: Starts, frame: batching.Frame | None
) -> dict[tuple[int, ...], tuple[Starts, Sizes]]:
    """Group the seeds of targets by the levels of their examples, and give them these axes."""
    groups: dict[tuple[int, ...], tuple[Starts, Sizes]] = {}
    for target, (node, seed) in zip(targets, seeds, strict=True):
        inside, sizes = examples_of(target, frame)
        starts, _ = groups.setdefault(tuple(sizes), ([], sizes))
        like = batching.dress(inside, tuple(sizes)) if isinstance(target, Variable) else target
        starts.append((node, batching.align(seed, like)))
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
    """Return positions of sources with their gradients, which have the axes in `one.sizes`."""
    wanted = [sources[position].nodes for position in one.chosen]
    if not one.shared:
        grads = sweep(one.starts, wanted, keep)
    else:
        count = math.prod(one.sizes[level] for level in one.shared)
        level = batching.new_level()
        starts = [(node, _one_at_a_time(seed, one, level)) for node, seed in one.starts]
        grads = [
            None if grad is None else _in_order(rows_of(grad, count, level), one)
            for grad in sweep(starts, wanted, keep)
        ]
    return [pair for pair in zip(one.chosen, grads) if pair[1] is not None]


def _one_at_a_time(seed: Any, one: _Pass, level: int) -> Any:
    """As many seeds as there are examples of the shared levels, each zero for the other ones."""
    count = math.prod(one.sizes[level] for level in one.shared)
    lengths = [size if level in one.shared else 1 for level, size in one.sizes.items()]
    rest = len(seed.shape) - len(lengths)
    is_own = np.eye(count, dtype=bool).reshape(count, *lengths, *[1] * rest)
    placed = wrap(place_like(is_own, batching.peel(seed)[0].array))
    return selection.where(batching.Batched(placed, level), seed, creation.zeros_like(seed))


def _in_order(grad: Any, one: _Pass) -> Any:
    """Give a gradient by rows (of shared levels) and own levels the order of axes in `sizes`."""
    own = [level for level in one.sizes if level not in one.shared]
    lengths = [one.sizes[level] for level in one.shared]
    grad = shapes.reshape(grad, (*lengths, *grad.shape[1:]))
    order = [[*one.shared, *own].index(level) for level in one.sizes]
    return shapes.permute_dims(grad, [*order, *range(len(order), len(grad.shape))])
