"""`nan_sentinel`: raise where NaN arises, in eager code and inside compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tapegrad.core.eager_hooks import switch_hook
from tapegrad.core.number_checks import forget_operations


@contextmanager
def nan_sentinel() -> Iterator[None]:
    """Raise a NonFiniteError in the block where NaN arises; it names the line and the pass.

    In eager code each operation is checked that makes NaN, and each gradient in a sweep; the error
    for a gradient names the line of the forward pass. A `function` is recorded again, and its
    compiled programs return flags with their results. A call raises before it assigns to variables
    if a result is NaN or infinite, if a new value of a variable is NaN, or if NaN ends in a
    decision, such as a comparison. Infinities and NaN that `where`, slices or masks keep out of the
    results are allowed there. In eager code infinities are allowed.

    >>> import tapegrad
    >>> with nan_sentinel():
    ...     try:
    ...         tapegrad.constant(0.0) / tapegrad.constant(0.0)
    ...     except tapegrad.errors.NonFiniteError as error:
    ...         print(str(error).partition("made ")[2])
    NaN in the forward pass: 1 of 1 elements are NaN. Its operands were finite.
    """
    switch_hook("numbers", True)
    try:
        with np.errstate(all="ignore"):  # the error says more than NumPy's warnings
            yield
    finally:
        switch_hook("numbers", False)
        forget_operations()
