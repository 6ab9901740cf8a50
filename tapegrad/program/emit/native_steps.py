"""Choose the steps of a program that become instructions of a sequence, and place their arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.backend.native_sequences import Layout, NativeStep, SequenceCompiler, contiguous
from tapegrad.core.exact_key import exact_key
from tapegrad.program.emit.lowering import Step
from tapegrad.program.graph.graph import Call, Value, is_wait

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
class View:
    """Where a value lies: in the array of another value or in its own."""

    root: Value
    offset: int
    layout: Layout


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
        self._views: dict[int, View | None] = {}
        self._known: dict[Any, Any] = {}
        """Instructions and views of steps by all that they depend on: rounds and layers repeat."""
        self.found: dict[int, Native] = {}
        """Instructions by the position of the step."""
        self.aliases: set[int] = set()
        """The positions of steps that only make views, whose layout is known."""
        for position, step in enumerate(steps):
            if position in held:
                continue
            may_alias = isinstance(step, Call) and step.aliases
            if isinstance(step, Call) and may_alias and self._are_views(step):
                self.aliases.add(position)
                continue
            native = self._native(position, step)
            if native is not None:
                self.found[position] = native
            elif may_alias:
                self._views.update({value.number: None for value in step.results})

    def view(self, value: Value) -> View | None:
        """Return where a value lies; None if that is not known."""
        if value.number not in self._views:
            layout = self._once(contiguous, (value.shape, value.dtype), value.shape, value.dtype)
            self._views[value.number] = View(value, 0, layout)
        return self._views[value.number]

    def _are_views(self, call: Call) -> bool:
        """Whether the results are views, whose places are then known.

        A reshape makes a copy where the elements of its operand do not follow each other.
        """
        before = self.view(call.reads[0]) if len(call.reads) == 1 else None
        if before is None or len(call.operands) != 1 or call.effects or is_wait(call):
            return False
        kernel = call.primitive.kernel(call.array_type)
        key = ("views", kernel, before.layout, _key(call.params))
        made = self._once(self._compiler.views, key, kernel, before.layout, call.params)
        shapes = [value.shape for value in call.results]
        if made is None or [layout.shape for _, layout in made] != shapes:
            return False
        for value, (offset, layout) in zip(call.results, made):
            self._views[value.number] = View(before.root, before.offset + offset, layout)
        return True

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
            key = (name, kernel, tuple(layouts), count, _key(params))
            given = (name, kernel, layouts[:count], layouts[count:], params)
            made: Sequence[NativeStep] | None = self._once(self._compiler.steps, key, *given)
            return made
        if not all(layout.is_contiguous for layout in layouts):
            return None
        step = loop(params, self._compiler)
        return None if step is None else [step]

    def _once(self, make: Callable[..., Any], key: Any, *given: Any) -> Any:
        """Return what is made of some arguments, once for each key that can be compared."""
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = make(*given)
            return found
        except TypeError:  # params that are not hashable
            return make(*given)


def _key(params: Params) -> Any:
    return tuple([(name, exact_key(value)) for name, value in params.items()])
