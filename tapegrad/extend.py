"""The extension interface: declare primitives, register gradients, register backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.exports import list_exports
from tapegrad.core.primitive.families import binary, elementwise, linear, nondifferentiable, unary
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.errors import ArgumentTypeError

__all__ = [
    "PRIMITIVES",
    "Backend",
    "Primitive",
    "binary",
    "elementwise",
    "linear",
    "no_gradient",
    "nondifferentiable",
    "register_backend",
    "register_gradient",
    "unary",
    "unregister_backend",
]


def register_gradient(primitive: Primitive) -> Callable[[Any], Any]:
    """Decorate the gradient rule of a primitive that has none.

    The rule takes the upstream gradient and then the values that it reads (`x1`, `x2`, ..., `y`).
    Keyword-only parameters receive the primitive's params. It returns one gradient per input.

    >>> import tapegrad
    >>> double = Primitive("register_gradient_example", lambda xp, x: x + x)
    >>> @register_gradient(double)
    ... def rule(t, x1):
    ...     return (t * 2.0,)
    >>> float(tapegrad.grad(double)(3.0))
    2.0
    >>> forgotten = PRIMITIVES.pop(double.name)
    """
    _check_primitive(primitive, "register_gradient")
    _check_open(primitive)
    return primitive.vjp


def no_gradient(primitive: Primitive) -> None:
    """Declare that a primitive has no derivative, so that gradients through it are None.

    >>> import tapegrad
    >>> count = Primitive("no_gradient_example", lambda xp, x: xp.round(x))
    >>> no_gradient(count)
    >>> x = tapegrad.Variable(2.5)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = count(x)
    >>> tape.gradient(y, x) is None
    True
    >>> forgotten = PRIMITIVES.pop(count.name)
    """
    _check_primitive(primitive, "no_gradient")
    _check_open(primitive)
    primitive.differentiable = False


def _check_primitive(primitive: Any, name: str) -> None:
    if not isinstance(primitive, Primitive):
        raise ArgumentTypeError(
            f"{name} takes a Primitive. Got {type(primitive).__name__}; "
            "PRIMITIVES['name'] finds one by its name."
        )


def _check_open(primitive: Primitive) -> None:
    if primitive.vjp_rules is not None or primitive.joint_vjp is not None:
        raise KeyError(f"{primitive.name} already has a gradient rule.")
    if not primitive.differentiable:
        raise KeyError(f"{primitive.name} is declared to have no gradient.")


list_exports(globals())
