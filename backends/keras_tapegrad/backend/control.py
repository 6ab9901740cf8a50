"""Loops, branches, gradients and updates of slices with the signatures of Keras' backends."""

from __future__ import annotations

from builtins import slice as _slice
from collections.abc import Callable, Sequence
from typing import Any

from keras.src import tree
from keras.src.backend.common import KerasVariable

import tapegrad as tg
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras import ops


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Return the result of one of two functions."""
    if isinstance(pred, KerasVariable):
        pred = pred.value
    return tg.cond(pred, true_fn, false_fn)


def vectorized_map(function: Callable[..., Any], elements: Any) -> Any:
    """Apply a function to each entry along the first axis, as one batched call."""
    return tg.vectorized_map(function, tree.map_structure(convert_to_tensor, elements))


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # Keras' name
    """Apply `f` to each entry along the first axis, and stack the results."""
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """Scan `f` along the first axis of `xs`; `f(carry, x)` returns the next carry and a result."""
    if not callable(f):
        raise TypeError(f"The function `f` should be a callable. Got {f!r}.")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(f"unroll={unroll} is refused: it must be an positive integer or boolean.")
    if xs is None and length is None:
        raise ValueError(
            "There is nothing to scan over and no number of rounds. Give `xs` or `length`."
        )
    init = tree.map_structure(convert_to_tensor, init)
    xs = None if xs is None else tree.map_structure(convert_to_tensor, xs)
    if xs is not None and length is not None:
        xs = tree.map_structure(lambda x: x[: int(length)], xs)
    size = None if xs is not None or length is None else int(length)
    carry, results = ops.scan(f, init, xs, size, reverse)
    if results is None:
        # As JAX: a function without results gives zeros like what it carries.
        number = size if xs is None else tree.flatten(xs)[0].shape[0]
        results = tree.map_structure(
            lambda x: tg.zeros((number, *x.shape), x.dtype), [*tree.flatten(init)]
        )
    return carry, results


def associative_scan(
    f: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return all partial results of an associative function."""
    if not callable(f):
        raise TypeError(f"The function `f` should be a callable. Got {f!r}.")
    elems = tree.map_structure(convert_to_tensor, elems)
    sizes = {x.shape[axis] for x in tree.flatten(elems)}
    if len(sizes) > 1:
        raise ValueError(
            "All arrays of a scan must have the same first dimension. "
            f"Got shapes {[tuple(x.shape) for x in tree.flatten(elems)]}."
        )
    return ops.associative_scan(f, elems, reverse, axis)


def scatter(indices: Any, values: Any, shape: Any) -> Any:
    """Add values at indices to zeros of a shape."""
    return tg.scatter_nd(
        convert_to_tensor(indices), convert_to_tensor(values), [int(n) for n in shape]
    )


_SCATTERS = {
    None: "tensor_scatter_nd_update",
    "add": "tensor_scatter_nd_add",
    "max": "tensor_scatter_nd_max",
    "min": "tensor_scatter_nd_min",
}


def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: str | None = None) -> Any:
    """Replace entries at indices, or combine them with updates."""
    x, places = convert_to_tensor(inputs), convert_to_tensor(indices)
    new = convert_to_tensor(updates, x.dtype)
    if reduction == "mul":
        count = places.shape[-1]
        index = tuple([places[..., n] for n in range(count)])
        return x.at[index].multiply(new)
    if reduction not in _SCATTERS:
        raise ValueError(f"Unsupported reduction: {reduction}")
    return getattr(tg, _SCATTERS[reduction])(x, places, new)


def slice(inputs: Any, start_indices: Any, shape: Any) -> Any:  # Keras' name
    """Return the block of a shape at start indices, which may be tensors."""
    x = convert_to_tensor(inputs)
    if len(start_indices) != len(shape):
        raise ValueError(
            f"The start indices {start_indices} must match the shape {shape}: one index per axis."
        )
    for axis, (start, size) in enumerate(zip(start_indices, shape, strict=True)):
        if _is_number(start):
            place = (_slice(None),) * axis + (_slice(int(start), int(start) + size),)
            x = x[place]
        else:
            x = tg.gather(x, convert_to_tensor(start) + tg.range(size), axis=axis)
    return x


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or not tg.is_tensor(value)


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    """Replace the block at start indices, which may be tensors."""
    x = convert_to_tensor(inputs)
    new = convert_to_tensor(updates, x.dtype)
    if all([_is_number(start) for start in start_indices]):
        return ops.slice_update(x, [int(start) for start in start_indices], new)
    grids = tg.meshgrid(
        *[
            tg.cast(convert_to_tensor(start), "int32") + tg.range(size)
            for start, size in zip(start_indices, new.shape, strict=True)
        ],
        indexing="ij",
    )
    return tg.tensor_scatter_nd_update(x, tg.stack(grids, -1), new)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call the branch at `index`, which is clipped to the valid range."""
    return ops.switch(convert_to_tensor(index, "int32"), branches, *operands)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: int | None = None,
) -> Any:
    """Replace the loop variables by `body(*loop_vars)` while `cond(*loop_vars)` is true."""
    is_list = isinstance(loop_vars, list | tuple)
    values = tuple(loop_vars) if is_list else (loop_vars,)
    values = tree.map_structure(convert_to_tensor, values)

    def run(*now: Any) -> Any:
        found = body(*now)
        return tuple(found) if isinstance(found, list | tuple) else (found,)

    found = tg.while_loop(cond, run, values, maximum_iterations=maximum_iterations)
    return found if is_list else found[0]


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Call `body_fun(i, value)` for each integer from `lower` to `upper` - 1."""
    return ops.fori_loop(lower, upper, body_fun, init_val)


def stop_gradient(variable: Any) -> Any:
    """Return the value as a constant."""
    return tg.stop_gradient(convert_to_tensor(variable))


def unstack(x: Any, num: int | None = None, axis: int = 0) -> Any:
    """Return the entries along an axis."""
    return tg.unstack(convert_to_tensor(x), num, axis)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose gradient is the second result of `f`."""
    return tg.custom_gradient(f)


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """Run `f` again for its gradient, instead of keeping its intermediate results."""
    return tg.recompute_grad(f)
