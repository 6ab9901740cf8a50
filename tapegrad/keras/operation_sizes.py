"""Estimate what a function of keras.ops costs, for functions that a file names with its arguments.

The shapes of a functional model are inferred by calling its functions on zeros. While a file is
loaded, the cost of each call is compared with a limit before it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.files.limits import active_limits, count
from tapegrad.core.values import nest

Shape = tuple[int, ...]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions whose numbers are sizes: the result has at most the product of all of them.
_SIZED = _names("""
    arange bartlett bincount blackman broadcast_to conv_transpose depth_to_space empty eye full
    geomspace hamming hanning histogram identity irfft kaiser linspace logspace multi_hot one_hot
    ones pad repeat rfft scatter segment_max segment_min segment_prod segment_sum tile tri vander
    zeros
""")
# The cost is the product of the sizes of the arrays.
_PRODUCTS = _names("kron meshgrid outer")
_SQUARES = _names("corrcoef diag diagflat vander")
_CONVOLUTIONS = _names("conv conv_transpose correlate depthwise_conv separable_conv")
_CONTRACTIONS = _names("dot inner tensordot vdot")
_MATRICES = _names("""
    cholesky cholesky_inverse det eig eigh inv lstsq matrix_power matrix_rank norm pinv qr slogdet
    solve solve_triangular svd
""")
_IMAGES = _names("extract_patches gaussian_blur pad_images resize")
_REPEATED = ("array_split", "diff")
_CHEAP = 256
"""The number of multiplications and additions that count as one element."""


def check_call(function: Callable[..., Any], args: Any, options: Any) -> None:
    """Raise an error if a file is being loaded and this call would cost too much."""
    limits = active_limits()
    if limits is None:
        return
    name = getattr(function, "__name__", "a function")
    leaves = nest.flatten((args, options))
    shapes = [_known(leaf.shape) for leaf in leaves if hasattr(leaf, "shape")]
    numbers = [n for n in leaves if isinstance(n, int | float) and not isinstance(n, bool)]
    if name in _REPEATED and len(numbers) < 3:  # and not a list of positions
        limits.spend_rounds(int(max([abs(n) for n in numbers if math.isfinite(n)], default=0)))
    limits.check_array((estimate(name, shapes, numbers, leaves),), f"a result of {name}")


def _known(shape: Sequence[int | None]) -> Shape:
    return tuple(3 if n is None else n for n in shape)


def estimate(
    name: str, shapes: Sequence[Shape], numbers: Sequence[float], leaves: Sequence[Any] = ()
) -> int:
    """Return an upper bound of the elements of a result, or of their cost.

    >>> estimate("add", [(3, 1), (1, 4)], [])
    12
    >>> estimate("tile", [(3,)], [1000, 1000])
    3000000
    """
    sizes = [count(shape) for shape in shapes]
    bound = max(_broadcast(shapes, sizes), *_special(name, shapes, sizes, leaves))
    if name in _SIZED:
        for n in numbers:
            if math.isfinite(n) and n:
                bound = math.ceil(bound * max(abs(n), 1 / abs(n), 1))
    return bound


def _broadcast(shapes: Sequence[Shape], sizes: Sequence[int]) -> int:
    """The size of the arrays together, or of their broadcast shape if that is larger."""
    try:
        together = count(np.broadcast_shapes(*shapes))
    except ValueError:
        together = 1
    return max(together, sum(sizes), 1)


def _special(
    name: str, shapes: Sequence[Shape], sizes: Sequence[int], leaves: Sequence[Any]
) -> list[int]:
    product = math.prod(sizes)
    if name in _PRODUCTS:
        return [product]
    if name in _SQUARES:
        return [sizes[0] ** 2] if sizes else [1]
    if name in _CONVOLUTIONS:
        return [product // _CHEAP]
    if name == "matmul" and len(shapes) == 2 and all(shapes):
        return [_matmul(*shapes)]
    if name in _CONTRACTIONS and shapes and shapes[0] and 0 not in leaves:
        return [product // max(1, shapes[0][-1] ** 2)]
    if name in _CONTRACTIONS:
        return [product]
    if name == "einsum":
        return [_einsum(leaves, shapes)]
    if name == "dot_product_attention" and len(shapes) > 1:
        return [sizes[0] // max(1, shapes[0][-1]) * shapes[1][1]]
    if name in _IMAGES and shapes and len(shapes[0]) > 2:
        return [_image(name, shapes[0], leaves)]
    if name in _MATRICES:
        return [math.isqrt(size) * size // _CHEAP for size in sizes] or [1]
    return [1]


def _matmul(one: Shape, other: Shape) -> int:
    rows, inner = one[-2] if len(one) > 1 else 1, one[-1]
    columns = other[-1] if len(other) > 1 else 1
    batches = max(count(one[:-2]), count(other[:-2]))
    return max(batches * rows * columns, batches * rows * columns * inner // _CHEAP)


def _image(name: str, shape: Shape, leaves: Sequence[Any]) -> int:
    """The elements of the largest array that a function of keras.ops.image makes."""
    is_first = any(isinstance(leaf, str) and leaf == "channels_first" for leaf in leaves)
    height, width = shape[-2:] if is_first else shape[-3:-1]
    planes = count(shape) // max(1, height * width)
    numbers = sorted(abs(n) for n in leaves if isinstance(n, int)) or [1]
    largest = numbers[-1]
    if name == "gaussian_blur":
        return max(planes * largest, count(shape) * largest // _CHEAP)
    if name == "resize":  # images may be padded to another ratio first
        padded = max(height, width) ** 2 * largest if any(n is True for n in leaves) else 1
        return planes * max(max(largest, height) * max(largest, width), padded)
    more = sum(numbers) if name == "pad_images" else math.prod(numbers[-2:])
    patches = count(shape) * largest**2 if name == "extract_patches" else 1
    return max(planes * (height + more) * (width + more), patches)


def _einsum(leaves: Sequence[Any], shapes: Sequence[Shape]) -> int:
    text = next((leaf for leaf in leaves if isinstance(leaf, str)), "")
    terms = text.replace(" ", "").replace("...", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    rest = 1
    for term, shape in zip(terms, shapes):
        sizes |= dict(zip(reversed(term), reversed(shape)))
        rest = max(rest, count(shape[: len(shape) - len(term)]) if len(shape) > len(term) else 1)
    return rest * math.prod(sizes.values()) // _CHEAP
