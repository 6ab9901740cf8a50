"""Copies of models and optimizers behave like the original and do not change it."""

import copy
import pickle

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


each_way = pytest.mark.parametrize("twin_of", [copy.deepcopy, pickled])

# Optimizers with their variables

OPTIMIZERS = {
    "plain-sgd": lambda: tf.optimizers.SGD(0.1, momentum=0.5),
    "plain-adam": lambda: tf.optimizers.Adam(0.1, weight_decay=0.1, use_ema=True),
    "adam": lambda: keras.optimizers.Adam(0.1, amsgrad=True, weight_decay=0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "lamb": lambda: keras.optimizers.Lamb(0.1, use_ema=True, ema_overwrite_frequency=2),
    "muon": lambda: keras.optimizers.Muon(0.1),
    "adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "summed": lambda: keras.optimizers.RMSprop(0.1, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adagrad(0.1)),
    "own": lambda: Momentum(0.1),
}


class Momentum(keras.optimizers.Optimizer):
    def build(self, variables):
        super().build(variables)
        self.momentums = self.add_optimizer_variables(variables, "momentum")
        self.steps = self.add_variable((), name="steps")

    def update_step(self, gradient, variable, learning_rate):
        momentum = self.momentums[self._get_variable_index(variable)]
        self.assign(momentum, 0.5 * momentum + gradient)
        self.assign_sub(variable, learning_rate * momentum)
        self.assign_add(self.steps, 1.0)


def step(optimizer, variables, seed):
    rng = np.random.default_rng(seed)
    gradients = [tf.constant(rng.normal(size=v.shape)) for v in variables]
    optimizer.apply_gradients(list(zip(gradients, variables)))


def state(optimizer, variables):
    return [v.numpy() for v in (*variables, *optimizer.variables)]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@each_way
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_with_copies_of_its_variables(name, twin_of):
    variables = [tf.Variable(np.ones(shape), name=f"v{len(shape)}") for shape in ((4, 3), (3,))]
    optimizer = OPTIMIZERS[name]()
    if not isinstance(optimizer, Momentum):
        optimizer.exclude_from_weight_decay(variables[:1])
    step(optimizer, variables, 1)

    twin, copies = twin_of((optimizer, variables))
    step(optimizer, variables, 2)
    after = state(optimizer, variables)
    step(twin, copies, 2)

    assert_same(state(twin, copies), after)
    assert_same(state(optimizer, variables), after)


@each_way
def test_who_is_not_decayed_is_known_before_the_first_step(twin_of):
    w = tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(0.5, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([w])

    twin, other = twin_of((optimizer, w))
    twin.apply_gradients([(0.0, other)])

    assert float(other) == 1.0


@each_way
def test_a_copy_makes_new_what_a_checkpoint_does_not_have(twin_of, tmp_path):
    w, optimizer = tf.Variable(np.ones(3)), Momentum(0.1)
    path = tf.train.Checkpoint(w=w, optimizer=optimizer).save(tmp_path / "before")
    step(optimizer, [w], 1)

    twin, other = twin_of((optimizer, w))
    tf.train.Checkpoint(w=other, optimizer=twin).restore(path)

    assert other.numpy().tolist() == [1.0, 1.0, 1.0]
    assert float(twin.steps) == 0.0
    assert twin.momentums[0].numpy().tolist() == [0.0, 0.0, 0.0]


def test_numbers_of_variables_mean_nothing_in_another_process():
    w = tf.Variable([1.0, 2.0])
    optimizer = tf.optimizers.Adam(0.1)
    optimizer.apply_gradients([([1.0, 1.0], w)])

    twin, _ = pickled((optimizer, w))
    step_of_others = twin.apply_gradients([([1.0, 1.0], w)])  # a variable that it never saw

    assert int(step_of_others) == 2
    assert len(twin.variables) == 2 + 2 * 2


# Models


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.last = keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)

    def call(self, x):
        return self.last(self.inner(x))


def sequential():
    # A bias before the norm would have a gradient of rounding errors only, which Adam scales up.
    first = keras.layers.Dense(4, use_bias=False)
    return keras.Sequential([first, keras.layers.BatchNormalization(), keras.layers.Dense(1)])


def functional():
    x = keras.Input((3,))
    return keras.Model(x, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(x)))


def with_added_losses():
    return keras.Sequential(
        [keras.layers.Dense(4, activity_regularizer="l2"), keras.layers.Dense(1)]
    )


MODELS = {
    "sequential": sequential,
    "functional": functional,
    "subclassed": Subclassed,
    "added": with_added_losses,
}


@each_way
@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_trained_model_and_its_copy_go_on_alike(name, run_eagerly, twin_of):
    model = MODELS[name]()
    model.compile("adam", "mse", metrics=["mae"], run_eagerly=run_eagerly)
    model.fit(X, Y, batch_size=8, verbose=0)
    model.evaluate(X, Y, verbose=0)

    twin = twin_of(model)
    tf.random.set_seed(1)
    logs = model.fit(X, Y, batch_size=8, verbose=0, shuffle=False).history
    after = state(model.optimizer, model.weights)
    tf.random.set_seed(1)
    of_twin = twin.fit(X, Y, batch_size=8, verbose=0, shuffle=False).history

    assert of_twin == logs
    assert int(twin.optimizer.iterations) == 6
    assert_same(state(twin.optimizer, twin.weights), after)
    assert_same(state(model.optimizer, model.weights), after)


@each_way
def test_a_model_is_copied_in_the_middle_of_fit(twin_of):
    found = []

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            found.append((twin_of(self.model), self.model.get_weights()))

    model = sequential()
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(24, seed=0).batch(8).prefetch(1)
    model.fit(data, verbose=0, callbacks=[Keep()])
    after = model.get_weights()

    assert len(found) == 3
    for twin, weights in found:
        assert twin._under_way is None  # the batch is not copied
        assert_same(twin.get_weights(), weights)
        twin.fit(X, Y, verbose=0)
        assert not np.array_equal(twin.get_weights()[0], weights[0])
    assert_same(model.get_weights(), after)


def small_model():
    x = keras.Input((3,))
    inner = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4, name="deep")])
    return keras.Model(x, keras.layers.Dense(1, name="last")(inner(keras.layers.Dense(4)(x))))


def test_clones_begin_at_given_tensors():
    start = keras.Input((3,), name="other")
    clone = keras.models.clone_model(small_model(), start)

    assert clone.inputs[0] is start
    assert clone.output_shape == (None, 1)
    sequential = keras.Sequential([keras.layers.Dense(2)])
    assert keras.models.clone_model(sequential, [start]).input_shape == (None, 3)
    with pytest.raises(ArgumentError, match="1 symbolic tensors, one for each input"):
        keras.models.clone_model(small_model(), [start, start])


def test_call_functions_add_layers_to_a_clone():
    model = small_model()

    def call(layer, *args, **kwargs):
        found = layer(*args, **kwargs)
        is_dense = isinstance(layer, keras.layers.Dense)
        return keras.layers.Dropout(0.5)(found) if is_dense else found

    clone = keras.models.clone_model(model, clone_function=lambda layer: layer, call_function=call)

    assert [type(layer).__name__ for layer in clone.layers].count("Dropout") == 2
    assert clone.layers[-2] is model.layers[-1]
    with pytest.raises(ArgumentError, match="call_function needs a functional model"):
        keras.models.clone_model(keras.Sequential([]), call_function=call)


@pytest.mark.parametrize("recursive", [False, True])
def test_clone_functions_reach_layers_in_models_if_recursive(recursive):
    seen = []

    def clone(layer):
        seen.append(layer.name)
        return type(layer).from_config(layer.get_config())

    keras.models.clone_model(small_model(), clone_function=clone, recursive=recursive)

    assert ("deep" in seen) is recursive
    assert "last" in seen
