"""Inspection of programs: text, source, costs, memory and drawings."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tapegrad.core.backend.optional_parts import GraphRun
from tapegrad.core.backend.protocol import Backend
from tapegrad.core.values.variable import Variable
from tapegrad.program.emit.graph_parts import PartitionedRun
from tapegrad.program.emit.lowering import CompiledLoop, Step
from tapegrad.program.emit.sequences import Arranged
from tapegrad.program.graph.graph import Graph
from tapegrad.program.inspect.costs import Cost, Kernel, kernel_of
from tapegrad.program.inspect.drawing import dot_of
from tapegrad.program.inspect.memory_plan import MemoryPlan, memory_of
from tapegrad.program.inspect.sources import source_of
from tapegrad.program.inspect.svg import svg_of
from tapegrad.program.inspect.text import Described, counted_as, program_text

_UNNAMED = "Variable:0"
_KNOWN_AS = {"numpy": "NumPy", "cupy": "CUDA"}
_LOOPS_AS = {"numpy": "loops in C"}


class Inspectable(ABC):
    """A program that can be inspected; `print` shows its steps."""

    recorded: Graph
    graph: Graph
    steps: Sequence[Step]
    order: Arranged
    _backend: Backend | None
    _variables: list[Variable]
    _over: Collection[int]
    _run: Any

    def __str__(self) -> str:
        return program_text(self._described())

    def _repr_html_(self) -> str:
        """Return the drawing of the steps, which notebooks display."""
        return self.draw()

    def kernels(self) -> list[Kernel]:
        """Return a description of each step, with the bytes that it moves and its operations.

        >>> import tapegrad
        >>> product = tapegrad.function(lambda a, b: a @ b)
        >>> a, b = tapegrad.ones([2, 3]), tapegrad.ones([3, 4])
        >>> c = product(a, b)
        >>> (kernel,) = product.program(a, b).kernels()
        >>> kernel.what, kernel.bytes_read, kernel.bytes_written, kernel.flops
        ('matmul of [2, 3], [3, 4]', 72, 32, 48)
        """
        return [kernel_of(step) for step in self.steps]

    def cost(self) -> Cost:
        """Return the kernels and their total cost; `print` shows a table.

        >>> import tapegrad
        >>> product = tapegrad.function(lambda a, b: a @ b)
        >>> a, b = tapegrad.ones([2, 3]), tapegrad.ones([3, 4])
        >>> c = product(a, b)
        >>> cost = product.program(a, b).cost()
        >>> cost.flops, cost.bytes_read + cost.bytes_written
        (48, 104)
        >>> print(cost)
        kernel      read   written  FLOPs  what it does
        matmul  72 bytes  32 bytes     48  matmul of [2, 3], [3, 4]
        total   72 bytes  32 bytes     48  1 kernel
        """
        return Cost(tuple(self.kernels()))

    def source(self) -> str:
        """Return the generated code: Python that calls kernels, and each fused loop.

        Loops are in the language of their backend, on a GPU in CUDA C++ for C-contiguous arrays. If
        a backend does not keep the source of a loop, its expressions are shown instead.

        >>> import tapegrad
        >>> product = tapegrad.function(lambda a, b: a @ b)
        >>> a, b = tapegrad.ones([2, 3]), tapegrad.ones([3, 4])
        >>> c = product(a, b)
        >>> print(product.program(a, b).source())
        def run(inputs, variables):
            v1, v2, = inputs
            v3 = k0(v1, v2, transpose_a=False, transpose_b=False)  # matmul
            v1 = v2 = None
            return (v3, ), ()
        <BLANKLINE>
        """
        return source_of(self.graph, self.steps)

    def memory(self) -> MemoryPlan:
        """Return the memory that the program needs in each step; `print` shows a table.

        Intermediate values are planned in one block. Its size is a lower bound, not the memory that
        an allocator reserves.

        >>> import tapegrad
        >>> chain = tapegrad.function(lambda a: a @ a @ a)
        >>> a = tapegrad.ones([10, 10])
        >>> c = chain(a)
        >>> plan = chain.program(a).memory()
        >>> plan.inputs, plan.peak, plan.outputs
        (400, 400, 400)
        """
        return memory_of(self._described())

    def draw(self, path: str | Path | None = None) -> str:
        """Return an SVG drawing of the steps, and write it to a file if `path` names one.

        Open it in a browser: hovering over a box or an arrow shows its details.

        >>> import tapegrad
        >>> product = tapegrad.function(lambda a, b: a @ b)
        >>> a, b = tapegrad.ones([2, 3]), tapegrad.ones([3, 4])
        >>> c = product(a, b)
        >>> product.program(a, b).draw()[:4]
        '<svg'
        """
        text = svg_of(self._described())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def dot(self) -> str:
        """Return the steps as a graph in Graphviz's DOT language.

        >>> import tapegrad
        >>> product = tapegrad.function(lambda a, b: a @ b)
        >>> a, b = tapegrad.ones([2, 3]), tapegrad.ones([3, 4])
        >>> c = product(a, b)
        >>> print(product.program(a, b).dot().splitlines()[-2])
          step0 -> output0 [label="%3:float32[2, 4]"];
        """
        return dot_of(self._described())

    def _described(self) -> Described:
        names = ["" if v.name == _UNNAMED else v.name for v in self._variables]
        return Described(self.graph, self.steps, self._summary(), names, self._over, self.order)

    def _summary(self) -> str:
        loops = sum(isinstance(step, CompiledLoop) for step in self.steps)
        parts = [counted_as(len(self.recorded.calls), "recorded call")]
        parts.append(counted_as(len(self.steps), "step"))
        if loops == 1:
            parts.append("a loop" if len(self.steps) == 1 else "1 of them a loop")
        elif loops:
            parts.append(f"{'all' if loops == len(self.steps) else loops} of them loops")
        return f"{', '.join(parts)}; {self._how(loops)}"

    def _how(self, loops: int) -> str:
        run = self._run
        if isinstance(run, GraphRun):
            if run.reason:
                why = run.reason[:1].lower() + run.reason[1:].rstrip(".")
                return f"launch by launch, because {why}"
            if not isinstance(run, PartitionedRun):
                return "runs as one CUDA graph"
            if run.uncaptured:
                return f"runs as CUDA graphs, with {' and '.join(run.uncaptured)} between them"
        if self._backend is None:
            return "runs on several backends" if self.steps else "nothing runs"
        name = _KNOWN_AS.get(self._backend.name, self._backend.name)
        return f"runs on {name}" + (
            f", {_LOOPS_AS.get(self._backend.name, 'fused loops')}" if loops else ""
        )
