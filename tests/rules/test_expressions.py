"""Formulas traced from kernels and rules compute what the kernels and rules compute."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from operator import and_, or_, xor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad.core.trace.expression_namespace  # noqa: F401  # what generic kernels compute with
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.recorder import RAW, using_stack
from tapegrad.core.trace import c_source
from tapegrad.core.trace.expression import (
    Expression,
    UntraceableError,
    array_input,
    number_input,
    traced,
)
from tapegrad.testing.samples import all_samples

F8 = np.dtype(np.float64)
BOOL = np.dtype(np.bool_)

# NumPy's functions under the names of operations; those it lacks are written out.
NAMES: dict[str, Any] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "pow": np.power,
    "complex": lambda x, y: x + 1j * y,
    "astype": None, "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
    "ndtr": np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "float_exponent": lambda x: np.frexp(x)[1],
}  # fmt: skip
# Truth values among the operands, by primitive and position.
TRUTHS = {"where": 0, "keep": 1, "masked_scale": 1}


def evaluate(node: Expression, inputs: list[Any]) -> Any:
    """The value of a formula, by NumPy."""
    if node.name == "input":
        return inputs[node.value]
    if node.name == "constant":
        return node.value if node.dtype is None else np.asarray(node.value, node.dtype)
    operands = [evaluate(operand, inputs) for operand in node.operands]
    if node.name == "astype":
        return np.asarray(operands[0]).astype(node.dtype or node.weak)
    return NAMES.get(node.name, getattr(np, node.name, None))(*operands)


def elementwise() -> list[Primitive]:
    all_samples()  # declares every primitive
    taking_integers = ("ldexp",)
    found = [
        p
        for p in PRIMITIVES.values()
        if p.broadcasts and p.vjp_rules and p.name not in taking_integers
    ]
    return sorted(found, key=lambda primitive: primitive.name)


def trace_forward(primitive: Primitive) -> tuple[Expression, ...] | None:
    """The formula of a primitive without params, for float64 operands; None if there is none."""
    if getattr(getattr(primitive.forward, "__code__", None), "co_kwonlyargcount", 0):
        return None
    count = len(primitive.vjp_rules or ())
    truth = TRUTHS.get(primitive.name)
    inputs = [array_input(i, BOOL if i == truth else F8) for i in range(count)]
    try:
        return traced(primitive.kernel(Expression), *inputs)
    except UntraceableError:
        return None


TRACED = [p for p in elementwise() if trace_forward(p) is not None]


def operands_of(primitive: Primitive) -> list[Any]:
    rng = np.random.default_rng(3)
    values = [rng.uniform(0.1, 0.9, 5) for _ in primitive.vjp_rules or ()]
    truth = TRUTHS.get(primitive.name)
    if truth is not None:
        values[truth] = values[truth] > 0.5
    if primitive.name == "acosh":
        values[0] += 1
    return values


def test_most_elementwise_primitives_have_a_formula() -> None:
    names = {primitive.name for primitive in TRACED}

    assert len(names) >= 80
    assert {"add", "divide", "exp", "tanh", "sigmoid", "gelu_tanh", "where", "maximum"} <= names


@pytest.mark.parametrize("primitive", TRACED, ids=lambda p: p.name)
def test_the_formula_of_a_kernel_equals_the_kernel(primitive: Primitive) -> None:
    formula = trace_forward(primitive)
    assert formula is not None
    if any(node in repr(formula) for node in ("erfcx", "erfinv", "erfcinv")):
        names = repr(formula)
        assert primitive.name in names  # NumPy has no such function: it is passed on by name
        return
    values = operands_of(primitive)

    computed = evaluate(formula[0], values)

    expected = primitive.kernel(np.ndarray)(*values)
    np.testing.assert_allclose(computed, expected, rtol=1e-13)
    assert formula[0].dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("primitive", [p for p in TRACED if p.differentiable], ids=lambda p: p.name)
def test_the_formulas_of_rules_equal_the_rules(primitive: Primitive) -> None:
    values = operands_of(primitive)
    result = primitive.kernel(np.ndarray)(*values)
    t = np.linspace(0.5, 1.5, 5)
    for rule in primitive.vjp_rules or ():
        if rule is None:
            continue
        saved = rule.pick(values, result)
        reads = [array_input(i + 1, np.asarray(value).dtype) for i, value in enumerate(saved)]
        try:
            formula = traced(rule.function, array_input(0, F8), *reads)
        except UntraceableError:
            continue  # it reads a special function

        computed = evaluate(formula[0], [t, *saved])

        with using_stack(RAW):
            expected = rule.function(t, *saved)
        np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-15)


def test_numbers_adapt_to_the_dtype_they_meet() -> None:
    x, number = array_input(0, np.dtype(np.float32)), number_input(1, float)

    assert (x * number).dtype == np.float32
    assert (x * 2.0).dtype == np.float32
    assert (array_input(0, np.dtype(np.int32)) * number).dtype == np.float64
    assert (number * 2).dtype is None


def test_a_function_that_looks_at_values_cannot_be_traced() -> None:
    with pytest.raises(UntraceableError, match="values of an expression are not known"):
        traced(lambda x: x if x > 0 else -x, array_input(0, F8))


def test_shared_parts_are_written_once() -> None:
    x = array_input(0, F8)

    (formula,) = traced(lambda x: (x * x) + (x * x), x)
    lines, names = c_source.statements((formula,), ["a0"])

    assert lines == ["const double v0 = a0 * a0;", "const double v1 = v0 + v0;"]
    assert names == ["v1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "(float)(0x1.999999999999ap-4)"),
        (3, "(float)(3LL)"),
        (True, "(float)(1)"),
        (-math.inf, "(float)(-1e308 * 1e308)"),
        (math.nan, "(float)(0.0 / 0.0)"),
    ],
)
def test_numbers_are_written_exactly(value: Any, text: str) -> None:
    assert c_source.literal(value, "float") == text


@pytest.mark.skipif(shutil.which("c++") is None, reason="this machine has no C++ compiler")
def test_the_c_of_all_formulas_computes_them(tmp_path: Path) -> None:
    library = compile_formulas(tmp_path)
    for number, primitive in enumerate(with_plain_c()):
        values = [np.ascontiguousarray(v) for v in operands_of(primitive)]
        formula = trace_forward(primitive)
        assert formula is not None
        out = np.empty(5, formula[0].dtype)
        function = getattr(library, f"f{number}")

        function(*[ctypes.c_void_p(array.ctypes.data) for array in (*values, out)], 5)

        expected = primitive.kernel(np.ndarray)(*values)
        np.testing.assert_allclose(out, expected, rtol=1e-13, err_msg=primitive.name)


# What CUDA's compiler knows by itself; no formula here rounds to half precision.
CUDAS_OWN = """
#include <cstring>
float __double2float_rz(double);
float __int_as_float(int i) { float x; memcpy(&x, &i, 4); return x; }
int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
int __clz(int x) { return __builtin_clz(x); }
"""
NEIGHBOURS = """
extern "C" void neighbours(const float* x, const float* y, float* next, float* step, int n) {
    for (int i = 0; i < n; ++i) { next[i] = nextafter(x[i], y[i]); step[i] = spacing(x[i]); }
}
extern "C" void parts(const float* x, const double* wide, float* m, double* wide_m, int* e,
                      int* wide_e, int n) {
    for (int i = 0; i < n; ++i) {
        e[i] = exponent_of(x[i]); wide_e[i] = exponent_of(wide[i]);
        m[i] = times_power_of_two(x[i], -e[i]);
        wide_m[i] = times_power_of_two(wide[i], -wide_e[i]);
    }
}
extern "C" void quotients(const float* x, const float* y, float* q, float* r, float* s, int n) {
    for (int i = 0; i < n; ++i) {
        q[i] = floored_quotient(x[i], y[i]);
        r[i] = floored_remainder(x[i], y[i]);
        s[i] = log2_of_sum(x[i], y[i]);
    }
}
"""


def edges_and_random_bits() -> tuple[Any, Any]:
    bits = np.random.default_rng(0).integers(0, 2**32, 10_000, dtype=np.uint32)
    edges = [0.0, -0.0, 1.0, -1.0, 1e-45, -3e-39, 1.1754944e-38, 3.4028235e38, np.inf, np.nan]
    x, y = (a.ravel() for a in np.meshgrid(np.float32(edges), np.float32(edges)))
    return np.append(x, bits.view(np.float32)), np.append(y, bits[::-1].view(np.float32))


def pointers_to(*arrays: Any) -> list[Any]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def test_the_neighbours_that_cuda_finds_by_bits_are_numpys(tmp_path: Path) -> None:
    x, y = edges_and_random_bits()
    found, steps = np.empty_like(x), np.empty_like(x)
    pointers = pointers_to(x, y, found, steps)
    with np.errstate(all="ignore"):
        expected, distances = np.nextafter(x, y), np.spacing(x)

    compile_formulas(tmp_path).neighbours(*pointers, x.size)

    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(steps, distances)


def test_the_parts_of_numbers_that_cuda_finds_are_numpys(tmp_path: Path) -> None:
    x, _ = edges_and_random_bits()
    bits = np.random.default_rng(1).integers(0, 2**64, x.size, dtype=np.uint64)
    wide = np.append([5e-324, -1e-310, 0.0, np.inf, 1.0], bits.view(np.float64))[: x.size].copy()
    m, wide_m = np.empty_like(x), np.empty_like(wide)
    e, wide_e = np.empty(x.size, np.int32), np.empty(x.size, np.int32)
    with np.errstate(invalid="ignore"):  # of NaN with other bits
        expected = *np.frexp(x), *np.frexp(wide)

    compile_formulas(tmp_path).parts(*pointers_to(x, wide, m, wide_m, e, wide_e), x.size)

    for one, other in zip((m, e, wide_m, wide_e), expected):
        np.testing.assert_array_equal(one, other)
        known = other == other
        np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]))


def test_the_quotients_and_sums_that_cuda_computes_are_numpys(tmp_path: Path) -> None:
    x, y = edges_and_random_bits()
    found = [np.empty_like(x) for _ in range(3)]
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y), np.remainder(x, y), np.logaddexp2(x, y)

    compile_formulas(tmp_path).quotients(*pointers_to(x, y, *found), x.size)

    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        known = other == other
        np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]))


def with_plain_c() -> list[Primitive]:
    """Primitives whose formula needs nothing but <cmath> and <complex>."""
    missing = ("ndtr", "erfcx", "erfinv", "erfcinv")
    return [p for p in TRACED if not any(name in repr(trace_forward(p)) for name in missing)]


def compile_formulas(folder: Path) -> Any:
    functions = [
        "#include <cmath>\n#include <complex>\nusing namespace std;\n",
        "#define __device__\n#define __forceinline__ inline",
        CUDAS_OWN,
        c_source.HELPERS,
        NEIGHBOURS,
    ]
    for number, primitive in enumerate(with_plain_c()):
        formula = trace_forward(primitive)
        assert formula is not None
        truth = TRUTHS.get(primitive.name)
        types = ["bool" if i == truth else "double" for i in range(len(primitive.vjp_rules or ()))]
        lines, names = c_source.statements(formula, [f"p{i}[i]" for i in range(len(types))])
        out = c_source.type_of(formula[0])
        takes = ", ".join(f"const {type_}* p{i}" for i, type_ in enumerate(types))
        functions.append(
            f'extern "C" void f{number}({takes}, {out}* q, int n) {{\n'
            f"for (int i = 0; i < n; ++i) {{ {' '.join(lines)} q[i] = {names[0]}; }}\n}}"
        )
    source, library = folder / "formulas.cpp", folder / "formulas.so"
    source.write_text("\n".join(functions))
    command = ["c++", "-std=c++17", "-shared", "-fPIC", "-w", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("operator", [and_, or_, xor], ids=lambda operator: operator.__name__)
@pytest.mark.parametrize("number", [False, True])
def test_a_truth_value_may_stand_before_an_expression(operator: Any, number: bool) -> None:
    values = np.array([0.0, 1.0])

    (formula,) = traced(lambda x: operator(number, x == 0), array_input(0, F8))

    assert formula.dtype == np.bool_
    np.testing.assert_array_equal(evaluate(formula, [values]), operator(number, values == 0))
