"""TensorFlow's `tf.autograph.experimental`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls

__all__ = ["do_not_convert", "set_loop_options"]


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Return the function itself, or a decorator that does.

    A function is only converted if a recording cannot run it as it is, so there is nothing to
    switch off. `tapegrad.function(autograph=False)` raises an error instead of converting.

    >>> do_not_convert(abs) is abs
    True
    """
    return do_not_convert if func is None else func


def set_loop_options(
    parallel_iterations: int | None = None,
    swap_memory: bool | None = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Accept TensorFlow's options of the loop around this call, and change nothing.

    >>> set_loop_options(parallel_iterations=4)
    """


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("autograph.experimental", name)
