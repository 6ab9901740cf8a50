"""Where the values of a program lie: in memory of their own, or in that of another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tapegrad.core.backend.native_sequences import Layout, SequenceCompiler, contiguous
from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.graph import Call, Value, is_wait


@dataclass(frozen=True)
class View:
    """Where a value lies: in the array of another value or in its own."""

    root: Value
    offset: int
    layout: Layout


class Views:
    """Follows views (slices, transposes, reshapes) through the steps of a program in order.

    Other values are contiguous. A view is made once of an array that is never read, by the kernel
    of `array_type` if one is given, by default by that of the call.
    """

    def __init__(self, compiler: SequenceCompiler, array_type: type | None = None) -> None:
        self._compiler, self._array_type = compiler, array_type
        self._views: dict[int, View | None] = {}
        self._known: dict[Any, Any] = {}
        """Layouts by all that they depend on: rounds and layers repeat."""

    def of(self, value: Value) -> View | None:
        """Return where a value lies; None if that is not known."""
        if value.number not in self._views:
            key = (value.shape, value.dtype)
            layout = once(self._known, key, contiguous, value.shape, value.dtype)
            self._views[value.number] = View(value, 0, layout)
        return self._views[value.number]

    def follow(self, call: Call) -> bool:
        """Note where the results of a call lie if they are views; return whether that is known.

        A reshape makes a copy where the elements of its operand do not follow each other.
        """
        before = self.of(call.reads[0]) if len(call.reads) == 1 else None
        if before is None or len(call.operands) != 1 or call.effects or is_wait(call):
            return False
        kernel = call.primitive.kernel(self._array_type or call.array_type)
        key = ("views", kernel, before.layout, params_key(call.params))
        made = once(self._known, key, self._compiler.views, kernel, before.layout, call.params)
        shapes = [value.shape for value in call.results]
        if made is None or [layout.shape for _, layout in made] != shapes:
            return False
        for value, (offset, layout) in zip(call.results, made):
            self._views[value.number] = View(before.root, before.offset + offset, layout)
        return True

    def forget(self, call: Call) -> None:
        """Note that it is not known where the results of a call lie."""
        self._views.update({value.number: None for value in call.results})


def once(known: dict[Any, Any], key: Any, make: Callable[..., Any], *given: Any) -> Any:
    """Return what is made of some arguments, once for each key that can be compared."""
    try:
        return known[key]
    except KeyError:
        found = known[key] = make(*given)
        return found
    except TypeError:  # params that are not hashable
        return make(*given)


def params_key(params: Mapping[str, Any]) -> Any:
    """Return params as a key of a dictionary."""
    return tuple([(name, exact_key(value)) for name, value in params.items()])
