"""Nothing is read on the host: all of it runs on the stand-in for a device, which forbids it."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.scipy import linalg, signal, special, stats
from tests.scipy.distributions import ROWS

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture
def far_away():
    register_backend(strict.StrictBackend())
    try:
        with device("strict:0"), strict.forbidding_reads():
            yield
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.usefixtures("far_away")
def test_distributions_stay_on_the_device(row):
    dist = getattr(stats, row.name)
    x = tf.constant(row.standing(row.smooth))
    names = {name: tf.constant(np.array(value)) for name, value in (row.shapes | row.frame).items()}
    q = tf.constant(np.array([0.2, 0.7]))

    with tf.GradientTape() as tape:
        tape.watch([x, *names.values()])
        results = [
            getattr(dist, m)(x, **names) for m in (row.density, f"log{row.density}", *row.tails)
        ]
        results += [getattr(dist, m)(**names) for m in ("mean", "entropy") if m not in row.lacks]
        if "ppf" not in row.lacks:
            results.append(dist.ppf(q, **names))
    slopes = tape.gradient(results, [x, *names.values()], unconnected_gradients="zero")
    results.append(dist.rvs(**names, size=(3,), random_state=1))
    # Python numbers go where the tensors are.
    results.append(getattr(dist, row.density)(x, **row.shapes, **row.frame))

    assert {y.device for y in [*results, *slopes]} == {"strict:0"}


CALLS = {
    "dirichlet": lambda: stats.dirichlet.logpdf(tf.constant([0.2, 0.3, 0.5]), [1.0, 2.0, 3.0]),
    "multinomial": lambda: stats.multinomial.rvs(5, tf.constant([0.5, 0.5]), random_state=1),
    "multivariate_normal": lambda: stats.multivariate_normal.logpdf(
        tf.constant([0.2, 1.0]), cov=2.0
    ),
    "jn": lambda: special.jn(4, tf.constant([0.2, 9.0])),
    "ive": lambda: special.ive(4, tf.constant([0.2, 9.0])),
    "expn": lambda: special.expn(3, tf.constant([0.2, 9.0])),
    "owens_t": lambda: special.owens_t(tf.constant([0.2, 9.0]), 0.5),
    "rgamma": lambda: special.rgamma(tf.constant([0.2, -9.0])),
    "boxcox": lambda: special.boxcox(tf.constant([0.2, 9.0]), 0.5),
    "sph_harm_y": lambda: special.sph_harm_y(3, 2, tf.constant([0.2, 2.0]), 0.5),
    "lu": lambda: linalg.lu(tf.constant([[1.0, 2.0], [4.0, 4.0]]))[1],
    "solve_banded": lambda: linalg.solve_banded((0, 0), tf.constant([[1.0, 2.0]]), [1.0, 1.0]),
    "toeplitz": lambda: linalg.toeplitz(tf.constant([1.0, 2.0])),
    "companion": lambda: linalg.companion(tf.constant([1.0, 2.0, 3.0])),
    "block_diag": lambda: linalg.block_diag(tf.constant([[1.0, 2.0]]), [[3.0]]),
    "lfilter": lambda: signal.lfilter([1.0], [1.0, 0.5, 0.2], tf.constant([1.0, 0.0, 0.0, 1.0])),
    "fftconvolve": lambda: signal.fftconvolve(tf.constant([1.0, 2.0]), [1.0, 1.0]),
    "hilbert": lambda: signal.hilbert(tf.constant([1.0, 2.0, 3.0])),
    "welch": lambda: signal.welch(tf.constant([1.0, 2.0, 3.0, 1.0]), nperseg=2)[1],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("far_away")
def test_functions_stay_on_the_device(name):
    assert CALLS[name]().device == "strict:0"
