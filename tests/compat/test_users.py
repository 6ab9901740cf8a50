"""Habits of programs that were written for HIPS autograd: each was found in one of them."""

from __future__ import annotations

from collections import deque

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest

import tapegrad as tf
import tapegrad.compat.autograd.numpy as np
import tapegrad.compat.autograd.scipy as sp
import tapegrad_strict as strict
from tapegrad.compat.autograd import grad, make_jvp
from tapegrad.compat.autograd.builtins import DictBox, SequenceBox
from tapegrad.compat.autograd.core import primitive_jvps, primitive_vjps
from tapegrad.compat.autograd.dispatch import dispatched, plain_results
from tapegrad.compat.autograd.extend import defjvp, defvjp, primitive
from tapegrad.compat.autograd.test_util import check_grads
from tapegrad.extend import register_backend, unregister_backend

X = onp.array([0.3, -1.2, 2.0])


@pytest.fixture(params=["here", "strict:0"])
def device(request):
    """The default device, and one whose arrays do not come to the host."""
    if request.param == "here":
        yield request.param
        return
    register_backend(strict.StrictBackend())
    with tf.device(request.param):
        yield request.param
    unregister_backend("strict")


@pytest.mark.parametrize("join", [np.hstack, np.concatenate, np.vstack, np.stack])
def test_views_of_dicts_and_queues_are_joined(join):
    parts = {"a": X[:2], "b": X[1:]}

    def total(parts):
        return np.sum(join(parts.values()) * join(deque(parts.values())))

    onp.testing.assert_allclose(join(parts.values()), join(list(parts.values())))
    onp.testing.assert_allclose(grad(total)(parts)["b"], 2 * X[1:])


def test_modules_are_attributes_of_their_packages():
    assert float(sp.special.gammaln(5.0)) == pytest.approx(onp.log(24.0))
    assert {"integrate", "linalg", "signal", "stats"} < set(dir(sp))
    assert np.numpy_wrapper.tanh is np.tanh
    assert np.numpy_vspaces.ArrayVSpace(X).size == 3
    with pytest.raises(AttributeError, match=r"has no 'cluster'\. It has integrate, linalg"):
        _ = sp.cluster


@pytest.mark.usefixtures("on_the_cpu")
def test_the_type_of_a_traced_array_equals_that_of_boxes():
    seen = []

    def value(x):
        return x._value if type(x) == np.numpy_boxes.ArrayBox else x  # noqa: E721

    def square(x):
        seen.append(type(value(x)) is not type(x))
        return x * x

    assert float(grad(square)(3.0)) == 6.0
    assert seen == [True]
    assert type(X) != np.numpy_boxes.ArrayBox  # noqa: E721
    assert len({np.numpy_boxes.ArrayBox, float}) == 2


def test_containers_of_traced_values_are_told_from_others():
    seen = []

    def total(parts):
        kinds = (parts, parts["list"], {"a": 1.0}, [X], parts["list"][0])
        seen.extend((isinstance(x, DictBox), isinstance(x, SequenceBox)) for x in kinds)
        return parts["list"][0] ** 2

    assert float(grad(total)({"list": [3.0]})["list"][0]) == 6.0
    assert seen == [(True, False), (False, True), *[(False, False)] * 3]


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("make", [lambda f: dispatched("exp", onp.exp, f), plain_results])
@pytest.mark.parametrize("given", ["defjvp", "defvjp"])
def test_a_rule_for_one_mode_leaves_the_other_mode_as_it_was(device, make, given):
    exp, used = make(tf.exp), []

    def pushed(g, ans, x):
        used.append("defjvp")
        return g * ans

    def pulled(ans, x):
        used.append("defvjp")
        return lambda g: g * ans

    if given == "defjvp":
        defjvp(exp, pushed)
    else:
        defvjp(exp, pulled)
    x = np.array(X)

    slopes = [grad(lambda x: np.sum(exp(x)))(x), make_jvp(exp)(x)(np.ones(3))[1]]

    for slope in slopes:
        onp.testing.assert_allclose(slope.numpy() if tf.is_tensor(slope) else slope, onp.exp(X))
    assert set(used) == {given}
    del primitive_vjps[exp], primitive_jvps[exp]


def test_a_rule_for_one_mode_keeps_other_arguments_and_higher_orders():
    def solve(a, b):
        return tf.linalg.solve(a, b[..., None])[..., 0]

    ours = plain_results(solve)
    defjvp(ours, lambda g, ans, a, b: -solve(a, (g @ ans)), lambda g, ans, a, b: ours(a, g))
    matrix = onp.array([[2.0, 0.3], [0.1, 1.5]])

    check_grads(ours, 0, modes=["rev"])(matrix, X[:2])
    check_grads(ours, 1)(matrix, X[:2])
    del primitive_vjps[ours], primitive_jvps[ours]


def test_a_forward_rule_may_give_a_plain_zero_for_one_of_several_results():
    @primitive
    def sign_and_log(x):
        return np.sign(x), np.log(np.abs(x))

    defjvp(sign_and_log, lambda g, ans, x: (0, g / x))

    _, (sign, log) = make_jvp(sign_and_log)(-2.0)(1.0)

    assert (float(sign), float(log)) == (0.0, -0.5)


def test_a_forward_rule_may_give_anything_for_results_that_are_integers():
    @primitive
    def entries_and_places(x):
        return x[::2] * 1.0, onp.array([[0, 2], [0, 2]])

    defjvp(entries_and_places, lambda g, ans, x: (g[::2], onp.zeros(2)))

    def summed(x):
        entries, places = entries_and_places(x)
        assert tuple(places.shape) == (2, 2)
        return np.sum(entries**2)

    assert float(make_jvp(summed)(X)(onp.ones(3))[1]) == pytest.approx(2 * (X[0] + X[2]))


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_counting_entries_brings_nothing_to_the_host(device):
    vector, shape = np.linspace(0.0, 1.0, 8), (2, 3)

    with tf.debug.transfers("raise"):
        size = np.prod(shape)
        picked = np.reshape(vector[: np.sum([size, 0])], (np.max(shape) - 1, -1))

    assert tuple(picked.shape) == (2, 3)
    assert size == 6


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_a_whole_number_bounds_floats_on_every_device(device):
    slope = grad(lambda x: np.sum(np.maximum(0, x) - np.minimum(x, 1)))(np.array([-1.0, 0.0, 3.0]))

    assert slope.tolist() == [-1.0, -0.5, 1.0]
