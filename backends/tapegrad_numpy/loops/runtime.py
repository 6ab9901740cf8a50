"""C text around every compiled loop: reading NumPy arrays, checking them, threads."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from tapegrad_numpy.loops.layout import MANY, TASK_ELEMENTS, Cut

MOST_THREADS = 256

FIXED = 8
"""How many numbers stand before those of the arrays: see `call` below."""

# Python's and NumPy's structs are written down here, because their headers are often not installed.
# The head of an object ends with its type, and Python says how large it is. The struct of an array
# is part of NumPy's stable interface; `structs_are_known` makes sure.
RUNTIME = r"""
#include <pthread.h>
#include <stdlib.h>
typedef struct {
    char head[HEAD - sizeof(void *)];
    void *type;
    char *data;
    int rank;
    intptr_t *shape, *strides;
    void *base, *descr;
    int flags;
} Array;
typedef struct { double high, low; } Slot;
typedef void Work(char **data, const int64_t *z, int64_t task, Slot *slots);
typedef void Close(char **data, const int64_t *z, const Slot *slots);
typedef struct {
    Work *work;
    char **data;
    const int64_t *z;
    int64_t tasks, next;
    Slot *slots;
} Run;

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

static void *take_tasks(void *given) {
    Run *run = given;
    for (;;) {
        int64_t task = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
        if (task >= run->tasks) return 0;
        run->work(run->data, run->z, task, run->slots);
    }
}
static void in_threads(Run *run, int64_t threads) {
    pthread_t started[MOST_THREADS];
    int64_t count = 0;
    while (count < threads - 1 && !pthread_create(&started[count], 0, take_tasks, run)) ++count;
    take_tasks(run);
    while (count) pthread_join(started[--count], 0);
}
/* Where the elements are, or 0 if the array is not what the loop was made for: its dtype, size,
   scalar type, order and alignment. One of NumPy's scalars holds its value after the head. */
static char *elements(Array *array, void *type, const int64_t *wanted, int flags) {
    if (array->type == (void *)wanted[2] && wanted[1] == 1 && !(flags & WRITEABLE))
        return (char *)&array->data;
    if (array->type != type || array->descr != (void *)wanted[0]) return 0;
    if ((array->flags & flags) != flags) return 0;
    int64_t size = 1;
    for (int axis = 0; axis < array->rank; ++axis) size *= array->shape[axis];
    return size == wanted[1] ? array->data : 0;
}
/* A builtin function of Python. Its self is an array of integers: addresses of NumPy's type and
   three functions of Python, the number of threads, of inputs, of arrays, of slots; then dtype,
   size and scalar type of every array; then what the loop reads. Returns 0, or 1 if an array does
   not fit, or 2 if there is no memory. */
static inline void *call(Array *self, Array **given, intptr_t count, Work *work, Close *close) {
    const int64_t *s = (const int64_t *)self->data;
    void *(*integer)(long) = (void *(*)(long))s[1];
    if (count != s[6]) return integer(1);
    char *data[count];
    for (intptr_t i = 0; i < count; ++i) {
        int flags = i < s[5] ? CONTIGUOUS | ALIGNED : CONTIGUOUS | ALIGNED | WRITEABLE;
        data[i] = elements(given[i], (void *)s[0], s + FIXED + 3 * i, flags);
        if (!data[i]) return integer(1);
    }
    const int64_t *z = s + FIXED + 3 * count;
    Slot *slots = s[7] ? malloc(s[7] * sizeof(Slot)) : 0;
    if (s[7] && !slots) return integer(2);
    int large = z[ELEMENTS] >= LARGE;
    void *state = large ? ((void *(*)(void))s[2])() : 0; /* other Python threads go on */
    Run run = {work, data, z, z[TASKS], 0, slots};
    int64_t threads = z[ELEMENTS] >= MANY ? s[4] : 1, most = z[ELEMENTS] / LARGE;
    threads = threads < most ? threads : most;
    if (threads > 1) in_threads(&run, threads);
    else for (int64_t task = 0; task < z[TASKS]; ++task) work(data, z, task, slots);
    if (slots) close(data, z, slots);
    if (large) ((void (*)(void *))s[3])(state);
    free(slots);
    return integer(0);
}
"""


def runtime_text() -> str:
    """The text with this Python's numbers in it."""
    words = {
        "HEAD": object.__basicsize__,
        "MOST_THREADS": MOST_THREADS,
        "FIXED": FIXED,
        "TASKS": Cut._fields.index("tasks"),
        "ELEMENTS": Cut._fields.index("elements"),
        "LARGE": TASK_ELEMENTS,
        "MANY": MANY,
        "CONTIGUOUS": 0x1,
        "ALIGNED": 0x100,
        "WRITEABLE": 0x400,
    }
    return "".join(f"#define {name} {value}\n" for name, value in words.items()) + RUNTIME


class _Array(ctypes.Structure):
    """The struct above, after the head."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@functools.cache
def structs_are_known() -> bool:
    """Whether this Python and this NumPy lay out their objects as the text above says."""
    head = object.__basicsize__
    array, scalar = np.ones((2, 3), np.float32)[:, :2], np.float64(0.75)
    seen = _Array.from_address(id(array) + head)
    return (
        ctypes.c_void_p.from_address(id(array) + head - ctypes.sizeof(ctypes.c_void_p)).value
        == id(np.ndarray)
        and seen.data == array.ctypes.data
        and seen.shape[: seen.rank] == [2, 2]
        and seen.descr == id(array.dtype)
        and seen.flags == array.flags.num
        and ctypes.c_double.from_address(id(scalar) + head).value == scalar
    )
