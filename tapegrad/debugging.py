"""Assertions on tensors (TensorFlow's `tf.debugging`), also inside recorded functions.

Each raises `ArgumentError`, a ValueError, that shows the first failing values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.core.call_site import call_site
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.eager_hooks import switch_hook as _switch_hook
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ShapeError
from tapegrad.kind_assertions import (
    assert_integer,
    assert_proper_iterable,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_shapes,
    assert_type,
    is_numeric_tensor,
)
from tapegrad.program.record.checks import Check
from tapegrad.program.record.effects import act

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_shapes",
    "assert_that",
    "assert_type",
    "check_numerics",
    "disable_check_numerics",
    "enable_check_numerics",
    "get_log_device_placement",
    "is_numeric_tensor",
    "set_log_device_placement",
]


def _check(
    test: str,
    wanted: str,
    message: str | None,
    *values: Any,
    error: str = "ArgumentError",
    **options: float,
) -> None:
    tensors = [value if isinstance(value, Variable) else to_tensor(value) for value in values]
    act(Check(test, wanted, message, call_site(), error, options), tensors, "an assertion")


def assert_that(condition: Any, message: str | None = None) -> None:
    """Raise unless all elements of a condition hold.

    >>> assert_that([True, True])
    """
    _check("true", "a condition that holds", message, condition)


def Assert(  # noqa: N802  # TensorFlow's name
    condition: Any, data: Any, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless all elements of a condition hold; the error has the texts in `data`.

    >>> Assert([True, True], ["x must be positive"])
    """
    given = data if isinstance(data, list | tuple) else [data]
    texts = [text for text in given if isinstance(text, str)]
    assert_that(condition, " ".join(texts) or None)


def assert_rank(x: Any, rank: int, message: str | None = None, name: str | None = None) -> None:
    """Raise unless a tensor has this number of axes.

    >>> assert_rank([[1.0, 2.0]], 2)
    """
    shape = tuple(x.shape if isinstance(x, Variable) else to_tensor(x).shape)
    if len(shape) != rank:
        reason = f"{message}. " if message else ""
        raise ShapeError(
            f"{reason}The assertion at {call_site()} requires rank {rank}. Got shape {shape}."
        )


def assert_equal(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x == y for all elements.

    >>> assert_equal([1.0, 2.0], [1.0, 2.0])
    """
    _check("equal", "x == y", message, x, y)


def assert_none_equal(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x != y for all elements.

    >>> assert_none_equal([1.0, 2.0], 3.0)
    """
    _check("not_equal", "x != y", message, x, y)


def assert_less(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x < y for all elements.

    >>> assert_less([1.0, 2.0], 3.0)
    """
    _check("less", "x < y", message, x, y)


def assert_less_equal(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x <= y for all elements.

    >>> assert_less_equal([1.0, 3.0], 3.0)
    """
    _check("less_equal", "x <= y", message, x, y)


def assert_greater(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x > y for all elements.

    >>> assert_greater([1.0, 2.0], 0.0)
    """
    _check("greater", "x > y", message, x, y)


def assert_greater_equal(
    x: Any,
    y: Any,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless x >= y for all elements.

    >>> assert_greater_equal([0.0, 2.0], 0.0)
    """
    _check("greater_equal", "x >= y", message, x, y)


def assert_near(
    x: Any,
    y: Any,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless |x - y| <= atol + rtol * |y| for all elements.

    >>> assert_near([1.0], [1.000001])
    """

    wanted = f"x within {atol} + {rtol} |y| of y"
    _check("near", wanted, message, x, y, rtol=rtol, atol=atol)


def assert_positive(
    x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x > 0 for all elements.

    >>> assert_positive([1.0])
    """
    _check("positive", "x > 0", message, x)


def assert_non_negative(
    x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x >= 0 for all elements.

    >>> assert_non_negative([0.0])
    """
    _check("non_negative", "x >= 0", message, x)


def assert_negative(
    x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless all elements are below zero.

    >>> assert_negative([-1.0, -2.0])
    """
    _check("negative", "x < 0", message, x)


def assert_non_positive(
    x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless all elements are at most zero.

    >>> assert_non_positive([-1.0, 0.0])
    """
    _check("non_positive", "x <= 0", message, x)


def assert_all_finite(x: Any, message: str | None = None, name: str | None = None) -> Any:
    """Return the tensor, or raise a NonFiniteError if an element is infinite or NaN.

    >>> assert_all_finite([0.0]).tolist()
    [0.0]
    """
    x = to_tensor(x)
    _check("finite", "finite values", message, x, error="NonFiniteError")
    return x


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Return the tensor, or raise a NonFiniteError if an element is infinite or NaN.

    >>> float(check_numerics(2.0, "the loss"))
    2.0
    """
    return assert_all_finite(tensor, message)


_check_numerics = [False]


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Raise from now on where NaN arises, as in a `debug.nan_sentinel()` block without an end.

    The error names the file and line, the operation and the pass. The limits are accepted and
    ignored.

    >>> enable_check_numerics()
    >>> disable_check_numerics()
    """
    if not _check_numerics[0]:
        _check_numerics[0] = True
        _switch_hook("numbers", True)


def disable_check_numerics() -> None:
    """End `enable_check_numerics`.

    >>> disable_check_numerics()
    """
    if _check_numerics[0]:
        _check_numerics[0] = False
        _switch_hook("numbers", False)


_log_placement = [False]


def set_log_device_placement(enabled: bool) -> None:
    """Keep this for `get_log_device_placement`; nothing is logged.

    Operations run on the device of their tensors, which is `x.device`.

    >>> set_log_device_placement(False)
    """
    _log_placement[0] = bool(enabled)


def get_log_device_placement() -> bool:
    """Return what `set_log_device_placement` has set.

    >>> get_log_device_placement()
    False
    """
    return _log_placement[0]


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("debugging", name)
