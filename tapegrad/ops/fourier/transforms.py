"""Fourier transforms: linear primitives, whose rules are their transposes, and functions on them.

There are three transforms: the complex one over several axes, and the real one and its inverse
over one axis. Operands are cropped or padded with zeros to the requested length beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.argument_checks import check_elements, check_whole, check_wholes
from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.indexing.primitives import slice_p, unslice_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg.common import dtype_of
from tapegrad.ops.products.primitives import conjugate

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _fourier(xp: Any, x: Any, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Any:
    transform = xp.fft.ifftn if inverse else xp.fft.fftn
    return transform(x, axes=axes, norm=norm)


# The matrix of the transform is symmetric, so its adjoint is the inverse without the scaling.
fourier_p: Primitive = linear(
    "fourier",
    _fourier,
    transpose=lambda t, *, axes, inverse, norm: fourier_p(
        t, axes=axes, inverse=not inverse, norm=_SWAPPED[norm]
    ),
    batch=lambda size, batched, x, *, axes, inverse, norm: fourier_p(
        x, axes=tuple(axis + 1 for axis in axes), inverse=inverse, norm=norm
    ),
)


def _weigh(xp: Any, x: Any, *, axis: int, n: int, weight: float) -> Any:
    result = x * weight
    for bin in {0, n // 2} if n % 2 == 0 else {0}:
        if bin < x.shape[axis]:
            index = (*(slice(None),) * axis, bin, ...)
            result[index] = x[index]
    return result


# Multiply the bins that also represent their conjugate by `weight`. The first bin, and the last bin
# of an even length, represent themselves only.
weigh_bins_p: Primitive = linear(
    "weigh_bins",
    _weigh,
    transpose=lambda t, *, axis, n, weight: weigh_bins_p(t, axis=axis, n=n, weight=weight),
    batch=lambda size, batched, x, *, axis, n, weight: weigh_bins_p(
        x, axis=axis + 1, n=n, weight=weight
    ),
)


def _real_transpose(t: Any, x_shape: tuple[int, ...], *, axis: int, norm: str) -> Any:
    n = x_shape[axis]
    halved = weigh_bins_p(t, axis=axis, n=n, weight=0.5)
    return inverse_real_p(halved, axis=axis, n=n, norm=_SWAPPED[norm])


real_fourier_p: Primitive = linear(
    "real_fourier",
    lambda xp, x, *, axis, norm: xp.fft.rfft(x, axis=axis, norm=norm),
    transpose=_real_transpose,
    batch=lambda size, batched, x, *, axis, norm: real_fourier_p(x, axis=axis + 1, norm=norm),
)
inverse_real_p: Primitive = linear(
    "inverse_real_fourier",
    lambda xp, x, *, axis, n, norm: xp.fft.irfft(x, n=n, axis=axis, norm=norm),
    transpose=lambda t, *, axis, n, norm: weigh_bins_p(
        real_fourier_p(t, axis=axis, norm=_SWAPPED[norm]), axis=axis, n=n, weight=2.0
    ),
    batch=lambda size, batched, x, *, axis, n, norm: inverse_real_p(
        x, axis=axis + 1, n=n, norm=norm
    ),
)


def _norm(norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(f"norm must be 'backward', 'ortho' or 'forward'. Got {norm!r}.")
    return norm or "backward"


def as_complex(value: Any) -> Any:
    """Convert values to complex numbers of the same precision."""
    x = as_operand(value)
    if is_complex(x):
        return x
    return cast(x, "complex128" if dtype_of(x) == "float64" else "complex64")


def as_real(value: Any, name: str) -> Any:
    """Return real values in single or double precision; raise for complex values."""
    x = as_operand(value)
    if is_complex(x):
        raise DTypeError(
            f"{name} takes real values. Got {dtype_of(x)}; use fft, or take the real part first."
        )
    return x if dtype_of(x) in ("float32", "float64") else cast(x, "float32")


def resized(x: Any, axis: int, n: int) -> Any:
    """Crop one axis to its first `n` entries, or pad it with zeros."""
    if x.shape[axis] == n:
        return x
    part = slice(0, min(n, x.shape[axis]))
    index = (*[slice(None)] * axis, part, *[slice(None)] * (len(x.shape) - axis - 1))
    if n < x.shape[axis]:
        return slice_p(x, index=index)
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    check_elements("A Fourier transform", shape)
    return unslice_p(x, index=index, shape=shape)


def _plan(
    x: Any, s: Any, axes: Any, name: str, default: int | None = None
) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Return the axes and the length along each; None keeps the length of the operand."""
    rank = len(x.shape)
    if axes is None:
        count = len(s) if s is not None else (rank if default is None else default)
        axes = range(rank - count, rank)
    found = tuple(normalize_axis(axis, rank, name) for axis in axes)
    lengths = (None,) * len(found) if s is None else tuple(s)
    if len(lengths) != len(found):
        raise ShapeError(
            f"{name} needs one length per axis. Got {len(lengths)} lengths for {len(found)} axes."
        )
    if any(n is not None and n != -1 and n < 1 for n in lengths):
        raise ShapeError(f"{name} needs lengths of at least 1. Got {lengths}.")
    return found, tuple(
        None if n is None or n == -1 else check_whole("s", n, name) for n in lengths
    )


def _repeats(axes: tuple[int, ...]) -> bool:
    return len(set(axes)) < len(axes)


def _turns(x: Any, axes: Sequence[int], lengths: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return the axes and their lengths, which are those of `x` unless they are given."""
    return [(k, x.shape[k] if n is None else n) for k, n in zip(axes, lengths, strict=True)]


def _in_turn(x: Any, turns: Sequence[tuple[int, int]], inverse: bool, norm: str | None) -> Any:
    """Transform over one axis after another: how NumPy defines axes that are repeated."""
    for axis, n in turns:
        x = fourier_p(resized(x, axis, n), axes=(axis,), inverse=inverse, norm=_norm(norm))
    return x


def complex_transform(
    value: Any, s: Any, axes: Any, norm: str | None, inverse: bool, name: str, default: Any = None
) -> Any:
    """Transform over axes, each cropped or padded to its length in `s`."""
    x = as_complex(value)
    found, lengths = _plan(x, s, axes, name, default)
    if _repeats(found):
        turns = _turns(x, found, lengths)[::-1]
        return _in_turn(x, turns, inverse, norm)
    for axis, n in zip(found, lengths):
        x = x if n is None else resized(x, axis, n)
    if not found:
        return x
    return fourier_p(x, axes=found, inverse=inverse, norm=_norm(norm))


def real_transform(value: Any, s: Any, axes: Any, norm: Any, name: str, default: Any) -> Any:
    """Transform real values: a real transform over the last axis, complex over the others."""
    x = as_real(value, name)
    found, lengths = _plan(x, s, axes, name, default)
    if _repeats(found):
        *turns, (last, size) = _turns(x, found, lengths)
        x = real_fourier_p(resized(x, last, size), axis=last, norm=_norm(norm))
        return _in_turn(x, turns[::-1], False, norm)
    for axis, n in zip(found, lengths):
        x = x if n is None else resized(x, axis, n)
    x = real_fourier_p(x, axis=found[-1], norm=_norm(norm))
    if len(found) > 1:
        x = fourier_p(x, axes=found[:-1], inverse=False, norm=_norm(norm))
    return x


def inverse_real_transform(
    value: Any, s: Any, axes: Any, norm: Any, name: str, default: Any
) -> Any:
    """Invert `real_transform`; without lengths, the last axis is assumed to have an even length."""
    x = as_complex(value)
    found, lengths = _plan(x, s, axes, name, default)
    last = found[-1]
    n = 2 * (x.shape[last] - 1) if lengths[-1] is None else lengths[-1]
    others = found[:-1]
    if _repeats(found):
        x = _in_turn(x, _turns(x, others, lengths[:-1]), True, norm)
        others = found[:0]
    for axis, length in zip(others, lengths):
        x = x if length is None else resized(x, axis, length)
    if others:
        x = fourier_p(x, axes=others, inverse=True, norm=_norm(norm))
    return inverse_real_p(resized(x, last, n // 2 + 1), axis=last, n=n, norm=_norm(norm))


def _as_lengths(n: Any) -> Any:
    """Return the lengths for one axis; TensorFlow passes a list with one length."""
    if n is None:
        return None
    return check_wholes("n", n)[:1]


def fft(
    input: Any, n: Any = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Any:
    """Return the discrete Fourier transform along one axis.

    >>> fft([1.0, 1.0]).tolist()
    [(2+0j), 0j]
    """
    return complex_transform(input, _as_lengths(n), (axis,), norm, False, "fft")


def ifft(
    input: Any, n: Any = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Any:
    """Return the inverse of `fft`.

    >>> ifft([2.0, 0.0]).tolist()
    [(1+0j), (1+0j)]
    """
    return complex_transform(input, _as_lengths(n), (axis,), norm, True, "ifft")


def rfft(
    input_tensor: Any,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    fft_length: Any = None,
    name: str | None = None,
) -> Any:
    """Return the first n // 2 + 1 entries of the transform of real values.

    >>> rfft([1.0, 1.0]).tolist()
    [(2+0j), 0j]
    """
    lengths = _as_lengths(n if fft_length is None else fft_length)
    return real_transform(input_tensor, lengths, (axis,), norm, "rfft", 1)


def irfft(
    input_tensor: Any,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    fft_length: Any = None,
    name: str | None = None,
) -> Any:
    """Return the inverse of `rfft`; pass `n` if the length is odd.

    >>> irfft([2.0, 0.0]).tolist()
    [1.0, 1.0]
    """
    lengths = _as_lengths(n if fft_length is None else fft_length)
    return inverse_real_transform(input_tensor, lengths, (axis,), norm, "irfft", 1)


def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the discrete Fourier transform over several axes, by default all.

    >>> fftn([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return complex_transform(x, s, axes, norm, False, "fftn")


def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the inverse of `fftn`.

    >>> ifftn([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return complex_transform(x, s, axes, norm, True, "ifftn")


def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the transform of real values over several axes; the last keeps n // 2 + 1 entries.

    >>> rfftn([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return real_transform(x, s, axes, norm, "rfftn", None)


def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the inverse of `rfftn`.

    >>> irfftn([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return inverse_real_transform(x, s, axes, norm, "irfftn", None)


def hfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the real transform of a Hermitian-symmetric signal, given its first half.

    >>> hfft([1.0, 0.0]).tolist()
    [1.0, 1.0]
    """
    return irfft(conjugate(as_complex(x)), n, axis, _SWAPPED[_norm(norm)])


def ihfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the inverse of `hfft`.

    >>> ihfft([1.0, 1.0]).numpy().real.tolist()
    [1.0, 0.0]
    """
    return conjugate(rfft(x, n, axis, _SWAPPED[_norm(norm)]))
