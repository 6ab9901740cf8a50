"""Grouped optimizer steps give the same values as one step per variable."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tests import capabilities

RULES = {
    "sgd": lambda **o: tf.optimizers.SGD(0.1, **o),
    "nesterov": lambda **o: tf.optimizers.SGD(0.1, momentum=0.9, nesterov=True, **o),
    "amsgrad": lambda **o: tf.optimizers.Adam(0.1, amsgrad=True, **o),
    "adamw": lambda **o: tf.optimizers.AdamW(0.1, **{"weight_decay": 0.3, **o}),
    "rmsprop": lambda **o: tf.optimizers.RMSprop(0.1, momentum=0.5, centered=True, **o),
    "adagrad": lambda **o: tf.optimizers.Adagrad(0.1, **o),
}
OPTIONS = [
    {},
    {"weight_decay": 0.2},
    {"use_ema": True, "ema_momentum": 0.75},
    {"global_clipnorm": 0.5, "use_ema": True},
    {"clipvalue": 0.1},
]


class Together:
    """A group kernel on NumPy arrays that updates the variables one by one."""

    def __init__(self, name, variables, averaged):
        self.name, self.variables, self.averaged = name, variables, averaged

    def __call__(
        self, arrays, gradients, rate, count, params, *, amount, decayed, share, factor=None
    ):
        n = self.variables
        scalars = (rate, count) if self.name == "adam_update" else (rate,)
        new = list(arrays)
        for k, g in enumerate(gradients):
            p, *slots = arrays[k::n]
            average = slots.pop() if self.averaged else None
            if k < decayed:
                (p,) = kernel("decay_update")(p, rate, amount=amount)
            g = g if factor is None else g * factor
            new[k::n] = [*kernel(self.name)(p, g, *scalars, *slots, **params), average][
                : len(arrays) // n
            ]
            if self.averaged:
                new[len(arrays) - n + k] = average + (new[k] - average) * share
        return new

    def factor(self, gradients, limit):
        size = np.sqrt(sum((g * g).sum() for g in gradients))
        return min(1.0, limit / size)


def kernel(name):
    return PRIMITIVES[name].kernel(np.ndarray)


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tf.device("cpu"):
        yield


@pytest.fixture
def calls(monkeypatch):
    """The number of variables in each call of a group, while NumPy has such a kernel."""
    sizes = []

    class Counted(Together):
        def __call__(self, arrays, *rest, **options):
            sizes.append(self.variables)
            return super().__call__(arrays, *rest, **options)

    def make(name, arrays, variables, averaged):
        assert len({array.dtype for array in arrays[:variables]}) == 1
        return Counted(name, variables, averaged)

    capabilities.use(monkeypatch, updates=capabilities.grouped_updates(make))
    return sizes


def without_groups(monkeypatch):
    capabilities.use(monkeypatch, updates=None)


def values(number, shapes=((2, 3), (), (4,))):
    rng = np.random.default_rng(number)
    return [np.asarray(rng.normal(size=shape)) for shape in shapes]


def trained(make, steps=4):
    variables = [tf.Variable(value) for value in values(0)]
    optimizer = make()
    optimizer.exclude_from_weight_decay(variables[:2])
    for number in range(steps):
        gradients = [tf.constant(g) for g in values(number + 1)]
        optimizer.apply_gradients(list(zip(gradients, variables)))
    return [v.numpy() for v in [*variables, *optimizer.variables]]


@pytest.mark.engine
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_group_ends_where_each_variable_would_by_itself(rule, options, calls, monkeypatch):
    together = trained(lambda: RULES[rule](**options))
    assert calls == [3] * 4

    without_groups(monkeypatch)
    apart = trained(lambda: RULES[rule](**options))

    for actual, wanted in zip(together, apart, strict=True):
        np.testing.assert_allclose(actual, wanted, 1e-12)


@pytest.mark.engine
def test_each_dtype_has_its_group_and_sparse_gradients_have_none(calls):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0], dtype="float64")
    c, table = tf.Variable(1.0), tf.Variable(np.ones((3, 1), "float32"))
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([1]), (3, 1))

    tf.optimizers.SGD(0.5).apply_gradients(
        [([1.0, 1.0], a), ([1.0, 1.0], b), (1.0, c), (rows, table)]
    )

    assert sorted(calls) == [1, 2]
    assert [v.numpy().tolist() for v in (a, b, c)] == [[0.5, 1.5], [0.5, 1.5], 0.5]
    assert table.numpy().tolist() == [[1.0], [0.5], [1.0]]


@pytest.mark.engine
def test_a_variable_that_comes_twice_makes_two_steps_in_order(calls):
    v, w = tf.Variable(2.0, constraint=lambda x: tf.maximum(x, 0.0)), tf.Variable(1.0)

    tf.optimizers.SGD(1.0).apply_gradients([(3.0, v), (0.5, w), (-1.0, v)])

    assert (float(v), float(w), calls) == (1.0, 0.5, [1])


def test_an_update_of_ones_own_is_called_for_each_variable(calls):
    class Halving(tf.optimizers.Adam):
        def update(self, p, g, slots, scalars):
            return (p * 0.5, *slots)

    v, w = tf.Variable(2.0), tf.Variable(4.0)
    Halving().apply_gradients([(1.0, v), (1.0, w)])

    assert (float(v), float(w), calls) == (1.0, 2.0, [])


def test_a_backend_may_decline_a_group(monkeypatch):
    capabilities.use(monkeypatch, updates=capabilities.grouped_updates(lambda *_: None))
    v = tf.Variable(1.0)

    tf.optimizers.SGD(0.5, global_clipnorm=10.0).apply_gradients([(1.0, v)])

    assert float(v) == 0.5


@pytest.mark.engine
def test_other_variables_at_the_next_step_are_grouped_anew(calls):
    a, b = tf.Variable(1.0), tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5)

    optimizer.apply_gradients([(1.0, a), (1.0, b)])
    with pytest.warns(UserWarning, match="do not exist"):
        optimizer.apply_gradients([(None, a), (1.0, b)])
    optimizer.apply_gradients([(1.0, b), (0.5, a)])

    assert (float(a), float(b), calls) == (0.25, -0.5, [2, 1, 2])


@pytest.mark.engine
def test_a_function_after_an_eager_step_moves_each_variable_by_itself(calls):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5, momentum=0.5)

    def step():
        optimizer.apply_gradients([(tf.ones(2), a), (tf.constant(1.0), b)])

    recorded = tf.function(step)
    for make_step in (step, recorded, recorded, step):
        make_step()

    assert calls == [2, 2]
    # The steps are 0.5 times 1, 1.5, 1.75 and 1.875.
    np.testing.assert_allclose([*a.numpy(), b.numpy()], np.array([1.0, 2.0, 1.0]) - 3.0625)


def test_what_is_excluded_from_decay_between_steps_no_longer_decays(calls):
    a, b = tf.Variable(1.0), tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5, weight_decay=1.0)

    optimizer.apply_gradients([(0.0, a), (0.0, b)])
    optimizer.exclude_from_weight_decay([a])
    optimizer.apply_gradients([(0.0, a), (0.0, b)])

    assert (float(a), float(b)) == (0.5, 0.25)


def test_the_average_comes_after_the_constraint(calls):
    v = tf.Variable(0.0, constraint=lambda x: tf.minimum(x, 2.0))
    optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)

    for g in (-1.0, -5.0, 0.0):
        optimizer.apply_gradients([(g, v)])
    optimizer.swap_in_averages()

    assert float(v) == 0.5 * (0.5 * 1.0 + 0.5 * 2.0) + 0.5 * 2.0


def test_the_state_is_listed_in_the_order_of_the_variables(calls):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
    optimizer = tf.optimizers.SGD(0.5, momentum=0.5, use_ema=True)
    optimizer.exclude_from_weight_decay([a])

    optimizer.apply_gradients([(1.0, a), (1.0, b)])

    names = [v.name for v in optimizer.variables[2:]]
    assert names == ["a/momentum:0", "b/momentum:0", "a/average:0", "b/average:0"]


def test_an_optimizer_with_groups_can_be_copied(calls):
    v = tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5, momentum=0.5)
    optimizer.apply_gradients([(1.0, v)])

    twin = copy.deepcopy(optimizer)
    twin.apply_gradients([(1.0, v)])

    assert (int(twin.iterations), int(optimizer.iterations)) == (2, 1)


# Memory


class Full(Together):
    """Raises MemoryError in the first `times` steps."""

    times = 0

    def __call__(self, *args, **options):
        Full.times -= 1
        if Full.times >= 0:
            raise MemoryError("no room")
        return super().__call__(*args, **options)


@pytest.fixture
def full(monkeypatch):
    def make(name, arrays, variables, averaged):
        return Full(name, variables, averaged)

    capabilities.use(monkeypatch, updates=capabilities.grouped_updates(make))
    return Full


def test_a_step_without_room_is_tried_once_more(full):
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    full.times = 1

    tf.optimizers.SGD(0.5).apply_gradients([(1.0, v), (1.0, w)])

    assert (float(v), float(w)) == (0.5, 1.5)


@pytest.mark.engine
def test_a_step_without_room_changes_no_variable(full):
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    full.times = 2

    with pytest.raises(MemoryError, match="The step of 2 variables ran out of memory on cpu"):
        tf.optimizers.SGD(0.5).apply_gradients([(1.0, v), (1.0, w)])

    assert (float(v), float(w)) == (1.0, 2.0)


def test_after_a_gradient_nobody_but_the_variables_holds_their_arrays():
    x = tf.constant(np.ones((5, 3), "float32"))
    w, b = tf.Variable(np.ones((3, 4), "float32")), tf.Variable(np.zeros(4, "float32"))
    v = tf.Variable(np.ones((4, 4), "float32"))
    alone = [sys.getrefcount(each.array) for each in (w, b, v)]
    optimizer = tf.optimizers.Adam(0.1)

    with tf.GradientTape() as tape:
        logits = tf.nn.relu(tf.matmul(x, w) + b) @ tf.transpose(v) * tf.reduce_mean(w)
        loss = tf.reduce_mean(tf.nn.softmax(logits) * logits)
    gradients = tape.gradient(loss, [w, b, v])

    # This is what lets a backend step in place.
    assert [sys.getrefcount(each.array) for each in (w, b, v)] == alone
    optimizer.apply_gradients(list(zip(gradients, [w, b, v])))
    assert [sys.getrefcount(each.array) for each in (w, b, v)] == alone


# Clipping


@pytest.mark.engine
def test_tensors_that_nobody_follows_are_clipped_by_the_backends_kernel(monkeypatch):
    seen = []

    def clip(arrays, limit):
        seen.append((len(arrays), limit))
        return [array * 2 for array in arrays], np.float32(7.0)

    capabilities.use(monkeypatch, updates=capabilities.grouped_updates(lambda *_: None, clip))
    a, b = tf.constant([1.0]), tf.constant([2.0])

    clipped, norm = tf.clip_by_global_norm([a, None, b], 3)

    assert (seen, float(norm), clipped[1]) == ([(2, 3.0)], 7.0, None)
    assert [float(t[0]) for t in clipped if t is not None] == [2.0, 4.0]
    with tf.GradientTape() as tape:
        tape.watch(a)
        clipped, _ = tf.clip_by_global_norm([a, b], 1.0)
    assert tape.gradient(clipped[0], a) is not None
    assert len(seen) == 1
