"""The cost of the steps of a program: bytes read and written, and arithmetic operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tapegrad.core.out_of_memory import readable
from tapegrad.core.trace.expression import Expression, UntraceableError, array_input
from tapegrad.core.trace.loop import INDEXED, Loop
from tapegrad.program.emit.lowering import CompiledLoop, Step
from tapegrad.program.fusion.fusion import is_constant
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.formulas import COMBINING, formulas_of, nodes_of
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.inspect.text import call_names, combined_words, counted_as, space_words

_FREE = frozenset({"input", "constant", "astype"})
_PICKING = frozenset({
    *("take", "take_last", "take_runs", "gather_rows", "slice", "split", "unstack"),
})  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """One step of a program and its cost.

    Each array that is read counts once; views count nothing. `flops` are the multiplications and
    additions of products, convolutions and attention. In a loop every operation on one element
    counts 1. It is 0 if the number is unknown.
    """

    name: str
    """A primitive, or "loop"."""
    what: str
    shape: Shape
    """The shape of a loop's iteration space, or of the first result."""
    bytes_read: int
    bytes_written: int
    flops: int


@dataclass(frozen=True)
class Cost:
    """The kernels of a program and their total cost; `str` is a table."""

    kernels: tuple[Kernel, ...]

    @property
    def bytes_read(self) -> int:
        return sum(kernel.bytes_read for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        return sum(kernel.bytes_written for kernel in self.kernels)

    @property
    def flops(self) -> int:
        return sum(kernel.flops for kernel in self.kernels)

    def __str__(self) -> str:
        rows = [("kernel", "read", "written", "FLOPs", "what it does")]
        rows += [
            (k.name, readable(k.bytes_read), readable(k.bytes_written), thousands(k.flops), k.what)
            for k in self.kernels
        ]
        totals = (readable(self.bytes_read), readable(self.bytes_written), thousands(self.flops))
        rows.append(("total", *totals, counted_as(len(self.kernels), "kernel")))
        return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns; all but the first and the last column are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *numbers, last in rows:
        right = [text.rjust(width) for text, width in zip(numbers, widths[1:-1])]
        lines.append("  ".join([first.ljust(widths[0]), *right, last]))
    return "\n".join(lines)


def thousands(number: int) -> str:
    """Format a number with about three digits.

    >>> thousands(512), thousands(51_380_224)
    ('512', '51.4 M')
    """
    size, unit = float(number), ""
    for larger in ("k", "M", "G", "T", "P"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if unit else str(number)


def kernel_of(step: Step) -> Kernel:
    """Describe a step."""
    if isinstance(step, CompiledLoop):
        return _loop_kernel(step)
    return _call_kernel(step)


# Loops


def _loop_kernel(step: CompiledLoop) -> Kernel:
    fused = step.made_of
    loops = fused.steps if isinstance(fused, HorizontallyFused) else (fused,)
    sizes = [prod(part.loop.shape) for part in loops]
    return Kernel(
        "loop",
        _joined_words(loops) if len(loops) > 1 else _loop_words(loops[0]),
        loops[0].loop.shape if len(loops) == 1 else (sum(sizes),),
        _bytes_of_loops(loops),
        _bytes_of(step.results),
        sum(loop_flops(part.loop) for part in loops),
    )


def _bytes_of_loops(loops: Sequence[Fused]) -> int:
    """The bytes of all arrays that loops read; of gathered rows only those that they select."""
    sizes: dict[int, int] = {}
    for part in loops:
        for value, read in zip(part.reads, part.loop.inputs):
            size = value.nbytes
            if any(one.mode == INDEXED for one in read.window or ()):
                size = min(size, prod(read.seen) * value.dtype.itemsize)
            sizes[value.number] = max(size, sizes.get(value.number, 0))
    return sum(sizes.values())


def _loop_words(fused: Fused) -> str:
    reduced = (*fused.loop.stages, *fused.loop.outputs)
    combined = {combined_words(output) for output in reduced} - {""}
    words = f"{call_names(fused.calls)} over {space_words(fused.loop.shape)}"
    return "; ".join([words, *sorted(combined)])


def _joined_words(loops: Sequence[Fused]) -> str:
    return f"{call_names(loops[0].calls)}, {len(loops)} loops joined"


def is_product(name: str) -> bool:
    """Whether a primitive is a product, a convolution or attention."""
    return name in _FLOPS and name != "prod"


def loop_flops(loop: Loop) -> int:
    """Count one per operation and element, and one per reduced element.

    What a loop with stages computes once per row is counted for each element, too.
    """
    outputs = (*loop.stages, *loop.outputs)
    each = _operations([output.expression for output in outputs])
    count = each * prod(loop.shape)
    for output in outputs:
        if output.combine is not None:
            count += prod(loop.shape)
        if output.finish is not None:
            count += _operations([output.finish]) * prod(output.shape)
    return count


def _operations(formulas: Sequence[Expression]) -> int:
    return sum(node.name not in _FREE for node in nodes_of(formulas))


# Calls


def _call_kernel(call: Call) -> Kernel:
    shapes = ", ".join(str(list(value.shape)) for value in call.reads)
    name = call.primitive.name
    shape = call.results[0].shape if call.results else ()
    what = f"{name.replace('_', ' ')} of {shapes}" if shapes and not is_constant(call) else name
    if call.aliases:
        return Kernel(name, f"{name.replace('_', ' ')}, a view", shape, 0, 0, 0)
    written = _bytes_of(call.results)
    return Kernel(name, what, shape, _bytes_read(call, written), written, call_flops(call))


def _bytes_of(values: Sequence[Value]) -> int:
    return sum({value.number: value.nbytes for value in values}.values())


def _bytes_read(call: Call, written: int) -> int:
    if is_constant(call):
        return 0  # it uses only the shape and the device of its operand
    if call.primitive.name in _PICKING and call.reads:
        # Only the selected elements are read.
        return min(call.reads[0].nbytes, written) + _bytes_of(call.reads[1:])
    return _bytes_of(call.reads)


def call_flops(call: Call) -> int:
    """Count the operations of a call, 0 if the number is unknown."""
    name = call.primitive.name
    if name in _FLOPS:
        return _FLOPS[name](call)
    if name in COMBINING:
        return call.reads[0].size
    return _elementwise_flops(call)


def _elementwise_flops(call: Call) -> int:
    operands: list[Any] = [
        array_input(place, operand.dtype) if isinstance(operand, Value) else operand
        for place, operand in enumerate(call.operands)
    ]
    try:
        formulas = formulas_of(call, operands)
    except UntraceableError:
        return 0
    return _operations(formulas) * call.results[0].size


def _product(call: Call) -> int:
    """2 m n k for each matrix of a batch."""
    inner = call.reads[0].shape[-2 if call.params["transpose_a"] else -1]
    return 2 * call.results[0].size * inner


def _product_and_sum(call: Call) -> int:
    more = len(call.reads) - 2 + (call.params["activation"] is not None)
    return _product(call) + more * call.results[0].size


def _product_with_sums(call: Call) -> int:
    return _product(call) + call.reads[0 if call.params["of_first"] else 1].size


def _convolution(outputs: Value, filters: Value) -> int:
    """A multiplication and an addition per output and filter element, padding included."""
    return 2 * outputs.size * prod(filters.shape[:-1])


def _attention(call: Call, first: int, products: int) -> int:
    """Count `products` products over the width of queries, and as many over that of values."""
    queries, keys, values = call.reads[first : first + 3]
    n, m = queries.shape[-2], keys.shape[-2]
    pairs = n * m
    if call.params["causal"]:
        pairs = sum(max(0, min(m, row + 1 + m - n)) for row in range(n))
    width = queries.shape[-1] + values.shape[-1]
    return 2 * products * prod(queries.shape[:-2]) * pairs * width


_FLOPS: dict[str, Callable[[Call], int]] = {
    "matmul": _product,
    "matmul_stack": _product,
    "short_matmul": _product,
    "matmul_sum": _product_and_sum,
    "matmul_with_sums": _product_with_sums,
    "matvec": lambda call: 2 * call.reads[0].size,
    "matvecs": lambda call: 2 * call.reads[0].size * len(call.results),
    "conv": lambda call: _convolution(call.results[0], call.reads[1]),
    "conv_input_gradient": lambda call: _convolution(call.reads[0], call.reads[1]),
    "conv_filter_gradient": lambda call: _convolution(call.reads[1], call.results[0]),
    "attention": lambda call: _attention(call, 0, 1),
    "attention_gradient": lambda call: _attention(call, 1, 2),
    "prod": lambda call: call.reads[0].size,
}
