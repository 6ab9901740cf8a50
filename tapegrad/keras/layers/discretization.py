"""Discretization: the number of the interval that a value is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tapegrad.core.values.device import device
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.category_layers import CategoryLayer
from tapegrad.keras.layers.spatial_arguments import positive
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing.sorting import searchsorted


class Discretization(CategoryLayer):
    """Return the number of the interval that each value is in.

    `bin_boundaries` are the ends of the intervals; each boundary belongs to the interval above it.
    With `num_bins`, `adapt` chooses boundaries between which there are equally many values.
    `epsilon` is accepted for Keras and ignored: the quantiles are exact.

    >>> import tapegrad
    >>> Discretization([0.0, 1.0, 2.0])(tapegrad.constant([-1.5, 1.0, 3.4, 0.5])).tolist()
    [0, 2, 3, 1]
    """

    def __init__(
        self,
        bin_boundaries: Any = None,
        num_bins: int | None = None,
        epsilon: float = 0.01,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(output_mode, sparse, **kwargs)
        if (bin_boundaries is None) == (num_bins is None):
            raise ArgumentError(
                "Discretization takes either bin_boundaries or num_bins. "
                f"Got bin_boundaries={bin_boundaries} and num_bins={num_bins}."
            )
        self.num_bins = None if num_bins is None else positive(self, num_bins, "num_bins")
        self.bin_boundaries = None if bin_boundaries is None else _ascending(bin_boundaries)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments, with the boundaries that `adapt` has chosen."""
        config = super().get_config()
        if self.bin_boundaries is not None:
            config["bin_boundaries"], config["num_bins"] = list(self.bin_boundaries), None
        return config

    def adapt(self, data: Any) -> None:
        """Choose the boundaries by an array, or by an iterable of batches."""
        if self.num_bins is None:
            raise ArgumentError(
                "This Discretization was created with bin_boundaries, so adapt cannot set them. "
                "Create the layer with num_bins to use adapt."
            )
        batches: Iterable[Any] = [data] if hasattr(data, "shape") else data
        if isinstance(batches, list | tuple) and batches and not hasattr(batches[0], "shape"):
            batches = [batches]
        parts = [_on_host(batch).ravel() for batch in batches]
        values = np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)
        if not values.size or not np.isfinite(values).all():
            raise ArgumentError("adapt needs at least one value, and finite values only.")
        shares = np.arange(1, self.num_bins) / self.num_bins
        self.bin_boundaries = tuple(np.quantile(values, shares).tolist())

    def count_categories(self) -> int:
        return self.num_bins or len(self.bin_boundaries or ()) + 1

    def call(self, inputs: Any) -> Any:
        if self.bin_boundaries is None:
            raise ArgumentError(
                f"{self._title} does not know its boundaries yet. Call adapt(data) first."
            )
        dtype = inputs.dtype if inputs.dtype.is_floating else self.compute_dtype
        with device(inputs.device):
            ends = constant(np.array(self.bin_boundaries), dtype)
        return self.encoded(searchsorted(ends, in_dtype(inputs, dtype), side="right"))


def _ascending(boundaries: Any) -> tuple[float, ...]:
    found = _on_host(boundaries)
    if found.ndim != 1 or found.dtype.kind not in "iuf" or (np.diff(found) <= 0).any():
        raise ArgumentError(
            f"bin_boundaries must be a list of ascending numbers. Got {boundaries!r}."
        )
    return tuple(float(end) for end in found)


def _on_host(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor | Variable) else np.asarray(value)
