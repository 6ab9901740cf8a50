"""Differential operators: grad, jacobian and others, by reverse and forward mode."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import recompute_grad
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.tracing import (
    Recording,
    make_jvp as unary_make_jvp,
    make_vjp as unary_make_vjp,
    pushed,
)
from tapegrad.compat.autograd.values import Function, is_traced, own_structure, plain_structure
from tapegrad.compat.autograd.vspaces import vspace
from tapegrad.compat.autograd.wrap_util import get_name, unary_to_nary
from tapegrad.core.call_site import warn_outside
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError

make_vjp = unary_to_nary(unary_make_vjp)
make_jvp = unary_to_nary(unary_make_jvp)


@unary_to_nary
def grad(fun: Function, x: Any) -> Any:
    """Return the function that computes the gradient of `fun` with respect to argument `argnum`.

    `fun` must return a real scalar. The gradient has the structure of the argument.

    >>> float(grad(lambda x: x**3)(2.0))
    12.0
    """
    recording = Recording(fun, x)
    _check_scalar(recording.output, "grad")
    return recording.gradient()


@unary_to_nary
def value_and_grad(fun: Function, x: Any) -> Any:
    """Return the function that computes the value of `fun` and its gradient.

    >>> value, slope = value_and_grad(lambda x: x**3)(2.0)
    >>> float(value), float(slope)
    (8.0, 12.0)
    """
    recording = Recording(fun, x)
    _check_scalar(recording.output, "value_and_grad")
    return recording.value, recording.gradient()


@unary_to_nary
def elementwise_grad(fun: Function, x: Any) -> Any:
    """Return the function that computes the column sums of the Jacobian, in one sweep.

    For elementwise functions this is the derivative at each element.

    >>> elementwise_grad(lambda x: x**3)(np.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    recording = Recording(fun, x)
    space = vspace(recording.output)
    if space.iscomplex:
        raise ArgumentTypeError(
            f"elementwise_grad takes functions with real values. {get_name(fun)} is complex."
        )
    return recording.vjp(space.ones())


@unary_to_nary
def deriv(fun: Function, x: Any) -> Any:
    """Return the function that computes the derivative along a vector of ones, by forward mode.

    >>> float(deriv(lambda x: x**3)(2.0))
    12.0
    """
    return pushed(fun, x, vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun: Function, x: Any) -> Any:
    """Return the function that computes the Jacobian, of shape output.shape + input.shape.

    >>> jacobian(lambda x: x * x[0])(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [2.0, 1.0]]
    """
    recording = Recording(fun, x)
    if nest.is_nested(recording.output):
        raise ArgumentTypeError(
            f"jacobian takes functions that return one array. {get_name(fun)} returns a "
            f"{type(recording.output).__name__}."
        )
    return recording.jacobian()


@unary_to_nary
def hessian(fun: Function, x: Any) -> Any:
    """Return the function that computes the Hessian.

    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """Return the function that computes the complex derivative of a holomorphic function.

    >>> complex(holomorphic_grad(lambda z: z * z)(1.0 + 2.0j))
    (2+4j)
    """
    if not vspace(x).iscomplex:
        warn_outside("holomorphic_grad got an argument that is not complex.")
    return grad(lambda z: np.real(fun(z)))(x)


def _signature(fun: Any, who: str) -> inspect.Signature:
    if not callable(fun):
        raise ArgumentTypeError(f"{who} takes a function. Got {type(fun).__name__}.")
    return inspect.signature(fun)


def grad_named(fun: Function, argname: str) -> Function:
    """Return the function that computes the gradient with respect to a named parameter.

    >>> float(grad_named(lambda a, b: a * b * b, "b")(2.0, 3.0))
    12.0
    """
    names = list(_signature(fun, "grad_named").parameters)
    if type(argname) is not str or argname not in names:
        raise ArgumentError(
            f"{get_name(fun)} has no parameter {argname!r}. Its parameters are {', '.join(names)}."
        )
    return grad(fun, names.index(argname))  # type: ignore[no-any-return]


def multigrad_dict(fun: Function) -> Function:
    """Return the function that computes the gradients for all arguments, as a dict by name.

    >>> multigrad_dict(lambda a, b=2.0: a * b)(3.0)
    {'a': np.float64(2.0), 'b': np.float64(3.0)}
    """
    signature = _signature(fun, "multigrad_dict")

    def gradients(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_arguments(values: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, bound.arguments.__class__(values))
            return fun(*again.args, **again.kwargs)

        found: dict[str, Any] = grad(of_arguments)(dict(bound.arguments))
        return {name: found[name] for name in bound.arguments}

    return gradients


@unary_to_nary
def grad_and_aux(fun: Function, x: Any) -> Any:
    """Return the function that computes the gradient of the first output, and the second output.

    >>> slope, note = grad_and_aux(lambda x: (x * x, "noted"))(3.0)
    >>> float(slope), note
    (6.0, 'noted')
    """
    found: list[Any] = []

    def first(x: Any) -> Any:
        value, aux = fun(x)
        found.append(aux)
        return value

    recording = Recording(first, x)
    gradient = recording.vjp(vspace(recording.output).ones())
    return gradient, own_structure(found[0])


@unary_to_nary
def make_hvp(fun: Function, x: Any) -> Any:
    """Return the function that computes the Hessian-vector product at a point, and the gradient.

    >>> product, gradient = make_hvp(lambda x: x**3)(2.0)
    >>> float(product(1.0)), float(gradient)
    (12.0, 12.0)
    """
    return unary_make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """Return the function of `(*args, tensor)` that computes the Hessian times a tensor.

    >>> hessian_tensor_product(lambda x: np.sum(x**3))(np.ones(2), np.ones(2)).tolist()
    [6.0, 6.0]
    """
    gradient = grad(fun, argnum)

    def along(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        return np.tensordot(gradient(*rest, **kwargs), vector, np.ndim(vector))

    return grad(along, argnum)  # type: ignore[no-any-return]


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """Return the function of `(*args, tensor)` that computes a tensor times the Jacobian.

    >>> tensor_jacobian_product(lambda x: x**2)(np.ones(2), np.ones(2)).tolist()
    [2.0, 2.0]
    """

    def weighted(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        return np.tensordot(vector, fun(*rest, **kwargs), np.ndim(vector))

    return jacobian(weighted, argnum)  # type: ignore[no-any-return]


hessian_vector_product = hessian_tensor_product
vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """Return the function that maps tangents to tangents by two reverse sweeps.

    >>> float(make_jvp_reversemode(lambda x: x**3)(2.0)(1.0))
    12.0
    """
    pullback, y = unary_make_vjp(fun, x)
    return unary_make_vjp(pullback, vspace(y).zeros())[0]


def _half_square(x: Any) -> Any:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """Return the function that computes products with the Gauss-Newton matrix of g(f) at a point.

    >>> float(make_ggnvp(lambda x: x**2, lambda y: y**2)(3.0)(1.0))
    72.0
    """

    @unary_to_nary
    def products(f: Function, x: Any) -> Function:
        pullback, y = unary_make_vjp(f, x)
        hessian_of_g, _ = unary_make_vjp(grad(g), y)
        return lambda v: pullback(hessian_of_g(pushed(f, x, v)[1]))

    return products(f, f_argnum)  # type: ignore[no-any-return]


def checkpoint(fun: Function) -> Function:
    """Return `fun` with rematerialization: it runs again when its gradient is computed.

    >>> float(grad(checkpoint(lambda x: x**3))(2.0))
    12.0
    """
    recomputed = recompute_grad(fun)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any([is_traced(leaf) for leaf in nest.flatten((args, kwargs))]):
            return fun(*args, **kwargs)
        return plain_structure(recomputed(*args, **kwargs))

    call.__name__ = get_name(fun)
    return call


def _check_scalar(output: Any, operator: str) -> None:
    """Raise unless the value is one real number."""
    if type(output) is Tensor and output.dtype.is_floating and not output.shape:
        return
    space = vspace(output)
    if space.size != 1:
        raise ArgumentTypeError(
            f"{operator} takes functions that return a real scalar. Got {space}; use jacobian, "
            "elementwise_grad or holomorphic_grad."
        )


__all__ = [
    "checkpoint",
    "deriv",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "multigrad_dict",
    "primitive",
    "tensor_jacobian_product",
    "value_and_grad",
    "vector_jacobian_product",
]
