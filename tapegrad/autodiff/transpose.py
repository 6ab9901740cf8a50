"""JVPs by transposition of VJPs, which are linear in their cotangents."""

from __future__ import annotations

from typing import Any

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.batching import in_frame
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.autodiff.pullback import operation_cotangents
from tapegrad.core.recorder import Operation
from tapegrad.core.values.tensor import wrap
from tapegrad.ops import creation


def transposed_jvp(operation: Operation, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tangents of results: the VJP of the map from output to input cotangents."""
    # Operations inside vmap are on whole arrays, so a tape for them belongs to no example.
    with in_frame(None):
        return _transposed(operation, tangents)


def _transposed(operation: Operation, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
    results = operation.result if operation.primitive.many else (operation.result,)
    probes = tuple(creation.zeros_like(wrap(result)) for result in results)
    with GradientTape(watch_accessed_variables=False) as tape:
        watched = [probe for probe in probes if probe.dtype.is_differentiable]
        tape.watch(watched)
        cotangents = operation_cotangents(
            operation, probes if operation.primitive.many else probes[0]
        )
    pairs = [
        (cotangent, tangent)
        for cotangent, tangent in zip(cotangents, tangents, strict=True)
        if cotangent is not None and tangent is not None
    ]
    found = iter(
        tape.gradient(
            [cotangent for cotangent, _ in pairs],
            watched,
            [tangent for _, tangent in pairs],
            UnconnectedGradients.ZERO,
        )
    )
    grads = [next(found) if probe.dtype.is_differentiable else None for probe in probes]
    return tuple(
        grad if node is not None else None
        for grad, node in zip(grads, operation.outputs, strict=True)
    )
