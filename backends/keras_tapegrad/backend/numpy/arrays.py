"""Creation, shapes, joining, sorting and products with Keras' dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.backend_utils import vectorize_impl
from keras.src.backend.config import floatx

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.signatures import declared
from keras_tapegrad.backend.tensors import (
    axes_of,
    common,
    convert_to_tensor,
    dtype_of,
)
from tapegrad.keras.ops.parameters import with_size

Function = Callable[..., Any]


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype)) if dtype is not None else floatx()


def _on_tensor(function: Function, *required: str, **defaults: Any) -> Function:
    """Return the function of a tensor and plain arguments."""

    def run(x: Any, *args: Any, **options: Any) -> Any:
        return function(convert_to_tensor(x), *args, **options)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return declared(run, "x", *required, **defaults)


diag = _on_tensor(np.diag, k=0)
diagflat = _on_tensor(np.diagflat, k=0)
diagonal = _on_tensor(np.diagonal, offset=0, axis1=0, axis2=1)
dsplit = _on_tensor(np.dsplit, "indices_or_sections")
fliplr = _on_tensor(np.fliplr)
flipud = _on_tensor(np.flipud)
hsplit = _on_tensor(np.hsplit, "indices_or_sections")
moveaxis = _on_tensor(np.moveaxis, "source", "destination")
ndim = _on_tensor(np.ndim)
ravel = _on_tensor(np.ravel)
size = _on_tensor(np.size)
swapaxes = _on_tensor(np.swapaxes, "axis1", "axis2")
tile = _on_tensor(np.tile, "repeats")
tril = _on_tensor(np.tril, k=0)
triu = _on_tensor(np.triu, k=0)
vsplit = _on_tensor(np.vsplit, "indices_or_sections")


def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """Shift entries, with those beyond the end first."""
    return np.roll(convert_to_tensor(x), shift, axis=axis)


def broadcast_to(x: Any, shape: Any) -> Any:
    """Repeat a tensor along axes of size 1."""
    return np.broadcast_to(convert_to_tensor(x), tuple(shape))


def reshape(x: Any, newshape: Any) -> Any:
    """Return the entries in another shape."""
    shape = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    return np.reshape(convert_to_tensor(x), shape)


def expand_dims(x: Any, axis: Any) -> Any:
    """Add axes of size 1."""
    return np.expand_dims(convert_to_tensor(x), axes_of(axis))


def squeeze(x: Any, axis: Any = None) -> Any:
    """Remove axes of size 1."""
    return np.squeeze(convert_to_tensor(x), axis=axes_of(axis))


def transpose(x: Any, axes: Any = None) -> Any:
    """Permute the axes."""
    return np.transpose(convert_to_tensor(x), axes_of(axes))


def flip(x: Any, axis: Any = None) -> Any:
    """Reverse the order along axes."""
    return np.flip(convert_to_tensor(x), axis=axes_of(axis))


def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotate by 90 degrees."""
    array = convert_to_tensor(array)
    if array.ndim < 2:
        raise ValueError(f"rot90 turns arrays of at least 2 dimensions. Got {array.ndim}.")
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. An array is turned in the plane of two axes.")
    return np.rot90(array, k=k, axes=tuple(axes))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each entry along an axis."""
    return np.repeat(convert_to_tensor(x), repeats, axis=axis)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    """Add entries at the ends of axes."""
    options = {}
    if constant_values is not None:
        if mode != "constant":
            raise ValueError(
                "Argument `constant_values` can only be provided when `mode == 'constant'`; "
                f"the mode is {mode!r}."
            )
        options["constant_values"] = constant_values
    return np.pad(convert_to_tensor(x), pad_width, mode=mode, **options)


def meshgrid(*x: Any, indexing: str = "xy") -> Any:
    """Return the coordinates of a grid."""
    return np.meshgrid(*[convert_to_tensor(one) for one in x], indexing=indexing)


def unravel_index(indices: Any, shape: Any) -> Any:
    """Return the coordinates of flat indices."""
    places = convert_to_tensor(indices)
    found = np.unravel_index(places, tuple(shape))
    return tuple([tg.cast(part, result_type(places.dtype)) for part in found])


# Creation.


def array(x: Any, dtype: Any = None) -> Any:
    """Return a tensor."""
    return convert_to_tensor(x, dtype=dtype)


def ones(shape: Any, dtype: Any = None) -> Any:
    """Return ones."""
    return np.ones(shape, _dtype(dtype))


def zeros(shape: Any, dtype: Any = None) -> Any:
    """Return zeros."""
    return np.zeros(shape, _dtype(dtype))


empty = zeros


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return a tensor of one value."""
    value = convert_to_tensor(fill_value, _dtype(dtype))
    return np.broadcast_to(value, (shape,) if isinstance(shape, int) else tuple(shape))


def _like(x: Any, dtype: Any) -> tuple[Any, Any]:
    x = convert_to_tensor(x)
    return tuple(x.shape), standardize_dtype(dtype) if dtype is not None else x.dtype


def ones_like(x: Any, dtype: Any = None) -> Any:
    """Return ones of a tensor's shape."""
    return np.ones(*_like(x, dtype))


def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Return zeros of a tensor's shape."""
    return np.zeros(*_like(x, dtype))


empty_like = zeros_like


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return one value in a tensor's shape."""
    shape, dtype = _like(x, dtype)
    return full(shape, fill_value, dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Return ones on a diagonal."""
    return np.eye(N, M, k=k, dtype=_dtype(dtype))


def identity(n: int, dtype: Any = None) -> Any:
    """Return the identity matrix."""
    return np.identity(n, dtype=_dtype(dtype))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Return ones on and below a diagonal."""
    return np.tri(N, M, k=k, dtype=_dtype(dtype))


def _resolved(dtype: Any, *numbers: Any, also: tuple[Any, ...] = ()) -> Any:
    if dtype is not None:
        return standardize_dtype(dtype)
    return result_type(*[dtype_of(one) for one in numbers if one is not None], *also)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """Return evenly spaced numbers in an interval."""
    dtype = _resolved(dtype, start, stop, step)
    if stop is None:
        start, stop = 0, start
    ends = [_number(one) for one in (start, stop, 1 if step is None else step)]
    wide = dtype if dtype not in ("float16", "bfloat16", "bool") else "float32"
    return tg.cast(np.arange(*ends, dtype=wide), dtype)


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) else convert_to_tensor(value).numpy().item()


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return a number of evenly spaced points."""
    dtype = _resolved(dtype, start, stop, also=(float,))
    wide = dtype if dtype == "float64" else "float32"
    found = np.linspace(
        convert_to_tensor(start, wide),
        convert_to_tensor(stop, wide),
        num=int(num),
        endpoint=endpoint,
        retstep=retstep,
        dtype=wide,
        axis=axis,
    )
    if retstep:
        return tg.cast(found[0], dtype), found[1]
    return tg.cast(found, dtype)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return points that are evenly spaced in the exponent."""
    dtype = _resolved(dtype, start, stop, also=(float,))
    wide = dtype if dtype == "float64" else "float32"
    exponents = linspace(start, stop, num, endpoint, dtype=wide, axis=axis)
    return tg.cast(np.power(convert_to_tensor(base, wide), exponents), dtype)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Return a geometric progression."""
    dtype = _dtype(dtype)
    first, last = (convert_to_tensor(one, "float64") for one in (start, stop))
    return tg.cast(np.geomspace(first, last, num=num, endpoint=endpoint, axis=axis), dtype)


def _window(function: Function, *more_required: str) -> Function:
    def run(x: Any, *more: Any) -> Any:
        return tg.cast(function(int(_number(x)), *[_number(one) for one in more]), floatx())

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return declared(run, "x", *more_required)


bartlett = _window(np.bartlett)
blackman = _window(np.blackman)
hamming = _window(np.hamming)
hanning = _window(np.hanning)
kaiser = _window(np.kaiser, "beta")


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return the powers of x in columns."""
    x = convert_to_tensor(x)
    wide = result_type(x.dtype, floatx())
    return tg.cast(np.vander(tg.cast(x, wide), N, increasing=increasing), result_type(x.dtype))


# Joining and splitting.


def _joined(function: Function) -> Function:
    def run(xs: Any, **options: Any) -> Any:
        return function(common(*[convert_to_tensor(x) for x in xs]), **options)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return declared(run, "xs")


_concatenate = _joined(np.concatenate)
_stack = _joined(np.stack)
dstack = _joined(np.dstack)
hstack = _joined(np.hstack)
vstack = _joined(np.vstack)


def concatenate(xs: Any, axis: Any = 0) -> Any:
    """Join tensors along an axis."""
    return _concatenate(xs, axis=axes_of(axis))


def stack(x: Any, axis: int = 0) -> Any:
    """Join tensors along a new axis."""
    return _stack(x, axis=axis)


def append(x1: Any, x2: Any, axis: Any = None) -> Any:
    """Append values."""
    x1, x2 = common(convert_to_tensor(x1), convert_to_tensor(x2))
    return np.append(x1, x2, axis=axis)


def _sections(indices_or_sections: Any) -> Any:
    if isinstance(indices_or_sections, int):
        return indices_or_sections
    if isinstance(indices_or_sections, list | tuple):
        return [int(one) for one in indices_or_sections]
    found = convert_to_tensor(indices_or_sections).numpy()
    return int(found) if found.ndim == 0 else [int(one) for one in found]


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Split a tensor into equal parts, or at indices."""
    return np.split(convert_to_tensor(x), _sections(indices_or_sections), axis=axis)


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Split a tensor into nearly equal parts."""
    return np.array_split(convert_to_tensor(x), _sections(indices_or_sections), axis=axis)


# Indexing and sorting.


def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """Return entries along an axis; negative indices count from the end."""
    x, places = convert_to_tensor(x), convert_to_tensor(indices)
    if x.dtype.name == "bool" and x.ndim == 0:
        x = x[None]
    if "int" not in places.dtype.name:
        places = tg.cast(places, "int32")
    return np.take(x, places, axis=axis)


def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Any:
    """Return entries along an axis, with indices for each place."""
    places = convert_to_tensor(indices)
    if "int" not in places.dtype.name:
        places = tg.cast(places, "int32")
    return np.take_along_axis(convert_to_tensor(x), places, axis=axis)


def nonzero(x: Any) -> Any:
    """Return the places of entries that are not 0."""
    return tuple([tg.cast(part, "int32") for part in np.nonzero(convert_to_tensor(x))])


def sort(x: Any, axis: int | None = -1) -> Any:
    """Sort along an axis."""
    return np.sort(convert_to_tensor(x), axis=axis)


def argsort(x: Any, axis: int | None = -1) -> Any:
    """Return the places of the sorted entries."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        x = tg.cast(x, "uint8")
    return tg.cast(np.argsort(x, axis=axis), "int32")


def argpartition(x: Any, kth: int, axis: int = -1) -> Any:
    """Return places such that the entry at `kth` is where sorting would put it."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        x = tg.cast(x, "uint8")
    return tg.cast(np.argpartition(x, kth, axis), "int32")


def digitize(x: Any, bins: Any) -> Any:
    """Return the bin of each entry."""
    x, edges = common(x, bins)
    return tg.cast(np.digitize(x, edges), "int32")


def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Any:
    """Return where values belong in a sorted sequence."""
    ordered = convert_to_tensor(sorted_sequence)
    if ordered.ndim != 1:
        raise ValueError(
            "searchsorted only supports 1-D sorted sequences; map it over the rows of others. "
            f"Got shape {tuple(ordered.shape)}."
        )
    ordered, wanted = common(ordered, values)
    return tg.cast(np.searchsorted(ordered, wanted, side=side), "int32")


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether entries occur in another tensor."""
    x1, x2 = common(x1, x2)
    return np.isin(x1, x2, assume_unique=assume_unique, invert=invert)


def unique(
    x: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return the unique entries, cut or filled up to `size`."""
    x = convert_to_tensor(x)
    wanted = {"index": return_index, "inverse": return_inverse, "counts": return_counts}
    options = {f"return_{name}": flag for name, flag in wanted.items()}
    found = np.unique(x, axis=axis, equal_nan=False, **options)
    if any(wanted.values()):
        found = (found[0], *[tg.cast(part, "int32") for part in found[1:]])
    return with_size(found, wanted, axis, size, fill_value)


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """Return differences of neighbours."""
    return np.diff(convert_to_tensor(a), n=n, axis=axis)


def vectorize(pyfunc: Any, *, excluded: Any = None, signature: Any = None) -> Any:
    """Return a function of all entries."""
    return vectorize_impl(pyfunc, tg.vmap, excluded=excluded, signature=signature)
