"""The interface between a reverse sweep and the code that computes, and its plain implementation.

`Accelerator` is the only interface between the sweep and the device. `PlainAccelerator` applies
the rules as they are written. A faster one is registered with `set_accelerator`; it computes the
same cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.pullback import add_cotangents, input_cotangents
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.number_checks import is_checking_numbers
from tapegrad.core.origin import OneOrigin, set_origin
from tapegrad.core.out_of_memory import recover
from tapegrad.core.recorder import Node, with_saved
from tapegrad.ops.casting import cast
from tapegrad.ops.indexing.gather import RowGradient

if TYPE_CHECKING:
    from tapegrad.core.backend.optional_parts import Adoption

_PLAIN = (tuple, type(None), float, int)
"""Types of saved values that are no arrays; a tuple is a shape."""

Cotangents = dict[Any, Any]
"""What has arrived for each node: an array, a tensor or a `RowGradient`; for an operation with
several results a dict of these by result index."""


class Accelerator(Protocol):
    """Computes one sweep. It may read and write the table of cotangents that it was made with."""

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        """Return the cotangents of the inputs of a node.

        None stands for an input that needs no cotangent, or whose cotangent the accelerator has
        added to the table itself. The sequence may be shorter than the inputs.
        """

    def accumulate(self, node: Node, total: Any, contribution: Any) -> Any:
        """Return `total + contribution`, where `total` is what has arrived for `node` so far.

        If the accelerator owns the array `total`, it may add in place.
        """

    def cast(self, node: Node, cotangent: Any) -> Any:
        """Return the cotangent of a leaf in the dtype `node.specs`, or leave that to `finish`."""

    def finish(self) -> None:
        """Complete the table after the last node."""


class PlainAccelerator:
    """Applies the rules one by one."""

    def __init__(self, plan: Plan, cotangents: Cotangents, on_tensors: bool = False) -> None:
        self.needed = plan.needed
        self.guards_before = plan.guards_before
        self.cotangents = cotangents
        self.on_tensors = on_tensors
        self.owned: set[Node] = set()
        """Nodes whose total is an array that this sweep has made and may write to."""

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if self.on_tensors:  # operations on tensors recover by themselves when memory runs out
            return input_cotangents(node, cotangent, self.needed, True, self.guards_before)
        given = node, cotangent, self.needed, False, self.guards_before
        return attempt_at(node, input_cotangents, *given)  # type: ignore[no-any-return]

    def accumulate(self, node: Node, total: Any, contribution: Any) -> Any:
        if self.on_tensors:
            return add_cotangents(total, contribution)
        if node in self.owned and not isinstance(contribution, RowGradient):
            total += contribution
            return total
        total = attempt_at(node, add_cotangents, total, contribution)
        if not isinstance(total, RowGradient | dict):
            self.owned.add(node)
        return total

    def cast(self, node: Node, cotangent: Any) -> Any:
        return attempt_at(node, cast.cast_like, cotangent, node.specs)

    def finish(self) -> None:
        pass


def attempt_at(node: Node, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function for a node; if memory runs out, `recover` and name the operation."""
    try:
        return function(*args)
    except MemoryError as error:
        primitive = node.primitive
        what = "A gradient" if primitive is None else f"The gradient of {primitive.name}"
        return recover(what, args, partial(function, *args), error, (node,))


class _AdoptingAccelerator:
    """Turns arrays from outside a recording into constants of it before rules combine them."""

    def __init__(self, inner: Accelerator, adoption: Adoption, recorded: Any) -> None:
        self._inner = inner
        self._adoption = adoption
        self._recorded = recorded
        self._origin = OneOrigin()  # the line that asks for the gradient
        self.cast, self.finish = inner.cast, inner.finish

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if type(cotangent) is dict:
            cotangent = dict(zip(cotangent, self._adopt(cotangent.values())))
        elif type(cotangent) is not type(self._recorded):
            (cotangent,) = self._adopt((cotangent,))
        has_own_rules = getattr(node.primitive, "has_own_rules", False)
        before = set_origin(self._origin if has_own_rules else None)
        try:
            return self._inner.pull_back(self._adopted_node(node), cotangent)
        finally:
            set_origin(before)

    def accumulate(self, node: Node, total: Any, contribution: Any) -> Any:
        before = set_origin(self._origin)
        try:
            return self._inner.accumulate(node, total, contribution)
        finally:
            set_origin(before)

    def _adopted_node(self, node: Node) -> Node:
        saved = node.saved
        if type(saved) not in (list, tuple) or self._is_inside(saved):
            return node
        if node.primitive.joint_vjp is None:
            saved = [None if part is None else tuple(self._adopt(part)) for part in saved]
        else:
            saved = tuple(self._adopt(saved))
        return with_saved(node, saved)

    def _is_inside(self, saved: Any) -> bool:
        """Whether the values that a node has saved contain no array from outside the recording."""
        recorded = type(self._recorded)
        for part in saved:
            for value in part if type(part) is tuple else (part,):
                if type(value) is not recorded and type(value) not in _PLAIN:
                    return False
        return True

    def _adopt(self, values: Any) -> list[Any]:
        return self._adoption.adopt(self._recorded, list(values))


def _make_plain(plan: Plan, cotangents: Cotangents) -> Accelerator:
    return PlainAccelerator(plan, cotangents)


_make_for_arrays: Callable[[Plan, Cotangents], Accelerator] = _make_plain


def set_accelerator(factory: Callable[[Plan, Cotangents], Accelerator]) -> None:
    """Let sweeps over raw arrays compute with `factory(plan, cotangents)`."""
    global _make_for_arrays
    _make_for_arrays = factory


def make_accelerator(plan: Plan, cotangents: Cotangents, on_tensors: bool) -> Accelerator:
    """Return the accelerator of a sweep that starts with these cotangents."""
    if on_tensors:
        return PlainAccelerator(plan, cotangents, on_tensors)
    for cotangent in cotangents.values():
        adoption = capabilities_of(type(cotangent)).adoption
        if adoption is not None:
            plain = PlainAccelerator(plan, cotangents)
            return _AdoptingAccelerator(plain, adoption, cotangent)
    # A faster one adds to the table itself, where a check would not see what the rules return.
    make = _make_plain if is_checking_numbers() else _make_for_arrays
    return make(plan, cotangents)
