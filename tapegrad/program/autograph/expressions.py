"""Operators for `and`, `or`, `not`, chains of comparisons and the builtins that decide."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.elementwise.comparison import logical_and, logical_not, logical_or
from tapegrad.ops.elementwise.selection import where
from tapegrad.program.autograph.decided import note_decision
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import chosen, is_number
from tapegrad.program.record.branches import as_truth

Thunk = Callable[[], Any]

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def and_(*operands: Thunk) -> Any:
    """Return `a and b and ...`."""
    value = operands[0]()
    for operand in operands[1:]:
        if is_undecided(value):
            note_decision()
            value = _both(value, operand())
        elif not value:
            return value
        else:
            value = operand()
    return value


def or_(*operands: Thunk) -> Any:
    """Return `a or b or ...`."""
    value = operands[0]()
    for operand in operands[1:]:
        if is_undecided(value):
            note_decision()
            value = _either(value, operand())
        elif value:
            return value
        else:
            value = operand()
    return value


def not_(value: Any) -> Any:
    """Return `not value`."""
    return logical_not(as_truth(value)) if is_undecided(value) else not value


def goes_on(*flags: Any) -> Any:
    """Return whether no jump has been taken."""
    if any(flag is True for flag in flags):
        return False
    unknown = [as_truth(flag) for flag in flags if flag is not False]
    return logical_not(reduce(logical_or, unknown)) if unknown else True


def compare(left: Any, *rest: Any) -> Any:
    """Return a chain of comparisons, such as `a < b <= c`."""
    value: Any = True
    for place in range(0, len(rest), 2):
        right = rest[place + 1]()
        found = _COMPARISONS[rest[place]](left, right)
        if is_undecided(value):
            note_decision()
            value = _both(value, found)
        else:
            value = found
        if not is_undecided(value) and not value:
            return value
        left = right
    return value


def builtin(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function; the builtins any, all, max and min also take tensors."""
    is_known = function in (builtins.any, builtins.all, builtins.max, builtins.min)
    if kwargs or not args or not is_known:
        return function(*args, **kwargs)
    if function in (builtins.any, builtins.all):
        return function(*args) if len(args) > 1 else _any_or_all(args[0], function is builtins.any)
    entries = [*(args[0] if len(args) == 1 else args)]
    if not builtins.any(map(is_undecided, entries)):
        return function(entries)
    note_decision()
    comes_first = operator.gt if function is builtins.max else operator.lt
    return reduce(lambda a, b: where(comes_first(b, a), b, a), entries)


def _any_or_all(entries: Any, is_any: bool) -> Any:
    """Return whether any entry is true, or all of them are."""
    unknown = []
    for entry in entries:
        if is_undecided(entry):
            unknown.append(as_truth(entry))
        elif bool(entry) is is_any:
            return is_any
    if not unknown:
        return not is_any
    note_decision()
    return reduce(logical_or if is_any else logical_and, unknown)


def _both(first: Any, second: Any) -> Any:
    if _are_truths(first, second):
        return logical_and(first, second)
    _check(first, second)
    return chosen(as_truth(first), "an operand of 'and'", second, first)


def _either(first: Any, second: Any) -> Any:
    if _are_truths(first, second):
        return logical_or(first, second)
    _check(first, second)
    return chosen(as_truth(first), "an operand of 'or'", first, second)


def _are_truths(*values: Any) -> bool:
    return all(
        type(one) is bool or (is_undecided(one) and one.dtype.name == "bool") for one in values
    )


def _check(*values: Any) -> None:
    for value in values:
        if not is_number(value):
            raise NotConvertible(f"an operand of 'and' or 'or' is a {type(value).__name__}")
