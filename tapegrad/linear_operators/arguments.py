"""Arguments of operators: parameters, right-hand sides, hints and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.linalg.common import dtype_of


def parameter(value: Any, name: str, rank: int, kinds: str = "fc") -> Any:
    """Return a parameter with at least `rank` axes; a variable stays one.

    Operators read variables when they compute, so that a tape follows them and updates count.
    """
    found = value if isinstance(value, Variable) else _tensor(value)
    if found.dtype.kind not in kinds and found.dtype.name != "bfloat16":
        words = "integers" if kinds == "iu" else "floating-point or complex numbers"
        raise DTypeError(f"The argument {name} must hold {words}. Got dtype {found.dtype}.")
    if len(found.shape) < rank:
        raise ShapeError(
            f"The argument {name} needs at least {rank} axes. Got shape {tuple(found.shape)}."
        )
    return found


def _tensor(value: Any) -> Any:
    is_tensor = isinstance(value, Tensor) or type(value) in INTERPRETERS
    return value if is_tensor else constant(value)


def right_side(value: Any, dtype: DType, name: str, rank: int) -> Any:
    """Return an argument of `matmul` and the like; host values take the dtype of the operator."""
    if isinstance(value, Tensor | Variable) or type(value) in INTERPRETERS:
        x = as_operand(value)
    else:
        x = constant(value, dtype=dtype)
    if dtype_of(x) != dtype:
        raise DTypeError(
            f"{name} of an operator of dtype {dtype} got an argument of dtype {dtype_of(x)}. "
            "Cast one of them."
        )
    if len(x.shape) < rank:
        words = "matrices" if rank == 2 else "vectors"
        raise ShapeError(f"{name} needs {words} in the last axes. Got shape {tuple(x.shape)}.")
    return x


def check_hints(name: str, hints: dict[str, Any]) -> None:
    """Raise an error unless every hint is True, False or None."""
    for hint, value in hints.items():
        if value not in (True, False, None) or not isinstance(value, bool | None):
            raise ArgumentError(f"{name} takes True, False or None for {hint}. Got {value!r}.")


def require(hint: bool | None, name: str, words: str) -> None:
    """Raise an error if a class that always has a property gets the opposite as its hint."""
    if hint is False:
        raise ArgumentError(f"A {name} is always {words}. Leave the hint out.")


def batch_of(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of several batches together."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = []
    for lengths in zip(*padded, strict=True):
        longer = {n for n in lengths if n != 1}
        if len(longer) > 1:
            raise ShapeError(
                f"These batches do not fit together: {', '.join(map(str, map(tuple, shapes)))}."
            )
        found.append(longer.pop() if longer else 1)
    return tuple(found)
