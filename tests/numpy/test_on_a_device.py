"""Every call on a stand-in device that refuses copies to the host but the ones that say so."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tapegrad.numpy as tnp
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.debug import transfers
from tests.numpy.calls import ALL_CALLS, ARRAYS
from tests.numpy.test_values import assert_same, run, tensors

pytestmark = pytest.mark.filterwarnings("ignore")

# The stand-in knows no mixed kinds of numbers and no order of complex ones; CuPy does.
BEYOND_THE_STANDARD = {
    "np.add(i, 2.5)",
    "np.true_divide(i, 4)",
    "np.sqrt(i)",
    "np.sin(i)",
    "np.where(b, i, 2.5)",
    "np.sort_complex(z.ravel())",
    "np.sort_complex([3.0, 1.0])",
    "np.sort_complex(np.linalg.eigvals(m) + 0j)",
}


@pytest.fixture(autouse=True)
def strict_device():
    register_backend(strict.StrictBackend())
    with device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


@pytest.mark.parametrize("call", [call for call in ALL_CALLS if call not in BEYOND_THE_STANDARD])
def test_the_result_is_numpys(call):
    assert_same(run(call, tnp, tensors()), run(call, np, dict(ARRAYS)))


# What a call makes by itself is placed on the current device and cannot go with arrays elsewhere.
MAKES_ARRAYS = re.compile(
    r"np\.(zeros|ones|arange|array|ix_|poly1d)\(.|np\.polynomial\.[A-Z]|chebinterpolate"
)


@pytest.mark.parametrize(
    "call",
    [c for c in ALL_CALLS if c not in BEYOND_THE_STANDARD and not MAKES_ARRAYS.search(c)],
)
def test_arrays_stay_where_they_are_when_another_device_is_the_current_one(call):
    arrays = tensors()

    with device("cpu"):
        ours = run(call, tnp, arrays)

    assert_same(ours, run(call, np, dict(ARRAYS)))


def mixed(calls):
    """Calls of several arrays, each with one of them that may as well be NumPy's."""
    for call in calls:
        letters = {a for a in re.findall(r"\b([a-z])\b(?!\s*=[^=])", call) if a in ARRAYS}
        if len(letters) > 1 and not MAKES_ARRAYS.search(call) and call.startswith("np."):
            yield from ((call, a) for a in sorted(letters) if not re.search(rf"\b{a}[.\[]", call))


@pytest.mark.parametrize(
    ("call", "host"), list(mixed([c for c in ALL_CALLS if c not in BEYOND_THE_STANDARD]))
)
def test_one_of_the_arrays_may_be_numpys(call, host):
    arrays = {**tensors(), host: ARRAYS[host]}

    with device("cpu"):
        ours = run(call, tnp, arrays)

    assert_same(ours, run(call, np, dict(ARRAYS)))


@pytest.mark.parametrize("make", [tnp.zeros, tnp.ones, tnp.empty, tnp.arange, tnp.eye])
def test_new_arrays_live_on_the_current_device(make):
    assert make(3).device == "strict:0"


@pytest.mark.parametrize("make", [tnp.zeros, tnp.ones, tnp.arange, tnp.eye])
def test_a_device_can_be_named(make):
    assert make(3, device="cpu").device == "cpu"


def test_counts_that_are_numbers_are_not_read_back_from_the_device():
    with transfers("raise"):
        repeated = tnp.repeat(tnp.asarray([1.0, 2.0]), 2), tnp.repeat(tnp.asarray([1.0]), [3])

    assert [x.shape for x in repeated] == [(4,), (3,)]


DRAWS = """
r.bernoulli(p)
r.binomial(n, p)
r.multinomial(n, s)
r.poisson(a)
r.geometric(p)
r.negative_binomial(n, p)
r.hypergeometric(n, n, n)
r.multivariate_hypergeometric(n, 3)
r.zipf(a)
r.logseries(p)
r.normal(a, a)
r.lognormal(a, a)
r.uniform(p, a)
r.exponential(a)
r.gamma(a, a)
r.beta(a, a)
r.chisquare(a)
r.noncentral_chisquare(a, a)
r.f(a, a)
r.noncentral_f(a, a, a)
r.standard_t(a)
r.laplace(a, a)
r.logistic(a, a)
r.gumbel(a, a)
r.rayleigh(a)
r.weibull(a)
r.pareto(a)
r.power(a)
r.triangular(p, p, a)
r.vonmises(p, a)
r.wald(a, a)
r.dirichlet(a)
r.multivariate_normal(a[:2], c)
r.integers(n)
r.choice(a, 3)
r.choice(a, 2, p=s)
r.permutation(a)
"""


@pytest.mark.parametrize("call", DRAWS.split("\n")[1:-1])
def test_parameters_of_random_numbers_are_not_read_back_from_the_device(call):
    values = {
        "a": [1.5, 2.0, 3.0],
        "c": [[1.0, 0.0], [0.0, 1.0]],
        "n": [3, 40, 200],
        "p": [0.25, 0.5, 0.75],
        "s": [0.2, 0.3, 0.5],
    }
    names = {name: tnp.asarray(value) for name, value in values.items()}

    with transfers("raise"):
        drawn = eval(call, {"r": tnp.random.default_rng(0), **names})

    assert drawn.device == "strict:0"
