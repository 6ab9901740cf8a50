"""Choose the steps of a program that become instructions of a sequence, and place their arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.backend.native_sequences import Layout, NativeStep, SequenceCompiler, contiguous
from tapegrad.program.emit.lowering import Step
from tapegrad.program.emit.views import View, Views, once, params_key
from tapegrad.program.graph.graph import Call, Value

Params = Mapping[str, Any]
LoopStep = Callable[[Params, SequenceCompiler], NativeStep | None]
"""The instruction that runs a loop with given params; None if its rounds need Python."""

_loops: dict[str, LoopStep] = {}


def register_loop_steps(steps: Mapping[str, LoopStep]) -> None:
    """Set how primitives that run loops become instructions.

    >>> register_loop_steps({})
    """
    _loops.update(steps)


@dataclass(frozen=True)
class Native:
    """The instructions of a step, and the views of its operands and results."""

    steps: tuple[NativeStep, ...]
    views: tuple[View, ...]
    copies: tuple[tuple[int, tuple[NativeStep, ...]], ...] = ()
    """Operands, by position, that are first copied to contiguous memory, and how."""


class Natives:
    """Which steps can be instructions, and where their operands lie."""

    def __init__(
        self,
        steps: Sequence[Step],
        kernels: Mapping[int, Callable[..., Any]],
        compiler: SequenceCompiler,
        held: Collection[int],
    ) -> None:
        self._compiler, self._kernels = compiler, kernels
        self._views = Views(compiler)
        self._known: dict[Any, Any] = {}
        """Instructions of steps by all that they depend on: rounds and layers repeat."""
        self.found: dict[int, Native] = {}
        """Instructions by the position of the step."""
        self.aliases: set[int] = set()
        """The positions of steps that only make views, whose layout is known."""
        for position, step in enumerate(steps):
            if position in held:
                continue
            if isinstance(step, Call) and step.aliases and self._views.follow(step):
                self.aliases.add(position)
                continue
            native = self._native(position, step)
            if native is not None:
                self.found[position] = native
            elif isinstance(step, Call) and step.aliases:
                self._views.forget(step)

    def view(self, value: Value) -> View | None:
        """Return where a value lies; None if that is not known."""
        return self._views.of(value)

    def _native(self, position: int, step: Step) -> Native | None:
        operands: Sequence[Any] = step.operands if isinstance(step, Call) else step.arguments
        if not all(isinstance(operand, Value) for operand in operands):
            return None
        found = [self.view(value) for value in (*operands, *step.results)]
        views = [view for view in found if view is not None]
        if len(views) < len(found):
            return None
        name, kernel, params = "", self._kernels.get(position), {}
        if isinstance(step, Call):
            if step.effects or step.primitive.shapes_vary:
                return None
            name, params = step.primitive.name, step.params
        else:
            kernel = step.run
        layouts = [view.layout for view in views]
        count = len(operands)
        made = self._made(name, kernel, layouts, count, params)
        if made is not None:
            return Native(tuple(made), tuple(views))
        return self._with_copies(name, kernel, views, count, params)

    def _with_copies(
        self, name: str, kernel: Any, views: Sequence[View], count: int, params: Params
    ) -> Native | None:
        """The instructions of a step whose operands are copied first, if that helps."""
        copies = []
        layouts = [view.layout for view in views]
        for k, layout in enumerate(layouts[:count]):
            if not layout.is_contiguous:
                copy = self._compiler.copy(layout)
                if copy is None:
                    return None
                copies.append((k, tuple(copy)))
                layouts[k] = contiguous(layout.shape, layout.dtype)
        if not copies:
            return None
        made = self._made(name, kernel, layouts, count, params)
        return None if made is None else Native(tuple(made), tuple(views), tuple(copies))

    def _made(
        self, name: str, kernel: Any, layouts: Sequence[Layout], count: int, params: Params
    ) -> Sequence[NativeStep] | None:
        """Return the instructions of a call with operands and results that lie so."""
        loop = _loops.get(name)
        if loop is None:
            key = (name, kernel, tuple(layouts), count, params_key(params))
            given = (name, kernel, layouts[:count], layouts[count:], params)
            made: Sequence[NativeStep] | None = once(self._known, key, self._compiler.steps, *given)
            return made
        if not all(layout.is_contiguous for layout in layouts):
            return None
        step = loop(params, self._compiler)
        return None if step is None else [step]
