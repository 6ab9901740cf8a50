"""C text of partial results and tasks; threads are in pool.py.

Every compiled loop has `PARTIAL_RESULTS`. The code that runs its tasks is in the library of an
entry point, which is compiled once (direct_calls.py, ctypes_calls.py). Compiling it with every
loop took a quarter of the average time.
"""

from __future__ import annotations

from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Cut

PARTIAL_RESULTS = r"""
typedef struct { double high, low; } Slot;
/* a + b = *a + *low, nearly: what rounding loses is kept */
static inline void add_to(double *a, double *low, double b) {
    double sum = *a + b, back = sum - *a;
    *low += (*a - (sum - back)) + (b - back);
    *a = sum;
}
/* NaN beside an infinite sum comes from the subtraction above, not from the numbers */
static inline double total(double a, double low) {
    double sum = a + low;
    return sum == sum ? sum : a;
}
"""

_RUNTIME = r"""
typedef void Work(char **data, const int64_t *z, int64_t task, Slot *slots);
typedef void Close(char **data, const int64_t *z, const Slot *slots);
/* How many threads may compute, and the function of pool.py by which they do; it may be 0 */
typedef struct {
    int64_t threads;
    void (*run)(void *(*take)(void *), void *given, int64_t threads);
} Team;
typedef struct {
    Work *work;
    char **data;
    const int64_t *z;
    int64_t tasks, next;
    Slot *slots;
} Run;

static void *take_tasks(void *given) {
    Run *run = given;
    for (;;) {
        int64_t task = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
        if (task >= run->tasks) return 0;
        run->work(run->data, run->z, task, run->slots);
    }
}
/* Run all tasks of a loop on arrays whose elements begin at `data`, in the threads of a team.
   Returns 0, or 2 if there is no memory for the partial results. */
static inline int run_tasks(char **data, const int64_t *z, const Team *team, int64_t slot_count,
                            Work *work, Close *close) {
    Slot *slots = slot_count ? malloc(slot_count * sizeof(Slot)) : 0;
    if (slot_count && !slots) return 2;
    Run run = {work, data, z, z[TASKS], 0, slots};
    int64_t most = z[ELEMENTS] / SHARE;
    most = most < z[TASKS] ? most : z[TASKS];
    const int64_t threads = team->threads < most ? team->threads : most;
    if (threads > 1 && team->run) team->run(take_tasks, &run, threads);
    else for (int64_t task = 0; task < z[TASKS]; ++task) work(data, z, task, slots);
    if (slots) close(data, z, slots);
    free(slots);
    return 0;
}
"""


def runtime_text() -> str:
    """Return the text of `run_tasks`, with its constants and the partial results."""
    words = {
        "TASKS": Cut._fields.index("tasks"),
        "ELEMENTS": Cut._fields.index("elements"),
        "LARGE": TASK_ELEMENTS,
        "SHARE": 2 * TASK_ELEMENTS,
    }
    return (
        "".join(f"#define {name} {value}\n" for name, value in words.items())
        + PARTIAL_RESULTS
        + _RUNTIME
    )
