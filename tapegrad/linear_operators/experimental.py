"""TensorFlow's `tf.linalg.experimental` names: conjugate gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.linear_operators.arguments import batch_of, right_side
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.composed import check_operator
from tapegrad.ops.control.control_flow import while_loop
from tapegrad.ops.creation import constant, zeros_like
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.linalg.norms import norm
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.reduction.primitives import any as is_any, sum as sum_over
from tapegrad.ops.shape.functions import broadcast_to

__all__ = ["CGState", "conjugate_gradient"]


class CGState(NamedTuple):
    """The result: the number of steps, the solution, its residual, and the last direction.

    `gamma` is the inner product of the residual and the preconditioned residual.
    """

    i: Any
    x: Any
    r: Any
    p: Any
    gamma: Any


def conjugate_gradient(
    operator: Any,
    rhs: Any,
    preconditioner: Any = None,
    x: Any = None,
    tol: float = 1e-5,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:
    """Solve A @ x = rhs for a self-adjoint positive definite operator, for vectors `[..., n]`.

    The steps end when the residual is at most `tol` times that of the start, in all of a batch, or
    after `max_iter` steps. Gradients go through the steps.

    >>> from tapegrad.linalg import LinearOperatorDiag
    >>> operator = LinearOperatorDiag([1.0, 2.0], is_positive_definite=True)
    >>> conjugate_gradient(operator, [1.0, 4.0]).x.round(5).tolist()
    [1.0, 2.0]
    """
    _check_definite(operator, "operator")
    if preconditioner is not None:
        _check_definite(preconditioner, "preconditioner")
    limit = check_whole("max_iter", max_iter, "conjugate_gradient")
    b = right_side(rhs, operator.dtype, "conjugate_gradient", 1)
    lead = batch_of(tuple(b.shape[:-1]), operator.batch_shape)
    b = broadcast_to(b, (*lead, b.shape[-1]))
    start = zeros_like(b) if x is None else right_side(x, operator.dtype, "conjugate_gradient", 1)
    start = broadcast_to(start, tuple(b.shape))
    residual = b - operator.matvec(start)
    direction = _applied(preconditioner, residual)
    goal = norm(residual, axis=-1) * float(tol)

    def goes_on(i: Any, x: Any, r: Any, p: Any, gamma: Any) -> Any:
        return is_any(norm(r, axis=-1) > goal)

    def step(i: Any, x: Any, r: Any, p: Any, gamma: Any) -> tuple[Any, ...]:
        image = operator.matvec(p)
        alpha = divide_no_nan(gamma, _inner(p, image))
        x, r = x + alpha * p, r - alpha * image
        near = _applied(preconditioner, r)
        new = _inner(r, near)
        return i + 1, x, r, near + divide_no_nan(new, gamma) * p, new

    state = (constant(0), start, residual, direction, _inner(residual, direction))
    i, x, r, p, gamma = while_loop(goes_on, step, state, maximum_iterations=limit)
    return CGState(i, x, r, p, as_operand(gamma)[..., 0])


def _check_definite(operator: Any, name: str) -> None:
    check_operator(operator, "conjugate_gradient")
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ArgumentError(
            f"conjugate_gradient needs a {name} with the hints is_self_adjoint=True and "
            "is_positive_definite=True."
        )


def _applied(operator: LinearOperator | None, x: Any) -> Any:
    return x if operator is None else operator.matvec(x)


def _inner(x: Any, y: Any) -> Any:
    return sum_over(conjugate(x) * y, axis=-1, keepdims=True)


_check_calls(globals(), __all__)
