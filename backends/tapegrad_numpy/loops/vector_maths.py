"""Assemble the C source of vectorisable elementary functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template

from tapegrad_numpy.loops.c_declarations import DECLARATIONS
from tapegrad_numpy.loops.c_math import BASE, LOG_STEPS, POWER, REDUCTION, TEXTS
from tapegrad_numpy.loops.coefficients import (
    CBRT,
    DOUBLE,
    EXP_POWER,
    FLOAT,
    HALF_PI,
    HALF_PI_FLOAT,
    HALF_PI_REST,
    LOG2_E,
    LOG_DOUBLE,
    LOG_FLOAT,
    LOG_POWER,
    TWO_OVER_PI,
    Precision,
)
from tapegrad_numpy.loops.element_types import BFLOAT16_TEXT, FLOAT16_TEXT, UNSIGNED_TEXT

FAR = ("sin", "cos")
"""Functions that are accurate up to `far_limit(x)`; the C library computes larger arguments."""

# Functions of the C library, in both precisions.
_LIBRARY = (
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "fabs", "floor", "fmod", "hypot", "log10",
    "log2", "nextafter", "rint", "sqrt", "tan", "trunc",
)  # fmt: skip
_OWN = (
    "acosh", "asinh", "atanh", "cosh", "sinh",
    "exp", "exp2", "expm1", "tanh", "log", "log1p", "cbrt", "erf", "erfc", "normcdf", "sin", "cos",
    "exponent_of", "floored_quotient", "floored_remainder", "larger", "log_of_sum", "log2_of_sum",
    "power_of_root", "smaller", "times_power_of_two", "whole_power",
)  # fmt: skip
_INSTRUCTIONS = ("ceil", "copysign", "fabs", "floor", "rint", "sqrt", "trunc")
"""Functions of the C library that processors compute themselves."""
_CALLING = {*_LIBRARY, *FAR, "floored_quotient", "floored_remainder", "pow"} - {*_INSTRUCTIONS}
FUNCTIONS = frozenset({*_LIBRARY, *_OWN, "pow", "signbit"})
"""The functions that expressions may call."""
_SHORT = {"exponent_of", "larger", "power_of_root", "smaller", "times_power_of_two", "whole_power"}
_LONG_CALL = re.compile(rf"\btg_(?:{'|'.join(sorted({*_OWN, 'pow'} - _SHORT))})\(")
"""Calls that take many instructions per element."""

_HEADER = (
    DECLARATIONS
    + r"""
#define INLINE inline __attribute__((always_inline))
typedef float _Complex cfloat;
typedef double _Complex cdouble;
#define COMPLEX(C, R) \
    static INLINE C C##_of_both(R x, R y) { return __builtin_complex(x, y); } \
    static INLINE C C##_of_real(R x) { return __builtin_complex(x, (R)0); } \
    static INLINE C MUL_##C(C x, C y) { \
        const R a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y; \
        return __builtin_complex(a * c - b * d, a * d + b * c); \
    }
COMPLEX(cfloat, float)
COMPLEX(cdouble, double)
// As functions of a real part, or of both: the names of types are macros only before a bracket.
#define cfloat(...) MADE(__VA_ARGS__, cfloat_of_both, cfloat_of_real)(__VA_ARGS__)
#define cdouble(...) MADE(__VA_ARGS__, cdouble_of_both, cdouble_of_real)(__VA_ARGS__)
#define MADE(one, two, name, ...) name
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target("prefer-vector-width=512")))
#else
#define WIDE
#endif
#define far_limit(x) _Generic((x), float: 7e4f, default: 1e6)
#if defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define FUSED 1
#endif
"""
)


def functions_text(names: Iterable[str]) -> str:
    """Return the C source that defines `tg_exp(x)` and so on, for float and double.

    Functions in FAR also exist as e.g. `far_sin(x)`, accurate for all x but not vectorised.
    """
    wanted = set(names)
    parts = [_HEADER, *(_filled(BASE, p) for p in (FLOAT, DOUBLE))]
    parts += [BFLOAT16_TEXT, FLOAT16_TEXT, UNSIGNED_TEXT]
    for name in _in_order(wanted & set(_OWN)):
        parts += [_filled(TEXTS[name][1], precision) for precision in (FLOAT, DOUBLE)]
    if "pow" in wanted:
        parts.append(_filled(POWER, DOUBLE))
    for name in sorted(wanted - {"signbit"}):
        library = name in _LIBRARY
        single, double = (name + "f", name) if library else (name + "_float", name + "_double")
        parts.append(_chosen("tg_" + name, single, double, 2 if name in _TWO else 1))
        if name in FAR:
            parts.append(_chosen("far_" + name, name + "f", name, 1))
    parts.append("#define tg_signbit(x) signbit(x)\n")
    parts.append(_chosen("magnitude", "magnitude_float", "magnitude_double", 1))
    return "".join(parts)


def is_long(lines: Iterable[str]) -> bool:
    """Whether statements take much longer than to read and write their elements.

    Such loops are marked with WIDE: GCC prefers vectors of 32 bytes also where a processor has
    those of 64, which take two thirds of the time for arithmetic, but up to a fifth more for arrays
    in memory, because most arrays are not aligned.
    """
    return any(_LONG_CALL.search(line) for line in lines)


def calls_library(names: Iterable[str]) -> bool:
    """Whether any of these functions calls the C library."""
    return not _CALLING.isdisjoint(_in_order(set(names) & set(_OWN)) + list(names))


_TWO = frozenset({
    "atan2", "copysign", "floored_quotient", "floored_remainder", "fmod", "hypot",
    "larger", "log_of_sum", "log2_of_sum", "nextafter", "pow", "power_of_root", "smaller",
    "times_power_of_two", "whole_power",
})  # fmt: skip


def _chosen(name: str, single: str, double: str, count: int) -> str:
    takes = "x" if count == 1 else "x, y"
    return f"#define {name}({takes}) _Generic((x), float: {single}, default: {double})({takes})\n"


def _in_order(names: set[str]) -> list[str]:
    """The functions and those that they need, in topological order."""
    waiting, needed = list(names), set(names)
    while waiting:
        more = set(TEXTS[waiting.pop()][0].split()) - needed
        needed |= more
        waiting += more
    return [name for name in TEXTS if name in needed]


def _horner(variable: str, coefficients: tuple[str, ...], c_type: str) -> str:
    """Horner's rule, the most accurate order for many terms."""
    text = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        text = f"mad_{c_type}({variable}, {text}, {coefficient})"
    return text


def _polynomial(variable: str, coefficients: tuple[str, ...], c_type: str) -> str:
    """Estrin's scheme, which has few dependent steps."""
    terms, power = list(coefficients), variable
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2])
        joined = [f"mad_{c_type}({power}, {odd}, {even})" for even, odd in pairs]
        terms = joined + terms[len(joined) * 2 :]
        power = f"({power} * {power})"
    return terms[0]


def _filled(template: Template, precision: Precision) -> str:
    """Fill in the template for one floating point type."""
    c_type = precision.type
    suffix = "f" if c_type == "float" else ""
    words = {
        "T": c_type, "I": precision.integer, "U": precision.unsigned,
        "MANTISSA": str(precision.mantissa), "BIAS": str(precision.bias),
        "SHIFTER": precision.shifter, "LEAST_NORMAL": precision.least_normal,
        "LN2_HIGH": precision.ln2[0], "LN2_LOW": precision.ln2[1], "LOG2_E": LOG2_E,
        "EXP_LOW": precision.exp_range[0], "EXP_HIGH": precision.exp_range[1],
        "EXP2_HIGH": precision.exp2_high, "EXPM1_LOW": precision.expm1_low,
        "TANH_HIGH": precision.tanh_high, "SINH_HIGH": precision.sinh_high,
        "LOG_OF_DOUBLE": precision.log_of_double,
        "TINY": precision.tiny, "SQRT_HALF": precision.sqrt_half_bits,
        "EXP": _polynomial("r", precision.exp, c_type),
        "CBRT": _horner("m", tuple(f"({c_type}){c}" for c in CBRT), c_type),
        "CBRT_SCALE": precision.cbrt_scale[0], "CBRT_UNSCALE": precision.cbrt_scale[1],
        "CBRT_STEP": "g = better_root_double(g, m);" if c_type == "double" else "",
        "SIN": _polynomial("z", precision.sin, c_type),
        "COS": _polynomial("z", precision.cos, c_type),
        "ERF": _polynomial("z", precision.erf, c_type),
        "TAIL": _horner("t", precision.tail, c_type), "TAIL_MIDDLE": precision.tail_middle,
        "REST": "rest" if c_type == "double" else "0",
        "LOG_FLOAT": _polynomial("f", LOG_FLOAT, "float"),
        "LOG_DOUBLE": _polynomial("z", LOG_DOUBLE, "double"),
        "LOG_POWER": _polynomial("z", LOG_POWER, "double"),
        "EXP_POWER": _polynomial("r", EXP_POWER, "double"),
        "TWO_OVER_PI": TWO_OVER_PI, "HALF_PI_REST": HALF_PI_REST,
        **{f"HALF_PI_{i}": part for i, part in enumerate(HALF_PI)},
        **{f"HALF_PI_FLOAT_{i}": part for i, part in enumerate(HALF_PI_FLOAT)},
        **{name.upper(): name + suffix for name in ("copysign", "fabs", "floor", "fma", "fmod")},
        "SQRT": "sqrt" + suffix,
    }  # fmt: skip
    words["LOG_STEPS"] = LOG_STEPS[c_type].substitute(words)
    words["REDUCTION"] = REDUCTION[c_type].substitute(words)
    return template.substitute(words)
