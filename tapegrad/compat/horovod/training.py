"""Horovod's tape and optimizer, which average gradients over all processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tapegrad.compat.horovod.exchange import Average, Compression, Sum
from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.replicas import sum_over_processes
from tapegrad.optimizers.base import Optimizer


class DistributedGradientTape:
    """A tape whose gradients are averaged over all processes.

    >>> import tapegrad
    >>> x = tapegrad.Variable(3.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = x * x
    >>> float(DistributedGradientTape(tape).gradient(y, x))  # of one process
    6.0
    """

    def __init__(
        self,
        gradtape: Any,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = True,
        op: Any = Average,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
    ) -> None:
        self._tape, self._compression, self._op = gradtape, compression, _checked_op(op)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, **more: Any) -> Any:
        """Return the gradients of `tape.gradient`, averaged over all processes."""
        found = self._tape.gradient(target, sources, output_gradients, **more)
        flat = exchanged(nest.flatten(found), self._compression, self._op)
        return nest.pack_sequence_as(found, flat)


def exchanged(gradients: Sequence[Any], compression: Any, op: str, when: Any = None) -> list[Any]:
    """Return the sums or means of gradients over all processes; None stays None.

    With a boolean tensor `when`, nothing travels unless it is true.
    """
    found = [*gradients]
    places = [place for place, gradient in enumerate(found) if gradient is not None]
    packed = [compression.compress(as_operand(found[place])) for place in places]
    totals = sum_over_processes([tensor for tensor, _ in packed], when)
    size = current_world().size
    for place, total, (_, context) in zip(places, totals, packed):
        total = compression.decompress(total, context)
        found[place] = total / size if op == Average else total
    return found


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = True,
    gradient_predivide_factor: float = 1.0,
    op: Any = Average,
    num_groups: int = 0,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
) -> Any:
    """Let an optimizer average gradients over all processes before each step, and return it.

    The gradients of `backward_passes_per_step` calls are added, or averaged with
    `average_aggregated_gradients`, before they change the weights. Only the last one communicates.

    >>> import tapegrad
    >>> optimizer = DistributedOptimizer(tapegrad.keras.optimizers.SGD(0.5))
    >>> w = tapegrad.Variable(1.0)
    >>> step = optimizer.apply_gradients([(tapegrad.constant(1.0), w)])
    >>> float(w)
    0.5
    """
    kind: Any = type(optimizer)
    check_count("backward_passes_per_step", backward_passes_per_step, least=1)
    factor = 1
    if backward_passes_per_step > 1:
        _accumulate(optimizer, int(backward_passes_per_step))
        factor = 1 if average_aggregated_gradients else int(backward_passes_per_step)
    optimizer.__class__ = _averaging(kind, compression, _checked_op(op), factor)
    return optimizer


def _accumulate(optimizer: Any, steps: int) -> None:
    """Let an optimizer, which has not been used yet, average the gradients of several calls."""
    if not hasattr(optimizer, "gradient_accumulation_steps") or optimizer.built:
        raise ArgumentError(
            "backward_passes_per_step needs an optimizer of tapegrad.keras that has not been used. "
            f"Got {type(optimizer).__name__}."
        )
    optimizer.gradient_accumulation_steps = steps


@cache
def _averaging(kind: Any, compression: Any, op: str, factor: int) -> type:
    """Return the class of an optimizer that exchanges gradients first, and multiplies them."""

    def together(gradients: Sequence[Any], when: Any = None) -> list[Any]:
        totals = exchanged(gradients, compression, op, when)
        if factor == 1:
            return totals
        return [None if total is None else total * factor for total in totals]

    def _combined(self: Any, pairs: list[Any], when: Any = None) -> list[Any]:
        found = together([gradient for gradient, _ in pairs], when)
        return list(zip(found, [variable for _, variable in pairs]))

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        return kind.apply_gradients(self, _combined(self, [*grads_and_vars]), *args, **kwargs)

    if issubclass(kind, Optimizer):
        return type(kind.__name__, (kind,), {"_is_joint": True, "_combined": _combined})
    return type(kind.__name__, (kind,), {"apply_gradients": apply_gradients})


def _checked_op(op: Any) -> str:
    if op not in (Average, Sum):
        raise ArgumentError(f"op of gradients must be Average or Sum. Got {op!r}.")
    return str(op)
