"""Samples of random functions with fixed seeds.

A random result has no reference. Forward samples check shapes and that equal seeds give equal
numbers, by subtracting two results; tests/api/test_random.py tests the moments. Derivatives with
respect to the parameters are taken for fixed random bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.ops.nn import dropout as drop
from tapegrad.ops.random import primitives as draws, stateless
from tapegrad.ops.random.generator import Generator
from tapegrad.testing.sample import Sample, ValueSample, integers, normal, uniform

_SEED = [3, 4]


def _drawn(name: str, draw: Any, *shape: int) -> Sample:
    return ValueSample(
        name,
        lambda seed: draw(seed) - draw(seed),
        [integers(0, 9, 2)],
        lambda seed: np.zeros(shape),
    )


def _of_shape(name: str, *shape: int, case: str = "", options: Sequence[Any] = ()) -> Sample:
    draw = getattr(stateless, name)
    return _drawn(f"{name}{case}", lambda seed: draw(shape, seed, *options), *shape)


def _standard(draw: Any, *shape: int) -> Any:
    return draw(shape, _SEED, dtype="float64").numpy()


def _typed(draw: Any, *shape: int) -> Any:
    """Draw in the dtype of the first parameter."""
    return lambda *parameters: draw(shape, _SEED, *parameters, dtype=parameters[0].dtype)


def _fresh() -> Generator:
    return Generator.from_seed(5)


def _mask(shape: Any, rate: float) -> Any:
    keep = draws.draw_mask(stateless.SeedPair(_SEED), shape, rate).numpy()
    return keep / (1 - rate)


SAMPLES = [
    _of_shape("stateless_normal", 2, 3),
    _of_shape("stateless_uniform", 5),
    _of_shape("stateless_uniform", 5, case="-int", options=(0, 9, "int32")),
    _of_shape("stateless_uniform", 5, case="-full", options=(None, None, "int64")),
    _of_shape("stateless_uniform", 0, 2, case="-empty"),
    _of_shape("stateless_truncated_normal", 5),
    _of_shape("stateless_poisson", 4, 2, options=([2.0, 30.0],)),
    _drawn(
        "stateless_categorical",
        lambda s: stateless.stateless_categorical([[0.0, 1.0, 2.0]], 4, s),
        1,
        4,
    ),
    _drawn("stateless_shuffle", lambda s: stateless.stateless_shuffle([1, 2, 3, 4], s), 4),
    _drawn("split_seed", lambda s: stateless.split(s, 3), 3, 2),
    _drawn("fold_in", lambda s: stateless.fold_in(s, 5), 2),
    Sample(
        "stateless_normal-parameters",
        _typed(stateless.stateless_normal, 4, 3),
        [normal(3), uniform(0.5, 2, 4, 1)],
        lambda m, s: m + s * _standard(stateless.stateless_normal, 4, 3),
    ),
    Sample(
        "stateless_truncated_normal-parameters",
        _typed(stateless.stateless_truncated_normal, 3),
        [normal(3), uniform(0.5, 2)],
        lambda m, s: m + s * _standard(stateless.stateless_truncated_normal, 3),
    ),
    Sample(
        "stateless_uniform-parameters",
        _typed(stateless.stateless_uniform, 4, 3),
        [normal(3), uniform(3, 4, 3)],
        lambda a, b: a + (b - a) * _standard(stateless.stateless_uniform, 4, 3),
    ),
    # No reference: rejection has no formula. The rule for alpha is implicit reparameterization; it
    # agrees with differences of the sampler at large alpha, where almost nothing is rejected.
    Sample(
        "stateless_gamma",
        _typed(stateless.stateless_gamma, 3),
        [uniform(20, 30, 3), uniform(1, 2, 3)],
        None,
        order=1,
        rtol=1e-3,
    ),
    # Generators draw all examples of a batch together, so there is no loop to compare with.
    Sample(
        "gamma",
        lambda a: draws.draw_gamma(_fresh(), (3,), a, None, a.dtype),
        [uniform(20, 30, 3)],
        None,
        order=1,
        rtol=1e-3,
        batches=False,
    ),
    ValueSample(
        "poisson",
        lambda a: draws.draw_poisson(_fresh(), (4, 3), a, "int32"),
        [uniform(0.3, 3, 3)],
        None,
        batches=False,
    ),
    ValueSample(
        "categorical",
        lambda a: draws.draw_categorical(_fresh(), a, 4, None),
        [normal(2, 3)],
        None,
        batches=False,
    ),
    Sample(
        "stateless_shuffle-rows",
        lambda x: stateless.stateless_shuffle(x, _SEED),
        [normal(4, 2)],
        lambda x: x[stateless.stateless_shuffle(np.arange(4), _SEED).numpy()],
    ),
    Sample(
        "stateless_dropout",
        lambda x: drop.stateless_dropout(x, 0.25, _SEED),
        [normal(4, 3)],
        lambda x: x * _mask((4, 3), 0.25),
    ),
    Sample(
        "stateless_dropout-noise-shape",
        lambda x: drop.stateless_dropout(x * x, 0.5, _SEED, noise_shape=[4, None, 1]),
        [normal(4, 3, 2)],
        lambda x: x * x * _mask((4, 3, 1), 0.5),
    ),
]
