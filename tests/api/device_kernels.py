"""Kernels that only backends of devices have, for NumPy: so the host's tests see the way there.

A sweep on a device pulls back through an elementwise node in one kernel, adds in place, casts many
gradients at once, and finds sums together with products. What these kernels do is simple; the sweep
around them is what is tested.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.core.backend import find_backend
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad.ops import casts_ahead, matrix_product_sum

Kernels = Mapping[str, Callable[..., Any]]


class CastGroup:
    """Casts as many arrays as it is given."""

    def __init__(self, arrays: Sequence[Any], dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        return [array.astype(self.dtype) for array in arrays]


def stand_ins() -> dict[str, Callable[..., Any]]:
    """Return what NumPy's backend lacks, by name."""
    elementwise = [p for p in PRIMITIVES.values() if p.broadcasts and p.vjp_rules]
    return {
        **{f"{primitive.name}.vjp": all_rules_of(primitive) for primitive in elementwise},
        "add.into": add_into,
        "cast.many": lambda arrays, dtypes: [a.astype(d) for a, d in zip(arrays, dtypes)],
        "matmul.into": matmul_into,
        "matmul_with_sums": lambda *arrays, **params: PRIMITIVES["matmul_with_sums"].forward(  # type: ignore[misc]
            np, *arrays, **params
        ),
    }


def all_rules_of(primitive: Primitive) -> Callable[..., Any]:
    """Return a kernel that applies the rules of the wanted inputs."""

    def pull(t: Any, saved: Any, wanted: Any, params: Any, conjugate: bool) -> list[Any]:
        shares = []
        for rule, read, is_wanted in zip(primitive.vjp_rules or (), saved, wanted, strict=True):
            share = None
            if is_wanted and rule is not None:
                share = rule(t, read, params)
                if share is not t and conjugate:
                    share = np.conj(rule(np.conj(t), read, params))
            shares.append(share)
        return shares

    return pull


def add_into(total: Any, share: Any) -> None:
    assert total.dtype == share.dtype
    total += share


def matmul_into(total: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> bool:
    total += (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    return True


def sweep_as_on_a_device(monkeypatch: Any) -> list[bool]:
    """Use such kernels, products of any size with sums; return of which operand, as they run."""
    kind = type(tf.zeros([1]).array)
    backend = find_backend(kind)
    assert backend is not None
    own: Kernels = backend.kernels
    added = stand_ins() if kind is np.ndarray else {}
    multiply = added.get("matmul_with_sums") or own["matmul_with_sums"]
    made: list[bool] = []

    def noting(*arrays: Any, **params: Any) -> Any:
        made.append(params["of_first"])
        return multiply(*arrays, **params)

    maps: list[Any] = [{"matmul_with_sums": noting}, added, own]
    monkeypatch.setattr(backend, "kernels", ChainMap(*maps))
    monkeypatch.setattr(matrix_product_sum, "LEAST_WITH_SUMS", 0)
    if kind is np.ndarray:
        monkeypatch.setitem(casts_ahead._cast_groups, np.ndarray, CastGroup)
        monkeypatch.setattr(casts_ahead, "_round", casts_ahead._Round())
        for primitive in PRIMITIVES.values():
            monkeypatch.setattr(primitive, "vjp_kernels", {})
    return made
