"""Random numbers with the interface of Keras.

An integer `seed` gives the same numbers at every call. A `SeedGenerator` gives new numbers at every
call. None uses the global generator, which `keras.utils.set_random_seed` seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.core.argument_checks import check_elements
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.config import floatx
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.nn.dropout import apply_dropout
from tapegrad.ops.random import primitives as draws
from tapegrad.ops.random.generator import Generator, get_global_generator
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.functions import moveaxis


class SeedGenerator(Generator):
    """A stream of random numbers; layers with a SeedGenerator save its state.

    >>> seeds = SeedGenerator(1)
    >>> float(normal((), seed=seeds)) == float(normal((), seed=seeds))
    False
    """

    def __init__(self, seed: int | None = None, name: str | None = None, **kwargs: Any) -> None:
        if seed is None and not kwargs:
            kwargs = {"state": Generator.from_non_deterministic_state().state}
        super().__init__(**(kwargs or {"state": (seed, 0)}))
        self.name = name or "seed_generator"

    def next(self, ordered: bool = True) -> Any:
        """Return a new pair of integers."""
        return draws.draw_full_int(self, (2,), "uint32")


def source_of(seed: Any) -> Generator:
    """Return the generator for a seed: an integer, a generator, or None for the global one."""
    if seed is None:
        return get_global_generator()
    return seed if isinstance(seed, Generator) else Generator.from_seed(seed)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from normal distributions.

    >>> normal((2, 3), seed=1).shape
    (2, 3)
    """
    return draws.draw_normal(source_of(seed), shape, mean, stddev, dtype or floatx())


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from normal distributions truncated at two standard deviations.

    >>> bool(abs(truncated_normal((100,)).numpy()).max() <= 2)
    True
    """
    return draws.draw_truncated_normal(source_of(seed), shape, mean, stddev, dtype or floatx())


def uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw from [minval, maxval).

    >>> uniform((2,), seed=1).tolist() == uniform((2,), seed=1).tolist()
    True
    """
    return draws.draw_uniform(source_of(seed), shape, minval, maxval, dtype or floatx())


def randint(shape: Any, minval: int, maxval: int, dtype: Any = "int32", seed: Any = None) -> Any:
    """Draw integers from minval to maxval - 1.

    >>> randint((2,), 3, 4).tolist()
    [3, 3]
    """
    return draws.draw_integers(source_of(seed), shape, minval, maxval, dtype)


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> Any:
    """Draw class numbers with the probabilities softmax(logits).

    >>> categorical([[0.0, -float("inf")]], 3).tolist()
    [[0, 0, 0]]
    """
    return draws.draw_categorical(source_of(seed), logits, num_samples, dtype)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Draw from gamma distributions of rate 1; alpha broadcasts to the shape.

    >>> gamma((5, 2), [0.5, 1.5]).shape
    (5, 2)
    """
    return draws.draw_gamma(source_of(seed), draws.as_shape(shape), alpha, None, dtype or floatx())


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Draw from beta distributions; alpha and beta broadcast to the shape.

    >>> bool(0 < float(beta((), 2.0, 3.0)) < 1)
    True
    """
    source = source_of(seed)
    first, second = gamma(shape, alpha, dtype, source), gamma(shape, beta, dtype, source)
    return first / (first + second)


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    """Draw how many of `counts` trials succeed; counts and probabilities broadcast to the shape.

    >>> binomial((2,), 3.0, [0.0, 1.0]).tolist()
    [0.0, 3.0]
    """
    source = source_of(seed)
    draw = partial(draws.draw_uniform, source, minval=0.0, maxval=1.0, dtype="float32")
    return cast(successes(draw, draws.as_shape(shape), counts, probabilities), dtype or floatx())


def successes(
    draw: Callable[[Any], Any], shape: tuple[int, ...], counts: Any, probabilities: Any
) -> Any:
    """Return how many of `counts` numbers that `draw` draws are below the probabilities."""
    trials = in_dtype(as_operand(counts), "float32")
    most = max(0, int(np.max(read_on_host(trials, "binomial"), initial=0)))
    check_elements("binomial", (most, *shape))
    numbers = place_next_to(trials, np.arange(most).reshape(most, *[1] * len(shape)))
    below = draw((most, *shape)) < in_dtype(as_operand(probabilities), "float32")
    return reduce_sum(where(in_dtype(numbers, "float32") < trials, cast(below, "float32"), 0.0), 0)


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    """Shuffle the entries along an axis.

    >>> sorted(shuffle([3, 1, 2]).tolist())
    [1, 2, 3]
    """
    rows = moveaxis(as_operand(x), axis, 0)
    return moveaxis(draws.shuffled(source_of(seed), rows), 0, axis)


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Set elements to 0 with probability `rate`, and scale the others up to keep the mean.

    >>> set(dropout([1.0] * 100, 0.5, seed=1).tolist()) == {0.0, 2.0}
    True
    """
    return apply_dropout(as_operand(inputs), rate, noise_shape, source_of(seed))


__all__ = [
    "SeedGenerator",
    "beta",
    "binomial",
    "categorical",
    "dropout",
    "gamma",
    "normal",
    "randint",
    "shuffle",
    "truncated_normal",
    "uniform",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.random", name, __all__)
