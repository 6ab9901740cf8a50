"""Reduction of an axis by any function of two operands, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import as_array, dtype_of, with_dtype
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.joining import unstack


class Fold:
    """A left fold `f(f(initial, x[0]), x[1]) ...`, under the name of a ufunc.

    >>> from tapegrad.ops.elementwise.arithmetic import subtract
    >>> fold = Fold("subtract", subtract, None, 10.0)
    >>> fold.over(as_array([1.0, 2.0]), (0,), False, True).tolist()
    7.0
    """

    def __init__(
        self, name: str, function: Callable[..., Any], identity: Any, initial: Any
    ) -> None:
        self._name = name
        self._function = function
        self._identity = identity
        self._initial = initial

    def over(self, x: Any, axes: tuple[int, ...], keepdims: bool, where: Any) -> Any:
        """Reduce over the axes; elements where `where` is false are skipped."""
        shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
        if not keepdims:
            shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        mask = None if where is True else broadcast_to(as_array(where, x), tuple(x.shape))
        for turn, axis in enumerate(sorted(axes, reverse=True)):
            # The initial value counts once: over the last axis if there is an identity.
            last = turn == len(axes) - 1 or self._identity is None
            start = self._initial if last and self._initial is not None else self._identity
            x = self._along(x, axis, start, mask)
            mask = None
        return reshape(x, shape)

    def _along(self, x: Any, axis: int, start: Any, mask: Any) -> Any:
        parts = list(unstack(x, axis=axis)) if x.shape[axis] else []
        masks = [None] * len(parts) if mask is None else list(unstack(mask, axis=axis))
        given = start is not None and (self._initial is not None or mask is not None)
        if given or not parts:
            if start is None:
                raise ArgumentError(f"{self._name}.reduce of an empty axis has no value.")
            kept = (*x.shape[:axis], *x.shape[axis + 1 :])
            first = with_dtype(as_array(start, x), dtype_of(x))
            parts.insert(0, broadcast_to(first, kept))
            masks.insert(0, None)
        total = parts[0]
        for part, holds in zip(parts[1:], masks[1:], strict=True):
            combined = self._function(total, part)
            total = combined if holds is None else choose(holds, combined, total)
        return total
