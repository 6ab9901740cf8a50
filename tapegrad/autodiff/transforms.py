"""Transformations of functions: grad, value_and_grad, vjp, jvp, jacobian, hessian, hvp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.arguments import UnconnectedGradients, check_function
from tapegrad.autodiff.batching import (
    Batched,
    current_frame,
    is_batched,
    new_level,
    per_example,
    unwrap,
    wrap_levels,
)
from tapegrad.autodiff.custom_gradient import recompute_grad
from tapegrad.autodiff.explain import where_left
from tapegrad.autodiff.forward import TransformAccumulator
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.autodiff.host_results import as_given
from tapegrad.autodiff.jacobian import CHUNK_BYTES, check_chunk, one_hot_rows
from tapegrad.core.argument_checks import check_choice, check_wholes
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS, to_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape import functions as shapes, joining

Function = Callable[..., Any]
_ZERO = UnconnectedGradients.ZERO


def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """Return a function that computes `f` and its gradient with respect to chosen arguments.

    `f` must return a scalar; with `has_aux`, a scalar and auxiliary data.

    >>> import tapegrad
    >>> value, gradient = value_and_grad(lambda x: tapegrad.reduce_sum(x * x))([1.0, 2.0])
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    check_function(f, "value_and_grad")
    check_wholes("argnums", argnums, "value_and_grad")

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        inputs, sources = _inputs(args, argnums)
        with TransformTape(watch_accessed_variables=False) as tape:
            tape.watch(_floating(sources, f))
            result = f(*_apart(inputs, sources), **kwargs)
        value, aux = result if has_aux else (result, None)
        _check_scalar(value, f, tape)
        gradient = tape.gradient(value, sources, unconnected_gradients=_ZERO)
        gradient = as_given(gradient, _chosen(args, argnums))
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return evaluate


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """Return the function that computes the gradient of the scalar function `f`.

    >>> float(grad(lambda x: x * x * x)(2.0))
    12.0
    """
    check_function(f, "grad")
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return evaluate


def vjp(f: Function, *primals: Any) -> tuple[Any, Function]:
    """Return `f(*primals)` and its pullback: from output cotangents to input cotangents.

    The cotangent of an integer argument is None.

    >>> import tapegrad
    >>> value, pullback = vjp(lambda x: x * x, tapegrad.constant([1.0, 3.0]))
    >>> pullback(tapegrad.constant([1.0, 1.0])).tolist()
    [2.0, 6.0]
    """
    check_function(f, "vjp")
    args, sources = _inputs(primals, tuple(range(len(primals))))
    with TransformTape(persistent=True, watch_accessed_variables=False) as tape:
        flat = nest.flatten(sources)
        floating = [x for x in flat if x.dtype.is_differentiable]
        if floating:
            tape.watch(floating)
        value = f(*_apart(args, sources))

    def pullback(cotangents: Any) -> Any:
        found = iter(tape.gradient(value, floating, cotangents, _ZERO))
        leaves = [next(found) if x.dtype.is_differentiable else None for x in flat]
        gradients = as_given(nest.pack_sequence_as(sources, leaves), primals)
        return gradients[0] if len(primals) == 1 else gradients

    return value, pullback


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return `f(*primals)` and its derivative along `tangents`.

    >>> value, tangent = jvp(lambda x: x * x, [3.0], [1.0])
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """
    check_function(f, "jvp")
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise ArgumentTypeError("jvp takes primals and tangents as lists or tuples of arguments.")
    args, sources = _inputs(tuple(primals), tuple(range(len(primals))))
    along = [_array_like(tangent) for tangent in tangents]
    with TransformAccumulator(list(sources), along) as accumulator:
        value = f(*args)
    return value, accumulator.jvp(value, _ZERO)


def jacobian(
    f: Function,
    argnums: int | Sequence[int] = 0,
    mode: str | None = None,
    chunk_size: int | None = None,
) -> Function:
    """Return the function that computes the Jacobian, shape output.shape + input.shape.

    With several `argnums`, or an argument that is a structure, there is one Jacobian per tensor.
    `mode` is "reverse" (one row per output element), "forward" (one column per input element), or
    None for the one that needs fewer.

    >>> import tapegrad
    >>> jacobian(lambda x: x * x)(tapegrad.constant([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    check_choice("mode", mode, ("forward", "reverse", None))
    check_function(f, "jacobian")
    check_wholes("argnums", argnums, "jacobian")
    check_chunk(chunk_size)

    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        fixed, sources = _inputs(args, argnums)
        given = _chosen(args, argnums)

        def forward() -> Any:
            columns = [
                _forward_jacobian(f, fixed, kwargs, source, chunk_size)
                for source in _floating(sources, f)
            ]
            return as_given(nest.pack_sequence_as(sources, columns), given)

        if mode == "forward":
            return forward()
        with TransformTape(watch_accessed_variables=False) as tape:
            tape.watch(_floating(sources, f))
            value = f(*_apart(fixed, sources), **kwargs)
        if mode is None and _forward_pays(value, sources):
            return forward()
        return as_given(tape.jacobian(value, sources, _ZERO, chunk_size=chunk_size), given)

    return evaluate


def _forward_pays(value: Any, sources: Any) -> bool:
    """Whether forward mode saves more than it costs to run the function again."""
    is_one_tensor = isinstance(value, Tensor | Batched)
    return is_one_tensor and value.size > 4 * sum(source.size for source in nest.flatten(sources))


def _forward_jacobian(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], source: Any, chunk: int | None
) -> Any:
    """Compute all columns of a tensor by one batched tangent, in chunks that limit the memory."""
    inside, levels = unwrap(source.shared_value() if isinstance(source, Variable) else source)
    step = chunk or max(1, CHUNK_BYTES // max(1, inside.nbytes))
    columns, value, own = [], None, levels
    for start in range(0, max(source.size, 1), step):
        rows = min(step, source.size - start)
        level = new_level()
        seeds = Batched(one_hot_rows(inside, start, rows, tuple(source.shape)), level)
        with TransformAccumulator(source, wrap_levels(seeds, levels)) as accumulator:
            value = f(*args, **kwargs)
        tangent, own = unwrap(accumulator.jvp(value, _ZERO), levels)
        columns.append(per_level(tangent, rows, level))
    joined = columns[0] if len(columns) == 1 else joining.concat(columns, axis=0)
    order = (*range(1, len(joined.shape)), 0)
    assert value is not None
    full = (*joined.shape[1 : 1 + len(own)], *value.shape, *source.shape)
    return wrap_levels(shapes.reshape(shapes.permute_dims(joined, order), full), own)


def per_level(value: Any, rows: int, level: int) -> Any:
    """Return the stacked tangents of a batched value; repeat a value that is not batched."""
    if is_batched(value) and value.level == level:
        return value.tensor
    return shapes.broadcast_to(value, (rows, *value.shape))


def hessian(f: Function, argnums: int = 0, chunk_size: int | None = None) -> Function:
    """Return the function that computes the second derivatives of the scalar function `f`.

    >>> import tapegrad
    >>> hessian(lambda x: x[0] * x[0] * x[1])(tapegrad.constant([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    return jacobian(grad(f, argnums), argnums, mode="reverse", chunk_size=chunk_size)


def hvp(f: Function, x: Any, v: Any) -> Any:
    """Return the Hessian of the scalar function `f` at `x` times `v`, without forming it.

    >>> import tapegrad
    >>> hvp(lambda x: tapegrad.reduce_sum(x * x * x), [1.0, 2.0], [1.0, 0.0]).tolist()
    [6.0, 0.0]
    """
    check_function(f, "hvp")
    # Reverse over reverse, because its second sweep runs on raw arrays.
    (source,), _ = _inputs((x,), 0)
    with TransformTape(watch_accessed_variables=False) as outer:
        outer.watch(source)
        with TransformTape(watch_accessed_variables=False) as inner:
            inner.watch(source)
            value = f(*_apart((source,), source))
        _check_scalar(value, f, inner)
        gradient = inner.gradient(value, source, unconnected_gradients=_ZERO)
    return as_given(outer.gradient(gradient, source, _array_like(v), _ZERO), x)


checkpoint = recompute_grad


def _inputs(args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[tuple[Any, ...], Any]:
    """Return all arguments and the chosen ones, which are new tensors.

    A tensor that is an argument and also captured by the function is two different sources.
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in wanted:
        if not -len(args) <= number < len(args):
            raise ArgumentError(
                f"argnums={number} is out of range for {len(args)} arguments. Derivatives are "
                "taken by positional arguments: write f(x) instead of f(x=x)."
                if not args
                else f"argnums={number} is out of range for {len(args)} arguments."
            )
    chosen = {number % len(args): None for number in wanted}
    fresh = tuple(
        nest.map_structure(_fresh, _array_like(arg)) if number in chosen else arg
        for number, arg in enumerate(args)
    )
    return fresh, _chosen(fresh, argnums)


def _chosen(args: tuple[Any, ...], argnums: int | Sequence[int]) -> Any:
    """Return the arguments to differentiate by."""
    if isinstance(argnums, int):
        return args[argnums]
    return tuple(args[number] for number in argnums)


def _apart(args: tuple[Any, ...], sources: Any) -> tuple[Any, ...]:
    """Return the arguments for the function, with other tensors of the same values as sources.

    If the function writes to its argument, the source still stands for the value before.
    """
    if len(args) == 1 and type(args[0]) is Tensor:  # the usual case: it is the source
        return (wrap(args[0].array, args[0].node),)
    own = {id(leaf) for leaf in nest.flatten(sources)}

    def other(leaf: Any) -> Any:
        if id(leaf) not in own or isinstance(leaf, Variable):
            return leaf
        return Batched(leaf.tensor, leaf.level) if is_batched(leaf) else wrap(leaf.array, leaf.node)

    return tuple(
        nest.map_structure(other, arg) if any([id(x) in own for x in nest.flatten(arg)]) else arg
        for arg in args
    )


def _array_like(arg: Any) -> Any:
    """Convert a list of numbers to one tensor; a list of tensors stays a structure."""
    if isinstance(arg, list | tuple) and all(type(x) in NUMBERS for x in nest.flatten(arg)):
        return to_tensor(arg)
    return arg


def _fresh(value: Any) -> Any:
    if isinstance(value, Variable):
        return value
    frame = current_frame()
    if is_batched(value) or frame is not None:
        value = value if is_batched(value) else to_tensor(value)
        return per_example(arithmetic.positive(value), frame)
    tensor = to_tensor(value)
    return wrap(tensor.array) if tensor.node is None else arithmetic.positive(tensor)


def _floating(sources: Any, f: Function) -> list[Any]:
    """Return the leaves of the chosen arguments; raise for a dtype without derivatives."""
    leaves = nest.flatten(sources)
    for leaf in leaves:
        if not leaf.dtype.is_differentiable:
            raise ArgumentTypeError(
                f"{getattr(f, '__name__', 'The function')} can be differentiated by floating and "
                f"complex arguments. Got {leaf.dtype}; write 3.0 for 3, or cast the argument."
            )
    return leaves


def _check_scalar(value: Any, f: Function, tape: TransformTape) -> None:
    if not hasattr(value, "shape"):
        raise ArgumentTypeError(
            f"{getattr(f, '__name__', 'The function')} must return a scalar tensor. "
            f"Got {type(value).__name__}.{where_left(tape)}"
        )
    if tuple(value.shape):
        raise ShapeError(
            f"{getattr(f, '__name__', 'The function')} must return a scalar to be differentiated "
            f"by grad. Got shape {value.shape}; use jacobian or vjp for more outputs."
        )
