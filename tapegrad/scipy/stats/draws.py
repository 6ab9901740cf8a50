"""Random sources for `random_state`, and draws that several families use.

A draw is a function of a source, a shape and a dtype. It is differentiable in its parameters where
it can be written as a smooth function of them and of parameter-free noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.random import primitives as random_draws
from tapegrad.ops.random.generator import Generator, get_global_generator
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.vocabulary import maximum

_WORD = 1 << 64


class Seeded:
    """The random stream of an integer seed, which always starts with the same numbers."""

    spreads = False

    def __init__(self, seed: int) -> None:
        self.seed = seed % _WORD
        self.count = 0

    def take(self) -> Any:
        """Return the state of the next draw."""
        state = np.array([self.seed, self.count], np.uint64)
        self.count += 1
        return as_operand(state)


def source_of(random_state: Any) -> Source:
    """Return the source for SciPy's `random_state`: None, an int, or a Generator.

    An int gives the same numbers in every call; None uses the global generator.

    >>> source_of(3).take().tolist()
    [3, 0]
    """
    if random_state is None:
        return get_global_generator()
    if isinstance(random_state, Generator):
        return random_state
    if isinstance(random_state, int | np.integer):
        return Seeded(int(random_state))
    raise ArgumentError(
        "random_state must be None, an integer or a tapegrad.random.Generator. "
        f"Got {type(random_state).__name__}."
    )


def full_shape(size: Any, *parameters: Any, name: str) -> Shape:
    """Return the shape of a sample: `size`, or the common shape of the parameters.

    >>> full_shape((4, 2), as_operand([1.0, 2.0]), name="norm")
    (4, 2)
    """
    common = np.broadcast_shapes(*(p.shape for p in parameters))
    if size is None:
        return common
    wanted = random_draws.as_shape(size)
    try:
        fits = np.broadcast_shapes(common, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"The parameters of {name}.rvs must broadcast to size. "
            f"Got parameters of shape {common} and size {wanted}."
        )
    return wanted


def uniform(source: Source, shape: Shape, dtype: Any) -> Any:
    """Draw from the open interval (0, 1), so that logarithms stay finite.

    >>> uniform(source_of(1), (3,), np.dtype("float64")).shape
    (3,)
    """
    y = random_draws.draw_uniform(source, shape, 0.0, 1.0, dtype)
    return maximum(y, float(np.finfo(dtype).tiny))


def normal(source: Source, shape: Shape, dtype: Any) -> Any:
    """Draw from the standard normal distribution.

    >>> normal(source_of(1), (3,), np.dtype("float64")).shape
    (3,)
    """
    return random_draws.draw_normal(source, shape, 0.0, 1.0, dtype)


def gamma(source: Source, shape: Shape, dtype: Any, a: Any) -> Any:
    """Draw from gamma distributions of scale 1, differentiable in `a`.

    >>> gamma(source_of(1), (3,), np.dtype("float64"), 2.0).shape
    (3,)
    """
    return random_draws.draw_gamma(source, shape, a, None, dtype)


def beta(source: Source, shape: Shape, dtype: Any, a: Any, b: Any) -> Any:
    """Draw from beta distributions as a ratio of gamma draws, differentiable in `a` and `b`.

    >>> beta(source_of(1), (3,), np.dtype("float64"), 2.0, 1.0).shape
    (3,)
    """
    first = gamma(source, shape, dtype, a)
    return first / (first + gamma(source, shape, dtype, b))
