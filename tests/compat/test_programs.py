"""Small programs as users of HIPS autograd write them, with answers that are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest
from scipy.optimize import minimize

import tapegrad.compat.autograd.numpy as np
import tapegrad.compat.autograd.numpy.random as npr
import tapegrad.compat.autograd.scipy.stats.multivariate_normal as mvn
import tapegrad.compat.autograd.scipy.stats.norm as norm
from tapegrad.compat.autograd import (
    checkpoint,
    elementwise_grad,
    grad,
    hessian,
    jacobian,
    make_vjp,
    value_and_grad,
)
from tapegrad.compat.autograd.misc.fixed_points import fixed_point
from tapegrad.compat.autograd.misc.flatten import flatten
from tapegrad.compat.autograd.misc.optimizers import adam, rmsprop, sgd
from tapegrad.compat.autograd.scipy.integrate import odeint
from tapegrad.compat.autograd.scipy.special import logsumexp
from tapegrad.compat.autograd.test_util import check_grads


def test_logistic_regression():
    inputs = onp.array(
        [[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]
    )
    targets = onp.array([True, True, False, True])

    def sigmoid(x):
        return 0.5 * (np.tanh(x / 2.0) + 1)

    def loss(weights):
        predictions = sigmoid(np.dot(inputs, weights))
        likely = predictions * targets + (1 - predictions) * (1 - targets)
        return -np.sum(np.log(likely))

    weights = onp.zeros(3)
    before = loss(weights)
    for _ in range(100):
        weights -= 0.1 * grad(loss)(weights)

    check_grads(loss)(weights)
    assert type(weights) is onp.ndarray
    assert loss(weights) < 0.3 * before
    exact = inputs.T @ (1 / (1 + onp.exp(-inputs @ weights)) - targets)
    onp.testing.assert_allclose(grad(loss)(weights), exact, rtol=1e-9)


def test_tanh_and_its_derivatives_to_the_sixth_order():
    x = onp.linspace(-2, 2, 9)
    f, found = np.tanh, []
    for _ in range(6):
        f = elementwise_grad(f)
        found.append(f(x))

    t = onp.polynomial.Polynomial([0.0, 1.0])
    derivative = t
    for order in range(6):  # d/dx p(tanh x) = p'(t) (1 - t^2)
        derivative = derivative.deriv() * (1 - t**2)
        onp.testing.assert_allclose(found[order], derivative(onp.tanh(x)), rtol=1e-9, atol=1e-9)


def test_neural_net_with_flat_weights_and_adam():
    rs = npr.RandomState(0)
    sizes = [1, 8, 8, 1]
    params = [(0.5 * rs.randn(m, n), 0.5 * rs.randn(n)) for m, n in pairwise(sizes)]
    inputs = onp.linspace(-2, 2, 30)[:, None]
    targets = onp.sin(2 * inputs)
    flat, unflatten = flatten(params)
    steps = []

    def predict(params, x):
        for W, b in params:
            outputs = np.dot(x, W) + b
            x = np.tanh(outputs)
        return outputs

    def objective(weights, i):
        return np.mean((predict(unflatten(weights), inputs) - targets) ** 2)

    trained = adam(
        grad(objective), flat, lambda x, i, g: steps.append(i), num_iters=300, step_size=0.03
    )

    assert steps == list(range(300))
    assert trained.shape == flat.shape
    assert objective(trained, 0) < 0.02 < objective(flat, 0)
    check_grads(lambda w: objective(w, 0), modes=["rev"], order=1)(flat)


@pytest.mark.parametrize("optimize", [sgd, rmsprop, adam])
def test_optimizers_take_parameters_in_any_structure(optimize):
    start = {"centre": onp.array([3.0, -2.0]), "height": 1.0}

    def energy(p, i):
        return np.sum((p["centre"] - 1.0) ** 2) + (p["height"] + 1.0) ** 2

    end = optimize(grad(energy), start, num_iters=400, step_size=0.05)

    assert set(end) == {"centre", "height"}
    onp.testing.assert_allclose(end["centre"], [1.0, 1.0], atol=0.05)
    onp.testing.assert_allclose(end["height"], -1.0, atol=0.05)


def test_a_mixture_of_normals_has_the_derivatives_of_its_likelihood():
    data = npr.RandomState(1).randn(20, 2)

    def log_likelihood(params):
        weights = params["logits"] - logsumexp(params["logits"])
        covariances = [np.dot(L.T, L) for L in params["roots"]]
        terms = [
            weight + mvn.logpdf(data, mean, cov)
            for weight, mean, cov in zip(weights, params["means"], covariances)
        ]
        return np.sum(logsumexp(np.vstack(terms), axis=0))

    params = {
        "logits": onp.array([0.1, -0.2]),
        "means": onp.array([[0.5, 0.0], [-0.5, 1.0]]),
        "roots": onp.array([onp.eye(2), [[1.2, 0.3], [0.0, 0.8]]]),
    }

    check_grads(log_likelihood, modes=["rev"], order=1)(params)


def test_expected_counts_of_a_hidden_markov_model_are_a_gradient():
    rs = npr.RandomState(2)
    transition = onp.log(rs.dirichlet(onp.ones(3), 3))
    emission = onp.log(rs.dirichlet(onp.ones(4), 3))
    seen = rs.randint(0, 4, 6)

    def log_partition(start, pairs, nodes):
        alpha = start + nodes[0]
        for t in range(1, len(nodes)):
            alpha = logsumexp(alpha[:, None] + pairs, axis=0) + nodes[t]
        return logsumexp(alpha)

    def enumerate_pairs(pairs):
        paths = onp.array(onp.meshgrid(*[range(3)] * 6)).reshape(6, -1).T
        scores = pairs[paths[:, :-1], paths[:, 1:]].sum(1) + emission[paths, seen].sum(1)
        return paths, onp.exp(scores - onp.logaddexp.reduce(scores))

    nodes = emission[:, seen].T
    found = grad(log_partition, (1, 2))(onp.zeros(3), transition, nodes)
    paths, weights = enumerate_pairs(transition)
    counts = onp.zeros((3, 3))
    for path, weight in zip(paths, weights):
        for a, b in pairwise(path):
            counts[a, b] += weight

    onp.testing.assert_allclose(found[0], counts, rtol=1e-9)
    onp.testing.assert_allclose(found[1].sum(axis=1), onp.ones(6))


def test_a_recurrent_net_with_gates():
    rs = npr.RandomState(3)
    width, length = 4, 5
    params = {
        name: rs.randn(2 + width, width) * 0.5 for name in ("forget", "ingate", "out", "change")
    }
    inputs = rs.randn(length, 3, 2)

    def sigmoid(x):
        return 0.5 * (np.tanh(x) + 1.0)

    def loss(params):
        hiddens, cells = np.zeros((3, width)), np.zeros((3, width))
        total = 0.0
        for step in inputs:
            joined = np.hstack((step, hiddens))
            forget, ingate, out = (
                sigmoid(np.dot(joined, params[name])) for name in ("forget", "ingate", "out")
            )
            cells = cells * forget + ingate * np.tanh(np.dot(joined, params["change"]))
            hiddens = out * np.tanh(cells)
            total = total + np.sum(hiddens**2)
        return total / length

    check_grads(loss, modes=["rev"], order=1)(params)
    onp.testing.assert_allclose(
        grad(checkpoint(loss))(params)["out"], grad(loss)(params)["out"], rtol=1e-12
    )


def test_an_ode_is_differentiated_by_its_adjoint():
    def decay(y, t, rate, push):
        return -rate * y + push

    times = onp.linspace(0.0, 2.0, 5)
    y0, rate, push = onp.array([1.0, 2.0]), 0.7, onp.array([0.1, -0.3])

    def final(y0, times, rate, push):
        return np.sum(odeint(decay, y0, times, (rate, push))[-1])

    def exact(y0, times, rate, push):
        span = times[-1] - times[0]
        return np.sum(y0 * np.exp(-rate * span) + push / rate * (1 - np.exp(-rate * span)))

    found = grad(final, (0, 1, 2, 3))(y0, times, rate, push)
    wanted = grad(exact, (0, 1, 2, 3))(y0, times, rate, push)

    for mine, theirs in zip(found, wanted):
        onp.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_an_ode_has_second_derivatives():
    def final(rate):
        return odeint(
            lambda y, t, rate: -rate * y, onp.array([1.0]), onp.array([0.0, 1.0]), (rate,)
        )[1, 0]

    onp.testing.assert_allclose(grad(grad(final))(0.5), onp.exp(-0.5), rtol=1e-5)


def test_black_box_variational_inference():
    def log_density(x):
        return norm.logpdf(x[:, 0], 0.0, 1.35) + norm.logpdf(x[:, 1], 0.0, np.exp(x[:, 0]))

    noise = npr.RandomState(0).randn(200, 2)

    def objective(params, t):
        mean, log_std = params[:2], params[2:]
        samples = mean + np.exp(log_std) * noise
        entropy = np.sum(log_std) + 2 * 0.5 * (1.0 + np.log(2 * np.pi))
        return -(entropy + np.mean(log_density(samples)))

    start = onp.concatenate([-onp.ones(2), -5 * onp.ones(2)])
    end = adam(grad(objective), start, step_size=0.1, num_iters=200)

    assert objective(end, 0) < objective(start, 0) - 3.0
    check_grads(lambda p: objective(p, 0), modes=["rev"], order=1)(end)


def test_a_fixed_point_is_differentiated_by_its_equation():
    def newton(a):
        return lambda x: 0.5 * (x + a / x)

    def distance(x, y):
        return np.abs(x - y)

    def root(a, guess=1.0):
        return fixed_point(newton, a, guess, distance, 1e-12)

    onp.testing.assert_allclose(root(2.0), onp.sqrt(2.0))
    onp.testing.assert_allclose(grad(root)(2.0), 0.5 / onp.sqrt(2.0))
    onp.testing.assert_allclose(grad(grad(root))(2.0), -0.25 * 2.0**-1.5)


def test_rosenbrock_is_minimised_by_scipy():
    def rosenbrock(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    start = onp.array([-1.0, 0.5])
    with_gradient = minimize(value_and_grad(rosenbrock), start, jac=True, method="BFGS")
    with_hessian = minimize(
        rosenbrock, start, jac=grad(rosenbrock), hess=hessian(rosenbrock), method="Newton-CG"
    )

    onp.testing.assert_allclose(with_gradient.x, [1.0, 1.0], atol=1e-4)
    onp.testing.assert_allclose(with_hessian.x, [1.0, 1.0], atol=1e-4)


def test_a_gaussian_process_learns_its_length_scale():
    x = onp.linspace(-3, 3, 15)[:, None]
    y = onp.sin(x[:, 0])

    def log_marginal(log_params):
        scale, length, noise = np.exp(log_params)
        distances = (x[:, None, 0] - x[None, :, 0]) / length
        covariance = scale * np.exp(-0.5 * distances**2) + (noise + 1e-6) * np.eye(len(y))
        return -mvn.logpdf(y, np.zeros(len(y)), covariance)

    start = onp.log([1.0, 0.3, 0.1])
    found = minimize(value_and_grad(log_marginal), start, jac=True, method="L-BFGS-B")

    assert found.fun < log_marginal(start) - 5.0
    check_grads(log_marginal, modes=["rev"], order=1)(start)


def test_an_implicit_jacobian_through_a_linear_solve():
    def solution(a):
        matrix = np.array([[a[0], 1.0], [1.0, a[1]]])
        return np.linalg.solve(matrix, np.array([1.0, a[0] * a[1]]))

    a = onp.array([3.0, 2.0])
    J = jacobian(solution)(a)
    vjp, _ = make_vjp(solution)(a)

    onp.testing.assert_allclose(vjp(onp.array([1.0, 2.0])), onp.array([1.0, 2.0]) @ J)
    check_grads(solution)(a)


def test_learning_rates_are_learned_through_an_optimizer():
    def loss_after_training(rate):
        x = sgd(lambda x, i: 2.0 * x, onp.ones(2), num_iters=5, step_size=rate, mass=0.0)
        return np.sum(x**2)

    onp.testing.assert_allclose(loss_after_training(0.1), 2 * 0.8**10)
    onp.testing.assert_allclose(grad(loss_after_training)(0.1), 2 * 10 * 0.8**9 * -2.0)
