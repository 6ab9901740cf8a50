"""Merge real Fourier transforms with the complex ones over other axes.

A library transforms planes and volumes in one call. A transform over another axis than the last one
copies its operand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.program.graph.dependence import makers_of, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.new_calls import NewCalls

MOST_AXES = 3
"""The most axes of one call."""


def _real_fourier_nd(xp: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    return xp.fft.rfftn(x, axes=axes)


def _inverse_real_fourier_nd(xp: Any, x: Any, *, axes: tuple[int, ...], n: int) -> Any:
    lengths = (*[x.shape[axis] for axis in axes[:-1]], n)
    return xp.fft.irfftn(x, s=lengths, axes=axes, norm="forward")


real_fourier_nd_p = Primitive("real_fourier_nd", _real_fourier_nd, differentiable=False)
"""The transform of real values over several axes, without a factor.

Only this pass makes it, after all derivatives were computed, so it has no rules.
"""

inverse_real_fourier_nd_p = Primitive(
    "inverse_real_fourier_nd", _inverse_real_fourier_nd, differentiable=False
)
"""The inverse without a factor; `n` is the length of the last of the axes in the result."""


@dataclass(frozen=True)
class _Pair:
    """Two transforms, the inner one first, and the weighing of bins between them if any."""

    inner: Call
    outer: Call
    between: Call | None


def with_plane_transforms(graph: Graph) -> Graph:
    """Replace pairs of transforms by transforms over all of their axes."""
    names = {call.primitive.name for call in graph.calls}
    if "fourier" not in names or not names & {"real_fourier", "inverse_real_fourier"}:
        return graph
    pairs = _pairs(graph)
    numbers = unused_numbers(graph)
    gone = {id(one) for pair in pairs.values() for one in (pair.inner, pair.between)}
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        if place in pairs:
            calls += _merged(pairs[place], numbers)
        elif id(call) not in gone:
            calls.append(call)
    return replace(graph, calls=tuple(calls))


def _pairs(graph: Graph) -> dict[int, _Pair]:
    """Return the pairs by the places of their outer transforms."""
    makers = makers_of(graph.calls)
    readers = Counter(value.number for call in graph.calls for value in call.reads)
    readers.update(value.number for value in graph.results)

    def maker(value: Value) -> Call | None:
        place = makers.get(value.number)
        return None if place is None or readers[value.number] > 1 else graph.calls[place]

    found: dict[int, _Pair] = {}
    for place, call in enumerate(graph.calls):
        if call.primitive.name not in ("fourier", "inverse_real_fourier"):
            continue
        inner, between = maker(call.reads[0]), None
        if inner is not None and inner.primitive.name == "weigh_bins":
            between, inner = inner, maker(inner.reads[0])
        if inner is not None and _fit(inner, call):
            found[place] = _Pair(inner, call, between)
    return found


def _fit(inner: Call, outer: Call) -> bool:
    """Whether two transforms are one over several axes."""
    names = inner.primitive.name, outer.primitive.name
    if names not in (("real_fourier", "fourier"), ("fourier", "inverse_real_fourier")):
        return False
    whole, real = (outer, inner) if names[1] == "fourier" else (inner, outer)
    axes, last = whole.params["axes"], real.params["axis"]
    is_inverse = real is outer
    shape = real.reads[0].shape
    fits = not is_inverse or shape[last] == real.params["n"] // 2 + 1
    return bool(
        fits
        and whole.params["inverse"] == is_inverse
        and whole.params["norm"] == real.params["norm"]
        and len({*axes, last}) == len(axes) + 1 <= MOST_AXES
        and prod(shape)
        and inner.region == outer.region
    )


def _merged(pair: _Pair, numbers: Iterator[int]) -> list[Call]:
    """Return the calls that compute both transforms, and the bins weighed outside of them."""
    inner, outer, between = pair.inner, pair.outer, pair.between
    is_inverse = outer.primitive.name == "inverse_real_fourier"
    whole, real = (inner, outer) if is_inverse else (outer, inner)
    axes = (*whole.params["axes"], real.params["axis"])
    result, new, before = outer.results[0], NewCalls(outer, numbers), NewCalls(inner, numbers)
    x = inner.reads[0]
    if is_inverse and between is not None:
        x = before.add("weigh_bins", (x,), between.params, x.shape)
    long = result if is_inverse else inner.reads[0]
    count = prod([long.shape[axis] for axis in axes])
    factor = _factor(real.params["norm"], is_inverse, count)
    params: dict[str, Any] = {"axes": axes}
    if is_inverse:
        params["n"] = real.params["n"]
    name = "inverse_real_fourier_nd" if is_inverse else "real_fourier_nd"
    y = new.add(name, (x,), params, result.shape)
    if not is_inverse and between is not None:
        y = new.add("weigh_bins", (y,), between.params, result.shape)
    if factor is not None:
        new.add("multiply", (y, factor), {}, result.shape)
    return before.calls + new.ending_in(result)


def _factor(norm: str, is_inverse: bool, count: int) -> float | None:
    """Return the factor of a normalization; None for 1."""
    if norm == ("forward" if is_inverse else "backward"):
        return None
    return float(count**-0.5 if norm == "ortho" else 1 / count)
