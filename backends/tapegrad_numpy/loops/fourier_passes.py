"""The passes of Stockham's transform in C, one function per factor of the length."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

FACTORS = (4, 2, 3, 5, 7, 11, 13)


def factors_of(n: int) -> tuple[int, ...] | None:
    """Return the factors of a length in the order of the passes; None if one of them is too large.

    >>> factors_of(120), factors_of(17)
    ((4, 2, 3, 5), None)
    """
    found = []
    for factor in FACTORS:
        while n % factor == 0:
            found.append(factor)
            n //= factor
    return tuple(found) if n == 1 else None


def passes_text(factors: Sequence[int]) -> str:
    """Return functions that transform `n` points into parts of `n / factor` points each.

    The points of a part, `s` vectors each, are consecutive. `w` has the roots of unity by which the
    results are multiplied. T is the type of a number, and W that of a vector of them.
    """
    return "".join(_pass(factor) for factor in factors)


def _pass(factor: int) -> str:
    loads = [f"const W r{k} = r{k}_[q], i{k} = i{k}_[q];" for k in range(factor)]
    inputs = [
        f"const W *r{k}_ = xr + (p + {k} * m) * s, *i{k}_ = xi + (p + {k} * m) * s;"
        for k in range(factor)
    ]
    roots = [
        f"const T wr{j} = w[{2 * (j - 1)}], wi{j} = w[{2 * (j - 1) + 1}];" for j in range(1, factor)
    ]
    butterfly = {2: _two, 4: _four}.get(factor, lambda: _odd(factor))()
    stores = ["zr[q] = tr0; zi[q] = ti0;"]
    for j in range(1, factor):
        stores.append(f"zr[{j} * s + q] = tr{j} * wr{j} - ti{j} * wi{j};")
        stores.append(f"zi[{j} * s + q] = tr{j} * wi{j} + ti{j} * wr{j};")
    lines = [
        f"static void pass{factor}_KEY(const W *xr, const W *xi, W *yr, W *yi,",
        "int64_t n, int64_t s, const T *w, const T sign) {",
        f"const int64_t m = n / {factor};",
        f"for (int64_t p = 0; p < m; ++p, w += {2 * (factor - 1)}) {{",
        *roots,
        *inputs,
        f"W *zr = yr + {factor} * p * s, *zi = yi + {factor} * p * s;",
        "for (int64_t q = 0; q < s; ++q) {",
        *loads,
        *butterfly,
        *stores,
        "}\n}\n}\n",
    ]
    return "\n".join(lines)


def _two() -> list[str]:
    return ["const W tr0 = r0 + r1, ti0 = i0 + i1, tr1 = r0 - r1, ti1 = i0 - i1;"]


def _four() -> list[str]:
    return [
        "const W ar = r0 + r2, ai = i0 + i2, br = r0 - r2, bi = i0 - i2;",
        "const W cr = r1 + r3, ci = i1 + i3, dr = sign * (i3 - i1), di = sign * (r1 - r3);",
        "const W tr0 = ar + cr, ti0 = ai + ci, tr2 = ar - cr, ti2 = ai - ci;",
        "const W tr1 = br + dr, ti1 = bi + di, tr3 = br - dr, ti3 = bi - di;",
    ]


def _odd(factor: int) -> list[str]:
    """Sums of pairs of points, which have conjugate roots of unity as factors."""
    half = (factor - 1) // 2
    lines = []
    for k in range(1, half + 1):
        other = factor - k
        lines.append(f"const W sr{k} = r{k} + r{other}, si{k} = i{k} + i{other};")
        lines.append(f"const W er{k} = sign * (r{k} - r{other}), ei{k} = sign * (i{k} - i{other});")
    for name, part in (("tr0", "r"), ("ti0", "i")):
        terms = " + ".join(f"s{part}{k}" for k in range(1, half + 1))
        lines.append(f"const W {name} = {part}0 + {terms};")
    for j in range(1, half + 1):
        angles = [2 * pi * (j * k % factor) / factor for k in range(1, half + 1)]
        cosines = [f"(T){cos(a)!r}" for a in angles]
        sines = [f"(T){sin(a)!r}" for a in angles]
        for part in "ri":
            terms = " + ".join(f"{c} * s{part}{k + 1}" for k, c in enumerate(cosines))
            lines.append(f"const W c{part}{j} = {part}0 + {terms};")
            terms = " + ".join(f"{c} * e{part}{k + 1}" for k, c in enumerate(sines))
            lines.append(f"const W g{part}{j} = {terms};")
        lines.append(f"const W tr{j} = cr{j} - gi{j}, ti{j} = ci{j} + gr{j};")
        lines.append(f"const W tr{factor - j} = cr{j} + gi{j}, ti{factor - j} = ci{j} - gr{j};")
    return lines
