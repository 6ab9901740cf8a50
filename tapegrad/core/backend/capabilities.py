"""Optional parts of the backend contract.

A backend that only implements `Backend` is complete: every program runs on it. Each protocol below
adds one way to run faster. A backend lists the parts that it implements in `Capabilities`; the
registry reads that list once, when the backend is registered. `tapegrad.testing.check_backend`
tests every part that a backend lists. The protocols are in `optional_parts.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tapegrad.core.backend.communication import Communication
    from tapegrad.core.backend.native_sequences import SequenceCompiler
    from tapegrad.core.backend.optional_parts import (
        Adoption,
        Array,
        BatchedCasts,
        BatchTransfers,
        FusedPullbacks,
        GroupedUpdates,
        InPlaceKernels,
        Kernel,
        LoopCompiler,
        ProgramCapture,
        RowTransfers,
        ShapeSpecializer,
    )


@runtime_checkable
class BindableKernel(Protocol):
    """A kernel that prepares itself for fixed params faster than `functools.partial` does."""

    def __call__(self, *arrays: Array, **params: Any) -> Any:
        """Run the kernel."""

    def bound(self, params: dict[str, Any]) -> Kernel:
        """Return the kernel with its params filled in."""


class Capabilities(NamedTuple):
    """The optional parts that a backend implements; None for those that it does not."""

    pullbacks: FusedPullbacks | None = None
    in_place: InPlaceKernels | None = None
    loops: LoopCompiler | None = None
    specializer: ShapeSpecializer | None = None
    sequences: SequenceCompiler | None = None
    capture: ProgramCapture | None = None
    casts: BatchedCasts | None = None
    updates: GroupedUpdates | None = None
    rows: RowTransfers | None = None
    batches: BatchTransfers | None = None
    adoption: Adoption | None = None
    communication: Communication | None = None
    fused_rounds: bool = False
    """Whether the kernel of `counted_loop` runs all rounds of an elementwise body in one launch."""


NO_CAPABILITIES = Capabilities()
