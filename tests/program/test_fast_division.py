"""The division of CUDA loops, compiled for the host with a first quotient that is slightly off."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy")
fast_division = pytest.importorskip("tapegrad_cupy.kernels.elementwise.fast_division")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Needs a C++ compiler.")

_PROGRAM = """
#include <cmath>
#include <cstdint>
#include <cstring>
using namespace std;
#define __device__
#define __forceinline__ inline
#define __CUDA_ARCH__ 900
static int off;  // how many units the functions of the hardware are off
static float moved(float x) {
    int32_t bits; memcpy(&bits, &x, 4);
    if (x == x && x != 0.0f && !isinf(x)) bits += off;
    memcpy(&x, &bits, 4); return x;
}
"""

_ENTRIES = """
extern "C" void divide(const float* a, const float* b, float* y, int n, int units) {
    off = units;
    for (int i = 0; i < n; ++i) y[i] = quotient(a[i], b[i]);
}
extern "C" void square_root(const float* a, const float* b, float* y, int n, int units) {
    off = units;
    for (int i = 0; i < n; ++i) y[i] = root(a[i]);
}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return a function that runs one of the entries on arrays."""
    folder: Path = tmp_path_factory.mktemp("division")
    text = fast_division.definitions_for("quotient(")
    text = text.replace('asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x))', "y = moved(1 / x)")
    text = text.replace(
        'asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x))', "y = moved(1 / sqrt(x))"
    )
    assert "asm" not in text
    (folder / "division.cpp").write_text(_PROGRAM + text + _ENTRIES)
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off"]
    subprocess.run(["g++", *options, "division.cpp", "-o", "division.so"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "division.so"))

    def call(name: str, a: Any, b: Any, units: int) -> Any:
        y = np.empty_like(a)
        addresses = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, y)]
        getattr(library, name)(*addresses, a.size, units)
        return y

    return call


def drawn(low: float, high: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    size = np.exp2(rng.uniform(low, high, 100_000))
    return (rng.choice([-1.0, 1.0], size.size) * size).astype("float32")


def units_off(found: Any, exact: Any) -> float:
    spacing = np.spacing(np.abs(exact).astype("float32"))
    return float(np.max(np.abs(found - exact) / spacing))


@pytest.mark.parametrize("units", [-1, 0, 1])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-40.0, 40.0), (60.0, 127.9)])
def test_quotients_are_off_by_half_a_unit(
    run: Callable[..., Any], ends: tuple[float, float], units: int
) -> None:
    a, b = drawn(*ends, seed=1), drawn(*ends, seed=2)

    found = run("divide", a, b, units)

    assert units_off(found, a.astype("float64") / b) <= 0.502


@pytest.mark.parametrize("units", [-1, 1])
def test_quotients_and_roots_that_are_floats_are_exact(run: Callable[..., Any], units: int) -> None:
    rng = np.random.default_rng(3)
    b, q = (rng.integers(1, 4096, 100_000).astype("float32") for _ in range(2))

    np.testing.assert_array_equal(run("divide", b * q, b, units), q)
    np.testing.assert_array_equal(run("square_root", q * q, b, units), q)


@pytest.mark.parametrize("units", [-1, 0, 1])
def test_extreme_numbers(run: Callable[..., Any], units: int) -> None:
    extreme = np.array([0.0, np.inf, np.nan, 1.0, 2.0**-126, 3e38, 1e38], "float32")
    a, b = (x.ravel().copy() for x in np.meshgrid([*extreme, *-extreme], [*extreme, *-extreme]))
    a, b = a.astype("float32"), b.astype("float32")
    with np.errstate(all="ignore"):
        quotients, roots = a / b, np.sqrt(a)

    found = run("divide", a, b, units)

    np.testing.assert_allclose(found, quotients, rtol=1e-6, atol=2.0**-126)
    zeros = quotients == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(quotients[zeros]))
    np.testing.assert_allclose(run("square_root", a, b, units), roots, rtol=1e-6)


def test_sources_without_a_division_have_no_definitions() -> None:
    assert fast_division.definitions_for("floored_quotient(a, b) + square_root(a)") == ""
