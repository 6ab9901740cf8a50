"""Fourier transforms in C: several rows at a time, one per lane of a vector.

NumPy transforms one row after the other. Here the elements of neighbouring rows lie side by side in
a buffer, so that every operation of the transform is one on vectors. The transform is Stockham's:
each pass reads one buffer and writes another, in an order that needs no sorting afterwards. Factors
of the length may be 2, 3, 5, 7, 11 and 13. A real row of even length is transformed as a complex
row of half the length.

Microseconds on one core of a Neoverse-N1, NumPy against C: real rows, 8 of 256 float32 numbers,
20 against 6; 64 of 256, 156 against 48; complex rows, 8 of 129, 56 against 14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import cos, pi, prod, sin
from typing import Any, NamedTuple

import numpy as np

from tapegrad_numpy.loops.binding import caller
from tapegrad_numpy.loops.compiled_parts import attach_calls, compiled_parts
from tapegrad_numpy.loops.fourier_passes import factors_of, passes_text
from tapegrad_numpy.loops.layout import VECTOR_BYTES, Cut
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import Kernel
from tapegrad_numpy.loops.vector_products import Described

NAMES = frozenset({"fourier", "real_fourier", "inverse_real_fourier"})

_REAL = {
    "float32": "float32",
    "float64": "float64",
    "complex64": "float32",
    "complex128": "float64",
}
_ROOM = 1 << 18
"""The most bytes of the buffers, which are on the stack."""
_FEWEST = 128
"""The fewest elements for which a separate kernel pays off."""
_MANY_OF_TWO = 1 << 13
"""More real numbers than this, two to a vector, are as fast or faster in NumPy."""
_FIRST = len(Cut._fields)


class Lines(NamedTuple):
    """Rows of an array along one axis: `outer` x `inner` of them, of `n` points each."""

    outer: int
    inner: int
    n: int
    points: int
    """The length of the complex transform."""
    read: int
    """The number of elements of a row that is read, complex ones if they are."""
    written: int


def _lines(shape: Sequence[int], axis: int, n: int, name: str) -> Lines:
    half = n // 2 + 1
    read = half if name == "inverse_real_fourier" else n
    written = half if name == "real_fourier" else n
    points = n if name == "fourier" or n % 2 else n // 2
    return Lines(prod(shape[:axis]), prod(shape[axis + 1 :]), n, points, read, written)


def _axes(name: str, shape: Sequence[int], params: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the axes with the lengths of the transforms along them, in order."""
    if name == "fourier":
        return [(axis, shape[axis]) for axis in params["axes"]]
    axis = params["axis"]
    return [(axis, params["n"] if name == "inverse_real_fourier" else shape[axis])]


def _lanes(itemsize: int) -> int:
    """Return how many rows are transformed together: the numbers of a vector."""
    return VECTOR_BYTES // itemsize


def write_fourier(
    name: str, operands: Sequence[Described], params: Mapping[str, Any]
) -> Kernel | None:
    """Return the kernel of a transform; None to use NumPy."""
    ((shape, dtype),) = operands
    axes = _axes(name, shape, params)
    is_complex = name != "real_fourier"
    if dtype.name not in _REAL or (dtype.kind == "c") != is_complex or prod(shape) < _FEWEST:
        return None
    if len({axis for axis, _ in axes}) < len(axes) or not axes:
        return None
    factors: set[int] = set()
    lanes = _lanes(_itemsize(dtype))
    if lanes == 2 and name != "fourier" and prod(shape) > _MANY_OF_TWO:
        return None
    for axis, n in axes:
        lines = _lines(shape, axis, n, name)
        found = factors_of(lines.points) if lines.points > 1 else None
        room = 4 * lines.points * _itemsize(dtype)
        is_short = shape[axis] != lines.read
        if found is None or is_short or room * lanes > _ROOM:
            return None
        if 2 * lines.outer * lines.inner < lanes:
            return None
        factors.update(found)
    numbers = _numbers(_lines(shape, *axes[0], name), _itemsize(dtype), name, params)
    kind = "float" if _REAL[dtype.name] == "float32" else "double"
    text = _text(kind, name, axes[0][1] % 2 == 1, lanes, sorted(factors))
    return Kernel(text, frozenset(), numbers, 0)


def _itemsize(dtype: Any) -> int:
    return int(np.dtype(_REAL[dtype.name]).itemsize)


def _numbers(lines: Lines, itemsize: int, name: str, params: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the integers that the C code reads."""
    rows, lanes = lines.outer * lines.inner, _lanes(itemsize)
    factors = factors_of(lines.points)
    assert factors is not None
    is_inverse = name == "inverse_real_fourier" or params.get("inverse", False)
    cut = Cut(
        lines.n, lanes, 1, rows,
        rows_at_once=lanes, deep=1, slices=1, share=1,
        tasks=-(-rows // lanes), results=rows, elements=rows * lines.n,
    )  # fmt: skip
    own = (lines.points, lines.inner, lines.read, lines.written, 1 if is_inverse else -1)
    return (*cut, *own, len(factors), *factors)


def _table(lines: Lines, name: str, params: Mapping[str, Any]) -> list[float]:
    """Return the factor of the normalization, and the roots of unity in the order of their use."""
    is_inverse = name == "inverse_real_fourier" or params.get("inverse", False)
    sign = 1 if is_inverse else -1
    unscaled = "forward" if is_inverse else "backward"
    norm = params["norm"]
    scale = 1.0 if norm == unscaled else lines.n ** (-0.5 if norm == "ortho" else -1.0)
    found = [scale]
    length = lines.points
    for factor in factors_of(length) or ():
        for p in range(length // factor):
            for j in range(1, factor):
                angle = 2 * pi * (j * p % length) / length
                found += [cos(angle), sign * sin(angle)]
        length //= factor
    if lines.points != lines.n:
        for k in range(lines.points + 1):
            angle = 2 * pi * k / lines.n
            found += [cos(angle), sign * sin(angle)]
    return found


_OPEN = """
static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {
    enum { V = LANES };
    const T *x = (const T *)data[0], *table = (const T *)data[2];
    T *y = (T *)data[1];
    const int64_t *own = z + FIRST;
    const int64_t n = own[0], inner = own[1], read = own[2], written = own[3], count = own[5];
    const T sign = (T)own[4], scale = table[0];
    const int64_t each = n + 1;
    W room[4 * each];
    W *ar_ = room, *ai_ = room + each, *br_ = room + 2 * each, *bi_ = room + 3 * each;
    T *ar = (T *)ar_, *ai = (T *)ai_, *br = (T *)br_, *bi = (T *)bi_;
    int64_t from[V], to[V];
    const int64_t first = task * V, left = z[3] - first, live = left < V ? left : V;
    for (int64_t v = 0; v < V; ++v) {
        const int64_t row = first + (v < live ? v : 0);
        from[v] = row / inner * read * inner + row % inner;
        to[v] = row / inner * written * inner + row % inner;
    }
    /* Whether the rows are neighbours, so that vectors of them are read and written. */
    const int is_joined = live == V && first % inner + V <= inner;
"""
_TRANSFORM = """
    const T *roots = table + 1;
    int64_t length = n, stride = 1;
    for (int64_t f = 0; f < count; ++f) {
        const int64_t radix = own[6 + f];
PASSES
        roots += length / radix * (radix - 1) * 2;
        length /= radix; stride *= radix;
        W *r = ar_, *i = ai_;
        ar_ = br_; ai_ = bi_; br_ = r; bi_ = i;
    }
    ar = (T *)ar_; ai = (T *)ai_; br = (T *)br_; bi = (T *)bi_;
"""
_LOADS = {
    "fourier": """
    if (is_joined) {
        const T *p = x + 2 * from[0];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            _Pragma("omp simd")
            for (int64_t v = 0; v < V; ++v) {
                ar[j * V + v] = p[2 * v]; ai[j * V + v] = p[2 * v + 1];
            }
        }
    } else for (int64_t v = 0; v < V; ++v) {
        const T *p = x + 2 * from[v];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            ar[j * V + v] = p[0]; ai[j * V + v] = p[1];
        }
    }
""",
    "real_fourier": """
    if (is_joined) {
        const T *p = x + from[0];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            _Pragma("omp simd")
            for (int64_t v = 0; v < V; ++v) {
                ar[j * V + v] = p[v]; ai[j * V + v] = p[inner + v];
            }
        }
    } else for (int64_t v = 0; v < V; ++v) {
        const T *p = x + from[v];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            ar[j * V + v] = p[0]; ai[j * V + v] = p[inner];
        }
    }
""",
    "real_fourier odd": """
    for (int64_t v = 0; v < V; ++v) {
        const T *p = x + from[v];
        for (int64_t j = 0; j < n; ++j, p += inner) {
            ar[j * V + v] = p[0]; ai[j * V + v] = 0;
        }
    }
""",
    # The imaginary parts of the first number, and of the last one of an even length, are not read.
    "inverse_real_fourier": """
    const T *turns = table + LAST - 2 * (n + 1);
    for (int64_t v = 0; v < V; ++v) {
        const T *p = x + 2 * from[v];
        for (int64_t k = 0; k <= n; ++k, p += 2 * inner) {
            br[k * V + v] = p[0]; bi[k * V + v] = p[1];
        }
        bi[v] = bi[n * V + v] = 0;
    }
    for (int64_t k = 0; k < n; ++k) {
        const T wr = turns[2 * k], wi = turns[2 * k + 1];
        const W pr = br_[k], pi = bi_[k], qr = br_[n - k], qi = bi_[n - k];
        const W dr = pr - qr, di = pi + qi;
        ar_[k] = pr + qr - (dr * wi + di * wr);
        ai_[k] = pi - qi + (dr * wr - di * wi);
    }
""",
    "inverse_real_fourier odd": """
    for (int64_t v = 0; v < V; ++v) {
        const T *p = x + 2 * from[v];
        for (int64_t k = 0; k < read; ++k, p += 2 * inner) {
            const int64_t other = k ? n - k : 0;
            ar[other * V + v] = p[0]; ai[other * V + v] = k ? -p[1] : 0;
            ar[k * V + v] = p[0]; ai[k * V + v] = k ? p[1] : 0;
        }
    }
""",
}
_COMPLEX_STORE = """
    if (is_joined) {
        T *p = y + 2 * to[0];
        for (int64_t j = 0; j < written; ++j, p += 2 * inner) {
            _Pragma("omp simd")
            for (int64_t v = 0; v < V; ++v) {
                p[2 * v] = ar[j * V + v] * scale; p[2 * v + 1] = ai[j * V + v] * scale;
            }
        }
    } else for (int64_t v = 0; v < live; ++v) {
        T *p = y + 2 * to[v];
        for (int64_t j = 0; j < written; ++j, p += 2 * inner) {
            p[0] = ar[j * V + v] * scale; p[1] = ai[j * V + v] * scale;
        }
    }
"""
_STORES = {
    "fourier": _COMPLEX_STORE,
    "real_fourier": """
    const T half = scale * (T)0.5;
    for (int64_t k = 0; k <= n; ++k) {
        const T wr = roots[2 * k], wi = roots[2 * k + 1];
        const int64_t one = k < n ? k : 0, other = k ? n - k : 0;
        const W pr = ar_[one], pi = ai_[one], qr = ar_[other], qi = ai_[other];
        const W dr = pr - qr, di = pi + qi;
        br_[k] = (pr + qr + (dr * wi + di * wr)) * half;
        bi_[k] = (pi - qi - (dr * wr - di * wi)) * half;
    }
    for (int64_t v = 0; v < live; ++v) {
        T *p = y + 2 * to[v];
        for (int64_t k = 0; k <= n; ++k, p += 2 * inner) {
            p[0] = br[k * V + v]; p[1] = bi[k * V + v];
        }
    }
""",
    "real_fourier odd": _COMPLEX_STORE,
    "inverse_real_fourier": """
    if (is_joined) {
        T *p = y + to[0];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            _Pragma("omp simd")
            for (int64_t v = 0; v < V; ++v) {
                p[v] = ar[j * V + v] * scale; p[inner + v] = ai[j * V + v] * scale;
            }
        }
    } else for (int64_t v = 0; v < live; ++v) {
        T *p = y + to[v];
        for (int64_t j = 0; j < n; ++j, p += 2 * inner) {
            p[0] = ar[j * V + v] * scale; p[inner] = ai[j * V + v] * scale;
        }
    }
""",
    "inverse_real_fourier odd": """
    for (int64_t v = 0; v < live; ++v) {
        T *p = y + to[v];
        for (int64_t j = 0; j < n; ++j, p += inner) p[0] = ar[j * V + v] * scale;
    }
""",
}


def _text(kind: str, name: str, is_odd: bool, lanes: int, factors: Sequence[int]) -> str:
    """Return the C source for all lengths with these factors."""
    form = f"{name} odd" if is_odd and name != "fourier" else name
    calls = [
        f"        if (radix == {factor}) "
        f"pass{factor}_KEY(ar_, ai_, br_, bi_, length, stride, roots, sign);"
        for factor in factors
    ]
    transform = _TRANSFORM.replace("PASSES", "\n".join(calls))
    text = "".join([passes_text(factors), _OPEN, _LOADS[form], transform, _STORES[form], "}\n"])
    # The roots of the last step come after those of the passes.
    text = text.replace("LAST", "own[6 + count]")
    for word, value in {"LANES": lanes, "FIRST": _FIRST}.items():
        text = text.replace(word, str(value))
    vector = f"typedef {kind} vector_KEY __attribute__((vector_size({lanes} * sizeof({kind}))));"
    return f"{vector}\n#define T {kind}\n#define W vector_KEY\n{text}#undef T\n#undef W\n"


def bind_fourier(
    name: str,
    operands: Sequence[Described],
    params: Mapping[str, Any],
    kernel: Kernel,
    address: Any,
    plain: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the function of an array, which allocates the result."""
    ((shape, dtype),) = operands
    real = np.dtype(_REAL[dtype.name])
    is_real = name == "inverse_real_fourier"
    made = real if is_real else np.result_type(real, np.complex64)
    axes = _axes(name, shape, params)
    calls: list[Any] = []
    parts: list[Any] = []
    result = tuple(shape)
    for axis, n in axes:
        lines = _lines(shape, axis, n, name)
        result = (*shape[:axis], lines.written, *shape[axis + 1 :])
        table = np.array(_table(lines, name, params), real)
        numbers = (*_numbers(lines, real.itemsize, name, params), len(table))
        arrays = [(dtype, shape), (made, result), (real, table.shape)]
        own = kernel._replace(numbers=numbers)
        calls.append((caller(arrays, 1, own, address), table))
        one = compiled_parts(own, address, 2, team())
        parts.append(one._replace(table=table, order=(1, 1) if parts else (0, 1)))
    empty, in_order = np.empty, np.ascontiguousarray
    (function, table), *others = calls

    def run(x: Any, **params: Any) -> Any:
        y = empty(result, made)
        if function(x, y, table) and function(in_order(x), y, table):
            return plain(x, **params)
        for again, roots in others:  # each row is read before it is written
            again(y, y, roots)
        return y

    attach_calls(run, parts)
    return run
