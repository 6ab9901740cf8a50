"""Initializers that draw from normal and uniform distributions, and orthogonal matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ShapeError
from tapegrad.keras.initializers.base import DEFAULT_DTYPE, RandomInitializer
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import as_shape
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.linalg.decompositions import qr
from tapegrad.ops.random.primitives import draw_normal, draw_truncated_normal, draw_uniform
from tapegrad.ops.shape.diagonal import matrix_diag_part
from tapegrad.ops.shape.functions import matrix_transpose, reshape


class _Normal(RandomInitializer):
    """Base class of initializers with a mean and a standard deviation."""

    _draw: Callable[..., Any]

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        kind = DEFAULT_DTYPE if dtype is None else dtype
        return self._draw(self._source(), shape, self.mean, self.stddev, kind)


class RandomNormal(_Normal):
    """Draw from a normal distribution.

    >>> RandomNormal(stddev=1.0, seed=1)((2, 3)).shape
    (2, 3)
    """

    _draw = staticmethod(draw_normal)


class TruncatedNormal(_Normal):
    """Draw from a normal distribution truncated at two standard deviations.

    >>> bool(abs(TruncatedNormal(stddev=1.0)((100,)).numpy()).max() <= 2)
    True
    """

    _draw = staticmethod(draw_truncated_normal)


class RandomUniform(RandomInitializer):
    """Draw from the interval [minval, maxval); an integer dtype gives integers.

    >>> RandomUniform(0, 10, seed=1)((2,), dtype="int32").dtype
    <dtype: 'int32'>
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: Any = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        kind = DEFAULT_DTYPE if dtype is None else dtype
        return draw_uniform(self._source(), shape, self.minval, self.maxval, kind)


class Orthogonal(RandomInitializer):
    """Draw a random matrix with orthonormal columns, or rows if they are fewer, times `gain`.

    With more than two axes, all but the last are merged into the rows.

    >>> q = Orthogonal(seed=1)((3, 2))
    >>> (matrix_transpose(q) @ q).round(5).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        sizes = as_shape(shape)
        if len(sizes) < 2:
            raise ShapeError(f"Orthogonal takes a shape of at least two sizes. Got {sizes}.")
        kind = as_dtype(DEFAULT_DTYPE if dtype is None else dtype)
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        # Use float32 for half precision, which no library decomposes.
        work = "float32" if kind.is_floating and kind.itemsize < 4 else kind
        tall = (max(rows, columns), min(rows, columns))
        q, r = qr(draw_normal(self._source(), tall, 0.0, 1.0, work))
        # The signs of a QR decomposition depend on the library. With the signs of r moved into q,
        # the distribution over orthogonal matrices is uniform.
        q = where(matrix_diag_part(r) < 0, -q, q)
        q = matrix_transpose(q) if rows < columns else q
        q = reshape(q if self.gain == 1 else q * self.gain, sizes)
        return in_dtype(q, kind)
