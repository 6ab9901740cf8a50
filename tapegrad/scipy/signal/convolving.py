"""N-dimensional convolution and correlation, the Hilbert transform, and recursive filters."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.convolution.sequences import convolve_p
from tapegrad.ops.fourier.transforms import fftn, ifftn, irfftn, rfftn
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.reduction.recurrence import recurrence_p
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.linalg.matrices import toeplitz
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    concat,
    conjugate,
    is_complex,
    moveaxis,
    numpy_dtype_of,
    operand,
    operands,
    reshape_p,
    zeros_for,
)

_MODES = ("full", "same", "valid")


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return the convolution of two arrays over all axes.

    The mode is 'full', 'same' (as large as `in1`) or 'valid' (full overlap only). The method is
    'direct' (1-D only) or 'fft'; 'auto' uses 'direct' where possible.

    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    x, w = _pair(in1, in2, "convolve")
    check_choice("method", method, ("auto", "direct", "fft"))
    axes = tuple(range(x.ndim))
    if len(axes) == 1 and method != "fft":
        return _crop(convolve_p(x, w), x, w, mode, axes, "convolve")
    if method == "direct":
        raise ArgumentError(
            f"method='direct' needs 1-D arrays. Got {len(axes)} axes. Use method='fft'."
        )
    return _crop(_by_fft(x, w, axes), x, w, mode, axes, "convolve")


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Return the convolution over `axes` (default: all) by FFT; other axes broadcast.

    >>> fftconvolve([1.0, 2.0, 3.0], [0.0, 1.0], "same").round(6).tolist()
    [0.0, 1.0, 2.0]
    """
    x, w = _pair(in1, in2, "fftconvolve")
    over = normalize_axes(axes, x.ndim, "fftconvolve")
    return _crop(_by_fft(x, w, over), x, w, mode, over, "fftconvolve")


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return the cross-correlation of two arrays: the sums of in1[n + k] conj(in2[k]).

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0], "valid").tolist()
    [2.0, 3.0]
    """
    x, w = _pair(in1, in2, "correlate")
    return convolve(x, _reversed_conjugate(w), mode, method)


def convolve2d(in1: Any, in2: Any, mode: str = "full") -> Any:
    """Return the convolution of two matrices with zero padding.

    >>> convolve2d([[1.0, 2.0]], [[1.0, 1.0]]).round(6).tolist()
    [[1.0, 3.0, 2.0]]
    """
    x, w = _pair(in1, in2, "convolve2d")
    _check_matrices(x, "convolve2d")
    return convolve(x, w, mode)


def correlate2d(in1: Any, in2: Any, mode: str = "full") -> Any:
    """Return the cross-correlation of two matrices with zero padding.

    >>> correlate2d([[1.0, 2.0]], [[1.0, 0.0]], "valid").round(6).tolist()
    [[1.0]]
    """
    x, w = _pair(in1, in2, "correlate2d")
    _check_matrices(x, "correlate2d")
    # Where the crop cannot be centered, SciPy starts one element later here than in `correlate`.
    return _crop(
        _by_fft(x, _reversed_conjugate(w), (0, 1)), x, w, mode, (0, 1), "correlate2d", later=True
    )


def _check_matrices(x: Any, name: str) -> None:
    if x.ndim != 2:
        raise ShapeError(f"{name} needs matrices. Got {x.ndim} axes.")


def _pair(in1: Any, in2: Any, name: str) -> tuple[Any, Any]:
    x, w = operands(in1, in2)
    if x.ndim != w.ndim or not x.shape or 0 in (*x.shape, *w.shape):
        raise ShapeError(
            f"{name} needs two non-empty arrays with the same number of axes, at least one. "
            f"Got shapes {x.shape} and {w.shape}."
        )
    return x, w


def _reversed_conjugate(w: Any) -> Any:
    return conjugate(w)[(slice(None, None, -1),) * w.ndim]


def _by_fft(x: Any, w: Any, axes: tuple[int, ...]) -> Any:
    lengths = [x.shape[axis] + w.shape[axis] - 1 for axis in axes]
    if is_complex(x):
        return ifftn(fftn(x, lengths, axes) * fftn(w, lengths, axes), lengths, axes)
    return irfftn(rfftn(x, lengths, axes) * rfftn(w, lengths, axes), lengths, axes)


def _crop(
    whole: Any, x: Any, w: Any, mode: str, axes: tuple[int, ...], name: str, later: bool = False
) -> Any:
    """Crop the full result to the part that the mode selects."""
    check_choice(f"The mode of {name}", mode, _MODES)
    if mode == "full":
        return whole
    gaps = [x.shape[axis] - w.shape[axis] for axis in axes]
    if mode == "valid" and min(gaps) < 0 < max(gaps):
        raise ShapeError(
            f"{name} with mode 'valid' needs one array that is at least as large as the other "
            f"along every axis. Got shapes {x.shape} and {w.shape}."
        )
    index = [slice(None)] * whole.ndim
    for axis, gap in zip(axes, gaps):
        length = x.shape[axis] if mode == "same" else abs(gap) + 1
        first = (whole.shape[axis] - length + later) // 2
        index[axis] = slice(first, first + length)
    return whole[tuple(index)]


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Any:
    """Return the analytic signal: x plus i times its Hilbert transform.

    >>> hilbert([1.0, 0.0, -1.0, 0.0]).numpy().imag.round(6).tolist()
    [0.0, 1.0, 0.0, -1.0]
    """
    x = operand(x)
    if is_complex(x):
        raise ArgumentError("hilbert needs a real signal. Got a complex one; pass its real part.")
    axis = normalize_axis(axis, x.ndim, "hilbert")
    n = x.shape[axis] if N is None else int(N)
    if n < 1:
        raise ArgumentError(f"hilbert needs a positive N. Got {n}.")
    bins = fftn(x, [n], (axis,))
    shape = tuple(1 if i != axis else -1 for i in range(x.ndim))
    weights = zeros_for(x, (n,), numpy_dtype_of(x)) + _analytic_weights(n)
    return ifftn(bins * reshape_p(weights, shape=shape), [n], (axis,))


def _analytic_weights(n: int) -> Any:
    ends = {0, n // 2} if n % 2 == 0 else {0}
    return [1.0 if k in ends else 2.0 if k < (n + 1) // 2 else 0.0 for k in range(n)]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1) -> Any:
    """Filter x along one axis by the rational transfer function b / a.

    Without feedback (`a` has one entry) this is a convolution, with one feedback term a linear
    recurrence, and with more terms a triangular system of the length of the signal.

    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    b, a, x = operands(b, a, x)
    b, a = (reshape_p(v, shape=(1,)) if not v.shape else v for v in (b, a))
    if b.ndim != 1 or a.ndim != 1 or not a.shape[0] or not b.shape[0]:
        raise ShapeError(f"lfilter needs vectors b and a. Got shapes {b.shape} and {a.shape}.")
    axis = normalize_axis(axis, x.ndim, "lfilter")
    lead = a[:1]
    rows = moveaxis(x, axis, -1)
    n = rows.shape[-1]
    if not n:
        return x
    forward = broadcast_p(b / lead, shape=(*rows.shape[:-1], b.shape[0]))
    y = convolve_p(rows, forward)[..., :n]
    back = a[1:] / lead
    return moveaxis(_apply_feedback(back, y, n), -1, axis)


def _apply_feedback(back: Any, y: Any, n: int) -> Any:
    """Return z with z[i] + back[0] z[i - 1] + back[1] z[i - 2] + ... = y[i]."""
    order = back.shape[0]
    if not order or not n:
        return y
    if order == 1:
        rate = broadcast_p(-back, shape=tuple(y.shape))
        return recurrence_p(rate, y, axis=y.ndim - 1, reverse=False)
    kept = back[: min(order, n - 1)]
    one = zeros_for(back, (1,), numpy_dtype_of(back)) + 1
    column = pad(concat([one, kept], 0), [(0, n - 1 - kept.shape[0])])
    lower = toeplitz(column, 0.0 * column)
    flat = reshape_p(y, shape=(-1, n))
    z = triangular_solve(lower, moveaxis(flat, -1, 0))
    return reshape_p(moveaxis(z, 0, -1), shape=tuple(y.shape))
