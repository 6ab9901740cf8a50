"""Random numbers from Keras' seeds, as functions of the seed, so that recorded steps draw anew."""

from __future__ import annotations

from typing import Any

from keras.src.backend.config import floatx
from keras.src.random.seed_generator import SeedGenerator, draw_seed, make_default_seed

import tapegrad as tg
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad import random as draws
from tapegrad.keras.random import successes

__all__ = [
    "SeedGenerator",
    "beta",
    "binomial",
    "categorical",
    "draw_seed",
    "dropout",
    "gamma",
    "make_default_seed",
    "normal",
    "randint",
    "shuffle",
    "truncated_normal",
    "uniform",
]
_WIDE = ["float32", "float64"]


def _seed(seed: Any) -> Any:
    return tg.cast(convert_to_tensor(draw_seed(seed)), "int64")


def _drawn(kind: str, shape: Any, seed: Any, dtype: Any, **params: Any) -> Any:
    dtype = dtype or floatx()
    wide = dtype if dtype in _WIDE else "float32"
    draw = getattr(draws, f"stateless_{kind}")
    return tg.cast(draw(tuple(shape), _seed(seed), dtype=wide, **params), dtype)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from normal distributions."""
    return _drawn("normal", shape, seed, dtype, mean=mean, stddev=stddev)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from normal distributions truncated at two standard deviations."""
    return _drawn("truncated_normal", shape, seed, dtype, mean=mean, stddev=stddev)


def uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from [minval, maxval)."""
    return _drawn("uniform", shape, seed, dtype, minval=minval, maxval=maxval)


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    """Draw integers from minval to maxval - 1."""
    wide = dtype if dtype in ("int32", "int64") else "int32"
    drawn = draws.stateless_uniform(tuple(shape), _seed(seed), minval, maxval, dtype=wide)
    return tg.cast(drawn, dtype)


def categorical(logits: Any, num_samples: int, dtype: Any = "int64", seed: Any = None) -> Any:
    """Draw class numbers with the probabilities softmax(logits)."""
    drawn = draws.stateless_categorical(convert_to_tensor(logits), num_samples, _seed(seed))
    return tg.cast(drawn, dtype)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Draw from gamma distributions of rate 1."""
    dtype = dtype or floatx()
    wide = dtype if dtype in _WIDE else "float32"
    drawn = draws.stateless_gamma(
        tuple(shape), _seed(seed), convert_to_tensor(alpha, wide), dtype=wide
    )
    return tg.cast(drawn, dtype)


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Draw from beta distributions, as ratios of gamma variables."""
    first, second = draws.split(_seed(seed))
    dtype = dtype or floatx()
    wide = dtype if dtype in _WIDE else "float32"
    one, two = (
        draws.stateless_gamma(tuple(shape), key, convert_to_tensor(rate, wide), dtype=wide)
        for key, rate in ((first, alpha), (second, beta))
    )
    return tg.cast(one / (one + two), dtype)


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw the number of successes of `counts` trials, by counting uniform numbers."""
    key = _seed(seed)
    found = successes(
        lambda size: draws.stateless_uniform(size, key),
        tuple(shape),
        convert_to_tensor(counts),
        convert_to_tensor(probabilities),
    )
    return tg.cast(found, dtype or floatx())


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    """Shuffle the entries along an axis."""
    rows = tg.numpy.moveaxis(convert_to_tensor(x), axis, 0)
    return tg.numpy.moveaxis(draws.stateless_shuffle(rows, _seed(seed)), 0, axis)


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Set elements to 0 with probability `rate`, and scale the others up to keep the mean."""
    x = convert_to_tensor(inputs)
    if rate == 0.0:
        return x
    if rate >= 1.0:
        return tg.zeros_like(x)
    sizes = None
    if noise_shape is not None:
        sizes = [x.shape[axis] if n is None else n for axis, n in enumerate(noise_shape)]
    return tg.nn.stateless_dropout(x, rate, _seed(seed), noise_shape=sizes)
