"""Pullbacks, in-place kernels and casts, in their simplest form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad_strict.namespace import StrictNamespace

xp = StrictNamespace()


class RulePullbacks:
    """Applies the VJP rules of an elementwise primitive to all wanted inputs."""

    def pullback(self, primitive: str) -> Callable[..., Any] | None:
        found = PRIMITIVES[primitive]
        return _pullback(found) if found.broadcasts and found.vjp_rules else None


def _pullback(primitive: Primitive) -> Callable[..., Any]:
    def pull(t: Any, saved: Any, wanted: Any, params: Any, conjugate: bool) -> list[Any]:
        cotangents: list[Any] = []
        for rule, read, is_wanted in zip(primitive.vjp_rules or (), saved, wanted, strict=True):
            if rule is None or not is_wanted:
                cotangents.append(None)
            elif conjugate:
                cotangents.append(xp.conj(rule.guarded(xp.conj(t), read, params)))
            else:
                cotangents.append(rule.guarded(t, read, params))
        return cotangents

    return pull


class InPlaceKernels:
    """Sums and matrix products that are added to an array."""

    def add(self, total: Any, addend: Any) -> None:
        total[...] = total + addend

    def accumulate(self, primitive: str) -> Callable[..., bool] | None:
        return _accumulate_product if primitive == "matmul" else None

    def overwrite(self, primitive: str) -> None:
        """No kernel gains by writing over its operand."""


def _accumulate_product(
    total: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool
) -> bool:
    a = xp.matrix_transpose(a) if transpose_a else a
    b = xp.matrix_transpose(b) if transpose_b else b
    product = xp.matmul(a, b)
    if product.shape != total.shape or product.dtype != total.dtype:
        return False
    total[...] = total + product
    return True


class Casts:
    """Casts arrays one after the other."""

    def cast(self, arrays: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
        return [xp.astype(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

    def prepare(self, arrays: Sequence[Any], dtype: Any) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda arrays: [xp.astype(array, dtype) for array in arrays]
