"""`odeint` with gradients by the adjoint equation, which stores no solver steps."""

from __future__ import annotations

import importlib.util
from typing import Any

from tapegrad.compat.autograd import numpy as np
from tapegrad.compat.autograd.core import defvjp_argnums
from tapegrad.compat.autograd.misc.flatten import flatten
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.tracing import make_vjp
from tapegrad.compat.autograd.values import Function, plain, uses_tensors
from tapegrad.scipy import integrate

__all__ = ["odeint"]


def odeint(func: Function, y0: Any, t: Any, args: tuple[Any, ...] = (), **options: Any) -> Any:
    """Return the solution of dy/dt = func(y, t, *args) at the times `t`, one row each.

    On the CPU, SciPy's solver of this name computes it and takes `options`. On other devices, or
    without SciPy, tapegrad's solver does. It is differentiable in `y0`, `t` and `args`.

    >>> import numpy
    >>> rows = odeint(lambda y, t: -y, numpy.array([1.0]), numpy.array([0.0, 1.0]))
    >>> round(float(rows[1, 0]), 6)
    0.367879
    """
    if uses_tensors() or importlib.util.find_spec("scipy") is None:
        return plain(integrate.odeint(func, y0, t, tuple(args), **options))
    return _solved(func, y0, t, tuple(args), **options)


@primitive
def _solved(func: Function, y0: Any, t: Any, args: tuple[Any, ...], **options: Any) -> Any:
    return importlib.import_module("scipy.integrate").odeint(func, y0, t, args, **options)


def _adjoint(argnums: Any, rows: Any, args: Any, options: dict[str, Any]) -> Function:
    """Solve a' = -a df/dy backwards from the last time; each row adds its cotangent to a."""
    func, _, t, func_args = args
    parameters, unflatten = flatten(func_args)
    size, count = np.shape(rows)[1], np.shape(rows)[0]

    def slope(y: Any, time: Any, parameters: Any) -> Any:
        return func(y, time, *unflatten(parameters))

    def backwards(state: Any, time: Any, parameters: Any) -> Any:
        y, a = state[:size], state[size : 2 * size]
        pull, dy = make_vjp(lambda s: slope(s[0], time, s[1]), (y, parameters))
        by_y, by_parameters = pull(-a)
        return np.concatenate([np.ravel(dy), by_y, by_parameters])

    def vjp(g: Any) -> list[Any]:
        a, by_args = 0.0 * g[0], 0.0 * parameters
        by_time = []
        for i in range(count - 1, 0, -1):
            a = a + g[i]
            by_time.append(np.sum(g[i] * func(rows[i], t[i], *func_args)))
            state = np.concatenate([rows[i], a, by_args])
            span = np.stack([t[i], t[i - 1]])
            end = _solved(backwards, state, span, (parameters,), **options)[1]
            a, by_args = end[size : 2 * size], end[2 * size :]
        by_time.append(-np.sum(a * func(rows[0], t[0], *func_args)))
        shares = {1: a + g[0], 2: np.stack(by_time[::-1]), 3: unflatten(by_args)}
        return [shares[argnum] for argnum in argnums]

    return vjp


defvjp_argnums(_solved, _adjoint)
