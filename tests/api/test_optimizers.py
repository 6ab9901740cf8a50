"""Optimizers against their formulas, step by step in float64."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend

STEPS = 5
RATE = float(np.float32(0.1))  # the rate is kept in single precision


# Each formula is a generator: it takes p, then a gradient per step, and gives the new p.


def sgd(p):
    while True:
        g = yield p
        p = p - RATE * g


def momentum(p, nesterov=False):
    m = 0 * p
    while True:
        g = yield p
        m = 0.9 * m - RATE * g
        p = p + (0.9 * m - RATE * g if nesterov else m)


def adam(p, amsgrad=False, decay=0.0):
    m, v, peak, t = 0 * p, 0 * p, 0 * p, 0
    while True:
        g = yield p
        t += 1
        p = p - RATE * decay * p
        m = 0.8 * m + 0.2 * g
        v = 0.95 * v + 0.05 * g**2
        peak = np.maximum(peak, v)
        rate = RATE * np.sqrt(1 - 0.95**t) / (1 - 0.8**t)
        p = p - rate * m / (np.sqrt(peak if amsgrad else v) + 1e-5)


def rmsprop(p, centered=False, mass=0.0):
    v, mean, m = 0 * p, 0 * p, 0 * p
    while True:
        g = yield p
        v = 0.7 * v + 0.3 * g**2
        mean = 0.7 * mean + 0.3 * g
        m = mass * m + RATE * g / np.sqrt(v - (mean**2 if centered else 0) + 1e-5)
        p = p - m


def adagrad(p):
    total = 0 * p + 0.2
    while True:
        g = yield p
        total = total + g**2
        p = p - RATE * g / np.sqrt(total + 1e-5)


ADAM = {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-5}
RMSPROP = {"rho": 0.7, "epsilon": 1e-5}
RULES = {
    "sgd": (lambda **o: tf.optimizers.SGD(0.1, **o), sgd),
    "momentum": (lambda **o: tf.optimizers.SGD(0.1, momentum=0.9, **o), momentum),
    "nesterov": (
        lambda **o: tf.optimizers.SGD(0.1, momentum=0.9, nesterov=True, **o),
        lambda p: momentum(p, nesterov=True),
    ),
    "adam": (lambda **o: tf.optimizers.Adam(0.1, **ADAM, **o), adam),
    "amsgrad": (
        lambda **o: tf.optimizers.Adam(0.1, amsgrad=True, **ADAM, **o),
        lambda p: adam(p, amsgrad=True),
    ),
    "adamw": (
        lambda **o: tf.optimizers.AdamW(0.1, weight_decay=0.3, **ADAM, **o),
        lambda p: adam(p, decay=0.3),
    ),
    "rmsprop": (lambda **o: tf.optimizers.RMSprop(0.1, **RMSPROP, **o), rmsprop),
    "rmsprop-centered": (
        lambda **o: tf.optimizers.RMSprop(0.1, centered=True, **RMSPROP, **o),
        lambda p: rmsprop(p, centered=True),
    ),
    "rmsprop-momentum": (
        lambda **o: tf.optimizers.RMSprop(0.1, momentum=0.6, centered=True, **RMSPROP, **o),
        lambda p: rmsprop(p, centered=True, mass=0.6),
    ),
    "adagrad": (
        lambda **o: tf.optimizers.Adagrad(0.1, initial_accumulator_value=0.2, epsilon=1e-5, **o),
        adagrad,
    ),
}
every_rule = pytest.mark.parametrize("rule", RULES)


def start(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def gradients(*shape):
    return [start(*shape, seed=number + 1) for number in range(STEPS)]


def expected(formula, p, steps):
    walk = formula(p)
    next(walk)
    return [walk.send(g) for g in steps][-1]


def run(optimizer, variable, steps):
    for g in steps:
        optimizer.apply_gradients([(tf.constant(g, variable.dtype), variable)])
    return variable.numpy()


# Formulas


@every_rule
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
def test_every_step_follows_the_formula(rule, shape):
    make, formula = RULES[rule]
    v = tf.Variable(start(*shape))

    result = run(make(), v, gradients(*shape))

    np.testing.assert_allclose(result, expected(formula, start(*shape), gradients(*shape)), 1e-9)
    assert (v.dtype, tuple(v.shape)) == ("float64", shape)


@every_rule
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_variable_keeps_its_dtype(rule, dtype):
    make, formula = RULES[rule]
    v = tf.Variable(start(2, 3), dtype=dtype)

    result = run(make(), v, gradients(2, 3))

    tolerance = 2e-2 if dtype == "float16" else 1e-5
    want = expected(formula, start(2, 3), gradients(2, 3))
    np.testing.assert_allclose(result, want, tolerance, tolerance)
    assert result.dtype == dtype


@every_rule
def test_a_strided_variable_is_fine(rule):
    make, formula = RULES[rule]
    v = tf.Variable(tf.transpose(tf.constant(start(2, 3))))

    result = run(make(), v, gradients(3, 2))

    np.testing.assert_allclose(result, expected(formula, start(2, 3).T, gradients(3, 2)), 1e-9)


@pytest.mark.parametrize("optimizer", [tf.optimizers.Adam, tf.optimizers.RMSprop])
def test_small_gradients_in_half_precision_do_not_underflow(optimizer):
    v = tf.Variable(1.0, dtype="float16")
    g = tf.constant(1e-5, "float16")  # its square is 0 in half precision

    optimizer(0.01, epsilon=1e-12).apply_gradients([(g, v)])

    assert 0.9 < float(v) < 1.0


@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam", "amsgrad", "rmsprop", "adagrad"])
def test_a_complex_variable_descends(rule):
    goal = 1 - 2j
    v = tf.Variable(0j, dtype="complex128")
    optimizer = RULES[rule][0]()

    for _ in range(200):
        optimizer.minimize(lambda: tf.square(tf.abs(v - goal)), [v])

    assert abs(v.numpy() - goal) < 0.5 * abs(goal)


def test_a_zero_gradient_in_adam_changes_nothing_at_first():
    v = tf.Variable([1.0, 2.0])

    tf.optimizers.Adam(0.1).apply_gradients([(tf.zeros([2]), v)])

    assert v.numpy().tolist() == [1.0, 2.0]


# Options


@pytest.mark.parametrize("rule", sorted(RULES.keys() - {"adamw"}))
def test_weight_decay_shrinks_before_the_step(rule):
    make, formula = RULES[rule]
    v = tf.Variable(start(3))
    g = start(3, seed=1)

    run(make(weight_decay=0.5), v, [g])

    shrunk = start(3) * (1 - RATE * 0.5)
    np.testing.assert_allclose(v.numpy(), expected(formula, shrunk, [g]), 1e-9)


def test_variables_can_be_excluded_from_weight_decay_by_name():
    kernel, bias = tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="dense_bias")
    optimizer = tf.optimizers.AdamW(0.5, weight_decay=0.5)
    optimizer.build([kernel, bias])
    optimizer.exclude_from_weight_decay(var_names=["bias"])

    optimizer.apply_gradients([(0.0, kernel), (0.0, bias)])

    assert (float(kernel), float(bias)) == (0.75, 1.0)


def test_variables_that_come_later_are_excluded_by_name_too():
    kernel, bias = tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="dense_bias")
    optimizer = tf.optimizers.AdamW(0.5, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])

    optimizer.apply_gradients([(0.0, kernel), (0.0, bias)])

    assert (float(kernel), float(bias)) == (0.75, 1.0)


CLIPPED = {
    "clipvalue": ({"clipvalue": 0.5}, ([-0.5, 0.5], [0.25])),
    "clipnorm": ({"clipnorm": 2.5}, ([-1.5, 2.0], [0.25])),
    "global_clipnorm": ({"global_clipnorm": 2.5}, None),
}


@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_are_clipped(name):
    options, wanted = CLIPPED[name]
    a, b = tf.Variable([0.0, 0.0]), tf.Variable([0.0])
    if wanted is None:
        factor = 2.5 / np.sqrt(9 + 16 + 0.0625)
        wanted = ([-3 * factor, 4 * factor], [0.25 * factor])

    tf.optimizers.SGD(1.0, **options).apply_gradients([([-3.0, 4.0], a), ([0.25], b)])

    np.testing.assert_allclose(-a.numpy(), wanted[0], 1e-6)
    np.testing.assert_allclose(-b.numpy(), wanted[1], 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clipnorm": 1.0, "clipvalue": 1.0}, "Give only one of clipnorm, clipvalue"),
        ({"clipnorm": -1.0}, "clipnorm must be positive. Got -1.0"),
        ({"momentum": 1.5}, "momentum must be between 0 and 1. Got 1.5"),
        ({"learning_rate": [0.1, 0.2]}, "learning_rate must be a number"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tf.optimizers.SGD(**options)


def test_moving_averages_begin_with_the_first_value_and_can_be_swapped_in():
    v = tf.Variable(0.0)
    optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)

    for g in (-1.0, -3.0, -4.0):
        optimizer.apply_gradients([(g, v)])
    optimizer.swap_in_averages()

    average = 0.75 * (0.75 * 1.0 + 0.25 * 4.0) + 0.25 * 8.0
    assert float(v) == average
    optimizer.swap_in_averages()
    assert float(v) == 8.0


def test_a_schedule_is_a_function_of_the_steps_made_so_far():
    seen = []

    def schedule(step):
        seen.append(int(step))
        return 0.5 ** tf.cast(step, "float32")

    v = tf.Variable(0.0)
    optimizer = tf.optimizers.SGD(schedule)

    for _ in range(3):
        optimizer.apply_gradients([(-1.0, v)])

    assert float(v) == 1.75
    assert seen == [0, 1, 2]
    assert float(optimizer.learning_rate) == 0.125


@pytest.mark.parametrize("rate", [0.25, np.float64(0.25), tf.constant(0.25), tf.Variable(0.25)])
def test_the_learning_rate_can_be_set(rate):
    v = tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5)

    optimizer.learning_rate = rate
    optimizer.apply_gradients([(1.0, v)])

    assert float(v) == 0.75
    assert float(optimizer.learning_rate) == float(optimizer.lr) == 0.25


def test_the_learning_rate_can_be_assigned_to():
    v = tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5)

    optimizer.learning_rate.assign(optimizer.learning_rate * 0.5)
    optimizer.apply_gradients([(1.0, v)])

    assert float(v) == 0.75


def test_iterations_count_the_steps_and_are_returned():
    v = tf.Variable(1.0)
    optimizer = tf.optimizers.Adam()

    results = [int(optimizer.apply_gradients([(1.0, v)])) for _ in range(3)]

    assert results == [1, 2, 3]
    assert int(optimizer.iterations) == 3


def test_a_constraint_is_applied_after_the_step():
    v = tf.Variable([1.0, 1.0], constraint=lambda x: tf.maximum(x, 0.0))

    tf.optimizers.SGD(1.0).apply_gradients([([3.0, 0.5], v)])

    assert v.numpy().tolist() == [0.0, 0.5]


def test_the_state_can_be_saved_and_restored():
    first, second = (tf.Variable([1.0, 2.0]) for _ in range(2))
    one, other = tf.optimizers.Adam(0.1), tf.optimizers.Adam(0.3)
    one.apply_gradients([([1.0, -2.0], first)])
    other.build([second])

    for target, source in zip(other.variables, pickle.loads(pickle.dumps(one.variables))):
        target.assign(source)
    second.assign(first)
    one.apply_gradients([([0.5, 0.5], first)])
    other.apply_gradients([([0.5, 0.5], second)])

    assert first.numpy().tolist() == second.numpy().tolist()
    assert one.variables[2].name == "Variable/momentum:0"


# minimize


def test_N8_minimize_takes_a_function():
    v = tf.Variable(3.0)

    step = tf.optimizers.SGD(0.25).minimize(lambda: v * v, [v])

    assert (float(v), int(step)) == (1.5, 1)


def test_N8_minimize_takes_a_tensor_and_its_tape():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        loss = v * v

    tf.optimizers.SGD(0.25).minimize(loss, lambda: [v], tape=tape)

    assert float(v) == 1.5


def test_N8_minimize_runs_a_function_under_the_given_tape():
    v = tf.Variable(3.0)
    tape = tf.GradientTape(persistent=True)

    tf.optimizers.SGD(0.25).minimize(lambda: v * v, [v], tape=tape)

    assert float(v) == 1.5
    assert tape.watched_variables()[0] is v


def test_N8_minimize_of_a_tensor_alone_is_refused():
    with pytest.raises(ValueError, match="together with tape="):
        tf.optimizers.SGD().minimize(tf.constant(1.0), [tf.Variable(1.0)])


def test_apply_uses_the_variables_of_build():
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    optimizer = tf.optimizers.SGD(0.5)
    optimizer.build([a, b])

    optimizer.apply([1.0, 2.0])

    assert (float(a), float(b)) == (0.5, 1.0)
    with pytest.raises(ValueError, match="got 1 gradients for 2 variables"):
        optimizer.apply([1.0])


# Wrong or missing gradients


def test_N8_variables_without_a_gradient_are_named_in_a_warning():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")

    with pytest.warns(UserWarning, match="Gradients do not exist for variables b:0") as caught:
        tf.optimizers.SGD(0.5).apply_gradients([(1.0, a), (None, b)])

    assert (float(a), float(b)) == (0.5, 1.0)
    assert caught[0].filename == __file__


def test_N8_no_gradient_at_all_is_an_error():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")

    with pytest.raises(ValueError, match="No gradients provided for any variable: a:0, b:0"):
        tf.optimizers.SGD(0.5).apply_gradients([(None, a), (None, b)])


def test_no_pairs_make_no_step():
    assert int(tf.optimizers.SGD(0.5).apply_gradients([])) == 0


def wrong_pairs(a, b):
    return {
        "shape": ([(1.0, a), ([1.0, 2.0], b)], ValueError, r"'b:0' must have shape \(\). Got"),
        "order": ([(1.0, a), (b, 1.0)], TypeError, r"The order is \(gradient, variable\)"),
        "no pair": ([(1.0, a), b], TypeError, r"use zip\(gradients, variables\)"),
        "complex": ([(1.0, a), (tf.constant(1j), b)], TypeError, "must be real. Got complex128"),
        "text": ([(1.0, a), ("one", b)], TypeError, "Expected numbers"),
    }


@pytest.mark.parametrize("case", ["shape", "order", "no pair", "complex", "text"])
def test_a_wrong_pair_is_refused_before_anything_changes(case):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
    optimizer = tf.optimizers.Adam(0.5, weight_decay=0.1)
    pairs, kind, message = wrong_pairs(a, b)[case]

    with pytest.raises(kind, match=message):
        optimizer.apply_gradients(pairs)

    assert (float(a), float(b), int(optimizer.iterations)) == (1.0, 1.0, 0)


@every_rule
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("dtype", "other"), [("float32", "float64"), ("float16", "float32")])
def test_a_gradient_of_another_precision_is_rounded_first(rule, dtype, other, is_sparse):
    found = []
    for rounded in (False, True):
        v, optimizer = tf.Variable(start(2, 3), dtype=dtype), RULES[rule][0]()
        for g in gradients(2, 3):
            g = tf.constant(g.astype(dtype) if rounded else g.astype(other))
            optimizer.apply_gradients(
                [(tf.IndexedSlices(g, [1, 0], (2, 3)) if is_sparse else g, v)]
            )
        found.append(v.numpy().astype("float64"))
        assert v.dtype == dtype

    assert found[0].tolist() == found[1].tolist()


# The tape


@every_rule
def test_no_tape_records_a_step(rule):
    v = tf.Variable([1.0, 2.0], constraint=lambda x: x * 1.0)
    optimizer = RULES[rule][0](clipnorm=1.0, use_ema=True)

    with tf.GradientTape() as tape:
        optimizer.apply_gradients([([1.0, 1.0], v)])

    assert tape.watched_variables() == ()


def test_values_read_before_a_step_stay_as_they_were():
    v = tf.Variable([3.0])
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
    read = v.value()

    tf.optimizers.SGD(0.5).apply_gradients([(tape.gradient(y, v), v)])

    assert (float(v[0]), float(read[0])) == (0.0, 3.0)
    assert float(tape.gradient(y, v)[0]) == 6.0


# Sparse gradients


def slices(values, indices, rows=5):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), (rows, 2))


@every_rule
@pytest.mark.parametrize("options", [{}, {"clipnorm": 0.7}, {"clipvalue": 0.6}], ids=str)
def test_a_sparse_gradient_does_what_its_dense_form_does(rule, options):
    sparse, dense = tf.Variable(start(5, 2)), tf.Variable(start(5, 2))
    one, other = RULES[rule][0](**options), RULES[rule][0](**options)

    for number in range(3):
        rows = slices(start(4, 2, seed=number), [1, 4, 1, number])
        one.apply_gradients([(rows, sparse)])
        other.apply_gradients([(rows.dense(), dense)])

    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), 1e-12)


def test_the_global_norm_of_a_sparse_gradient_is_that_of_its_dense_form():
    sparse, dense = tf.Variable(start(5, 2)), tf.Variable(start(5, 2))
    rows = slices(start(3, 2), [1, 1, 0])

    tf.optimizers.SGD(0.1, global_clipnorm=0.5).apply_gradients([(rows, sparse)])
    tf.optimizers.SGD(0.1, global_clipnorm=0.5).apply_gradients([(rows.dense(), dense)])

    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), 1e-12)


def test_an_embedding_is_trained_from_the_rows_it_used():
    table = tf.Variable(np.zeros((4, 2), "float32"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [[2, 0], [2, 2]]))

    gradient = tape.gradient(loss, table)
    tf.optimizers.SGD(1.0).apply_gradients([(gradient, table)])

    assert isinstance(gradient, tf.IndexedSlices)
    assert table.numpy()[:, 0].tolist() == [-1.0, 0.0, -3.0, 0.0]


def test_a_sparse_gradient_without_rows_changes_nothing():
    table = tf.Variable(start(4, 2))
    rows = slices(np.zeros((0, 2)), np.zeros(0, "int64"), rows=4)

    for rule in ("sgd", "adagrad"):
        RULES[rule][0]().apply_gradients([(rows, table)])

    assert table.numpy().tolist() == start(4, 2).tolist()


# Devices


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@every_rule
def test_a_step_reads_nothing_from_the_device(rule, strict_device):
    make, formula = RULES[rule]
    with tf.device(strict_device):
        v = tf.Variable(start(3))
        optimizer = make(weight_decay=None) if rule != "adamw" else make()
        steps = [tf.constant(g) for g in gradients(3)]
        with strict.forbidding_reads():
            for g in steps:
                optimizer.apply_gradients([(g, v)])

    np.testing.assert_allclose(v.numpy(), expected(formula, start(3), gradients(3)), 1e-7)
    assert {slot.device for slot in optimizer.variables} == {strict_device}


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_an_optimizer_made_on_another_device_works(strict_device):
    optimizer = tf.optimizers.Adam(0.1)
    with tf.device(strict_device):
        there = tf.Variable([1.0])
        g = tf.constant([1.0])
    here = tf.Variable([1.0])

    optimizer.apply_gradients([(g, there), ([1.0], here)])

    np.testing.assert_allclose(there.numpy(), here.numpy(), 1e-6)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_a_gradient_on_another_device_is_refused(strict_device):
    v = tf.Variable([1.0], name="v")
    with tf.device(strict_device):
        g = tf.constant([1.0])

    with pytest.raises(ValueError, match=r"'v:0' must be on its device 'cpu'. Got 'strict:0'"):
        tf.optimizers.SGD().apply_gradients([(g, v)])


def test_the_variables_of_an_optimizer_are_a_list_and_can_be_called_as_in_older_versions():
    x = tf.Variable([1.0, 2.0])
    optimizer = tf.optimizers.SGD(0.1, momentum=0.9)
    optimizer.apply_gradients([(tf.ones([2]), x)])
    assert isinstance(optimizer.variables, list) and len(optimizer.variables) == 3
    assert all(a is b for a, b in zip(optimizer.variables(), optimizer.variables, strict=True))
    for layered in (tf.keras.optimizers.Adam(), tf.keras.optimizers.Nadam()):
        assert list(map(id, layered.variables())) == list(map(id, layered.variables))
