"""Products of a stack are divided among threads, and each of them uses one thread of BLAS."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.eager.compiled import compiled_form
from tapegrad_numpy.kernels.table import KERNELS
from tapegrad_numpy.loops import compiler, pool
from tapegrad_numpy.sequences.blas import blas

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(6)
STACKS = [
    ((40, 70, 30), (40, 30, 50), False), ((9, 128, 64), (9, 128, 64), True),
    ((3, 4, 60, 90), (4, 90, 50), False), ((5, 1, 40, 80), (1, 6, 80, 70), False),
    ((7, 300, 40), (40, 1), False), ((1000, 4, 4), (1000, 4, 4), True),
    ((2, 200, 90), (90, 80), False),
]  # fmt: skip


@pytest.fixture(params=["1", "2", "3"])
def threads(request: Any, monkeypatch: Any) -> Iterator[None]:
    monkeypatch.setenv("TAPEGRAD_THREADS", request.param)
    pool.team()
    yield
    monkeypatch.undo()
    pool.team()


@pytest.mark.parametrize(("first", "second", "is_transposed"), STACKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("threads")
def test_products_of_stacks(first: Any, second: Any, is_transposed: bool, dtype: str) -> None:
    a, b = rng.normal(size=first).astype(dtype), rng.normal(size=second).astype(dtype)
    params = {"transpose_a": False, "transpose_b": is_transposed}
    kernel = compiled_form("matmul_stack", KERNELS["matmul_stack"])
    exact = a.astype(float) @ (b.swapaxes(-1, -2) if is_transposed else b)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(kernel(a, b, **params), exact, rtol=tolerance, atol=tolerance)
    turned = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    np.testing.assert_allclose(kernel(turned, b, **params), exact, rtol=tolerance, atol=tolerance)


def test_the_number_of_threads_changes_no_bits(monkeypatch: Any) -> None:
    q, k = (rng.normal(size=(8, 200, 64)).astype("f") for _ in range(2))
    step = tf.function(lambda q, k: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), k))
    found = []
    for count in ("1", "2"):
        monkeypatch.setenv("TAPEGRAD_THREADS", count)
        pool.team()
        step(tf.constant(q), tf.constant(k))
        found.append(np.asarray(step(tf.constant(q), tf.constant(k))))
    monkeypatch.undo()
    pool.team()
    np.testing.assert_array_equal(*found)


def test_callers_leave_the_number_of_threads_of_blas_as_it_was(monkeypatch: Any) -> None:
    library = blas()
    if library is None or library.threads is None:
        pytest.skip("NumPy's BLAS has no function for its threads")
    count, change = (
        ctypes.CFUNCTYPE(kind, *takes)(address)
        for kind, takes, address in zip(
            (ctypes.c_int, None), ((), (ctypes.c_int,)), library.threads
        )
    )
    monkeypatch.setenv("TAPEGRAD_THREADS", "2")
    pool.team()
    before = count()
    change(2)
    try:
        a = rng.normal(size=(16, 120, 100)).astype("f")
        kernel = compiled_form("matmul_stack", KERNELS["matmul_stack"])
        params = {"transpose_a": False, "transpose_b": True}
        exact = a.astype(float) @ a.astype(float).swapaxes(-1, -2)
        with ThreadPoolExecutor(4) as workers:
            for found in workers.map(lambda _: kernel(a, a, **params), range(60)):
                np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
        assert count() == 2
    finally:
        change(before)
        monkeypatch.undo()
        pool.team()
