"""Checkpoints: contents, the status of a restore, and bit-for-bit resumed runs."""

import json

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.saving import TensorFile, save_weights
from tapegrad.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from tapegrad.random import Generator
from tapegrad.train import Checkpoint


@pytest.fixture
def prefix(tmp_path):
    return f"{tmp_path}/ckpt"


class Layer(tf.Module):
    def __init__(self, rows, columns, seed):
        super().__init__()
        random = np.random.default_rng(seed)
        self.kernel = tf.Variable(random.normal(size=(rows, columns)).astype("float32"))
        self.bias = tf.Variable(np.zeros(columns, "float32"))

    def __call__(self, x):
        return x @ self.kernel + self.bias


class Net(tf.Module):
    """Two layers with noise between them, half of it from the global generator."""

    def __init__(self, seed):
        super().__init__()
        self.layers = [Layer(3, 5, seed), Layer(5, 2, seed + 1)]
        self.noise = Generator.from_seed(seed)

    def __call__(self, x):
        hidden = tf.tanh(self.layers[0](x))
        hidden += 0.1 * self.noise.normal(hidden.shape) + 0.1 * tf.random.normal(hidden.shape)
        return self.layers[1](hidden)


class Counter:
    """An iterator whose state is JSON, as a dataset's is."""

    def __init__(self):
        self.position = 0

    def __next__(self):
        self.position += 1
        return np.sin(np.arange(12, dtype="float32") * self.position).reshape(4, 3)

    def state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]


class Run:
    """A training run; everything in it depends on `seed` unless it is restored."""

    def __init__(self, make_optimizer, is_recorded, seed):
        tf.random.set_seed(seed)
        self.net, self.optimizer, self.data = Net(seed), make_optimizer(), Counter()
        self.step = tf.function(self._step) if is_recorded else self._step
        self.checkpoint = Checkpoint(net=self.net, optimizer=self.optimizer, data=self.data)

    def _step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x) - 1.0))
        variables = self.net.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def train(self, steps):
        return [self.step(tf.constant(next(self.data))).numpy().tobytes() for _ in range(steps)]

    def weights(self):
        return [variable.numpy().tobytes() for variable in self.net.variables]


OPTIMIZERS = {
    "SGD": lambda: SGD(0.1),
    "momentum": lambda: SGD(0.1, momentum=0.9),
    "Adam": lambda: Adam(0.05),
    "AdamW with averages": lambda: AdamW(0.05, use_ema=True, ema_momentum=0.9),
    "RMSprop with a schedule": lambda: RMSprop(lambda step: 0.05 / (tf.cast(step, "float32") + 1)),
}


# Resuming


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_run_resumed_in_new_objects_continues_bit_for_bit(name, prefix):
    first = Run(OPTIMIZERS[name], False, seed=1)
    first.train(4)
    path = first.checkpoint.save(prefix)
    losses = first.train(5)

    second = Run(OPTIMIZERS[name], False, seed=2)
    second.checkpoint.restore(path).assert_consumed()

    assert second.train(5) == losses
    assert second.weights() == first.weights()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_run_with_a_recorded_step_continues_bit_for_bit(name, prefix):
    first = Run(OPTIMIZERS[name], True, seed=1)
    first.train(4)
    path = first.checkpoint.save(prefix)
    losses = first.train(5)

    second = Run(OPTIMIZERS[name], True, seed=2)
    second.checkpoint.restore(path).assert_consumed()

    assert second.train(5) == losses
    assert second.weights() == first.weights()


@pytest.mark.parametrize("name", ["momentum", "Adam", "AdamW with averages"])
def test_a_run_that_goes_back_to_its_own_checkpoint_repeats_itself(name, prefix):
    run = Run(OPTIMIZERS[name], True, seed=1)
    run.train(4)
    path = run.checkpoint.save(prefix)
    losses = run.train(5)

    run.checkpoint.restore(path).assert_consumed()

    assert run.train(5) == losses


def test_going_back_to_before_the_first_step_makes_the_slots_new_again(prefix):
    run = Run(OPTIMIZERS["Adam"], False, seed=1)
    path = run.checkpoint.save(prefix)
    losses = run.train(5)

    run.checkpoint.restore(path).assert_consumed()

    assert run.train(5) == losses


def test_slots_go_to_the_variable_of_the_same_name_whatever_the_order(prefix):
    a, b = tf.Variable([1.0]), tf.Variable([2.0])
    optimizer = SGD(0.5, momentum=0.5)
    optimizer.apply_gradients([(tf.constant([1.0]), a), (tf.constant([8.0]), b)])
    path = Checkpoint(a=a, b=b, optimizer=optimizer).save(prefix)
    a2, b2, optimizer2 = tf.Variable([0.0]), tf.Variable([0.0]), SGD(0.1, momentum=0.5)
    optimizer2.build([b2, a2])

    Checkpoint(a=a2, b=b2, optimizer=optimizer2).restore(path).assert_consumed()
    optimizer2.apply_gradients([(tf.constant([0.0]), a2), (tf.constant([0.0]), b2)])

    # a: 1 - 0.5 - 0.25 and b: 2 - 4 - 2, both with the rate and the momentum that were saved.
    assert a2.numpy().tolist() == [0.25]
    assert b2.numpy().tolist() == [-4.0]
    assert int(optimizer2.iterations) == 2


def test_an_optimizer_of_variables_outside_the_checkpoint_is_restored_by_position(prefix):
    w = tf.Variable([1.0])
    optimizer = SGD(0.5, momentum=0.5)
    optimizer.apply_gradients([(tf.constant([4.0]), w)])
    path = Checkpoint(optimizer=optimizer).save(prefix)
    optimizer.apply_gradients([(tf.constant([9.0]), w)])

    Checkpoint(optimizer=optimizer).restore(path).assert_consumed()

    assert optimizer.variables[2].numpy().tolist() == [-2.0]


class Scaled(Optimizer):
    """An optimizer around another one, with a variable and a table of its own."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.scale, self._sums = inner, tf.Variable(2.0, trainable=False), {}

    def build(self, var_list):
        for variable in var_list:
            self._known[variable.number] = variable
            self._sums.setdefault(variable.number, tf.Variable(variable * 0, trainable=False))
        self.inner.build(self._known.values())

    def apply_gradients(self, grads_and_vars):
        pairs = list(grads_and_vars)
        self.build([variable for _, variable in pairs])
        self.scale.assign(self.scale * 1.5)
        for gradient, variable in pairs:
            self._sums[variable.number].assign_add(gradient * self.scale)
        self.inner.apply_gradients([(self._sums[v.number].value(), v) for _, v in pairs])


def test_an_optimizer_inside_another_and_its_tables_are_restored(prefix):
    first = Run(lambda: Scaled(Adam(0.05)), False, seed=1)
    first.train(3)
    path = first.checkpoint.save(prefix)
    losses = first.train(3)

    second = Run(lambda: Scaled(Adam(0.05)), False, seed=2)
    second.checkpoint.restore(path).assert_consumed()

    assert second.train(3) == losses


def test_the_global_random_numbers_go_on_where_they_were_saved(prefix):
    tf.random.set_seed(5)
    tf.random.normal([3])
    path = Checkpoint().save(prefix)
    after = tf.random.normal([3]).numpy().tolist()

    tf.random.set_seed(77)
    Checkpoint().restore(path).assert_consumed()

    assert tf.random.normal([3]).numpy().tolist() == after


# What a checkpoint holds


def test_nested_values_of_all_kinds_come_back(prefix):
    def make(number):
        return Checkpoint(
            w=tf.Variable([number]),
            random=Generator.from_seed(int(number)),
            epoch=int(number),
            best=number / 3,
            name=f"run {number}",
            done=number == 1.0,
            nothing=None if number == 1.0 else 3,
            far=float("inf") if number == 1.0 else 0.0,
            nested={"a": [tf.Variable(number), {"b": int(number)}], "c/d": (tf.Variable(number),)},
        )

    old, new = make(1.0), make(2.0)
    inner = new.nested["a"][1]

    new.restore(old.save(prefix)).assert_consumed()

    assert new.w.numpy().tolist() == [1.0]
    assert new.random.normal([2]).numpy().tolist() == old.random.normal([2]).numpy().tolist()
    assert (new.epoch, new.best, new.name, new.nothing) == (1, 1 / 3, "run 1.0", None)
    assert new.done is True
    assert new.far == float("inf")
    assert float(new.nested["a"][0]) == 1.0
    assert float(new.nested["c/d"][0]) == 1.0
    assert inner == {"b": 1}


def test_an_attribute_that_is_set_later_is_part_of_the_checkpoint(prefix):
    checkpoint = Checkpoint()
    checkpoint.extra = tf.Variable(3.0)
    path = checkpoint.save(prefix)
    checkpoint.extra.assign(0.0)

    checkpoint.restore(path).assert_consumed()

    assert float(checkpoint.extra) == 3.0


def test_names_in_the_file_are_paths_and_shared_variables_are_there_once(prefix):
    net = Net(0)
    net.itself = net
    net.twin = {"layer": net.layers[1]}
    net.layers[0]._kernels = [net.layers[0].kernel]

    path = Checkpoint(net=net, head=net.layers[1].bias).write(prefix)

    with TensorFile(f"{path}.safetensors") as file:
        assert list(file) == [
            "head",
            "net/layers/0/bias",
            "net/layers/0/kernel",
            "net/layers/1/kernel",
            "net/noise",
            "save_counter",
            "~random",
        ]


def test_a_checkpoint_is_one_file_without_pickles(prefix, tmp_path):
    run = Run(OPTIMIZERS["Adam"], False, seed=1)
    run.train(1)

    run.checkpoint.write(prefix)

    assert [path.name for path in tmp_path.iterdir()] == ["ckpt.safetensors"]
    with TensorFile(f"{prefix}.safetensors") as file:
        state = json.loads(file.metadata["tapegrad.checkpoint"])
        assert "optimizer/~slots/net/layers/0/kernel/momentum" in file
    assert state["values"] == {"data": {"position": 1}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones(2), "Got ndarray for 'x'; put a tensor or an array into a Variable"),
        (object(), "A checkpoint can hold modules, optimizers.*Got object for 'x'"),
        ((1, 2), "cannot restore 'x/0'.*Use a list or a dict"),
        ({1: 2, "1": 3}, "Two values of a checkpoint have the name 'x/1'"),
    ],
)
def test_what_cannot_be_saved_is_named(value, message, prefix):
    with pytest.raises((ArgumentTypeError, ArgumentError), match=message):
        Checkpoint(x=value).save(prefix)


def test_a_state_that_is_no_json_is_named(prefix):
    data = Counter()
    data.position = {1, 2}

    with pytest.raises(ArgumentTypeError, match="state of 'data' must consist of JSON values"):
        Checkpoint(data=data).save(prefix)


@pytest.mark.parametrize("name", ["save", "restore", "save_counter", "_x"])
def test_a_name_that_a_checkpoint_needs_itself_is_refused(name):
    with pytest.raises(ArgumentError, match=f"'{name}' cannot be the name of an object"):
        Checkpoint(**{name: 1})


# What restoring says


def test_values_that_nobody_took_are_reported_only_on_demand(prefix):
    path = Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0), n=3).save(prefix)
    a = tf.Variable(0.0)

    status = Checkpoint(a=a).restore(path)

    assert float(a) == 1.0
    assert status.expect_partial() is status
    assert status.assert_existing_objects_matched() is status
    with pytest.raises(AssertionError, match="holds values that no object uses: b, n"):
        status.assert_consumed()


def test_objects_without_a_saved_value_are_reported_and_stay(prefix):
    path = Checkpoint(a=tf.Variable(1.0)).save(prefix)
    checkpoint = Checkpoint(a=tf.Variable(0.0), b=tf.Variable(7.0), n=3)

    status = checkpoint.restore(path)

    assert (float(checkpoint.b), checkpoint.n) == (7.0, 3)
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match="has no values for: b, n"):
            check()


def test_different_shapes_are_refused_and_nothing_changes(prefix):
    w, v = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer = Adam(0.1)
    optimizer.build([w, v])
    path = Checkpoint(v=v, w=w, n=1, optimizer=optimizer).save(prefix)
    w2, v2 = tf.Variable([[0.0]]), tf.Variable(0.0)
    other = Checkpoint(v=v2, w=w2, n=2, optimizer=Adam(0.7))

    with pytest.raises(ArgumentError, match=r"'w' is float32\[1, 1\] here and float32\[2\] in"):
        other.restore(path)

    assert float(v2) == 0.0
    assert other.n == 2
    assert float(other.optimizer.learning_rate) == pytest.approx(0.7)
    assert len(other.optimizer.variables) == 2


def test_none_restores_nothing_and_says_so_when_asked():
    status = Checkpoint(w=tf.Variable(1.0)).restore(None)

    status.expect_partial()
    with pytest.raises(AssertionError, match="No checkpoint was restored"):
        status.assert_consumed()


def test_a_file_of_weights_is_no_checkpoint(prefix):
    save_weights({"w": tf.Variable(1.0)}, f"{prefix}.safetensors")

    with pytest.raises(ArgumentError, match=r"is not a checkpoint: .* Load it with load_weights"):
        Checkpoint(w=tf.Variable(1.0)).restore(prefix)


def test_a_checkpoint_of_a_newer_version_is_refused(prefix):
    save_weights({}, f"{prefix}.safetensors", {"tapegrad.checkpoint": '{"version": 2}'})

    with pytest.raises(ArgumentError, match="has format version 2"):
        Checkpoint().restore(prefix)


def test_a_path_that_is_not_there_is_named(prefix):
    with pytest.raises(FileNotFoundError, match="ckpt"):
        Checkpoint().restore(prefix)


class Fitted:
    """A model, its state and what `fit` needs to go on; everything depends on `seed`."""

    def __init__(self, seed):
        tf.random.set_seed(seed)
        layers = tf.keras.layers
        self.model = tf.keras.Sequential(
            [layers.Dense(8, "tanh"), layers.BatchNormalization(), layers.Dropout(0.2)]
        )
        self.model.add(layers.Dense(1))
        self.model.build((None, 3))
        optimizer = tf.keras.optimizers.RMSprop(0.01, momentum=0.9, use_ema=True)
        self.model.compile(optimizer, "mse")
        self.checkpoint = Checkpoint(model=self.model, optimizer=optimizer)

    def fit(self, first, last, callbacks=()):
        x = np.sin(np.arange(60, dtype="float32")).reshape(20, 3)
        options = {"batch_size": 8, "verbose": 0, "callbacks": list(callbacks)}
        history = self.model.fit(x, x[:, :1], initial_epoch=first, epochs=last, **options)
        return history.history.get("loss", [])

    def weights(self):
        return [variable.numpy().tobytes() for variable in self.model.variables]


def test_fit_resumed_in_new_objects_continues_bit_for_bit(prefix):
    paths = []

    class Save(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            paths.append(first.checkpoint.save(prefix))

    first = Fitted(seed=1)
    losses = first.fit(0, 5, [Save()])
    for epoch, path in enumerate(paths, 1):
        second = Fitted(seed=2)
        second.checkpoint.restore(path).assert_consumed()

        assert second.fit(epoch, 5) == losses[epoch:]
        assert second.weights() == first.weights()
