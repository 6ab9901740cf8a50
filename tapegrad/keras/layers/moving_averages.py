"""Moving averages of batch statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.commit import store
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.variable import Variable
from tapegrad.engine.moving_averages import DeferredAverages
from tapegrad.optimizers.updates import moments_update

Array = Any


class MovingAverages:
    """The moving averages that the layers of one forward pass update."""

    __slots__ = ("_deferred",)

    def __init__(self) -> None:
        self._deferred = DeferredAverages()

    def __reduce__(self) -> tuple[Any, ...]:
        # No update is pending between two forward passes.
        return MovingAverages, ()

    def __setstate__(self, state: Any) -> None:
        """Accept the state that earlier revisions pickled, which held nothing but this."""
        self._deferred = DeferredAverages()

    def follow(
        self, averages: Sequence[Variable], seen: Sequence[Array], shape: Any, share: float
    ) -> None:
        """Move a mean and a variance of `shape` by `share` of the distance to those of a batch.

        They may be updated in `finish` only, together with those of other layers.
        """
        if 0 in shape or not self._deferred.defer(averages, seen, share):
            mean, variance = averages
            update = moments_update.kernel(type(mean.array))
            with updating_alone():
                store(averages, update(mean.array, variance.array, *seen, share=share))

    def finish(self, owner: Any = None) -> None:
        """Complete all updates; `owner` is the layer whose call ends here."""
        self._deferred.finish(owner)
