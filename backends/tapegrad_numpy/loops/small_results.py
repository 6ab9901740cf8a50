"""Small results become zero in sequences on x86-64: those that are not normal numbers.

There a product or quotient below the least normal number takes about 150 cycles, and the same again
each time it is read. Exponentials of large negative numbers make many: iterations of log-sum-exp
took four times as long, and the Jacobian of a sum of peaks made a product by BLAS six times as
slow. TensorFlow and XLA flush such results, too. Operands are kept as they are. Processors of other
kinds lose no time, so nothing changes there.
"""

from __future__ import annotations

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


def flushing(key: str) -> tuple[str, str]:
    """Return the C text of a function that calls a loop's `work` and flushes, and its name.

    Threads that take tasks have modes of their own. The call is not inlined, because compilers move
    arithmetic past the change of the mode.
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
