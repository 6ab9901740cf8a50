"""Keras optimizers against formulas in float64, step by step, eagerly and in functions."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import optimizers
from tapegrad.keras.optimizers import schedules

STEPS = 10
RATE = float(np.float32(0.1))  # the rate is kept in single precision
SHAPES = {"w": (4, 3), "last": (3, 5), "b": (3,), "s": (), "conv": (2, 3, 4), "embedding": (5, 2)}

# Each formula moves p by one gradient; s keeps what is known of this variable, t counts from 1.


def moment(s, name, value, beta):
    s[name] = beta * s.get(name, 0.0) + (1 - beta) * value
    return s[name]


def adadelta(s, p, g, rate, t, rho=0.95, epsilon=1e-7):
    squares = moment(s, "squares", g**2, rho)
    change = -np.sqrt(s.get("changes", 0.0) + epsilon) / np.sqrt(squares + epsilon) * g
    moment(s, "changes", change**2, rho)
    return p + rate * change


def adamax(s, p, g, rate, t):
    m = moment(s, "m", g, 0.9)
    s["u"] = np.maximum(0.999 * s.get("u", 0.0), np.abs(g))
    return p - rate / (1 - 0.9**t) * m / (s["u"] + 1e-7)


def nadam(s, p, g, rate, t):
    def momentum(i):
        return 0.9 * (1 - 0.5 * 0.96**i)

    product = np.prod([momentum(i) for i in range(1, t + 1)])
    m, v = moment(s, "m", g, 0.9), moment(s, "v", g**2, 0.999)
    later = momentum(t + 1)
    mean = later * m / (1 - product * later) + (1 - momentum(t)) * g / (1 - product)
    return p - rate * mean / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)


def ftrl(s, p, g, rate, t, learning_rate_power=-0.5, initial_accumulator_value=0.1, beta=0.0, **o):
    l1, l2, shrink = [
        o.get(f"{n}_regularization_strength", 0.0) for n in ("l1", "l2", "l2_shrinkage")
    ]
    n = s.get("n", initial_accumulator_value)
    s["n"] = n + g**2
    sigma = (s["n"] ** -learning_rate_power - n**-learning_rate_power) / rate
    s["z"] = s.get("z", 0.0) + g + 2 * shrink * p - sigma * p
    curve = s["n"] ** -learning_rate_power / rate + 2 * (l2 + beta / (2 * rate))
    return np.where(np.abs(s["z"]) <= l1, 0.0, (np.sign(s["z"]) * l1 - s["z"]) / curve)


def lion(s, p, g, rate, t):
    direction = np.sign(0.9 * s.get("m", 0.0) + 0.1 * g)
    moment(s, "m", g, 0.99)
    return p - rate * direction


def lamb(s, p, g, rate, t):
    m, v = moment(s, "m", g, 0.9), moment(s, "v", g**2, 0.999)
    change = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
    return p - rate * np.linalg.norm(p) / np.linalg.norm(change) * change


def adafactor(s, p, g, rate, t, clip_threshold=1.0):
    beta, squares = 1 - t**-0.8, g**2 + 1e-30
    if p.ndim < 2:
        v = moment(s, "v", squares, beta)
    else:
        rows = moment(s, "rows", squares.mean(-1), beta)
        columns = moment(s, "columns", squares.mean(-2), beta)
        scaled = rows / rows.mean(-1, keepdims=True)
        v = np.einsum("...i,...j->...ij", scaled, columns)
    change = g / np.sqrt(v)
    change /= max(1.0, np.sqrt(np.mean(change**2)) / clip_threshold)
    return p - min(rate, t**-0.5) * max(1e-3, np.sqrt(np.mean(p**2))) * change


def is_matrix(p, exclude_layers=()):
    return p.shape == (4, 3) or (p.shape == (3, 5) and not exclude_layers)


def muon(s, p, g, rate, t, nesterov=True, rms_rate=0.2, adam_lr_ratio=1.0, ns_steps=5, **others):
    if not is_matrix(p, others.get("exclude_layers", ())):
        m, v = moment(s, "m", g, 0.9), moment(s, "v", g**2, 0.999)
        root = np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return p - adam_lr_ratio * rate * root * m / (np.sqrt(v) + 1e-7)
    s["m"] = 0.95 * s.get("m", 0.0) + g
    u, values, vt = np.linalg.svd(g + 0.95 * s["m"] if nesterov else s["m"], full_matrices=False)
    values = values / (np.sqrt(np.sum(values**2)) + 1e-7)
    for _ in range(ns_steps):  # the iteration moves the singular values alone
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    size = 1.0 if rms_rate is None else np.sqrt(max(p.shape)) * rms_rate
    return p - rate * size * (u * values) @ vt


ALL = (adadelta, adafactor, adamax, ftrl, lamb, lion, muon, nadam)
FORMULAS = {formula.__name__.capitalize(): formula for formula in ALL}
REGULARIZED = {
    "learning_rate_power": -0.7,
    "initial_accumulator_value": 0.2,
    "l1_regularization_strength": 0.05,
    "l2_regularization_strength": 0.1,
    "l2_shrinkage_regularization_strength": 0.03,
    "beta": 0.4,
}
PLAIN = {"nesterov": False, "rms_rate": None, "adam_lr_ratio": 0.3, "ns_steps": 4}
PLAIN_MUON = {**PLAIN, "exclude_layers": ["last"], "adam_weight_decay": 0.1}
SCHEDULE = schedules.ExponentialDecay(0.1, 3, 0.5)
# Of each case: the optimizer, arguments that its formula takes too, and what all of them take.
CASES = {
    "adadelta": ("Adadelta", {}, {}),
    "adadelta-clipped": (
        "Adadelta",
        {"rho": 0.8, "epsilon": 1e-3},
        {"weight_decay": 0.1, "global_clipnorm": 1.0},
    ),
    "adamax": ("Adamax", {}, {}),
    "adamax-scheduled": ("Adamax", {}, {"learning_rate": SCHEDULE, "clipvalue": 0.3}),
    "nadam": ("Nadam", {}, {"weight_decay": 0.02}),
    "ftrl": ("Ftrl", {}, {}),
    "ftrl-regularized": ("Ftrl", REGULARIZED, {"weight_decay": 0.1}),
    "lion": ("Lion", {}, {"weight_decay": 0.1}),
    "lamb": ("Lamb", {}, {"weight_decay": 0.05, "clipnorm": 1.0}),
    "adafactor": ("Adafactor", {}, {}),
    "adafactor-limited": ("Adafactor", {"clip_threshold": 0.5}, {"weight_decay": 0.1}),
    "muon": ("Muon", {}, {}),
    "muon-options": ("Muon", PLAIN_MUON, {"weight_decay": 0.2}),
}
every_case = pytest.mark.parametrize("case", CASES)


def values(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in SHAPES.values()]


def make(case):
    name, own, shared = CASES[case]
    return getattr(optimizers, name)(**{"learning_rate": 0.1, **own, **shared})


def new_variables(dtype="float64"):
    return [tf.Variable(x, dtype=dtype, name=name) for name, x in zip(SHAPES, values(0))]


def clipped(gradients, options):
    if "clipvalue" in options:
        return [np.clip(g, -options["clipvalue"], options["clipvalue"]) for g in gradients]
    if "clipnorm" in options:
        return [g * min(1.0, options["clipnorm"] / np.linalg.norm(g)) for g in gradients]
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    return [g * min(1.0, options.get("global_clipnorm", np.inf) / norm) for g in gradients]


def decayed(p, rate, name, own, shared):
    amount = shared.get("weight_decay", 0.004 if name == "Muon" else 0.0)
    if name == "Muon" and not is_matrix(p, own.get("exclude_layers", ())):
        amount = own.get("adam_weight_decay", 0.004)
    return p - rate * amount * p


def expected(case):
    """The values of all variables after every step."""
    name, own, shared = CASES[case]
    ps, states, history = values(0), [{} for _ in SHAPES], []
    for t in range(1, STEPS + 1):
        falls = "learning_rate" in shared
        rate = float(np.float32(0.1 * 0.5 ** ((t - 1) / 3))) if falls else RATE
        gradients = clipped(values(t), shared)
        ps = [decayed(p, rate, *CASES[case]) for p in ps]
        ps = [FORMULAS[name](s, p, g, rate, t, **own) for s, p, g in zip(states, ps, gradients)]
        history.append(ps)
    return history


def check_history(step, variables, history, tolerance=1e-9):
    for t, wanted in enumerate(history, 1):
        step(*[tf.constant(g, variables[0].dtype) for g in values(t)])
        for variable, want in zip(variables, wanted):
            np.testing.assert_allclose(variable.numpy(), want, tolerance, tolerance)


def applying(optimizer, variables):
    def step(*gradients):
        optimizer.apply_gradients(zip(gradients, variables))

    return step


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"):
        yield "strict:0"
    unregister_backend("strict")


on_strict = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


# Formulas


@every_case
def test_every_step_follows_the_formula(case):
    variables = new_variables()

    check_history(applying(make(case), variables), variables, expected(case))


@every_case
def test_every_step_inside_a_function_follows_the_formula(case):
    variables, calls = new_variables(), []
    apply = applying(make(case), variables)

    @tf.function
    def step(*gradients):
        calls.append(1)
        apply(*gradients)

    check_history(step, variables, expected(case))
    assert len(calls) == 1


@every_case
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_variables_keep_their_dtype(case, dtype):
    variables = new_variables(dtype)
    # Near zero the direction of a step is a matter of rounding: half precision makes two steps.
    history = expected(case)[: 2 if dtype == "float16" else STEPS]

    check_history(
        applying(make(case), variables), variables, history, {"float16": 2e-2}.get(dtype, 2e-4)
    )
    assert {variable.dtype.name for variable in variables} == {dtype}


@on_strict
@every_case
def test_a_step_reads_nothing_from_the_device(case, strict_device):
    variables = new_variables("float32")
    optimizer = make(case)
    gradients = [tf.constant(g, "float32") for g in values(1)]

    with strict.forbidding_reads():
        applying(optimizer, variables)(*gradients)

    assert {place.device for place in optimizer.variables} == {strict_device}
    for variable, want in zip(variables, expected(case)[0]):
        np.testing.assert_allclose(variable.numpy(), want, 1e-4, 1e-4)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_sparse_gradient_moves_like_its_dense_form(name):
    one, other = [tf.Variable(values(0)[0]) for _ in range(2)]
    rows = tf.IndexedSlices(tf.constant(values(1)[0][:2]), tf.constant([2, 0]), (4, 3))

    for variable, gradient in ((one, rows), (other, rows.dense())):
        getattr(optimizers, name)(0.1).apply_gradients([(gradient, variable)])

    np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_training_finds_a_smaller_loss(name):
    w, target = tf.Variable(values(0)[0]), tf.constant(values(1)[0])
    optimizer = getattr(optimizers, name)(0.1)

    def loss():
        return tf.reduce_sum(tf.square(w - target))

    before = float(loss())
    for _ in range(30):
        optimizer.minimize(loss, [w])

    assert float(loss()) < before


def test_adafactor_keeps_a_row_and_a_column_for_a_matrix():
    optimizer = optimizers.Adafactor()

    optimizer.build([tf.Variable(np.zeros((7, 100, 200)), dtype="float16"), tf.Variable([1.0])])

    slots = optimizer.variables[2:]
    assert [tuple(slot.shape) for slot in slots] == [(7, 100), (7, 200), (1,)]
    assert {slot.dtype.name for slot in slots} == {"float32"}


@pytest.mark.parametrize("shape", [(6, 6), (3, 9), (9, 3)], ids=str)
def test_muon_moves_a_matrix_by_almost_the_nearest_orthogonal_one(shape):
    g = np.random.default_rng(0).normal(size=shape)
    w = tf.Variable(np.zeros(shape))
    u, _, vt = np.linalg.svd(g, full_matrices=False)

    optimizers.Muon(1.0, rms_rate=None).apply_gradients([(tf.constant(g), w)])

    along = -u.T @ w.numpy() @ vt.T
    sizes = np.diag(along)
    np.testing.assert_allclose(along, np.diag(sizes), atol=1e-9)
    assert np.all((sizes > 0.5) & (sizes < 1.3))


def test_a_zero_variable_moves_by_lamb_as_by_adam():
    w = tf.Variable([0.0, 0.0])

    optimizers.Lamb(0.5).apply_gradients([([1.0, -2.0], w)])

    np.testing.assert_allclose(w.numpy(), [-0.5, 0.5], 1e-5)


# What all of them take


def test_gradients_are_summed_over_calls_and_their_mean_makes_a_step():
    variables, wanted = new_variables(), new_variables()
    apply = applying(optimizers.Nadam(0.1, gradient_accumulation_steps=3), variables)
    plain = applying(optimizers.Nadam(0.1), wanted)
    step = tf.function(apply)

    for call in range(6):
        step(*[tf.constant(g) for g in values(call)])
        if call % 3 == 2:
            plain(
                *[
                    tf.constant(sum(three) / 3)
                    for three in zip(*map(values, range(call - 2, call + 1)))
                ]
            )
        for one, other in zip(variables, wanted):
            np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-9)


def test_a_schedule_counts_calls_where_gradients_are_summed():
    w = tf.Variable(0.0)
    rate = schedules.PiecewiseConstantDecay([1], [1.0, 10.0])
    optimizer = optimizers.SGD(rate, gradient_accumulation_steps=2)

    for _ in range(4):
        optimizer.apply_gradients([(-1.0, w)])

    assert (float(w), int(optimizer.iterations)) == (11.0, 2)


def test_a_scaled_loss_gives_the_same_step():
    w, u, v = [tf.Variable(1.0) for _ in range(3)]
    optimizer = optimizers.SGD(0.25, loss_scale_factor=64.0)

    optimizers.SGD(0.25).minimize(lambda: w * w, [w])
    optimizer.minimize(lambda: u * u, [u])
    with tf.GradientTape() as tape:
        loss = v * v
    optimizer.minimize(loss, [v], tape)

    assert (float(w), float(u), float(v)) == (0.5, 0.5, 0.5)
    assert float(optimizer.scale_loss(tf.constant(2.0))) == 128.0


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "function"])
def test_averages_start_at_the_first_step_and_replace_the_variables(inside):
    w, p, average = tf.Variable(1.0, dtype="float64"), 1.0, 0.0
    optimizer = optimizers.SGD(RATE, use_ema=True, ema_momentum=0.6, ema_overwrite_frequency=3)
    step = applying(optimizer, [w])
    step = tf.function(step) if inside else step

    for t in range(1, 8):
        step(tf.constant(float(t), "float64"))
        p -= RATE * t
        average = p if t == 1 else 0.6 * average + 0.4 * p
        p = average if t % 3 == 0 else p
        assert float(w) == pytest.approx(p, 1e-9)
    optimizer.finalize_variable_values([w])
    assert float(w) == pytest.approx(average, 1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_excluded_variables_do_not_decay(name):
    decayed, excluded = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    options = {"adam_weight_decay": 0.5} if name == "Muon" else {"weight_decay": 0.5}
    optimizer = getattr(optimizers, name)(0.5, **options)
    optimizer.exclude_from_weight_decay([excluded])

    optimizer.apply_gradients([([1.0, 1.0], decayed), ([1.0, 1.0], excluded)])

    assert not np.allclose(decayed.numpy(), excluded.numpy(), atol=1e-3)
