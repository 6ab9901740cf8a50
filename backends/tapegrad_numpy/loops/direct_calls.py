"""Call compiled loops as builtin functions that read NumPy's array structs themselves.

ctypes spends longer on a call, and NumPy on the address of an array, than a small loop takes. So a
loop is wrapped in a PyMethodDef and gets the array objects, whose fields it reads at fixed offsets.
Both structs are written down here, because the headers of Python and NumPy are often not installed.

The offsets depend on the versions of Python and NumPy. `are_used` compares them with what NumPy
reports for an array, first by ctypes, and then in compiled code, when it is loaded. If
anything differs, or with TAPEGRAD_DIRECT_CALLS=0, loops are called by ctypes (ctypes_calls.py).

Without direct calls the functions of the benchmark take 2.2 (hvp), 1.9 (scalar_chain), 1.5 (rnn),
1.2 (mlp_small) and 1.0 times (elementwise) as long; docs/design-notes.md has the details.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad_numpy import switches
from tapegrad_numpy.loops.libraries import Address, address_of
from tapegrad_numpy.loops.lone_functions import EntryPoint
from tapegrad_numpy.loops.runtime import runtime_text
from tapegrad_numpy.loops.source import Kernel

_FASTCALL = 0x80  # METH_FASTCALL

_FIXED = 10
"""The number of integers before those of the arrays: see `call_loop` below."""

# The head of an object ends with its type, and Python reports the size of the head. The struct of
# an array has been the same in all versions of NumPy since 1.7.
_TEXT = r"""
typedef struct {
    char head[HEAD - sizeof(void *)];
    void *type;
    char *data;
    int rank;
    intptr_t *shape, *strides;
    void *base, *descr;
    int flags;
} Array;

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
"""

_ENTRIES = r"""
/* A builtin function of Python. Its self is an array of integers: addresses of NumPy's type, of
   three functions of Python and of the team; the numbers of inputs, of arrays and of slots; the
   addresses of the loop's parts; then dtype, size and scalar type of every array; then what the
   loop reads. Returns 0, or 1 if an array does not fit, or 2 if there is no memory. With one more
   argument it only checks the arrays. */
void *call_loop(Array *self, Array **given, intptr_t count) {
    const int64_t *s = (const int64_t *)self->data;
    void *(*integer)(long) = (void *(*)(long))s[1];
    if (count != s[6] && count != s[6] + 1) return integer(1);
    char *data[s[6]];
    for (intptr_t i = 0; i < s[6]; ++i) {
        int flags = i < s[5] ? CONTIGUOUS | ALIGNED : CONTIGUOUS | ALIGNED | WRITEABLE;
        data[i] = elements(given[i], (void *)s[0], s + FIXED + 3 * i, flags);
        if (!data[i]) return integer(1);
    }
    if (count != s[6]) return integer(0);
    const int64_t *z = s + FIXED + 3 * count;
    int large = s[2] && z[ELEMENTS] >= LARGE;
    void *state = large ? ((void *(*)(void))s[2])() : 0; /* other Python threads go on */
    int code = run_tasks(data, z, (const Team *)s[4], s[7], (Work *)s[8], (Close *)s[9]);
    if (large) ((void (*)(void *))s[3])(state);
    return integer(code);
}
/* Compare the structs of a matrix and of a scalar with what NumPy says of them: its numbers are
   self, in the order of `_answers`. Returns 0, or the number of the first that differs. */
void *check_structs(Array *self, Array **given, intptr_t count) {
    const int64_t *s = (const int64_t *)self->data;
    void *(*integer)(long) = (void *(*)(long))s[0];
    if (count != 2) return integer(-1);
    Array *a = given[0], *scalar = given[1];
    int64_t found[4] = {(int64_t)a->type, (int64_t)a->data, a->rank, (int64_t)a->descr};
    for (int i = 0; i < 4; ++i) if (found[i] != s[1 + i]) return integer(1 + i);
    for (int i = 0; i < 2; ++i) if (a->shape[i] != s[5 + i]) return integer(5 + i);
    for (int i = 0; i < 2; ++i) if (a->strides[i] != s[7 + i]) return integer(7 + i);
    if (a->flags != s[9]) return integer(9);
    if ((int64_t)scalar->type != s[10]) return integer(10);
    return integer(*(int64_t *)&scalar->data == s[11] ? 0 : 11);
}
"""


def call_text() -> str:
    """Return the C text with the constants of this Python; it follows that of the runtime."""
    words = {
        "HEAD": object.__basicsize__,
        "FIXED": _FIXED,
        "CONTIGUOUS": 0x1,
        "ALIGNED": 0x100,
        "WRITEABLE": 0x400,
    }
    return "".join(f"#define {name} {value}\n" for name, value in words.items()) + _TEXT


def entry_text() -> str:
    """Return the C text of `call_loop` and of its self-check."""
    return runtime_text() + call_text() + _ENTRIES


ENTRY = EntryPoint(entry_text, "call_loop")
"""The function in C that calls loops."""


def caller(
    arrays: Sequence[tuple[Any, Sequence[int]]],
    inputs: int,
    kernel: Kernel,
    address: Address,
    team: int,
    keeps_lock: bool = False,
) -> Callable[..., int]:
    """Return a function of arrays, inputs first, that returns 0 unless an array is unsuitable.

    With `keeps_lock` no other Python thread runs during a large loop.
    """
    start = ENTRY.address()
    assert start is not None, "direct calls are used only with an entry point"
    integer, save, restore = python_functions()
    described = [
        number
        for dtype, shape in arrays
        for number in (id(np.dtype(dtype)), math.prod(shape), id(dtype.type))
    ]
    fixed = (
        id(np.ndarray), integer, 0 if keeps_lock else save, restore,
        team, inputs, len(arrays), kernel.slots, address.work, address.close,
    )  # fmt: skip
    return builtin(start, (*fixed, *described, *kernel.numbers), address.library)


# Python's structs


class _Method(ctypes.Structure):
    """PyMethodDef"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(address: int, numbers: Sequence[int], further: Any = None) -> Callable[..., int]:
    """Return a builtin function whose self is an array of numbers; it keeps a further library."""
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    method = _Method(b"loop", address, _FASTCALL, None)
    kept = np.array(numbers, np.int64).view(_Numbers)
    kept.method, kept.libraries = method, (getattr(address, "library", None), further)
    function: Callable[..., int] = new(ctypes.addressof(method), kept, None)
    return function


class _Numbers(np.ndarray):
    """The self of a builtin function, which keeps what the function points to."""

    method: _Method
    libraries: tuple[Any, ...]
    kept: Any
    work: int
    """About how many elements the function processes, if it is a sequence."""


@functools.cache
def python_functions() -> tuple[int, ...]:
    """Return addresses: of the function that makes an integer, and of two for the lock."""
    names = ("PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
    found = [getattr(ctypes.pythonapi, name) for name in names]
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found)


# Self-check


class _Array(ctypes.Structure):
    """The struct of an array after the head."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("descr", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def why_not_used() -> str:
    """Return why loops are called by ctypes, or "" where they are called directly."""
    if not switches.DIRECT_CALLS:
        return "the environment variable TAPEGRAD_DIRECT_CALLS turns them off"
    if sys.implementation.name != "cpython":
        return f"they need CPython, and this is {sys.implementation.name}"
    if not _structs_are_known():
        return f"{_versions()} have other structs than expected"
    start = ENTRY.address()
    if start is None:
        return "their entry point could not be compiled"
    return _difference(start)


def are_used() -> bool:
    """Return whether loops are called directly."""
    return not why_not_used()


@functools.cache
def _difference(start: Address) -> str:
    """Compare structs in compiled code; return how they differ, or ""."""
    matrix, scalar = np.ones((2, 3), np.float32)[:, :2], np.float64(0.75)
    address = address_of(start.library, "check_structs")
    code = builtin(address, _answers(matrix, scalar))(matrix, scalar)
    return f"compiled code does not find field {code} of an array of {_versions()}" if code else ""


def _answers(matrix: Any, scalar: Any) -> list[int]:
    """The values that NumPy reports for a matrix and a double."""
    return [
        python_functions()[0],
        id(np.ndarray), matrix.ctypes.data, matrix.ndim, id(matrix.dtype),
        *matrix.shape, *matrix.strides, matrix.flags.num,
        id(type(scalar)), int(np.asarray(scalar).view(np.int64)),
    ]  # fmt: skip


@functools.cache
def _structs_are_known() -> bool:
    """Whether this Python and this NumPy have the expected struct layouts."""
    head = object.__basicsize__
    array, scalar = np.ones((2, 3), np.float32)[:, :2], np.float64(0.75)
    seen = _Array.from_address(id(array) + head)
    return (
        ctypes.c_void_p.from_address(id(array) + head - ctypes.sizeof(ctypes.c_void_p)).value
        == id(np.ndarray)
        and seen.data == array.ctypes.data
        and seen.rank == array.ndim
        and seen.shape[:2] == [*array.shape]
        and seen.strides[:2] == [*array.strides]
        and seen.descr == id(array.dtype)
        and seen.flags == array.flags.num
        and ctypes.c_double.from_address(id(scalar) + head).value == scalar
    )


def _versions() -> str:
    return f"Python {sys.version.split()[0]} and NumPy {np.__version__}"
