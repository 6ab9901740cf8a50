"""Fit a harmonic synthesizer to recorded sound by spectra at several resolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

FLOOR = 1e-4


def _frame_lengths(dims: Dims) -> list[int]:
    return [dims["longest"] >> k for k in range(dims["scales"])]


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    batch, points, harmonics = dims["batch"], dims["points"], dims["harmonics"]
    params = {
        "log_pitch": np.log(0.05) + 0.05 * rng.standard_normal((batch, points)),
        "log_loudness": -1 + 0.1 * rng.standard_normal((batch, points)),
        "timbre": rng.standard_normal((batch, points, harmonics)),
    }
    length = (points - 1) * dims["hop"]
    return params, {"recorded": 0.3 * rng.standard_normal((batch, length))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    hop, harmonics = dims["hop"], dims["harmonics"]

    def upsample(x: Any) -> Any:
        """Draw a line from each control point to the next."""
        weight = tf.range(hop, dtype=x.dtype) / hop
        weight = tf.reshape(weight, [hop] + [1] * (len(x.shape) - 2))
        lines = x[:, :-1, None] * (1.0 - weight) + x[:, 1:, None] * weight
        return tf.reshape(lines, [x.shape[0], -1, *x.shape[2:]])

    def synthesize(p: Arrays) -> Any:
        pitch = upsample(tf.exp(p["log_pitch"]))
        phase = tf.cumsum(pitch, axis=1)
        number = tf.range(1, harmonics + 1, dtype=pitch.dtype)
        amplitude = tf.exp(p["log_loudness"])[:, :, None] * tf.nn.softmax(p["timbre"])
        return tf.reduce_sum(upsample(amplitude) * tf.sin(phase[:, :, None] * number), axis=2)

    def magnitudes(signal: Any, length: int) -> Any:
        spectra = tf.signal.stft(signal, frame_length=length, frame_step=length // 4)
        return tf.sqrt(tf.math.real(spectra) ** 2 + tf.math.imag(spectra) ** 2 + FLOOR)

    def loss(p: Arrays, batch: Arrays) -> Any:
        sound = synthesize(p)
        total = 0.0
        for length in _frame_lengths(dims):
            ours, theirs = magnitudes(sound, length), magnitudes(batch["recorded"], length)
            total += tf.reduce_mean(tf.abs(ours - theirs))
            total += tf.reduce_mean(tf.abs(tf.math.log(ours) - tf.math.log(theirs)))
        return total

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    hop, harmonics = dims["hop"], dims["harmonics"]

    def upsample(x: Any) -> Any:
        weight = (jnp.arange(hop, dtype=x.dtype) / hop).reshape(hop, *[1] * (x.ndim - 2))
        lines = x[:, :-1, None] + (x[:, 1:, None] - x[:, :-1, None]) * weight
        return lines.reshape(x.shape[0], -1, *x.shape[2:])

    def magnitudes(signal: Any, length: int) -> Any:
        angle = 2 * jnp.pi / length * jnp.arange(length, dtype=signal.dtype)
        window = 0.5 - 0.5 * jnp.cos(angle)
        step = length // 4
        count = (signal.shape[-1] - length) // step + 1
        pieces = signal[..., : (count + 3) * step].reshape(*signal.shape[:-1], -1, step)
        frames = jnp.concatenate([pieces[..., i : i + count, :] for i in range(4)], axis=-1)
        spectra = jnp.fft.rfft(frames * window)
        return jnp.sqrt(spectra.real**2 + spectra.imag**2 + FLOOR)

    def loss(p: Arrays, batch: Arrays) -> Any:
        phase = jnp.cumsum(upsample(jnp.exp(p["log_pitch"])), axis=1)
        number = jnp.arange(1, harmonics + 1, dtype=phase.dtype)
        amplitude = jnp.exp(p["log_loudness"])[:, :, None] * jax.nn.softmax(p["timbre"])
        sound = jnp.sum(upsample(amplitude) * jnp.sin(phase[:, :, None] * number), axis=2)
        total = 0.0
        for length in _frame_lengths(dims):
            ours, theirs = magnitudes(sound, length), magnitudes(batch["recorded"], length)
            total += jnp.mean(jnp.abs(ours - theirs))
            total += jnp.mean(jnp.abs(jnp.log(ours) - jnp.log(theirs)))
        return total

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    hop, harmonics = dims["hop"], dims["harmonics"]

    def upsample(x: Any) -> Any:
        weight = torch.arange(hop, dtype=x.dtype, device=x.device) / hop
        weight = weight.view(hop, *[1] * (x.dim() - 2))
        return torch.lerp(x[:, :-1, None], x[:, 1:, None], weight).flatten(1, 2)

    def magnitudes(signal: Any, length: int) -> Any:
        window = torch.hann_window(length, dtype=signal.dtype, device=signal.device)
        spectra = torch.stft(
            signal, length, length // 4, window=window, center=False, return_complex=True
        )
        return torch.sqrt(spectra.real**2 + spectra.imag**2 + FLOOR)

    def loss(p: Arrays, batch: Arrays) -> Any:
        phase = torch.cumsum(upsample(torch.exp(p["log_pitch"])), 1)
        number = torch.arange(1, harmonics + 1, dtype=phase.dtype, device=phase.device)
        amplitude = torch.exp(p["log_loudness"])[:, :, None] * torch.softmax(p["timbre"], 2)
        sound = torch.sum(upsample(amplitude) * torch.sin(phase[:, :, None] * number), 2)
        total = 0.0
        for length in _frame_lengths(dims):
            ours, theirs = magnitudes(sound, length), magnitudes(batch["recorded"], length)
            total = total + functional.l1_loss(ours, theirs)
            total = total + functional.l1_loss(torch.log(ours), torch.log(theirs))
        return total

    return loss


def cost(dims: Dims) -> Cost:
    """All harmonics of a sample need not be stored; each scale transforms four times the sound."""
    samples = dims["batch"] * (dims["points"] - 1) * dims["hop"]
    transforms = sum(3 * 4 * 2.5 * np.log2(n) for n in _frame_lengths(dims)) * samples
    return Cost(
        bytes=samples * (8.0 + 3 * 4 * 8.0 * dims["scales"]),
        operations=transforms + 30.0 * samples * dims["harmonics"],
    )


PROGRAM = Program(
    summary="harmonic oscillators and a loss on spectra at several scales; gradient by controls",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "points": 6, "hop": 11, "harmonics": 3, "longest": 32, "scales": 2},
        "cpu": {
            "batch": 1,
            "points": 33,
            "hop": 128,
            "harmonics": 10,
            "longest": 1024,
            "scales": 4,
        },
        "cuda": {
            "batch": 8,
            "points": 251,
            "hop": 256,
            "harmonics": 60,
            "longest": 2048,
            "scales": 6,
        },
    },
    cost=cost,
)
