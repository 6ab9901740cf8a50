"""Differentiate through estimators of scikit-learn, which compute with tapegrad's arrays.

Every gradient is compared with a central difference: all but one agree by themselves. The solver
of LogisticRegression computes in SciPy with NumPy arrays, and its coefficients have no derivatives.
`differentiable` returns the same coefficients with derivatives by the implicit function theorem: it
minimizes the same objective again, from the solution.

The greatest relative difference from the central differences is below 1e-7.
scikit-learn must be installed, and SCIPY_ARRAY_API=1 must be set before SciPy is imported.
"""

import argparse
import os
import sys
import warnings

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import tapegrad as tf
import tapegrad.numpy as xp
from tapegrad.errors import TapeExitWarning
from tapegrad.scipy import optimize

C = 0.5


def data(count):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4))
    y = x @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * rng.normal(size=count)
    return x, xp.asarray(y), xp.asarray((y > 0).astype("int64")), rng.normal(size=x.shape)


def logistic_objective(parameters, x, labels):
    """What LogisticRegression minimizes: the intercept is the last parameter."""
    weights, intercept = parameters[:-1], parameters[-1]
    signs = 2.0 * xp.astype(labels, xp.float64) - 1.0
    margins = signs * (x @ weights + intercept)
    return C * tf.reduce_sum(tf.nn.softplus(-margins)) + 0.5 * tf.reduce_sum(weights**2)


def differentiable(model, x, labels):
    """Return the coefficients of a fitted LogisticRegression, with derivatives."""
    start = xp.concat([model.coef_[0, :], model.intercept_])
    start = tf.stop_gradient(start)
    found = optimize.minimize(logistic_objective, start, (x, labels), method="Newton-CG")
    return found.x


def losses(targets, labels):
    """Return functions of the data whose values come out of estimators."""

    def mixture(x):
        model = GaussianMixture(2, random_state=0, init_params="random", tol=1e-13, max_iter=1000)
        return xp.mean(model.fit(x).score_samples(x))

    def logistic(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TapeExitWarning)  # the solver leaves the tape
            model = LogisticRegression(C=C, tol=1e-8).fit(x, labels)
        return xp.sum(differentiable(model, x, labels) ** 2)

    return {
        "scaler": lambda x: xp.sum(xp.sin(StandardScaler().fit_transform(x))),
        "PCA": lambda x: xp.sum(PCA(2, svd_solver="full").fit_transform(x) ** 4),
        "ridge": lambda x: xp.sum(Ridge(1.0, solver="svd").fit(x, targets).predict(x) ** 3),
        "kernel": lambda x: xp.sum(rbf_kernel(x, gamma=0.3) ** 2),
        "mixture": mixture,
        "logistic regression": logistic,
    }


def slopes(function, x, direction, step=1e-5):
    """Return the slope along a direction by the tape, and by a central difference."""
    point = xp.asarray(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        value = function(point)
    slope = float(xp.sum(tape.gradient(value, point) * direction))
    above, below = (float(function(xp.asarray(x + s * direction))) for s in (step, -step))
    return slope, (above - below) / (2 * step)


def main(short=False):
    sklearn.set_config(array_api_dispatch=True)
    x, targets, labels, direction = data(30 if short else 300)
    results = {}
    for name, function in losses(targets, labels).items():
        exact, difference = slopes(function, x, direction)
        results[name] = abs(exact - difference) / abs(difference)
        print(f"{name}: {exact:.8g}, by a difference {difference:.8g}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="30 points instead of 300")
    worst = max(main(parser.parse_args().short).values())
    print(f"greatest relative difference: {worst:.1e}")
    sys.exit(worst > 1e-5)
