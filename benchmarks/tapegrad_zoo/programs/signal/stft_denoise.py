"""Remove noise from sound: a network masks overlapping short spectra, which are added again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

OVERLAP = 4


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    bins, hidden = dims["frame"] // 2 + 1, dims["hidden"]
    params = {
        "w1": rng.standard_normal((3 * bins, hidden)) * (3 * bins) ** -0.5,
        "b1": np.zeros(hidden),
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": np.zeros(hidden),
        "w3": rng.standard_normal((hidden, bins)) * hidden**-0.5,
        "b3": np.zeros(bins),
    }
    length = dims["frame"] // OVERLAP * (dims["frames"] + OVERLAP - 1)
    times = np.arange(length)
    pitch = rng.uniform(0.05, 0.5, (dims["batch"], 1))
    clean = np.sin(pitch * times) + 0.5 * np.sin(2 * pitch * times)
    noisy = clean + 0.5 * rng.standard_normal(clean.shape)
    return params, {"noisy": noisy, "clean": clean}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    frame, hop = dims["frame"], dims["frame"] // OVERLAP

    def mask(p: Arrays, spectra: Any) -> Any:
        """See each frame with its neighbours and decide how much of each bin to keep."""
        power = tf.square(tf.math.real(spectra)) + tf.square(tf.math.imag(spectra))
        loudness = tf.math.log(power + 1e-3)
        padded = tf.pad(loudness, [[0, 0], [1, 1], [0, 0]])
        h = tf.concat([padded[:, :-2], loudness, padded[:, 2:]], axis=-1)
        h = tf.nn.relu(h @ p["w1"] + p["b1"])
        h = tf.nn.relu(h @ p["w2"] + p["b2"])
        return tf.sigmoid(h @ p["w3"] + p["b3"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        noisy = batch["noisy"]
        window = tf.signal.hann_window(frame, dtype=noisy.dtype)
        spectra = tf.signal.rfft(tf.signal.frame(noisy, frame, hop) * window)
        keep = mask(p, spectra)
        masked = spectra * tf.complex(keep, tf.zeros_like(keep))
        frames = tf.signal.irfft(masked, fft_length=[frame]) * window
        # Four overlapping squares of Hann's window add up to 1.5.
        cleaned = tf.signal.overlap_and_add(frames, hop) / 1.5
        inside = slice(frame, -frame)
        return tf.reduce_mean(tf.square(cleaned[:, inside] - batch["clean"][:, inside]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    frame, hop, frames = dims["frame"], dims["frame"] // OVERLAP, dims["frames"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        noisy = batch["noisy"]
        window = 0.5 - 0.5 * jnp.cos(2 * jnp.pi / frame * jnp.arange(frame, dtype=noisy.dtype))
        pieces = noisy.reshape(noisy.shape[0], -1, hop)
        parts = [pieces[:, i : i + frames] for i in range(OVERLAP)]
        spectra = jnp.fft.rfft(jnp.concatenate(parts, axis=-1) * window)
        loudness = jnp.log(spectra.real**2 + spectra.imag**2 + 1e-3)
        padded = jnp.pad(loudness, ((0, 0), (1, 1), (0, 0)))
        h = jnp.concatenate([padded[:, :-2], loudness, padded[:, 2:]], axis=-1)
        h = jax.nn.relu(h @ p["w1"] + p["b1"])
        h = jax.nn.relu(h @ p["w2"] + p["b2"])
        masked = spectra * jax.nn.sigmoid(h @ p["w3"] + p["b3"])
        back = (jnp.fft.irfft(masked, frame) * window).reshape(*masked.shape[:2], OVERLAP, hop)
        shifts = (((0, 0), (i, OVERLAP - 1 - i), (0, 0)) for i in range(OVERLAP))
        added = sum(jnp.pad(back[:, :, i], shift) for i, shift in enumerate(shifts))
        cleaned = added.reshape(noisy.shape) / 1.5
        error = cleaned[:, frame:-frame] - batch["clean"][:, frame:-frame]
        return jnp.mean(error**2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    frame, hop = dims["frame"], dims["frame"] // OVERLAP

    def loss(p: Arrays, batch: Arrays) -> Any:
        noisy = batch["noisy"]
        window = torch.hann_window(frame, dtype=noisy.dtype, device=noisy.device)
        spectra = torch.fft.rfft(noisy.unfold(1, frame, hop) * window)
        loudness = torch.log(spectra.real**2 + spectra.imag**2 + 1e-3)
        padded = functional.pad(loudness, (0, 0, 1, 1))
        h = torch.cat([padded[:, :-2], loudness, padded[:, 2:]], -1)
        h = torch.relu(functional.linear(h, p["w1"].T, p["b1"]))
        h = torch.relu(functional.linear(h, p["w2"].T, p["b2"]))
        masked = spectra * torch.sigmoid(functional.linear(h, p["w3"].T, p["b3"]))
        frames = torch.fft.irfft(masked, frame) * window
        size = 1, noisy.shape[1]
        added = functional.fold(frames.mT, size, kernel_size=(1, frame), stride=(1, hop))
        cleaned = added[:, 0, 0] / 1.5
        return functional.mse_loss(cleaned[:, frame:-frame], batch["clean"][:, frame:-frame])

    return loss


def cost(dims: Dims) -> Cost:
    """Two transforms forth and back, and the products of the network, once forth and twice back."""
    bins, hidden = dims["frame"] // 2 + 1, dims["hidden"]
    rows = dims["batch"] * dims["frames"]
    weights = 4 * bins * hidden + hidden**2
    transforms = 4 * 2.5 * rows * dims["frame"] * np.log2(dims["frame"])
    return Cost(
        bytes=28.0 * weights + 24.0 * rows * dims["frame"],
        operations=6.0 * rows * weights + transforms,
    )


PROGRAM = Program(
    summary="a trained mask on overlapping spectra of sound, added again to a signal, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "frame": 12, "frames": 9, "hidden": 5},
        "cpu": {"batch": 4, "frame": 256, "frames": 61, "hidden": 64},
        "cuda": {"batch": 32, "frame": 1024, "frames": 253, "hidden": 512},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
