"""The operators of HIPS autograd: what they return, for which arguments, and what they refuse."""

from __future__ import annotations

from collections import namedtuple

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest

import tapegrad.compat.autograd.numpy as np
from tapegrad.compat import autograd
from tapegrad.compat.autograd import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    value_and_grad,
    vector_jacobian_product,
)
from tapegrad.compat.autograd.test_util import check_grads

X = onp.array([0.3, -1.2, 2.0])
A = onp.array([[1.0, 2.0, -1.0], [0.5, -0.3, 4.0]])


def close(found, wanted):
    onp.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_the_package_is_reached_as_an_attribute():
    import tapegrad

    assert tapegrad.compat.autograd is autograd
    assert autograd.numpy is np


def test_grad_of_a_float_is_a_float():
    slope = grad(lambda x: x**3)(2.0)

    assert isinstance(slope, float)
    assert slope == 12.0


def test_grad_of_an_array_is_an_array_of_its_dtype():
    for dtype in ("float64", "float32", "float16"):
        gradient = grad(lambda x: np.sum(x**2))(X.astype(dtype))

        assert type(gradient) is onp.ndarray
        assert gradient.dtype == dtype


def test_a_gradient_can_be_written_into():
    gradient = grad(np.sum)(X)
    gradient += 1.0

    close(gradient, [2.0, 2.0, 2.0])


def test_grad_takes_an_array_with_one_entry_for_a_scalar():
    close(grad(lambda x: np.sum(x**2, keepdims=True))(X), 2 * X)


def test_grad_by_several_arguments_is_a_tuple():
    found = grad(lambda a, b, c: a * b * c, [0, 2])(2.0, 3.0, 4.0)

    assert found == (12.0, 6.0)
    assert isinstance(found, tuple)


def test_grad_passes_keywords_on():
    assert grad(lambda x, scale=1.0: scale * x)(3.0, scale=5.0) == 5.0


def test_derivatives_nest():
    third = grad(grad(grad(lambda x: x**4 * np.sin(x))))
    x = 1.3
    sin, cos = onp.sin(x), onp.cos(x)

    close(third(x), 24 * x * sin + 36 * x**2 * cos - 12 * x**3 * sin - x**4 * cos)


def test_inner_and_outer_variables_are_kept_apart():
    def f(x):
        return x * grad(lambda y: x * y**2)(2.0)

    assert grad(f)(3.0) == 24.0


def test_a_constant_has_gradient_zero():
    close(grad(lambda x: 1.0)(X), onp.zeros(3))


def test_containers_are_arguments_and_gradients_are_built_like_them():
    Pair = namedtuple("Pair", "left right")
    parameters = {"w": [X, 2.0], "p": Pair(1.0, (X, {"b": 3.0}))}

    def f(p):
        return np.sum(p["w"][0] ** 2) * p["w"][1] + p["p"].left * p["p"].right[1]["b"]

    found = grad(f)(parameters)

    close(found["w"][0], 4 * X)
    assert found["w"][1] == onp.sum(X**2)
    assert isinstance(found["p"], Pair)
    assert found["p"].left == 3.0
    close(found["p"].right[0], onp.zeros(3))
    assert found["p"].right[1] == {"b": 1.0}


def test_functions_may_return_containers():
    vjp, value = make_vjp(lambda x: {"a": x**2, "b": (x, 1.0)})(3.0)

    assert value == {"a": 9.0, "b": (3.0, 1.0)}
    assert vjp({"a": 1.0, "b": (10.0, 5.0)}) == 16.0


def test_value_and_grad_gives_both():
    value, gradient = value_and_grad(lambda x: np.sum(x**2))(X)

    assert value == onp.sum(X**2)
    close(gradient, 2 * X)


def test_elementwise_grad_sums_what_is_broadcast():
    close(elementwise_grad(lambda x: x**3)(X), 3 * X**2)
    close(elementwise_grad(lambda x, y: x * y)(2.0, X), onp.sum(X))


def test_deriv_is_forward_mode():
    close(deriv(np.sin)(1.1), onp.cos(1.1))


def test_jacobian_has_the_shape_of_output_and_input():
    found = jacobian(lambda x: np.outer(x, x))(X)

    assert found.shape == (3, 3, 3)
    close(found, onp.einsum("ik,j->ijk", onp.eye(3), X) + onp.einsum("jk,i->ijk", onp.eye(3), X))


def test_jacobian_of_a_constant_is_zero():
    assert jacobian(lambda x: onp.ones((2, 2)))(X).shape == (2, 2, 3)


def test_hessian_of_a_matrix_argument():
    found = hessian(lambda a: np.sum(a**3))(A)

    close(found, (6 * A)[:, :, None, None] * onp.eye(6).reshape(2, 3, 2, 3))


def test_vector_products_agree_with_the_matrices():
    def scalar(x):
        return np.sum(np.tanh(x) ** 2)

    def vector(x):
        return np.tanh(np.dot(A, x))

    v, u = onp.array([1.0, -2.0, 0.5]), onp.array([0.7, 3.0])
    H, J = hessian(scalar)(X), jacobian(vector)(X)
    HG = J.T @ J  # of half the square of the outputs

    close(hessian_vector_product(scalar)(X, v), H @ v)
    close(make_hvp(scalar)(X)[0](v), H @ v)
    close(vector_jacobian_product(vector)(X, u), u @ J)
    close(make_vjp(vector)(X)[0](u), u @ J)
    close(make_jvp(vector)(X)(v)[1], J @ v)
    close(make_ggnvp(vector)(X)(v), HG @ v)


def test_grad_and_aux_passes_the_second_output_on():
    gradient, aux = grad_and_aux(lambda x: (np.sum(x**2), {"twice": 2 * x, "note": "as is"}))(X)

    close(gradient, 2 * X)
    close(aux["twice"], 2 * X)
    assert aux["note"] == "as is"


def test_arguments_are_found_by_name():
    assert grad_named(lambda a, b: a * b**2, "b")(2.0, 3.0) == 12.0
    assert multigrad_dict(lambda a, b, c=4.0: a * b * c)(2.0, 3.0) == {
        "a": 12.0,
        "b": 8.0,
        "c": 6.0,
    }


def test_checkpoint_changes_no_derivative():
    def f(x, scale):
        return np.sum(np.sin(x * scale) ** 3)

    check_grads(checkpoint(f))(X, 1.5)
    close(grad(checkpoint(f))(X, 1.5), grad(f)(X, 1.5))
    assert checkpoint(f)(X, 1.5) == f(X, 1.5)


def test_complex_gradients_are_those_of_hips_autograd():
    z = onp.array([1.0 + 2.0j, -0.5 + 0.3j])

    close(grad(lambda z: np.sum(np.abs(z) ** 2))(z), 2 * onp.conj(z))
    close(grad(lambda z: np.real(np.sum(z**2)))(z), 2 * z)
    close(grad(lambda z: np.imag(np.sum(z**2)))(z), -2j * z)
    close(holomorphic_grad(lambda z: np.sum(np.exp(z) * z))(z), onp.exp(z) * (z + 1))
    close(make_vjp(lambda z: 1j * z**2)(z)[0](z), 2j * z * z)


def test_holomorphic_grad_warns_of_real_arguments():
    with pytest.warns(UserWarning, match="not complex"):
        assert holomorphic_grad(lambda x: x**2)(3.0) == 6.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: grad(lambda x: 2 * x)(X), "grad takes functions that return a real scalar"),
        (lambda: grad(lambda x: 1j * x)(2.0), "grad takes functions that return a real scalar"),
        (lambda: value_and_grad(lambda x: x)(X), "value_and_grad takes functions that return"),
        (lambda: grad(lambda x: x)(3), "argument of type int is not differentiable"),
        (lambda: grad(lambda x: x)("a"), "argument of type str is not differentiable"),
        (lambda: grad(lambda x: None)(1.0), "no vector space for values of type NoneType"),
        (lambda: grad(lambda x: x, argnum="x"), "argnum must be an int"),
        (lambda: grad(3.0), "grad takes a function"),
        (lambda: elementwise_grad(lambda x: 1j * x)(X), "takes functions with real values"),
        (lambda: jacobian(lambda x: [x])(X), "jacobian takes functions that return one array"),
    ],
)
def test_wrong_uses_are_type_errors(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_wrong_numbers_and_shapes_are_value_errors():
    with pytest.raises(ValueError, match="positional argument 2, but was called with 1"):
        grad(lambda *xs: xs[0], 2)(1.0)
    with pytest.raises(ValueError, match="has no parameter 'c'"):
        grad_named(lambda a, b: a * b, "c")
    with pytest.raises(ValueError, match=r"must have the shape \(3,\)"):
        make_vjp(lambda x: 2 * x)(X)[0](onp.ones(2))
    with pytest.raises(ValueError, match="the structure of the function's value, with 2 leaves"):
        make_vjp(lambda x: (x, x))(X)[0](onp.ones(3))
    with pytest.raises(ValueError, match="the structure of its argument, with 2 leaves"):
        make_jvp(lambda p: p[0] * p[1])((1.0, 2.0))((1.0,))


def test_functions_that_operators_return_have_telling_names():
    def energy(x):
        return x

    assert grad.__name__ == "grad"
    assert grad(energy, 1).__name__ == "grad_of_energy_wrt_argnum_1"
