"""Loops and branches with Keras signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.core.files.limits import spend_rounds
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError
from tapegrad.ops.control.control_flow import switch_case
from tapegrad.ops.control.loops import as_one_call
from tapegrad.ops.creation import arange
from tapegrad.ops.elementwise.selection import clip
from tapegrad.ops.shape.joining import concat, stack
from tapegrad.ops.shape.rearranging import flip


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """Scan `f` along the first axis of `xs`; `f(carry, x)` returns the next carry and a result.

    >>> total, sums = scan(lambda carry, x: (carry + x, carry + x), 0.0, as_operand([1.0, 2.0]))
    >>> float(total), sums.tolist()
    (3.0, [1.0, 3.0])
    """
    leaves = nest.flatten(xs) if xs is not None else []
    sizes = {leaf.shape[0] for leaf in leaves} or {length}
    if len(sizes) > 1 or None in sizes or (length is not None and length not in sizes):
        raise ArgumentError(
            "scan takes xs of equal length, or a length. "
            f"Got xs of {sorted(str(size) for size in sizes)} and length={length}."
        )
    (size,) = sizes
    places = range(size or 0)
    spend_rounds(len(places))
    found = as_one_call(f, init, leaves, xs, len(places), reverse)
    if found is not None:
        return found
    carry, results = init, []
    for place in reversed(places) if reverse else places:
        carry, result = f(carry, None if xs is None else _entry(xs, place))
        results.append(result)
    return carry, _stacked(results[::-1] if reverse else results)


def _entry(xs: Any, place: int) -> Any:
    return nest.map_structure(lambda x: x[place], xs)


def _stacked(results: list[Any]) -> Any:
    if not results or results[0] is None:
        return None
    return nest.map_structure(lambda *parts: stack(list(parts)), *results)


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # Keras' name
    """Apply `f` to each entry along the first axis, and stack the results.

    >>> map(lambda x: x * x, as_operand([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


def associative_scan(
    f: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return all partial results of an associative function, with a logarithmic number of calls.

    >>> associative_scan(lambda a, b: a * b, as_operand([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 2.0, 6.0, 24.0]
    """

    def part(start: int | None, stop: int | None) -> Any:
        return nest.map_structure(lambda x: x[_along(x, axis, slice(start, stop))], elems)

    def flipped() -> Any:
        return nest.map_structure(lambda x: flip(x, axis), elems) if reverse else elems

    elems = flipped()
    size, step = nest.flatten(elems)[0].shape[axis], 1
    while step < size:
        joined = f(part(None, size - step), part(step, None))
        elems = nest.map_structure(
            lambda first, more: concat([first, more], axis), part(None, step), joined
        )
        step *= 2
    return flipped()


def _along(x: Any, axis: int, index: slice) -> tuple[slice, ...]:
    """Return the index that slices along one axis."""
    return (slice(None),) * (axis % len(x.shape)) + (index,)


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Call `body_fun(i, value)` for each integer from `lower` to `upper` - 1, and carry the value.

    >>> fori_loop(1, 5, lambda i, product: product * i, 1)
    24
    """
    places = range(int(lower), int(upper))
    spend_rounds(len(places))
    counter = arange(places.start, places.stop)
    found = as_one_call(
        lambda value, i: (body_fun(i, value), None), init_val, [counter], counter, len(places)
    )
    if found is not None:
        return found[0]
    value = init_val
    for i in places:
        value = body_fun(i, value)
    return value


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call the branch at `index`, which is clipped to the valid range.

    >>> switch(1, [lambda x: x, lambda x: -x], as_operand(2.0)).tolist()
    -2.0
    """
    chosen = clip(as_operand(index), 0, len(branches) - 1)
    return switch_case(chosen, [partial(branch, *operands) for branch in branches])
