"""The decorator `function` and its options."""

from __future__ import annotations

import functools
import inspect
from difflib import get_close_matches
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.program.function import Function, Python
from tapegrad.program.memory_budget import check_budget


def function(
    func: Python | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    *,
    jit: bool | None = None,
    memory_budget: int | None = None,
    wait: bool = False,
    **experimental: Any,
) -> Any:
    """Compile a function into a program, like TensorFlow's `tf.function`.

    The first call with arguments of new shapes, dtypes or Python values runs the Python code and
    records its operations, gradients, optimizer steps and assignments. Later calls replay the
    program without the Python code, so side effects such as `print` happen once. Reading a value
    while recording, as by `float(x)`, is an error. `if`, `while` and `for` on tensors become part
    of the program, or the function runs eagerly with a warning; with `autograph=False` they are
    errors.

    One program serves all sizes: two or three recordings that differ in the lengths of axes only
    suffice for all lengths, unless the Python code depends on them, e.g. by `range(len(x))`.

    `input_signature` has one `TensorSpec` per argument, which calls must match. With `jit=False`
    the Python code runs on each call. If the intermediate values need more bytes than
    `memory_budget`, elementwise values and rounds of loops are computed again instead of stored. A
    long program is compiled in the background and runs unfused meanwhile; with `wait=True` its
    first call waits for the compiled form. The other options are accepted for compatibility with
    TensorFlow and have no effect, `jit_compile` among them: in TensorFlow it chooses a compiler.

    >>> import tapegrad
    >>> @function
    ... def square(x):
    ...     return x * x
    >>> float(square(tapegrad.constant(3.0)))
    9.0
    """
    check_budget(memory_budget)
    for name in experimental:
        if not name.startswith("experimental_"):
            known = [*inspect.signature(function).parameters][1:-1]
            close = [f"Did you mean {one!r}? " for one in get_close_matches(name, known, 1)]
            raise ArgumentTypeError(
                f"function() has no option {name!r}. {''.join(close)}Its options are "
                f"{', '.join(known)}."
            )
    if func is None:
        return functools.partial(
            function,
            input_signature=input_signature,
            autograph=autograph,
            jit=jit,
            memory_budget=memory_budget,
            wait=wait,
        )
    if not callable(func):
        raise ArgumentTypeError(
            f"function() decorates a function. Got {type(func).__name__}. Put @classmethod and "
            "@property above @function."
        )
    return Function(func, jit is False, input_signature, memory_budget, wait, bool(autograph))
