"""The log posterior of a mixture of Gaussians with a Wishart prior, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad.scipy.special import logsumexp, multigammaln
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry

VARIABLES = ("alpha", "mu", "q", "l")


def log_posterior(variables: Any, x: Any, m: int, gamma: float) -> Any:
    alpha, mu, q, below = (variables[name] for name in VARIABLES)
    n, d = x.shape
    k = alpha.shape[0]

    # Factors of the precisions: lower triangles, which `l` fills column by column.
    columns, rows = np.triu_indices(d, 1)
    factors = np.zeros((k, d, d), dtype=q.dtype)
    factors[:, np.arange(d), np.arange(d)] = np.exp(q)
    factors[:, rows, columns] = below

    whitened = np.einsum("kij,nkj->nki", factors, x[:, None, :] - mu)
    log_densities = alpha - 0.5 * np.sum(whitened**2, axis=-1) + np.sum(q, axis=-1)
    likelihood = (
        np.sum(logsumexp(log_densities, axis=-1))
        - n * logsumexp(alpha)
        - 0.5 * n * d * math.log(2 * math.pi)
    )

    degrees = d + m + 1
    normalizer = degrees * d * math.log(gamma / math.sqrt(2)) - multigammaln(0.5 * degrees, d)
    prior = k * normalizer - 0.5 * gamma**2 * np.sum(factors**2) + m * np.sum(q)
    return likelihood + prior


objective = compiled(log_posterior)
gradient = compiled(tg.grad(log_posterior))


def prepare(given: Any) -> tuple[Any, ...]:
    variables = {name: tensor(given[name]) for name in VARIABLES}
    return variables, tensor(given["x"]), given["m"], given["gamma"]


def lists(gradients: Any) -> Any:
    return {name: to_list(gradients[name]) for name in VARIABLES}


FUNCTIONS = {
    "objective": Entry(prepare, objective, float),
    "jacobian": Entry(prepare, gradient, lists),
}
