"""Small results of loops with sums or exponentials become zero, on x86-64.

There a product or quotient below 1.2e-38 in single precision, or 2.2e-308 in double precision,
takes about 150 cycles, and the same again each time it is read. Exponentials and their products
make many: iterations of log-sum-exp took four times as long, a sum of Gaussian peaks three times.
TensorFlow and XLA flush such results everywhere. Here three kinds of work flush them: loops that
reduce, loops of recorded programs with exponentials, and matrix products in recorded programs. No
loop with an exact function does, and operands are never flushed. Processors of other kinds lose no
time.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Loop

EXPONENTIALS = frozenset({"erfc", "exp", "exp2", "logaddexp", "logaddexp2", "ndtr"})
"""Functions whose results, or intermediate ones, are small for many ordinary operands."""
EXACT = frozenset({
    "float_exponent", "floor_divide", "fmod", "ldexp", "nextafter", "remainder", "spacing",
})  # fmt: skip
"""Functions without rounding errors: a loop with one of them keeps small results.

A small remainder inside of `floor_divide` decides about a quotient of any size.
"""

TEXT = """
#ifdef __SSE2__
static inline unsigned flush_small_results(void) {
    const unsigned state = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(state | 0x8000);
    return state;
}
static inline void keep_small_results(unsigned state) { __builtin_ia32_ldmxcsr(state); }
#else
static inline unsigned flush_small_results(void) { return 0; }
static inline void keep_small_results(unsigned state) { (void)state; }
#endif
"""


def flushes(loop: Loop, is_program: bool) -> bool:
    """Return whether small results of a loop become zero; `is_program`: its code is recorded."""
    if not (is_program or loop.axes):
        return False
    names = _names(
        part
        for output in (*loop.stages, *loop.outputs)
        for part in (output.expression, output.finish)
        if part is not None
    )
    return not names & EXACT and bool(loop.axes or names & EXPONENTIALS)


def _names(expressions: Iterable[Expression]) -> set[str]:
    """Return the names of all functions in expressions, which may share operands."""
    waiting = list(expressions)
    seen = {id(node): node.name for node in waiting}
    while waiting:
        new = [operand for operand in waiting.pop().operands if id(operand) not in seen]
        seen.update((id(operand), operand.name) for operand in new)
        waiting += new
    return set(seen.values())


def flushing(key: str) -> tuple[str, str]:
    """Return the C text of a function that calls a loop's `work` and flushes, and its name.

    The call is not inlined, because compilers move arithmetic past the change of the mode.
    """
    takes = "char **data, const int64_t *z, int64_t task, Slot *slots"
    name = f"flushing_{key}"
    text = (
        f"static void __attribute__((noinline)) work_{key}({takes});\n"
        f"static void {name}({takes}) {{\n"
        "    const unsigned state = flush_small_results();\n"
        f"    work_{key}(data, z, task, slots);\n"
        "    keep_small_results(state);\n}\n"
    )
    return text, name
