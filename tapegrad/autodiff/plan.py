"""The plan of a reverse sweep: the nodes that it visits, and their order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter

from tapegrad.core.recorder import Node, Token

_by_order = attrgetter("order")

# Why a tape cannot be asked again.
USED_UP = "It was used up by an earlier call."
FAILED = "An earlier call failed half-way."


class Plan:
    """The nodes between targets and sources, latest first.

    `needed` are those that depend on a source; None if all do. Elementwise rules of nodes whose
    order is below `guards_before` keep zero cotangents: the results of such a node pass an
    operation that may leave values out, or the seeds may contain zeros (`any_seed`).
    """

    __slots__ = ("guards_before", "needed", "nodes", "sources")

    def __init__(
        self,
        targets: Iterable[Node],
        sources: Iterable[Node],
        token: Token,
        any_seed: bool = True,
    ) -> None:
        self.sources = frozenset(sources)
        self.nodes, only_sources, last_selection = _reachable(targets, self.sources, token)
        self.guards_before = math.inf if any_seed else last_selection
        self.needed = None if only_sources else _leading_to(self.nodes, self.sources)


def _reachable(
    targets: Iterable[Node], sources: frozenset[Node], token: Token
) -> tuple[list[Node], bool, int]:
    """Return the history of the targets, latest first.

    Further results: whether all its leaves are sources, and the order of the last operation that
    selects, 0 if none does.
    """
    seen: dict[Node, None] = {}
    waiting = list(targets)
    only_sources = all([node.primitive is None for node in sources])
    last_selection = 0
    usual = waiting[0].tokens if waiting and token in waiting[0].tokens else None
    take, put = waiting.pop, waiting.append
    while waiting:
        node: Node | None = take()
        while node is not None and node not in seen:
            if node.tokens is not usual and token not in node.tokens:
                only_sources = False  # an input that this tape does not follow
                break
            seen[node] = None
            primitive = node.primitive
            if primitive is None:
                only_sources = only_sources and node in sources
                break
            if primitive.selects and node.order > last_selection:
                last_selection = node.order
            inputs, node = node.inputs, None
            for source in inputs:  # continue with one of them, the others wait
                if source is not None:
                    if node is not None:
                        put(source)
                    else:
                        node = source
    return sorted(seen, key=_by_order, reverse=True), only_sources, last_selection


def _leading_to(nodes: list[Node], sources: frozenset[Node]) -> set[Node]:
    """Return the sources and those of `nodes` that depend on one."""
    needed = set(sources)
    for node in reversed(nodes):
        if not needed.isdisjoint(node.inputs):
            needed.add(node)
    return needed
