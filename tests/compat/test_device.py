"""On a device that is not the CPU, arrays are tensors there, and nothing comes to the host."""

from __future__ import annotations

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest

import tapegrad as tf
import tapegrad.compat.autograd.numpy as np
import tapegrad.compat.autograd.numpy.random as npr
import tapegrad_strict as strict
from tapegrad.compat.autograd import grad, hessian, jacobian, make_jvp, value_and_grad
from tapegrad.compat.autograd.extend import defvjp, primitive
from tapegrad.compat.autograd.misc.flatten import flatten
from tapegrad.compat.autograd.misc.optimizers import adam
from tapegrad.compat.autograd.scipy.integrate import odeint
from tapegrad.compat.autograd.scipy.special import logsumexp
from tapegrad.compat.autograd.test_util import check_grads
from tapegrad.extend import register_backend, unregister_backend

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def device():
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"):
        yield "strict:0"
    unregister_backend("strict")


def test_arrays_are_made_on_the_device(device):
    arrays = [
        np.zeros(3),
        np.array([1.0, 2.0]),
        np.linspace(0, 1, 4),
        np.ones((2, 2)),
        npr.randn(3),
    ]

    assert [x.device for x in arrays] == [device] * 5
    assert [x.dtype.name for x in arrays] == ["float64"] * 5


def test_gradients_are_on_the_device(device):
    x = np.linspace(0.0, 1.0, 5)
    host = onp.linspace(0.0, 1.0, 5)

    with tf.debug.transfers("raise"):
        value, gradient = value_and_grad(lambda x: np.sum(np.tanh(x) ** 2) + logsumexp(x))(x)
        found = [
            gradient,
            jacobian(lambda x: np.outer(x, x))(x),
            hessian(lambda x: np.sum(x**3))(x),
            make_jvp(np.sin)(x)(np.ones(5))[1],
            grad(lambda x: np.sum(x * host))(x),
        ]

    assert {y.device for y in (value, *found)} == {device}
    onp.testing.assert_allclose(found[2].numpy(), onp.diag(6 * host))


def test_primitives_run_on_the_device(device):
    seen = []

    @primitive
    def exp(x):
        seen.append(x.device)
        return np.exp(x)

    defvjp(exp, lambda ans, x: lambda g: g * ans)

    check_grads(lambda x: np.sum(exp(x)))(np.ones(3))
    assert set(seen) == {device}


def test_differential_equations_are_solved_on_the_device(device):
    def final(y0, rate):
        return np.sum(odeint(lambda y, t, rate: -rate * y, y0, np.array([0.0, 1.0]), (rate,))[1])

    by_y0, by_rate = grad(final, (0, 1))(np.ones(2), 0.5)

    assert by_y0.device == device
    onp.testing.assert_allclose(by_y0.numpy(), onp.exp(-0.5) * onp.ones(2), rtol=1e-5)
    onp.testing.assert_allclose(float(by_rate), -2 * onp.exp(-0.5), rtol=1e-5)


def test_a_training_loop_stays_on_the_device(device):
    params = {"w": np.zeros((3, 2)), "b": np.zeros(2)}
    inputs = np.array(onp.random.RandomState(0).randn(10, 3))
    targets = np.dot(inputs, np.array([[1.0, 2.0], [0.0, -1.0], [0.5, 0.0]]))

    def loss(p, i):
        return np.mean((np.dot(inputs, p["w"]) + p["b"] - targets) ** 2)

    with tf.debug.transfers("raise"):
        trained = adam(grad(loss), params, num_iters=50, step_size=0.1)

    assert trained["w"].device == device
    assert float(loss(trained, 0)) < 0.5 * float(loss(params, 0))
    assert flatten(params)[0].device == device


def test_who_gives_arrays_of_the_host_gets_such_back(device):
    x, seen = onp.array([0.5, 1.0]), []

    def f(x):
        seen.append(x.device)
        return np.sum(np.sin(x) * x)

    value, gradient = value_and_grad(f)(x)
    moved, tangent = make_jvp(f)(x)(onp.ones(2))
    found = [gradient, jacobian(np.sin)(x), hessian(f)(x), grad(f)({"a": x}["a"]), np.exp(x)]

    assert {type(y) for y in found} == {onp.ndarray}
    assert {type(y) for y in (value, moved, tangent, grad(np.sin)(0.5))} == {onp.float64}
    assert set(seen) == {device}
    onp.testing.assert_allclose(gradient, onp.cos(x) * x + onp.sin(x))


def test_arrays_that_were_made_there_stay_there(device):
    mixed = grad(lambda parts: np.sum(parts["here"] * parts["there"]))(
        {"here": onp.ones(2), "there": np.ones(2)}
    )

    assert type(mixed["here"]) is onp.ndarray
    assert mixed["there"].device == device
    assert np.array(onp.ones(2)).device == device
    assert logsumexp(np.ones(2)).device == device
    assert type(logsumexp(onp.ones(2))) is onp.float64


def test_a_minimiser_of_scipy_drives_a_function_on_the_device(device):
    minimize = pytest.importorskip("scipy.optimize").minimize
    found = minimize(value_and_grad(lambda x: np.sum((x - 3.0) ** 4)), onp.zeros(2), jac=True)

    onp.testing.assert_allclose(found.x, 3.0, atol=0.05)
