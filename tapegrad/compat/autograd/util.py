"""Small helpers for extensions of HIPS autograd."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tapegrad.compat.autograd.test_util import check_grads
from tapegrad.core.call_site import warn_outside


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence as a tuple with some entries replaced.

    >>> subvals((1, 2, 3), [(0, "a"), (2, "c")])
    ('a', 2, 'c')
    """
    values = list(x)
    for index, value in ivs:
        values[index] = value
    return tuple(values)


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence as a tuple with one entry replaced.

    >>> subval((1, 2), 1, "b")
    (1, 'b')
    """
    return subvals(x, [(i, v)])


def func(f: Any) -> Any:
    """Return `f`; a deprecated function that used to unwrap methods."""
    return f


def toposort(
    end_node: Any, parents: Callable[[Any], Sequence[Any]] = operator.attrgetter("parents")
) -> Iterator[Any]:
    """Yield the nodes that `end_node` depends on, each after all nodes that depend on it.

    >>> parents = {"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}
    >>> list(toposort("d", parents.__getitem__))
    ['d', 'c', 'b', 'a']
    """
    uses: dict[Any, int] = {end_node: 1}
    waiting = [end_node]
    while waiting:
        for parent in parents(waiting.pop()):
            if parent not in uses:
                uses[parent] = 0
                waiting.append(parent)
            uses[parent] += 1
    ready = [end_node]
    while ready:
        node = ready.pop()
        yield node
        for parent in parents(node):
            uses[parent] -= 1
            if not uses[parent]:
                ready.append(parent)


def quick_grad_check(
    fun: Callable[..., Any],
    arg0: Any,
    extra_args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Check a gradient with respect to the first argument; deprecated.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     quick_grad_check(lambda x, y: x * x * y, 1.0, (2.0,))
    """
    warn_outside(
        "quick_grad_check is deprecated. Use test_util.check_grads.",
        DeprecationWarning,
    )
    check_grads(lambda x: fun(x, *extra_args, **(kwargs or {})), modes=["rev"], order=1)(arg0)
