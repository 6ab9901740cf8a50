"""C declarations of the types, numbers and library functions that loops use, in place of headers.

To read <math.h>, <stdint.h>, <stdlib.h> and <string.h> took a fifth of the time of an average
compilation. A compiler knows these functions, with or without their headers.
"""

from __future__ import annotations

from collections.abc import Sequence

_ONE_NUMBER = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fabs", "floor", "log", "log10", "log1p", "log2", "rint", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_TWO_NUMBERS = ("atan2", "copysign", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow")
_INTEGERS = (
    "INT8", "INT16", "INT32", "INT64", "INTPTR", "UINT8", "UINT16", "UINT32", "UINT64", "UINTPTR",
)  # fmt: skip

_REST = r"""
typedef __SIZE_TYPE__ size_t;
#define bool _Bool
#define false 0
#define true 1
#define INT32_MAX __INT32_MAX__
#define INT32_MIN (-__INT32_MAX__ - 1)
#define INT64_MAX __INT64_MAX__
#define INT64_MIN (-__INT64_MAX__ - 1)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define signbit(x) __builtin_signbit(x)
void *malloc(size_t), *calloc(size_t, size_t);
void free(void *);
void *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);
"""


def _in_both_precisions(name: str, count: int) -> str:
    double, single = (", ".join([c_type] * count) for c_type in ("double", "float"))
    return f"double {name}({double}); float {name}f({single});\n"


def _declarations() -> str:
    types = [f"typedef __{name}_TYPE__ {name.lower()}_t;\n" for name in _INTEGERS]
    groups: Sequence[tuple[tuple[str, ...], int]] = ((_ONE_NUMBER, 1), (_TWO_NUMBERS, 2))
    functions = [_in_both_precisions(name, n) for names, n in groups for name in names]
    functions.append(_in_both_precisions("fma", 3))
    # Parts of a text begin with them, and several parts may become one text.
    return "".join(["#ifndef DECLARED\n#define DECLARED\n", *types, _REST, *functions, "#endif\n"])


DECLARATIONS = _declarations()
