"""N-dimensional convolution and correlation, and the Hilbert transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.convolution.sequences import convolve_p
from tapegrad.ops.fourier.transforms import fftn, ifftn, irfftn, rfftn
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.vocabulary import (
    conjugate,
    is_complex,
    is_number,
    numpy_dtype_of,
    operand,
    operands,
    reshape_p,
    rint,
    zeros_for,
)

_MODES = ("full", "same", "valid")


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return the convolution of two arrays over all axes.

    The mode is 'full', 'same' (as large as `in1`) or 'valid' (full overlap only). The method is
    'direct' (1-D only) or 'fft'; 'auto' uses 'direct' where possible. Whole numbers give whole
    numbers.

    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0]).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    check_choice("method", method, ("auto", "direct", "fft"))
    x, w = operands(in1, in2)
    if not x.shape and not w.shape:
        return _as_whole(x * w, in1, in2)
    x, w = _pair(x, w, "convolve")
    axes = tuple(range(x.ndim))
    if len(axes) == 1 and method != "fft":
        whole = convolve_p(x, w)
    elif method == "direct":
        raise ArgumentError(
            f"method='direct' needs 1-D arrays. Got {len(axes)} axes. Use method='fft'."
        )
    else:
        whole = _by_fft(x, w, axes)
    return _as_whole(_crop(whole, x, w, mode, axes, "convolve"), in1, in2)


def _as_whole(result: Any, *given: Any) -> Any:
    """Round a result of whole numbers and return it in their common dtype."""
    kinds = [numpy_dtype_of(x) if hasattr(x, "dtype") else np.asarray(x).dtype for x in given]
    if any([kind.kind not in "iu" for kind in kinds]):
        return result
    # In two steps: larger numbers than a short dtype holds begin anew at its other end.
    return cast(cast(rint(result), "int64"), np.result_type(*kinds))


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
    x, w = operands(in1, in2)
    if x.shape or w.shape:
        x, w = _pair(x, w, "correlate")
    return _as_whole(convolve(x, _reversed_conjugate(w), mode, method), in1, in2)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
    """Return the convolution of two matrices.

    Beyond its edges, `in1` is `fillvalue` ('fill'), periodic ('wrap') or reflected ('symm').

    >>> convolve2d([[1.0, 2.0]], [[1.0, 1.0]]).round(6).tolist()
    [[1.0, 3.0, 2.0]]
    """
    x, w = _pair(in1, in2, "convolve2d")
    _check_matrices(x, "convolve2d")
    whole = _with_boundary(x, w, mode, boundary, fillvalue)
    return _as_whole(_crop(whole, x, w, mode, (0, 1), "convolve2d"), in1, in2)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
    """Return the cross-correlation of two matrices; the edges are those of `convolve2d`.

    >>> correlate2d([[1.0, 2.0]], [[1.0, 0.0]], "valid").round(6).tolist()
    [[1.0]]
    """
    x, w = _pair(in1, in2, "correlate2d")
    _check_matrices(x, "correlate2d")
    # Where the crop cannot be centered, SciPy starts one element later here than in `correlate`.
    whole = _with_boundary(x, _reversed_conjugate(w), mode, boundary, fillvalue)
    cropped = _crop(whole, x, w, mode, (0, 1), "correlate2d", later=True)
    return _as_whole(cropped, in1, in2)


_BOUNDARIES = {
    "fill": "CONSTANT",
    "pad": "CONSTANT",
    "wrap": "WRAP",
    "circular": "WRAP",
    "symm": "SYMMETRIC",
    "symmetric": "SYMMETRIC",
}


def _with_boundary(x: Any, w: Any, mode: str, boundary: str, fillvalue: Any) -> Any:
    """Return the full convolution of a matrix that continues beyond its edges."""
    check_choice("boundary", boundary, _BOUNDARIES)
    if np.ndim(fillvalue):
        raise ArgumentError(f"fillvalue must be a number. Got shape {np.shape(fillvalue)}.")
    filling = _BOUNDARIES[boundary]
    # The valid part has no share of the edges.
    if mode == "valid" or (filling == "CONSTANT" and is_number(fillvalue, 0)):
        return _by_fft(x, w, (0, 1))
    reach = [n - 1 for n in w.shape]
    wide = pad(x, [(n, n) for n in reach], filling, fillvalue if filling == "CONSTANT" else 0)
    # Where the whole of w lies on the wide matrix.
    index = tuple(slice(n, n + length + n) for n, length in zip(reach, x.shape))
    return _by_fft(wide, w, (0, 1))[index]


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
    return conjugate(w) if not w.shape else conjugate(w)[(slice(None, None, -1),) * w.ndim]


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
