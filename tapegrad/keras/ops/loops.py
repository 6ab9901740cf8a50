"""Loops and choices in the forms that Keras has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.core import nest
from tapegrad.core.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.control_flow import switch_case
from tapegrad.ops.joining import concat, stack
from tapegrad.ops.rearranging import flip
from tapegrad.ops.selection import clip


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """Carry a value along the first axis of `xs`; `f(carry, x)` returns the next one and a result.

    >>> total, sums = scan(lambda carry, x: (carry + x, carry + x), 0.0, as_operand([1.0, 2.0]))
    >>> float(total), sums.tolist()
    (3.0, [1.0, 3.0])
    """
    leaves = nest.flatten(xs) if xs is not None else []
    sizes = {leaf.shape[0] for leaf in leaves} or {length}
    if len(sizes) > 1 or None in sizes or (length is not None and length not in sizes):
        raise ArgumentError(
            "scan takes xs of one length, or a length. "
            f"Got xs of {sorted(str(size) for size in sizes)} and length={length}."
        )
    (size,) = sizes
    places = range(size or 0)
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
    """Return the results of `f` for each entry along the first axis, in one tensor.

    >>> map(lambda x: x * x, as_operand([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


def associative_scan(
    f: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return all partial results of an associative function, in as many calls as a logarithm says.

    >>> associative_scan(lambda a, b: a * b, as_operand([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 2.0, 6.0, 24.0]
    """

    def part(start: int | None, stop: int | None) -> Any:
        return nest.map_structure(lambda x: x[_along(x, axis, slice(start, stop))], elems)

    def turned() -> Any:
        return nest.map_structure(lambda x: flip(x, axis), elems) if reverse else elems

    elems = turned()
    size, step = nest.flatten(elems)[0].shape[axis], 1
    while step < size:
        joined = f(part(None, size - step), part(step, None))
        elems = nest.map_structure(
            lambda first, more: concat([first, more], axis), part(None, step), joined
        )
        step *= 2
    return turned()


def _along(x: Any, axis: int, index: slice) -> tuple[slice, ...]:
    """The index that takes a part along one axis."""
    return (slice(None),) * (axis % len(x.shape)) + (index,)


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Call `body_fun(i, value)` for each whole number from `lower` up to `upper`, in turn.

    >>> fori_loop(1, 5, lambda i, product: product * i, 1)
    24
    """
    value = init_val
    for i in range(int(lower), int(upper)):
        value = body_fun(i, value)
    return value


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return what one of several functions gives; numbers beyond the ends stand for the ends.

    >>> switch(1, [lambda x: x, lambda x: -x], as_operand(2.0)).tolist()
    -2.0
    """
    chosen = clip(as_operand(index), 0, len(branches) - 1)
    return switch_case(chosen, [partial(branch, *operands) for branch in branches])
