"""Base classes of initializers."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any, Self

from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.configured import Configured
from tapegrad.ops.random.generator import get_global_generator
from tapegrad.ops.random.primitives import Source
from tapegrad.ops.random.stateless import SeedPair

DEFAULT_DTYPE = "float32"

# The second word of a seed pair. The global generator counts up from 0 and never reaches it, so
# the same seed in `set_seed` and in an initializer gives unrelated numbers.
_PLACE = 1 << 63


class Initializer(Configured, ABC):
    """Base class of initializers: callables that return a tensor of a shape and a dtype.

    >>> class Sevens(Initializer):
    ...     def __call__(self, shape, dtype=None):
    ...         return Constant(7)(shape, dtype)
    >>> from tapegrad.keras.initializers import Constant
    >>> Sevens()((2,)).tolist()
    [7.0, 7.0]
    """

    def __init__(self) -> None:
        # Without this, Python would accept arguments for subclasses that take none.
        super().__init__()

    @abstractmethod
    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        """Return a tensor of this shape; the default dtype is float32."""

    def clone(self) -> Self:
        """Return a new initializer with the same configuration."""
        return type(self).from_config(self.get_config())


class RandomInitializer(Initializer):
    """Base class of initializers that draw random numbers.

    With an integer `seed`, every call gives the same numbers for the same shape. Without a seed,
    calls draw from the global generator, which `tapegrad.random.set_seed` seeds.

    >>> from tapegrad.keras.initializers import RandomNormal
    >>> issubclass(RandomNormal, RandomInitializer)
    True
    """

    def __init__(self, seed: Any = None) -> None:
        super().__init__()
        if seed is not None:
            try:
                seed = operator.index(seed)
            except TypeError:
                raise ArgumentTypeError(
                    f"The seed of an initializer must be an integer or None. Got {seed!r}."
                ) from None
        self.seed = seed

    def _source(self) -> Source:
        if self.seed is None:
            return get_global_generator()
        return SeedPair([self.seed, _PLACE])
