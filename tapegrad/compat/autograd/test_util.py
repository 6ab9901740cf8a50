"""Checks of derivatives against finite differences, for functions of arrays and containers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from tapegrad.compat.autograd.tracing import make_jvp, make_vjp
from tapegrad.compat.autograd.vspaces import vspace
from tapegrad.compat.autograd.wrap_util import Function, get_name, unary_to_nary
from tapegrad.errors import ArgumentError

TOL = 1e-6
RTOL = 1e-6
EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Return whether two numbers are close, absolutely or relatively.

    >>> scalar_close(1.0, 1.0 + 1e-9), scalar_close(1.0, 1.1)
    (True, False)
    """
    difference = abs(a - b)
    return bool(difference < TOL) or bool(difference / abs(a + b) < RTOL)


def make_numerical_jvp(f: Function, x: Any) -> Function:
    """Return the function that maps a direction to the central difference of `f` along it.

    >>> round(float(make_numerical_jvp(lambda x: x * x, 3.0)(1.0)), 6)
    6.0
    """
    of_x, of_y = vspace(x), vspace(f(x))

    def jvp(v: Any) -> Any:
        ahead = f(of_x.add(x, of_x.scalar_mul(v, EPS / 2)))
        behind = f(of_x.add(x, of_x.scalar_mul(v, -EPS / 2)))
        step = of_y.add(ahead, of_y.scalar_mul(behind, -1.0))
        return of_y.scalar_mul(step, 1.0 / EPS)

    return jvp


def check_vjp(f: Function, x: Any) -> None:
    """Raise AssertionError if reverse mode disagrees with a difference in a random direction.

    >>> check_vjp(lambda x: x * x, 3.0)
    """
    vjp, y = make_vjp(f, x)
    of_x, of_y = vspace(x), vspace(y)
    x_v, y_v = of_x.randn(), of_y.randn()
    pulled = of_x.covector(vjp(of_y.covector(y_v)))
    if vspace(pulled) != of_x:
        raise AssertionError(f"The VJP of {get_name(f)} is in {vspace(pulled)} instead of {of_x}.")
    exact = of_x.inner_prod(x_v, pulled)
    numeric = of_y.inner_prod(y_v, make_numerical_jvp(f, x)(x_v))
    if not scalar_close(numeric, exact):
        raise AssertionError(
            f"The derivative (VJP) check of {get_name(f)} failed at {x}: {exact} by rule, "
            f"{numeric} by difference."
        )


def check_jvp(f: Function, x: Any) -> None:
    """Raise AssertionError if forward mode disagrees with a difference in a random direction.

    >>> check_jvp(lambda x: x * x, 3.0)
    """
    x_v = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(x_v)[1], make_numerical_jvp(f, x)(x_v))


def check_equivalent(x: Any, y: Any) -> None:
    """Raise AssertionError if two values differ in shape, dtype or value.

    >>> check_equivalent([1.0, 2.0], [1.0, 2.0])
    """
    of_x, of_y = vspace(x), vspace(y)
    if of_x != of_y:
        raise AssertionError(f"The values are in different spaces: {of_x} and {of_y}.")
    v = of_x.randn()
    if not scalar_close(of_x.inner_prod(x, v), of_x.inner_prod(y, v)):
        raise AssertionError(f"The values differ: {x} and {y}.")


@unary_to_nary
def check_grads(f: Function, x: Any, modes: Sequence[str] | None = None, order: int = 2) -> None:
    """Check the derivatives of `f` up to an order, by both modes or the given ones.

    >>> check_grads(lambda x: x * x * x)(2.0)
    """
    wanted = ["fwd", "rev"] if modes is None else modes
    if any(mode not in ("fwd", "rev") for mode in wanted):
        raise ArgumentError(f"modes may hold 'fwd' and 'rev'. Got {modes!r}.")
    if "fwd" in wanted:
        check_jvp(f, x)
        if order > 1:
            _check_next(_jvp_of(f), x, vspace(x).randn(), wanted, order)
    if "rev" in wanted:
        check_vjp(f, x)
        if order > 1:
            _check_next(_vjp_of(f), x, vspace(f(x)).randn(), wanted, order)


def _jvp_of(f: Function) -> Function:
    def jvp(x: Any, v: Any) -> Any:
        return make_jvp(f, x)(v)[1]

    jvp.__name__ = f"jvp_{get_name(f)}"
    return jvp


def _vjp_of(f: Function) -> Function:
    def vjp(x: Any, v: Any) -> Any:
        return make_vjp(f, x)[0](v)

    vjp.__name__ = f"vjp_{get_name(f)}"
    return vjp


def _check_next(derivative: Function, x: Any, v: Any, modes: Sequence[str], order: int) -> None:
    check_grads(derivative, (0, 1), modes, order=order - 1)(x, v)


def combo_check(fun: Function, *args: Any, **kwargs: Any) -> Function:
    """Return a function that checks `fun` for all combinations of the given arguments.

    >>> combo_check(lambda x, power: x**power, order=1)([1.0, 2.0], power=[2, 3])
    """

    def check(*choices: Any, **named: Any) -> None:
        names = list(named)
        for positional in product(*choices):
            for values in product(*named.values()):
                check_grads(fun, *args, **kwargs)(*positional, **dict(zip(names, values)))

    return check
