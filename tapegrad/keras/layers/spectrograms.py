"""Layers that turn signals into spectrograms."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.keras.config import epsilon
from tapegrad.keras.initializers.transforms import STFT
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.spatial_arguments import (
    Shape,
    channels_axis,
    channels_format,
    check_rank,
    padding_kind,
    positive,
    windows_along,
)
from tapegrad.keras.ops.frames import stft
from tapegrad.keras.ops.neural import conv
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.exponential import log, log10
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.powers import power as raised, sqrt, square
from tapegrad.ops.elementwise.selection import maximum
from tapegrad.ops.elementwise.trigonometric import atan2
from tapegrad.ops.fourier.tapers import linear_to_mel_weight_matrix
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.functions import reduce_max
from tapegrad.ops.shape.functions import moveaxis, reshape, swapaxes
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.padding import pad

_MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")


class STFTSpectrogram(Layer):
    """Apply a short-time Fourier transform to signals `[batch, steps, channels]`.

    The transform is a convolution, whose kernels can be trained. `mode` says what is returned of
    the transform: the logarithm of its magnitude ("log"), "magnitude", the power spectral density
    ("psd"), its "real" or "imag" part, its "angle", or both parts ("stft"). With `expand_dims` the
    frequencies are a separate axis, so that spectrograms are images.

    >>> import tapegrad
    >>> layer = STFTSpectrogram(frame_length=8, frame_step=4)
    >>> layer(tapegrad.ones([2, 32, 1])).shape
    (2, 7, 5)
    """

    def __init__(
        self,
        mode: str = "log",
        frame_length: int = 256,
        frame_step: int | None = None,
        fft_length: int | None = None,
        window: Any = "hann",
        periodic: bool = False,
        scaling: str | None = "density",
        padding: str = "valid",
        expand_dims: bool = False,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("mode", mode, _MODES)
        self.mode = mode
        self.frame_length = positive(self, frame_length, "frame_length")
        step = max(frame_length // 2, 1) if frame_step is None else frame_step
        self._step = positive(self, step, "frame_step")
        if self._step > frame_length:
            raise ArgumentError(
                f"STFTSpectrogram takes a frame_step of at most the frame_length, {frame_length}. "
                f"Got {frame_step}."
            )
        length = 1 << (frame_length - 1).bit_length() if fft_length is None else fft_length
        self._length = positive(self, length, "fft_length")
        if self._length < frame_length:
            raise ArgumentError(
                f"STFTSpectrogram takes an fft_length of at least the frame_length, "
                f"{frame_length}. Got {fft_length}."
            )
        self.frame_step = frame_step
        self.fft_length = fft_length
        self.window = window
        self.periodic = periodic
        self.scaling = scaling
        self.padding = padding_kind(self, padding)
        self.expand_dims = expand_dims
        self.data_format = channels_format(self, data_format)
        self._kernels = {
            side: STFT(side, window, scaling, periodic)
            for side in ("real", "imag")
            if mode != {"real": "imag", "imag": "real"}[side]
        }

    def build(self, input_shape: Any) -> None:
        shape = (self.frame_length, 1, self._length // 2 + 1)
        for side, initializer in self._kernels.items():
            kernel = self.add_weight(shape, initializer, name=f"{side}_kernel")
            setattr(self, f"{side}_kernel", kernel)

    def call(self, inputs: Any) -> Any:
        check_rank(self, inputs.shape, 1, self.data_format)
        if inputs.dtype.name not in ("float16", "float32", "float64"):
            raise DTypeError(
                "STFTSpectrogram takes signals of float16, float32 or float64. "
                f"Got {inputs.dtype.name}."
            )
        parts = {side: self._transformed(inputs, side) for side in self._kernels}
        return self._arranged(self._value(parts))

    def _transformed(self, inputs: Any, side: str) -> Any:
        """Return one part of the transform as [batch, channels, steps, frequencies]."""
        signals = inputs if self.data_format == "channels_first" else moveaxis(inputs, -1, 1)
        batch, channels, steps = signals.shape
        kernel = cast(getattr(self, f"{side}_kernel"), inputs.dtype)
        rows = reshape(signals, (batch * channels, steps, 1))
        y = conv(rows, kernel, self._step, self.padding, "channels_last")
        return reshape(y, (batch, channels, *y.shape[1:]))

    def _value(self, parts: dict[str, Any]) -> Any:
        if self.mode in parts:
            return parts[self.mode]
        real, imag = parts["real"], parts["imag"]
        if self.mode == "angle":
            return atan2(imag, real)
        if self.mode == "stft":
            return concat([real, imag], -1)
        power = square(real) + square(imag)
        if self.mode == "psd":  # frequencies other than the first and last occur twice
            return power + pad(power[..., 1:-1], [(0, 0), (0, 0), (0, 0), (1, 1)])
        size = sqrt(maximum(power, epsilon()))
        return size if self.mode == "magnitude" else log(maximum(size, epsilon()))

    def _arranged(self, y: Any) -> Any:
        """Return [batch, channels, steps, frequencies] in the layout of this layer."""
        is_first = self.data_format == "channels_first"
        if self.expand_dims:
            return y if is_first else moveaxis(y, 1, -1)
        batch, channels, steps, bins = y.shape
        if is_first:
            return reshape(swapaxes(y, -1, -2), (batch, channels * bins, steps))
        return reshape(swapaxes(y, 1, 2), (batch, steps, channels * bins))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        check_rank(self, input_shape, 1, self.data_format)
        is_first = self.data_format == "channels_first"
        channels = input_shape[channels_axis(self.data_format, 1)]
        size = input_shape[2 if is_first else 1]
        steps = windows_along(self, size, self.frame_length, self._step, self.padding)
        bins = (self._length // 2 + 1) * (2 if self.mode == "stft" else 1)
        rest: Shape
        if self.expand_dims:
            rest = (channels, steps, bins) if is_first else (steps, bins, channels)
        else:
            joined = None if channels is None else channels * bins
            rest = (joined, steps) if is_first else (steps, joined)
        return (input_shape[0], *rest)


class MelSpectrogram(Layer):
    """Turn signals `[..., samples]` into mel spectrograms `[..., mel bins, frames]`, in decibels.

    >>> import tapegrad
    >>> MelSpectrogram(64, 16, num_mel_bins=8)(tapegrad.ones([2, 128])).shape
    (2, 8, 9)
    """

    def __init__(
        self,
        fft_length: int = 2048,
        sequence_stride: int = 512,
        sequence_length: int | None = None,
        window: Any = "hann",
        sampling_rate: int = 16000,
        num_mel_bins: int = 128,
        min_freq: float = 20.0,
        max_freq: float | None = None,
        power_to_db: bool = True,
        top_db: float = 80.0,
        mag_exp: float = 2.0,
        min_power: float = 1e-10,
        ref_power: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fft_length = positive(self, fft_length, "fft_length")
        self.sequence_stride = positive(self, sequence_stride, "sequence_stride")
        self.sequence_length = sequence_length or fft_length
        positive(self, self.sequence_length, "sequence_length")
        if fft_length < self.sequence_length:
            raise ArgumentError(
                "MelSpectrogram takes a sequence_length of at most the fft_length, "
                f"{fft_length}. Got {sequence_length}."
            )
        self.window = window
        self.sampling_rate = sampling_rate
        self.num_mel_bins = positive(self, num_mel_bins, "num_mel_bins")
        self.min_freq = min_freq
        self.max_freq = max_freq or int(sampling_rate / 2)
        self.power_to_db = power_to_db
        self.top_db = top_db
        self.mag_exp = mag_exp
        self.min_power = min_power
        self.ref_power = ref_power

    def call(self, inputs: Any) -> Any:
        self.compute_output_shape(inputs.shape)  # raises errors that name this layer
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        lengths = (self.sequence_length, self.sequence_stride, self.fft_length)
        real, imag = stft(cast(inputs, wide), *lengths, self.window)
        power = raised(sqrt(square(real) + square(imag)), self.mag_exp)
        edges = (self.sampling_rate, self.min_freq, self.max_freq)
        bank = linear_to_mel_weight_matrix(self.num_mel_bins, power.shape[-1], *edges, wide)
        y = matmul(power, bank)
        if self.power_to_db:
            y = self._decibels(y)
        return cast(swapaxes(y, -1, -2), self.compute_dtype)

    def _decibels(self, power: Any) -> Any:
        reference = maximum(magnitude(cast(self.ref_power, power.dtype)), self.min_power)
        y = 10.0 * (log10(maximum(power, self.min_power)) - log10(reference))
        return maximum(y, reduce_max(y) - self.top_db)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        if len(input_shape) not in (1, 2):
            raise ShapeError(
                f"{self._title} takes a signal, or a batch of them. Got shape {tuple(input_shape)}."
            )
        *batch, samples = input_shape
        padded = None if samples is None else samples + 2 * (self.fft_length // 2)
        frames = None if padded is None else (padded - self.fft_length) // self.sequence_stride + 1
        return (*batch, self.num_mel_bins, frames)
