"""Variance-scaling initializers: Glorot, He and LeCun."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.keras.initializers.base import DEFAULT_DTYPE, RandomInitializer
from tapegrad.ops.creation import as_shape
from tapegrad.ops.random.primitives import draw_normal, draw_truncated_normal, draw_uniform

_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("truncated_normal", "untruncated_normal", "uniform")

# The standard deviation of a standard normal distribution truncated at -2 and 2.
_TRUNCATED_STDDEV = 0.87962566103423978


class VarianceScaling(RandomInitializer):
    """Draw with mean 0 and variance `scale / n`, where n is the fan that `mode` names.

    "fan_in" is the number of inputs of a unit, "fan_out" the number of outputs that an input
    affects, and "fan_avg" their mean. For filters [*window, inputs, outputs] the window counts in
    both. For other layouts, pass `input_axes` and `output_axes`.

    >>> VarianceScaling(scale=2.0, mode="fan_out", distribution="uniform")((3, 3, 8, 16)).shape
    (3, 3, 8, 16)
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
        input_axes: Sequence[int] | None = None,
        output_axes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(seed)
        if not scale > 0:
            raise ArgumentError(f"The scale of VarianceScaling must be above 0. Got {scale!r}.")
        if mode not in _MODES:
            raise ArgumentError(f"mode must be one of {', '.join(_MODES)}. Got {mode!r}.")
        name = distribution.lower()
        name = "truncated_normal" if name == "normal" else name  # its older name
        if name not in _DISTRIBUTIONS:
            raise ArgumentError(
                f"distribution must be one of {', '.join(_DISTRIBUTIONS)}. Got {distribution!r}."
            )
        if (input_axes is None) != (output_axes is None):
            raise ArgumentError(
                "Pass both input_axes and output_axes, or neither. "
                f"Got input_axes={input_axes}, output_axes={output_axes}."
            )
        self.scale, self.mode, self.distribution = scale, mode, name
        self.input_axes, self.output_axes = input_axes, output_axes

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        kind = DEFAULT_DTYPE if dtype is None else dtype
        variance = self.scale / max(1.0, self._fan(as_shape(shape)))
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return draw_uniform(self._source(), shape, -limit, limit, kind)
        stddev = math.sqrt(variance)
        if self.distribution == "untruncated_normal":
            return draw_normal(self._source(), shape, 0.0, stddev, kind)
        return draw_truncated_normal(self._source(), shape, 0.0, stddev / _TRUNCATED_STDDEV, kind)

    def _fan(self, shape: tuple[int, ...]) -> float:
        fan_in, fan_out = compute_fans(shape, self.input_axes, self.output_axes)
        return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]


def compute_fans(
    shape: Sequence[int],
    input_axes: Sequence[int] | None = None,
    output_axes: Sequence[int] | None = None,
) -> tuple[int, int]:
    """Return the fan-in and the fan-out of a weight of this shape.

    >>> compute_fans((10, 20)), compute_fans((3, 3, 8, 16))
    ((10, 20), (72, 144))
    """
    if input_axes is not None and output_axes is not None:
        return _size(shape, input_axes), _size(shape, output_axes)
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _size(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[normalize_axis(axis, len(shape), "compute_fans")] for axis in axes)


class _Named(VarianceScaling):
    """Base class of named initializers with a fixed scale, mode and distribution."""

    kind: tuple[float, str, str]

    def __init__(
        self,
        seed: Any = None,
        input_axes: Sequence[int] | None = None,
        output_axes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(*self.kind, seed, input_axes, output_axes)


class GlorotUniform(_Named):
    """Draw from ±sqrt(6 / (fan_in + fan_out)), also called Xavier; the default of most layers.

    >>> bool(abs(GlorotUniform()((20, 30)).numpy()).max() <= (6 / 50) ** 0.5)
    True
    """

    kind = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Named):
    """Draw from a truncated normal distribution of variance 2 / (fan_in + fan_out).

    >>> GlorotNormal(seed=1)((20, 30)).shape
    (20, 30)
    """

    kind = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Named):
    """Draw from ±sqrt(6 / fan_in), which keeps the variance through ReLU.

    >>> bool(abs(HeUniform()((6, 30)).numpy()).max() <= 1)
    True
    """

    kind = (2.0, "fan_in", "uniform")


class HeNormal(_Named):
    """Draw from a truncated normal distribution of variance 2 / fan_in, for layers with ReLU.

    >>> HeNormal(seed=1)((20, 30)).shape
    (20, 30)
    """

    kind = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Named):
    """Draw from ±sqrt(3 / fan_in), which keeps the variance through linear layers.

    >>> bool(abs(LecunUniform()((3, 30)).numpy()).max() <= 1)
    True
    """

    kind = (1.0, "fan_in", "uniform")


class LecunNormal(_Named):
    """Draw from a truncated normal distribution of variance 1 / fan_in, for layers with SELU.

    >>> LecunNormal(seed=1)((20, 30)).shape
    (20, 30)
    """

    kind = (1.0, "fan_in", "truncated_normal")
