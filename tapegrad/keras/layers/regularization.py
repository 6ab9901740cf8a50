"""Regularization layers: dropout, noise, activity penalties and spectral normalization.

All of them return their input unchanged outside training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from tapegrad.core.commit import assign_together
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras import initializers, regularizers
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import revived
from tapegrad.keras.layers.spatial_arguments import channels_format
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.nn.dropout import dropout
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.generator import Generator, get_global_generator
from tapegrad.ops.random.primitives import draw_mask
from tapegrad.ops.reduction.functions import reduce_all
from tapegrad.ops.shape.functions import reshape

# AlphaDropout sets dropped elements to this value, the limit of SELU at minus infinity.
_SELU_FLOOR = -1.0507009873554805 * 1.6732632423543772


class RandomLayer(Layer):
    """Base class of layers that draw random numbers in training, on the input's device."""

    supports_masking = True

    def __init__(self, seed: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self._generator = None if seed is None else Generator.from_seed(seed)

    @property
    def seed_generator(self) -> Generator:
        """The layer's generator if it has a seed, otherwise the global generator."""
        return get_global_generator() if self._generator is None else self._generator

    def _normal(self, like: Any, mean: float, stddev: float) -> Any:
        with device(like.device):
            return self.seed_generator.normal(tuple(like.shape), mean, stddev, like.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)


class Dropout(RandomLayer):
    """Set elements to 0 with probability `rate`, and scale the others up to keep the mean.

    `noise_shape` is the shape of the random mask, which broadcasts to the input.

    >>> import tapegrad
    >>> layer = Dropout(0.5, seed=1)
    >>> set(layer(tapegrad.ones([100]), training=True).tolist()) == {0.0, 2.0}
    True
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, **kwargs)
        self.rate = _fraction(rate, "Dropout", is_one_allowed=True)
        self.noise_shape = _checked_noise_shape(noise_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if not training or self.rate == 0:
            return inputs
        shape = _noise_shape(self, self.noise_shape, tuple(inputs.shape))
        return _dropped(inputs, self.rate, shape, self.seed_generator)


class _SpatialDropout(RandomLayer):
    """Base class of layers that drop whole channels."""

    spatial = 1

    def __init__(
        self,
        rate: float,
        data_format: str | None = None,
        seed: int | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, name=name, dtype=dtype, **kwargs)
        self.rate = _fraction(rate, type(self).__name__, is_one_allowed=True)
        self.data_format = channels_format(self, data_format)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != self.spatial + 2:
            raise ShapeError(
                f"{self._title} takes inputs of {self.spatial + 2} dimensions, the batch first. "
                f"Got shape {tuple(input_shape)}."
            )

    def call(self, inputs: Any, training: Any = None) -> Any:
        self.build(inputs.shape)
        if not training or self.rate == 0:
            return inputs
        ones = (1,) * self.spatial
        first = self.data_format == "channels_first"
        shape = (None, None, *ones) if first else (None, *ones, None)
        return _dropped(inputs, self.rate, shape, self.seed_generator)


class SpatialDropout1D(_SpatialDropout):
    """Drop whole channels of sequences, (batch, steps, channels).

    >>> import tapegrad
    >>> y = SpatialDropout1D(0.5, seed=1)(tapegrad.ones([2, 3, 4]), training=True).numpy()
    >>> bool((y == y[:, :1]).all())
    True
    """

    def __init__(
        self,
        rate: float,
        seed: int | None = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(rate, None, seed, name, dtype, **kwargs)


class SpatialDropout2D(_SpatialDropout):
    """Drop whole channels of images.

    >>> import tapegrad
    >>> y = SpatialDropout2D(0.5, seed=1)(tapegrad.ones([2, 3, 3, 4]), training=True).numpy()
    >>> bool((y == y[:, :1, :1]).all())
    True
    """

    spatial = 2


class SpatialDropout3D(_SpatialDropout):
    """Drop whole channels of volumes.

    >>> import tapegrad
    >>> y = SpatialDropout3D(0.5, seed=1)(tapegrad.ones([2, 3, 3, 3, 4]), training=True).numpy()
    >>> bool((y == y[:, :1, :1, :1]).all())
    True
    """

    spatial = 3


class GaussianNoise(RandomLayer):
    """Add normally distributed noise with mean 0.

    >>> import tapegrad
    >>> layer = GaussianNoise(0.1)
    >>> layer(tapegrad.ones([2]), training=False).tolist()
    [1.0, 1.0]
    """

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        if not stddev >= 0:
            raise ArgumentError(f"GaussianNoise takes a stddev of 0 or more. Got {stddev!r}.")
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = None) -> Any:
        if not training or self.stddev == 0:
            return inputs
        return inputs + self._normal(inputs, 0.0, self.stddev)


class GaussianDropout(RandomLayer):
    """Multiply by normally distributed noise with mean 1 and variance rate / (1 - rate).

    >>> import tapegrad
    >>> layer = GaussianDropout(0.5)
    >>> layer(tapegrad.ones([2]), training=False).tolist()
    [1.0, 1.0]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self.rate = _fraction(rate, "GaussianDropout")

    def call(self, inputs: Any, training: Any = None) -> Any:
        if not training or self.rate == 0:
            return inputs
        return inputs * self._normal(inputs, 1.0, math.sqrt(self.rate / (1.0 - self.rate)))


class AlphaDropout(RandomLayer):
    """Drop elements so that the outputs of SELU keep their mean and variance.

    >>> import tapegrad
    >>> layer = AlphaDropout(0.5, seed=1)
    >>> len(set(layer(tapegrad.ones([100]), training=True).tolist()))
    2
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(seed, **kwargs)
        self.rate = _fraction(rate, "AlphaDropout")
        self.noise_shape = _checked_noise_shape(noise_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if not training or self.rate == 0:
            return inputs
        rate, shape = self.rate, _noise_shape(self, self.noise_shape, tuple(inputs.shape))
        with device(inputs.device):
            kept = draw_mask(self.seed_generator, shape, rate)
        # Inputs with mean 0 and variance 1 give outputs with mean 0 and variance 1.
        a = ((1.0 - rate) * (1.0 + rate * _SELU_FLOOR**2)) ** -0.5
        return where(kept, inputs, _SELU_FLOOR) * a - a * _SELU_FLOOR * rate


class ActivityRegularization(Layer):
    """Return the input, and add `(l1 * sum(|x|) + l2 * sum(x²)) / batch_size` to the losses.

    >>> import tapegrad
    >>> layer = ActivityRegularization(l2=0.5)
    >>> x = layer(tapegrad.constant([[1.0], [3.0]]))
    >>> float(layer.losses[0])
    2.5
    """

    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **kwargs)
        self.l1, self.l2 = l1, l2

    def call(self, inputs: Any) -> Any:
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)


class SpectralNormalization(Layer):
    """Divide the kernel of a layer by its largest singular value at each training call.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> layer = SpectralNormalization(Dense(1, kernel_initializer="ones"))
    >>> layer(tapegrad.ones([1, 4]), training=True).round(4).tolist()
    [[2.0]]
    """

    def __init__(self, layer: Any, power_iterations: int = 1, **kwargs: Any) -> None:
        layer = revived(layer)
        if not isinstance(layer, Layer):
            raise ArgumentTypeError(
                f"SpectralNormalization takes a layer. Got {type(layer).__name__}: {layer!r}."
            )
        if power_iterations < 1:
            raise ArgumentError(
                f"power_iterations must be a positive integer. Got {power_iterations!r}."
            )
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = layer.dtype_policy
        super().__init__(**kwargs)
        self.layer, self.power_iterations = layer, power_iterations
        self.supports_masking = layer.supports_masking

    def build(self, input_shape: Any) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        kernel = self._kernel()
        start = initializers.get({"class_name": "TruncatedNormal", "config": {"stddev": 0.02}})
        self.vector_u = self.add_weight(
            (1, kernel.shape[-1]), start, kernel.dtype, False, False, name="vector_u"
        )

    def _gather(self, found: dict[int, Any], contents: list[Any]) -> None:
        if self.built:  # the kernel comes first, as in Keras
            kernel = self._kernel()
            found.setdefault(kernel.number, kernel)
        super()._gather(found, contents)

    def _kernel(self) -> Any:
        for name in ("kernel", "embeddings"):
            if hasattr(self.layer, name):
                return getattr(self.layer, name)
        raise ArgumentError(
            f"SpectralNormalization takes a layer with a kernel or with embeddings. "
            f"Got {self.layer!r}."
        )

    def call(self, inputs: Any, training: Any = None) -> Any:
        if training:
            self._divide_kernel()
        return self.layer(inputs)

    def _divide_kernel(self) -> None:
        kernel = self._kernel()
        u, matrix = self.vector_u.read_value(), reshape(kernel, (-1, kernel.shape[-1]))
        for _ in range(self.power_iterations):
            v = l2_normalize(matmul(u, matrix, transpose_b=True))
            u = l2_normalize(matmul(v, matrix))
        sigma = matmul(matmul(v, matrix), u, transpose_b=True)
        # A kernel of zeros has no singular direction: keep the kernel and vector_u.
        is_zero = reduce_all(equal(matrix, 0.0))
        vector = where(is_zero, self.vector_u.read_value(), u)
        divided = reshape(matrix / where(is_zero, 1.0, sigma), tuple(kernel.shape))
        assign_together((self.vector_u, kernel), (vector, divided))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return self.layer.compute_mask(inputs, previous_mask)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return self.layer.compute_output_shape(input_shape)


def _fraction(rate: Any, kind: str, is_one_allowed: bool = False) -> float:
    is_number = isinstance(rate, Real)
    if not is_number or not 0 <= rate <= 1 or (rate == 1 and not is_one_allowed):
        end = "up to" if is_one_allowed else "and below"
        raise ArgumentError(f"{kind} takes a rate of at least 0 {end} 1. Got {rate!r}.")
    return float(rate)


def _checked_noise_shape(noise_shape: Any) -> tuple[int | None, ...] | None:
    if noise_shape is None:
        return None
    is_list = isinstance(noise_shape, list | tuple)
    if not is_list or any(n is not None and (type(n) is not int or n < 1) for n in noise_shape):
        raise ArgumentError(
            "noise_shape takes positive sizes, or None for the size of the input. "
            f"Got {noise_shape!r}."
        )
    return tuple(noise_shape)


def _noise_shape(layer: Layer, noise_shape: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    wanted = sizes if noise_shape is None else noise_shape
    if len(wanted) != len(sizes) or any(m not in (None, 1, n) for m, n in zip(wanted, sizes)):
        raise ShapeError(
            f"{layer._title} has noise_shape {wanted}, which must broadcast to the input. Got an "
            f"input of shape {sizes}."
        )
    return tuple(n if m is None else m for m, n in zip(wanted, sizes))


def _dropped(x: Any, rate: float, noise_shape: Any, source: Generator) -> Any:
    return zeros_like(x) if rate == 1 else dropout(x, rate, noise_shape, rng=source)
