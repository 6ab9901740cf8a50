"""Single precision results that are not normal become zero in loops that reduce, on x86-64.

There a product or quotient below 1.2e-38 takes about 150 cycles, and the same again each time it is
read. Sums of exponentials make many: iterations of log-sum-exp took four times as long. TensorFlow
and XLA flush such results everywhere. Here only loops with a reduction do, where such a number is a
term of a sum or one of the values of a normalised row; operands are never flushed. Processors of
other kinds lose no time.
"""

from __future__ import annotations

from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops.element_types import name_of

_SINGLE = frozenset({"float32", "bfloat16"})
_OTHERS = frozenset({"float16", "float64", "complex64", "complex128"})

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


def flushes(loop: Loop) -> bool:
    """Return whether small results of a loop become zero: it reduces, in single precision only."""
    names = {name_of(read.dtype) for read in loop.inputs}
    names |= {name_of(written.dtype) for written in (*loop.stages, *loop.outputs)}
    return bool(loop.axes) and bool(names & _SINGLE) and not names & _OTHERS


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
