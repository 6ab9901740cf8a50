"""The `function` decorator. Functions run eagerly, with exactly the tape's semantics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentTypeError

Function = Callable[..., Any]


def function(
    func: Function | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    **experimental: Any,
) -> Any:
    """Mark a function as one program, as TensorFlow's `tf.function` does.

    It runs eagerly: each call executes the Python code, so tapes inside and outside, variables and
    side effects behave as if the decorator were not there. The options are accepted and have no
    effect.

    >>> import tapegrad
    >>> @function
    ... def square(x):
    ...     return x * x
    >>> float(square(tapegrad.constant(3.0)))
    9.0
    """
    if func is None:
        return functools.partial(function, input_signature=input_signature)
    if not callable(func):
        raise ArgumentTypeError(f"function() decorates a function. Got {type(func).__name__}.")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    call.python_function = func  # type: ignore[attr-defined]  # TensorFlow's name for the original
    return call
