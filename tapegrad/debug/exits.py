"""`tape_exits`: warn, raise or be silent where a value leaves the tape and loses its derivative."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tapegrad.core.exits import MODES, exit_mode
from tapegrad.errors import ArgumentError


def tape_exits(mode: str = "raise") -> AbstractContextManager[None]:
    """Choose what happens where a value leaves the tape; in a `with` block, until its end.

    By default ("warn") transforms such as `grad` warn once per line where a value that they follow
    becomes a Python number or an array (`float(x)`, `math.sin(x)`, `x.item()`, `a[i] = x` with a
    NumPy array `a`). A tape warns of conversions to arrays, and of None as a gradient because of
    any of these. "raise" raises a TapeExitError instead, and "ignore" does nothing. Printing,
    formatting, logging, branching and comparing lose no derivative and are always allowed, and
    `x.numpy()` is the way to leave the tape on purpose.

    >>> import math
    >>> import tapegrad
    >>> with tape_exits("raise"):
    ...     try:
    ...         tapegrad.grad(lambda x: x * math.sin(x))(2.0)
    ...     except tapegrad.errors.TapeExitError as error:
    ...         print(str(error).partition(":")[0])
    A tensor that a tape follows became a Python number
    """
    if mode not in MODES:
        raise ArgumentError(f"tape_exits takes 'warn', 'raise' or 'ignore'. Got {mode!r}.")
    return exit_mode(mode)
