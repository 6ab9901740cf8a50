"""Functions whose arguments had other names in TensorFlow's first version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.arithmetic import divide
from tapegrad.ops.elementwise.rounding import floor_divide
from tapegrad.ops.reduction import functions as reductions
from tapegrad.ops.shape import functions as shapes
from tapegrad.program.record.effects import print_tensors


def _one_of(name: str, given: Any, older: str, also_given: Any) -> Any:
    """Return an argument that has two names."""
    if given is not None and also_given is not None:
        raise ArgumentError(f"{name} is the newer name of {older}; give only one of them.")
    return also_given if given is None else given


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Any:
        axes = _one_of("axis", axis, "reduction_indices", reduction_indices)
        kept = _one_of("keepdims", keepdims, "keep_dims", keep_dims)
        return function(input_tensor, axis=axes, keepdims=bool(kept))

    run.__name__ = run.__qualname__ = function.__name__
    run.__doc__ = f"Call `tapegrad.{function.__name__}`, also with the arguments' older names."
    return run


reduce_all = _reduction(reductions.reduce_all)
reduce_any = _reduction(reductions.reduce_any)
reduce_logsumexp = _reduction(reductions.reduce_logsumexp)
reduce_max = _reduction(reductions.reduce_max)
reduce_mean = _reduction(reductions.reduce_mean)
reduce_min = _reduction(reductions.reduce_min)
reduce_prod = _reduction(reductions.reduce_prod)
reduce_sum = _reduction(reductions.reduce_sum)


def argmax(
    input: Any,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: Any = "int64",
) -> Any:
    """Return the index of the largest entry along an axis, 0 unless it is given.

    >>> argmax([[1, 5], [4, 2]], dimension=1).tolist()
    [1, 0]
    """
    return reductions.argmax(input, _one_of("axis", axis, "dimension", dimension), output_type)


def argmin(
    input: Any,
    axis: int | None = None,
    name: str | None = None,
    dimension: int | None = None,
    output_type: Any = "int64",
) -> Any:
    """Return the index of the smallest entry along an axis, 0 unless it is given.

    >>> argmin([[1, 5], [4, 2]], dimension=1).tolist()
    [0, 1]
    """
    return reductions.argmin(input, _one_of("axis", axis, "dimension", dimension), output_type)


def expand_dims(
    input: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Any:
    """Insert an axis of length 1.

    >>> expand_dims([1, 2], dim=0).shape
    (1, 2)
    """
    place = _one_of("axis", axis, "dim", dim)
    if place is None:
        raise ArgumentError("expand_dims needs the argument axis.")
    return shapes.expand_dims(input, place)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Remove axes of length 1.

    >>> squeeze([[1, 2]], squeeze_dims=[0]).shape
    (2,)
    """
    return shapes.squeeze(input, _one_of("axis", axis, "squeeze_dims", squeeze_dims))


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Divide; integers are rounded down.

    >>> div(7, 2).tolist(), div(7.0, 2.0).tolist()
    (3, 3.5)
    """
    first = as_operand(x)
    return floor_divide(first, y) if as_dtype(first.dtype).is_integer else divide(first, y)


def to_float(x: Any, name: str | None = None) -> Any:
    """Cast to float32.

    >>> to_float([1, 2]).tolist()
    [1.0, 2.0]
    """
    return cast(x, "float32")


def to_double(x: Any, name: str | None = None) -> Any:
    """Cast to float64.

    >>> to_double([1, 2]).tolist()
    [1.0, 2.0]
    """
    return cast(x, "float64")


def to_int32(x: Any, name: str | None = None) -> Any:
    """Cast to int32.

    >>> to_int32([1.5, 2.0]).tolist()
    [1, 2]
    """
    return cast(x, "int32")


def to_int64(x: Any, name: str | None = None) -> Any:
    """Cast to int64.

    >>> to_int64([1.5, 2.0]).tolist()
    [1, 2]
    """
    return cast(x, "int64")


def Print(  # noqa: N802  # TensorFlow's name
    input_: Any, data: Any, message: str = "", first_n: Any = None, summarize: int = 3
) -> Any:
    """Print tensors to the error output, and return the first argument.

    >>> Print(5, [1, 2], message="two numbers:")
    5
    """
    print_tensors(message, *data)
    return input_
