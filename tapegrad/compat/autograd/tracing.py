"""Running a function of one argument under a tape or an accumulator.

The argument may be a container. Cotangents follow HIPS autograd's convention for complex values:
they are the conjugates of the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.autodiff.watch import follow, is_followed
from tapegrad.compat.autograd.primitives import conjugated
from tapegrad.compat.autograd.values import (
    Function,
    Guard,
    as_tensor,
    is_source,
    is_tensor,
    map_leaves,
    on_host,
    own,
    own_structure,
    refuse,
    source,
)
from tapegrad.compat.autograd.vspaces import vspace
from tapegrad.core.recorder import enter_recorder, leave_recorder
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.shape import functions as shape


class Argument:
    """A function's argument: its differentiable leaves (sources), and the rest."""

    def __init__(self, value: Any) -> None:
        self._structure = value
        self._is_nested = nest.is_nested(value)
        if not self._is_nested:
            if not is_source(value):
                raise refuse(value)
            self._leaves = self.sources = [source(value)]
            self._is_source = [True]
            self._is_host = [not is_tensor(value)]
            return
        leaves = nest.flatten(value)
        self._is_source = [is_source(x) for x in leaves]
        self._leaves = [source(x) if flag else x for x, flag in zip(leaves, self._is_source)]
        self.sources = [x for x, flag in zip(self._leaves, self._is_source) if flag]
        self._is_host = [not is_tensor(x) for x, flag in zip(leaves, self._is_source) if flag]

    def value(self) -> Any:
        """Return the argument for the call.

        It contains copies of the sources, so that in-place writes do not change the sources.
        """
        twins = [wrap(x.array, x.node) if type(x) is Tensor else x for x in self._leaves]
        return nest.pack_sequence_as(self._structure, twins) if self._is_nested else twins[0]

    def pack(self, parts: list[Any], rest: Callable[[Any], Any]) -> Any:
        """Return one value per source in the structure of the argument, each in the source's place.

        Gradients with respect to NumPy arrays are NumPy arrays, even if computed on a GPU.
        """
        parts = [
            on_host(part) if is_host else part
            for part, is_host in zip(parts, self._is_host, strict=True)
        ]
        if not self._is_nested:
            return parts[0]
        waiting = iter(parts)
        leaves = [
            next(waiting) if flag else rest(leaf)
            for leaf, flag in zip(self._leaves, self._is_source, strict=True)
        ]
        return nest.pack_sequence_as(self._structure, leaves)

    def result(self, output: Any) -> Any:
        """Return the function's result for the caller, on the host if all sources are there."""
        found = own_structure(output)
        return map_leaves(on_host, found) if all(self._is_host) else found

    def split(self, tangents: Any) -> list[Any]:
        """Return the tangents of the sources, from a structure like the argument."""
        leaves = nest.flatten(tangents) if self._is_nested else [tangents]
        if len(leaves) != len(self._leaves):
            raise ArgumentError(
                f"A tangent must have the structure of its argument, with {len(self._leaves)} "
                f"leaves. Got {len(leaves)}."
            )
        return [leaf for leaf, flag in zip(leaves, self._is_source) if flag]


def _zero_of(leaf: Any) -> Any:
    """Return the gradient for a leaf that is not differentiable: zero for numbers, else None."""
    return 0.0 if isinstance(leaf, int | np.integer) else None


class Recording:
    """A function that ran once under a tape, ready for its VJP."""

    def __init__(self, fun: Function, x: Any, persistent: bool = False) -> None:
        self._argument = Argument(x)
        self._tape = GradientTape(persistent, watch_accessed_variables=False)
        self._guard = Guard()
        with self._tape:
            enter_recorder(self._guard)
            try:
                if self._argument.sources:
                    self._tape.watch(self._argument.sources)
                for tensor in self._argument.sources:
                    follow(tensor, self._guard.token)
                self.output = fun(self._argument.value())
            finally:
                leave_recorder(self._guard)
                self._guard.token.open = False

    @property
    def value(self) -> Any:
        """The function's result."""
        return self._argument.result(self.output)

    def is_connected(self, leaf: Any) -> bool:
        """Return whether a leaf of the output depends on the argument."""
        return is_tensor(leaf) and is_followed(leaf, self._tape.token)

    def _packed(self, grads: Any) -> Any:
        return self._argument.pack([own(conjugated(grad)) for grad in grads], _zero_of)

    def gradient(self) -> Any:
        """Return the gradient of a real scalar output with respect to the argument."""
        sources = self._argument.sources
        if not self.is_connected(self.output):
            grads = [creation.zeros_like(x) for x in sources]
        else:
            grads = self._tape.gradient(self.output, sources, None, "zero")
        return self._packed(grads)

    def vjp(self, g: Any) -> Any:
        """Return the cotangent of the argument for a cotangent of the output."""
        outputs = nest.flatten(self.output) if nest.is_nested(self.output) else [self.output]
        given = nest.flatten(g) if nest.is_nested(self.output) else [g]
        if len(given) != len(outputs):
            raise ArgumentError(
                f"A cotangent must have the structure of the function's value, with {len(outputs)} "
                f"leaves. Got {len(given)}."
            )
        pairs = [(y, t) for y, t in zip(outputs, given) if self.is_connected(y)]
        targets = [y for y, _ in pairs]
        seeds = [conjugated(_fitted(t, y)) for y, t in pairs]
        sources = self._argument.sources
        if targets and sources:
            grads = self._tape.gradient(targets, sources, seeds, "zero")
        else:
            grads = [creation.zeros_like(x) for x in sources]
        return self._packed(grads)

    def jacobian(self) -> Any:
        """Return the derivatives of each output entry, shape output.shape + input.shape."""
        output, sources = self.output, self._argument.sources
        if not self.is_connected(output):
            grads = [creation.zeros((*np.shape(output), *x.shape), x.dtype) for x in sources]
        elif output.ndim == 0:
            grads = self._tape.gradient(output, sources, None, "zero")
        else:
            grads = self._tape.jacobian(output, sources, "zero")
        return self._packed(grads)


def pushed(fun: Function, x: Any, g: Any) -> tuple[Any, Any]:
    """Return `fun(x)` and its derivative along `g`, by forward mode."""
    argument = Argument(x)
    tangents = [_fitted(t, p) for t, p in zip(argument.split(g), argument.sources, strict=True)]
    guard = Guard()
    with ForwardAccumulator(argument.sources, tangents) as accumulator:
        enter_recorder(guard)
        try:
            for tensor in argument.sources:
                follow(tensor, guard.token)
            output = fun(argument.value())
        finally:
            leave_recorder(guard)
            guard.token.open = False

    def tangent(leaf: Any) -> Any:
        if is_tensor(leaf):
            return argument.result(accumulator.jvp(leaf, "zero"))
        return vspace(leaf).zeros()

    leaves = nest.flatten(output) if nest.is_nested(output) else [output]
    moved = [tangent(leaf) for leaf in leaves]
    along = nest.pack_sequence_as(output, moved) if nest.is_nested(output) else moved[0]
    return argument.result(output), along


def _fitted(g: Any, like: Any) -> Any:
    """Return a cotangent or tangent with the shape and dtype of the value it belongs to."""
    g = as_tensor(g)
    wanted = tuple(like.shape)
    if g.shape != wanted:
        if g.size != 1 and g.size != like.size:
            raise ShapeError(
                f"A vector in a product with a Jacobian must have the shape {wanted} of the value "
                f"that it belongs to. Got {g.shape}."
            )
        g = shape.broadcast_to(shape.reshape(g, ()), wanted) if g.size == 1 else g
        g = shape.reshape(g, wanted)
    return g if g.dtype == like.dtype else cast.cast(g, like.dtype)


def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the function that maps output to input cotangents, and `fun(x)`.

    >>> vjp, value = make_vjp(lambda x: x * x, 3.0)
    >>> float(value), float(vjp(1.0)), float(vjp(2.0))
    (9.0, 6.0, 12.0)
    """
    recording = Recording(fun, x, persistent=True)
    return recording.vjp, recording.value


def make_jvp(fun: Function, x: Any) -> Function:
    """Return the function that maps a tangent of `x` to `fun(x)` and its tangent.

    >>> value, tangent = make_jvp(lambda x: x * x, 3.0)(1.0)
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """
    return lambda g: pushed(fun, x, g)
