"""NumPy's `convolve` and `correlate` of one-dimensional sequences."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.fourier.frames import cut_frames
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.shape.primitives import broadcast_p

BLOCK = 1 << 24
"""The most products, of all sequences, that are stored before they are added."""

DIRECT = 1 << 30
"""The most products of a pair that are computed one by one. More of them need transforms."""


def _sliding_dot(xp: Any, x: Any, w: Any) -> Any:
    """Return the sums of x[..., n + k] w[..., k] over k, for all n where the two overlap."""
    m = w.shape[-1]
    count = x.shape[-1] - m + 1
    if count * m > DIRECT and xp.isdtype(x.dtype, ("real floating", "complex floating")):
        return _by_transforms(xp, x, w)
    size = max(1, BLOCK // (m * max(1, prod(x.shape[:-1]))))
    parts = [
        xp.matmul(
            cut_frames(xp, x[..., start : min(start + size, count) + m - 1], length=m, step=1),
            w[..., None],
        )[..., 0]
        for start in range(0, count, size)
    ]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)


def _by_transforms(xp: Any, x: Any, w: Any) -> Any:
    """Compute the same in double precision, because transforms spread errors over all results."""
    m, count = w.shape[-1], x.shape[-1] - w.shape[-1] + 1
    is_real = xp.isdtype(x.dtype, "real floating")
    wide = xp.float64 if is_real else xp.complex128
    transform, inverse = (xp.fft.rfft, xp.fft.irfft) if is_real else (xp.fft.fft, xp.fft.ifft)
    size = 1 << (x.shape[-1] - 1).bit_length()
    flipped = transform(xp.astype(xp.flip(w, axis=-1), wide), n=size)
    whole = inverse(transform(xp.astype(x, wide), n=size) * flipped, n=size)
    return xp.astype(whole[..., m - 1 : m - 1 + count], x.dtype)


def _convolve(xp: Any, a: Any, b: Any) -> Any:
    if b.shape[-1] > a.shape[-1]:
        a, b = b, a
    ends = xp.zeros((*a.shape[:-1], b.shape[-1] - 1), dtype=a.dtype, device=a.device)
    return _sliding_dot(xp, xp.concat([ends, a, ends], axis=-1), xp.flip(b, axis=-1))


# The sequences are along the last axis; the leading axes are a stack and equal for both.
convolve_p = Primitive("convolve", _convolve)
sliding_dot_p = Primitive("sliding_dot", _sliding_dot)
convolve_p.vjps(
    lambda t, x2: sliding_dot_p(t, conjugate(x2)), lambda t, x1: sliding_dot_p(t, conjugate(x1))
)
convolve_p.jvps(lambda t, x2: convolve_p(t, x2), lambda t, x1: convolve_p(x1, t))
sliding_dot_p.vjps(
    lambda t, x2: convolve_p(t, conjugate(x2)), lambda t, x1: sliding_dot_p(conjugate(x1), t)
)
sliding_dot_p.jvps(lambda t, x2: sliding_dot_p(t, x2), lambda t, x1: sliding_dot_p(x1, t))


def _batch_pair(primitive: Primitive) -> None:
    @primitive.batch
    def rule(size: int, batched: tuple[bool, bool], a: Any, b: Any) -> Any:
        if not batched[0]:
            a = broadcast_p(a, shape=(size, *a.shape))
        if not batched[1]:
            b = broadcast_p(b, shape=(size, *b.shape))
        return primitive(a, b)


_batch_pair(convolve_p)
_batch_pair(sliding_dot_p)


def _reverse(x: Any) -> Any:
    return slice_p(x, index=(..., slice(None, None, -1)))


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two sequences: sums of a[k] v[n - k].

    `mode` is 'full' (any overlap), 'same' (the length of the longer sequence) or 'valid'
    (complete overlap only).

    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    x, w = _sequences(a, v, "convolve")
    short, long = (x, w) if x.shape[0] <= w.shape[0] else (w, x)
    if mode == "valid":
        return sliding_dot_p(long, _reverse(short))
    return _part(convolve_p(x, w), x, w, mode, (short.shape[0] - 1) // 2, "convolve")


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the cross-correlation of two sequences: sums of a[n + k] conj(v[k]).

    The modes are those of `convolve`.

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [2.0, 3.0]
    """
    x, w = _sequences(a, v, "correlate")
    if mode == "valid" and w.shape[0] <= x.shape[0]:
        return sliding_dot_p(x, conjugate(w))
    # If the second is longer, NumPy swaps the two and reverses the result, which moves its centre.
    first = (w.shape[0] - 1) // 2 if w.shape[0] <= x.shape[0] else x.shape[0] // 2
    return _part(convolve_p(x, _reverse(conjugate(w))), x, w, mode, first, "correlate")


def _sequences(a: Any, v: Any, name: str) -> tuple[Any, Any]:
    x, w = common_operands(a, v)
    if len(x.shape) != 1 or len(w.shape) != 1 or 0 in (*x.shape, *w.shape):
        raise ShapeError(
            f"{name} needs two one-dimensional sequences of at least one entry. "
            f"Got shapes {x.shape} and {w.shape}; for images use nn.convolution."
        )
    return x, w


def _part(whole: Any, x: Any, w: Any, mode: str, first: int, name: str) -> Any:
    """Return the part of the full result that `mode` selects; 'same' starts at `first`."""
    short, long = sorted((x.shape[0], w.shape[0]))
    if mode == "full":
        return whole
    if mode == "same":
        return slice_p(whole, index=(slice(first, first + long),))
    if mode == "valid":
        return slice_p(whole, index=(slice(short - 1, long),))
    raise ArgumentError(f"The mode of {name} must be 'full', 'same' or 'valid'. Got {mode!r}.")
