"""Fixed points, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.compat.autograd.core import defvjp
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.tracing import make_vjp
from tapegrad.compat.autograd.vspaces import vspace

Function = Callable[..., Any]


@primitive
def fixed_point(f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Any:
    """Return x with `f(a)(x) == x`, by iteration from `x0` until the distance is below `tol`.

    >>> root = fixed_point(lambda a: lambda x: 0.5 * (x + a / x), 2.0, 1.0,
    ...                    lambda x, y: abs(x - y), 1e-12)
    >>> round(root, 6)
    1.414214
    """
    step = f(a)
    before, x = x0, step(x0)
    while distance(x, before) > tol:
        before, x = x, step(x)
    return x


def _by_a(ans: Any, f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Function:
    """Solve w = g + w df/dx, again a fixed point; the cotangent of `a` is then w df/da."""
    pull_a, _ = make_vjp(lambda a: f(a)(ans), a)

    def adjoint_step(parameters: Any) -> Function:
        a, x, g = parameters
        pull_x, _ = make_vjp(f(a), x)
        return lambda w: vspace(x).add(pull_x(w), g)

    def vjp(g: Any) -> Any:
        start = vspace(x0).zeros()
        return pull_a(fixed_point(adjoint_step, (a, ans, g), start, distance, tol))

    return vjp


defvjp(fixed_point, None, _by_a, None)
