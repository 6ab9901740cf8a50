"""Device-only kernels implemented in NumPy, so that host tests cover the backward pass on a device.

On a device, the backward pass applies the rules of an elementwise node in one kernel, adds in
place, casts many gradients together, and computes sums together with products. These kernels are
simple; the code that calls them is under test.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.engine import batched_casts
from tapegrad.ops.products import fused as matrix_product_sum
from tests import capabilities

Kernels = Mapping[str, Callable[..., Any]]


class CastGroup:
    """Casts as many arrays as it is given."""

    def __init__(self, arrays: Sequence[Any], dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        return [array.astype(self.dtype) for array in arrays]


class Pullbacks:
    """Applies the rules of elementwise primitives one by one."""

    def pullback(self, primitive: str) -> Any:
        found = PRIMITIVES[primitive]
        return all_rules_of(found) if found.broadcasts and found.vjp_rules else None


class InPlace:
    """Sums and matrix products that are added to an array."""

    def add(self, total: Any, addend: Any) -> None:
        assert total.dtype == addend.dtype
        total += addend

    def accumulate(self, primitive: str) -> Any:
        return matmul_into if primitive == "matmul" else None

    def overwrite(self, primitive: str) -> None:
        return None


class Casts:
    """Casts arrays one by one."""

    prepare = CastGroup

    def cast(self, arrays: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
        return [array.astype(dtype) for array, dtype in zip(arrays, dtypes)]


def all_rules_of(primitive: Primitive) -> Callable[..., Any]:
    """Return a kernel that applies the rules of the wanted inputs."""

    def pull(t: Any, saved: Any, wanted: Any, params: Any, conjugate: bool) -> list[Any]:
        shares = []
        for rule, read, is_wanted in zip(primitive.vjp_rules or (), saved, wanted, strict=True):
            share = None
            if is_wanted and rule is not None:
                share = rule.guarded(t, read, params)
                if share is not t and conjugate:
                    share = np.conj(rule.guarded(np.conj(t), read, params))
            shares.append(share)
        return shares

    return pull


def matmul_into(total: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> bool:
    total += (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    return True


def sweep_as_on_a_device(monkeypatch: Any) -> list[bool]:
    """Use such kernels, products of any size with sums; return of which operand, as they run."""
    kind = type(tf.zeros([1]).array)
    backend = find_backend(kind)
    assert backend is not None
    own: Kernels = backend.kernels
    generic = partial(PRIMITIVES["matmul_with_sums"].forward, np)  # type: ignore[arg-type]
    multiply = generic if kind is np.ndarray else own["matmul_with_sums"]
    made: list[bool] = []

    def noting(*arrays: Any, **params: Any) -> Any:
        made.append(params["of_first"])
        return multiply(*arrays, **params)

    maps: list[Any] = [{"matmul_with_sums": noting}, own]
    monkeypatch.setattr(backend, "kernels", ChainMap(*maps))
    monkeypatch.setattr(matrix_product_sum, "LEAST_WITH_SUMS", 0)
    if kind is np.ndarray:
        capabilities.use(monkeypatch, pullbacks=Pullbacks(), in_place=InPlace(), casts=Casts())
        monkeypatch.setattr(batched_casts, "_preparers", {})
        monkeypatch.setattr(batched_casts, "_current", batched_casts._TapeCasts())
        for primitive in PRIMITIVES.values():
            monkeypatch.setattr(primitive, "vjp_kernels", {})
    return made
