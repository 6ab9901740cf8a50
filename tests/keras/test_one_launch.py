"""Steps that are recorded where launches cost time: nothing else about them changes.

Here NumPy's backend says that they do; tests/gpu looks at what a GPU makes of it.
"""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import optimizers
from tests import capabilities

MADE = {
    "muon": lambda **options: optimizers.Muon(0.1, **options),
    "adafactor": lambda **options: optimizers.Adafactor(0.1, **options),
}
each = pytest.mark.parametrize("name", MADE)
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
SHAPES = [(4, 3), (5,), (3, 6)]


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tf.device("cpu"):
        yield


@pytest.fixture
def captures(monkeypatch):
    """The programs that were handed to the backend."""
    programs = []

    def capture(run, written, in_place):
        def owning(inputs, arrays):
            own = [a.copy() if k in in_place else a for k, a in enumerate(arrays)]
            return run(inputs, own)

        programs.append(owning)
        return owning

    takes_no_group = capabilities.grouped_updates(lambda *_: None)
    capabilities.use(monkeypatch, capture=capabilities.Capture(capture), updates=takes_no_group)
    return programs


@pytest.fixture
def strict_backend():
    register_backend(strict.StrictBackend())
    yield
    unregister_backend("strict")


def values(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in SHAPES]


class Training:
    """Variables and an optimizer; steps have the same gradients in each."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.variables = [tf.Variable(x) for x in values(0)]
        self.used = range(len(SHAPES))
        self.count = 0

    def step(self, times=1):
        for _ in range(times):
            self.count += 1
            gradients = [tf.constant(g) for g in values(self.count)]
            pairs = list(zip(gradients, self.variables))
            self.optimizer.apply_gradients([pairs[k] for k in self.used])

    def state(self):
        return [v.numpy() for v in (*self.variables, *self.optimizer.variables)]


def same_run(make, change, monkeypatch):
    """Train as recorded and, where nothing can be captured, by single operations."""
    found = []
    for is_recorded in (True, False):
        if not is_recorded:
            capabilities.use(monkeypatch, updates=None)
        training = Training(make())
        change(training)
        found.append(training.state())
    for recorded, eager in zip(*found, strict=True):
        np.testing.assert_allclose(recorded, eager, rtol=1e-12, atol=1e-14)


OPTIONS = [
    {},
    {"weight_decay": 0.25, "clipnorm": 0.5},
    {"clipvalue": 0.5, "use_ema": True, "ema_momentum": 0.5},
    {"global_clipnorm": 1.0, "use_ema": True, "ema_overwrite_frequency": 2},
    {"gradient_accumulation_steps": 2, "loss_scale_factor": 4.0},
]


@each
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_are_those_of_single_operations(name, options, captures, monkeypatch):
    same_run(lambda: MADE[name](**options), lambda training: training.step(5), monkeypatch)

    assert len(captures) == 1


@each
def test_a_step_inside_a_function_is_part_of_it(name, captures):
    inside, alone = Training(MADE[name]()), Training(MADE[name]())
    gradients = [tf.constant(g) for g in values(1)]

    @tf.function
    def step(*gradients):
        inside.optimizer.apply_gradients(list(zip(gradients, inside.variables)))

    step(*gradients)
    assert len(captures) == 1
    alone.step()

    for one, other in zip(inside.state(), alone.state(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def change_rate(training):
    training.optimizer.learning_rate = 0.5


def change_schedule(training):
    training.optimizer.learning_rate = optimizers.schedules.ExponentialDecay(0.5, 2, 0.5)


def change_decay(training):
    training.optimizer.weight_decay = 0.5


def exclude_from_decay(training):
    training.optimizer.weight_decay = 0.5
    training.step()
    training.optimizer.exclude_from_weight_decay(training.variables[:1])


def change_number(training):
    if isinstance(training.optimizer, optimizers.Muon):
        training.optimizer.momentum = 0.125
    else:
        training.optimizer.clip_threshold = 0.125


def leave_one_out(training):
    training.used = [0, 2]


def assign(training):
    for place in (*training.variables, *training.optimizer.variables[2:]):
        place.assign(place * 0.5)


CHANGES = [
    change_rate,
    change_schedule,
    change_decay,
    exclude_from_decay,
    change_number,
    leave_one_out,
    assign,
]


@each
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_between_steps_is_seen(name, change, captures, monkeypatch):
    def train(training):
        training.step(2)
        change(training)
        training.step(2)

    same_run(MADE[name], train, monkeypatch)


@each
@pytest.mark.filterwarnings("error")
def test_numbers_that_always_change_are_not_recorded_for_ever(name, captures, monkeypatch):
    def train(training):
        for k in range(12):
            training.optimizer.weight_decay = k / 16
            training.step()

    same_run(MADE[name], train, monkeypatch)

    assert len(captures) == 6


@each
def test_variables_on_two_devices_are_moved_one_by_one(name, captures, strict_backend):
    found = []
    for other in ("cpu", "strict:0"):
        training = Training(MADE[name]())
        with tf.device(other):
            training.variables[2] = tf.Variable(values(0)[2])
        for count in (1, 2):
            gradients = [tf.constant(g) for g in values(count)]
            gradients[2] = gradients[2].to(other)
            training.optimizer.apply_gradients(list(zip(gradients, training.variables)))
        found.append([v.numpy() for v in training.variables])

    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
    assert len(captures) == 1


@each
def test_an_optimizer_may_count_on_another_device(name, captures, strict_backend):
    with tf.device("strict:0"):
        optimizer = MADE[name]()
    training = Training(optimizer)
    training.step(2)

    assert int(optimizer.iterations) == 2
    assert not captures


def test_nothing_is_recorded_where_launches_cost_nothing():
    training = Training(MADE["adafactor"]())
    training.step(2)

    assert not training.optimizer._recorded._entries


@each
def test_functions_of_the_user_run_at_each_step(name, captures):
    rates, constrained = iter([0.5, 0.25, 0.125]), []

    def schedule(step):
        return next(rates)

    def constraint(x):
        constrained.append(1)
        return x

    first, second = Training(MADE[name]()), Training(MADE[name]())
    first.optimizer.learning_rate = schedule
    second.variables[0] = tf.Variable(values(0)[0], constraint=constraint)
    first.step(3)
    second.step(3)

    assert next(rates, None) is None
    assert len(constrained) == 3
    assert not captures


@pytest.mark.parametrize("base", [optimizers.Muon, optimizers.Adafactor])
def test_a_step_of_the_user_runs_each_time(base, captures):
    class Counting(base):
        calls = 0

        def step(self, p, g, slots, rate, count):
            self.calls += 1
            return super().step(p, g, slots, rate, count)

    training = Training(Counting(0.1))
    training.step(3)

    assert training.optimizer.calls == 3 * len(SHAPES)
    assert not captures


@each
@pytest.mark.parametrize("clipping", [{}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}], ids=str)
def test_sparse_gradients_count_as_dense_ones(name, clipping, captures):
    found = []
    for is_sparse in (True, False):
        w = tf.Variable(values(0)[0])
        optimizer = MADE[name](**clipping)
        for seed in (1, 2):
            numbers = tf.constant(values(seed)[0][:3])
            rows = tf.IndexedSlices(numbers, tf.constant([2, 0, 2]), (4, 3))
            optimizer.apply_gradients([(rows if is_sparse else rows.dense(), w)])
        found.append(w.numpy())

    np.testing.assert_allclose(*found, rtol=1e-12)
    assert len(captures) == 2


@each
def test_loss_scaling_undoes_a_recorded_step(name, captures):
    training = Training(MADE[name]())
    training.step()
    before = training.state()
    scaled = optimizers.LossScaleOptimizer(training.optimizer)
    wrong = [tf.constant(np.full(shape, np.inf)) for shape in SHAPES]

    scaled.apply_gradients(list(zip(wrong, training.variables)))

    for one, other in zip(training.state(), before, strict=True):
        np.testing.assert_array_equal(one, other)


@each
@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_goes_on_by_itself(name, twin_of, captures):
    training = Training(MADE[name]())
    training.step(2)
    twin = twin_of(training)
    training.step(2)
    twin.step(2)

    for one, other in zip(training.state(), twin.state(), strict=True):
        np.testing.assert_array_equal(one, other)


@each
@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_records_kinds_of_its_own(name, twin_of, captures):
    training = Training(MADE[name]())
    for k in range(7):
        training.optimizer.weight_decay = k / 16
        training.step()
    assert len(captures) == 6  # more are not recorded

    twin_of(training).step()

    assert len(captures) == 7


@each
def test_programs_end_with_their_optimizer(name, captures):
    training = Training(MADE[name]())
    training.step(2)
    run = weakref.ref(captures.pop())
    del training
    gc.collect()

    assert run() is None


@each
def test_wrong_gradients_change_nothing(name, captures):
    training = Training(MADE[name]())
    training.step(2)
    before = training.state()

    with pytest.raises(tf.errors.ShapeError, match="shape"):
        training.optimizer.apply_gradients([(tf.constant([1.0, 2.0]), training.variables[0])])

    for one, other in zip(training.state(), before, strict=True):
        np.testing.assert_array_equal(one, other)
