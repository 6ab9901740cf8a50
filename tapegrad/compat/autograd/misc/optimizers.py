"""Gradient descent with momentum, RMSProp and Adam, for parameters in any structure.

`grad(x, i)` gets the parameters and the step number; `callback(x, i, g)` is called before each
step. The optimizers are plain functions, so they can be differentiated through.
"""

from __future__ import annotations

from typing import Any

from tapegrad.compat.autograd import numpy as np
from tapegrad.compat.autograd.misc.flatten import flatten
from tapegrad.compat.autograd.wrap_util import Function, wraps


def unflatten_optimizer(optimize: Function) -> Function:
    """Let an optimizer of vectors take parameters in any structure.

    >>> @unflatten_optimizer
    ... def one_step(grad, x, callback=None):
    ...     return x - grad(x, 0)
    >>> one_step(lambda x, i: {"a": x["a"]}, {"a": 2.0})
    {'a': np.float64(0.0)}
    """

    @wraps(optimize)
    def of_structures(
        grad: Function, x0: Any, callback: Function | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        vector, unflatten = flatten(x0)

        def gradient(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def report(x: Any, i: int, g: Any) -> None:
            if callback is not None:
                callback(unflatten(x), i, unflatten(g))

        return unflatten(optimize(gradient, vector, report, *args, **kwargs))

    return of_structures


def _quiet(x: Any, i: int, g: Any) -> None:
    """Do nothing; the default callback."""


@unflatten_optimizer
def sgd(
    grad: Function,
    x: Any,
    callback: Function = _quiet,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Minimize by gradient descent with momentum.

    >>> abs(sgd(lambda x, i: 2.0 * x, 3.0)) < 0.01
    np.True_
    """
    velocity = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(
    grad: Function,
    x: Any,
    callback: Function = _quiet,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Minimize by RMSProp: steps divided by the root of a running mean of squared gradients.

    >>> abs(rmsprop(lambda x, i: 2.0 * x, 3.0)) < 0.1
    np.True_
    """
    mean_square = np.ones(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        mean_square = gamma * mean_square + (1.0 - gamma) * g**2
        x = x - step_size * g / (np.sqrt(mean_square) + eps)
    return x


@unflatten_optimizer
def adam(
    grad: Function,
    x: Any,
    callback: Function = _quiet,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Minimize by Adam: bias-corrected running means of gradients and of their squares.

    >>> abs(adam(lambda x, i: 2.0 * x, 0.3, step_size=0.01)) < 0.05
    np.True_
    """
    first, second = np.zeros(len(x)), np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        first = b1 * first + (1.0 - b1) * g
        second = b2 * second + (1.0 - b2) * g**2
        unbiased = first / (1.0 - b1 ** (i + 1))
        spread = np.sqrt(second / (1.0 - b2 ** (i + 1)))
        x = x - step_size * unbiased / (spread + eps)
    return x
