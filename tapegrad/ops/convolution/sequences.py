"""NumPy's `convolve` and `correlate` of one-dimensional sequences."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.fourier.frames import cut_frames
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.shape.primitives import broadcast_p


def _convolve(xp: Any, a: Any, b: Any) -> Any:
    if b.shape[-1] > a.shape[-1]:
        a, b = b, a
    m = b.shape[-1]
    ends = xp.zeros((*a.shape[:-1], m - 1), dtype=a.dtype, device=a.device)
    frames = cut_frames(xp, xp.concat([ends, a, ends], axis=-1), length=m, step=1)
    return xp.matmul(frames, xp.flip(b, axis=-1)[..., None])[..., 0]


# The sequences are along the last axis; the leading axes are a stack and equal for both.
convolve_p = Primitive("convolve", _convolve)


def _reverse(x: Any) -> Any:
    return slice_p(x, index=(..., slice(None, None, -1)))


def _operand_cotangent(t: Any, other: Any) -> Any:
    """Correlate the cotangent with the other sequence where they overlap completely."""
    m = other.shape[-1]
    whole = convolve_p(t, _reverse(conjugate(other)))
    return slice_p(whole, index=(..., slice(m - 1, t.shape[-1])))


convolve_p.vjps(lambda t, x2: _operand_cotangent(t, x2), lambda t, x1: _operand_cotangent(t, x1))
convolve_p.jvps(lambda t, x2: convolve_p(t, x2), lambda t, x1: convolve_p(x1, t))


@convolve_p.batch
def _batch_convolve(size: int, batched: tuple[bool, bool], a: Any, b: Any) -> Any:
    if not batched[0]:
        a = broadcast_p(a, shape=(size, *a.shape))
    if not batched[1]:
        b = broadcast_p(b, shape=(size, *b.shape))
    return convolve_p(a, b)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two sequences: sums of a[k] v[n - k].

    `mode` is 'full' (any overlap), 'same' (the length of the longer sequence) or 'valid'
    (complete overlap only).

    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    x, w = _sequences(a, v, "convolve")
    short = min(x.shape[0], w.shape[0])
    return _part(convolve_p(x, w), x, w, mode, (short - 1) // 2, "convolve")


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the cross-correlation of two sequences: sums of a[n + k] conj(v[k]).

    The modes are those of `convolve`.

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [2.0, 3.0]
    """
    x, w = _sequences(a, v, "correlate")
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
