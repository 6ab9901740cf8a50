"""What beginners get wrong: each error is one sentence or two, and the traceback is short."""

import sys
import traceback

import numpy as np
import pytest

import tapegrad as tf

X = np.ones((8, 3), np.float32)
Y = np.ones((8, 1), np.float32)
LAYERS = tf.keras.layers


def matrix():
    return tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def network(loss="mse"):
    model = tf.keras.Sequential([LAYERS.Dense(1)])
    model.compile("sgd", loss)
    return model


HABITS = {
    "tensor.backward": (lambda: matrix().backward(), "tape.gradient(loss, variables)"),
    "variable.grad": (lambda: tf.Variable(1.0).grad, "tape.gradient(loss, variables)"),
    "tensor.detach": (lambda: matrix().detach(), "Use tapegrad.stop_gradient."),
    "optimizer.step": (lambda: tf.optimizers.SGD(0.1).step(), "apply_gradients"),
    "model.parameters": (lambda: network().parameters(), "model.trainable_variables"),
    "nn.Linear": (lambda: tf.nn.Linear, "tapegrad.keras.layers"),
    "keras.layers.Linear": (lambda: LAYERS.Linear, "keras.layers.Dense"),
    "mean": (lambda: tf.mean, "Use tapegrad.numpy.mean."),
    "jit": (lambda: tf.jit, "Use tapegrad.function."),
    "random.PRNGKey": (lambda: tf.random.PRNGKey, "tapegrad.random.set_seed"),
    "symbolic.numpy": (lambda: tf.keras.Input((3,)).numpy(), "no value while the model is"),
}


@pytest.mark.parametrize("habit", HABITS)
def test_names_of_other_libraries_say_what_to_use(habit):
    use, remedy = HABITS[habit]

    with pytest.raises(AttributeError) as caught:
        use()

    assert remedy in str(caught.value)


@pytest.mark.parametrize("value", [tf.constant(1.0), tf.Variable(1.0), tf.optimizers.SGD(0.1)])
def test_absent_names_are_not_attributes(value):
    for name in ("backward", "step"):
        assert not hasattr(value, name)
        assert name not in dir(value)


def test_a_subclass_may_define_an_absent_name():
    class Stepper(tf.optimizers.SGD):
        def step(self):
            return "a step"

    assert Stepper(0.1).step() == "a step"
    assert "step" in dir(Stepper(0.1))


@tf.function
def add(a, b):
    return a + b


@tf.function
def second(values):
    return values["second"]


MISTAKES = {
    "a missing argument": (lambda: add(1.0), "add(a, b): missing a required argument: 'b'."),
    "an unknown argument": (lambda: add(1.0, 2.0, c=3), "unexpected keyword argument 'c'"),
    "an unknown option": (lambda: tf.function(jitcompile=True), "Did you mean 'jit_compile'?"),
    "sizes as arguments": (lambda: tf.zeros(2, 3), "zeros([2, 3])"),
    "a float as an index": (lambda: matrix()[1.0], "Got 1.0."),
    "a float in a slice": (lambda: matrix()[0:1.5], "Got 0:1.5."),
    "text as a tensor": (lambda: tf.cast(tf.constant(["a"]), "float32"), "as the argument x"),
    "one item of many": (lambda: matrix().item(), "float32 and shape (2, 3)"),
    "no inverse": (lambda: tf.linalg.inv(tf.zeros([2, 2])), "Singular matrix. Use pinv"),
    "a damaged image": (lambda: tf.io.decode_png(b"hello"), "Got 5 bytes."),
    "no checkpoint": (lambda: tf.train.Checkpoint().restore("absent"), "no checkpoint 'absent'"),
    "no rule": (lambda: tf.extend.unary("of_no_rule", 3), "A rule is a Python function"),
    "a misspelt dtype": (lambda: tf.constant(1.0, "flaot32"), "is not a data type"),
    "a loss of one argument": (
        lambda: network(lambda y: y).fit(X, Y, verbose=0),
        "takes 1 positional argument but 2 were given. It was called with y_true=",
    ),
    "a loss that is text": (
        lambda: network(lambda a, b: "x").fit(X, Y, verbose=0),
        "must return the loss of each sample. Got 'x'.",
    ),
    "targets of another shape": (
        lambda: network().fit(X, np.ones((8, 3, 2, 4)), verbose=0),
        "which do not match: the shapes do not broadcast",
    ),
    "a dataset without batches": (
        lambda: network().fit(tf.data.Dataset.from_tensor_slices((X, Y)), verbose=0),
        "needs batch()",
    ),
    "a missing key": (lambda: second({"first": 1.0}), "'second'"),
    "a missing file": (lambda: network().load_weights("absent"), "no file or folder 'absent'"),
    "several values as one": (lambda: float(matrix()), "float32 and shape (2, 3)"),
    "several values as a condition": (lambda: bool(matrix()), "use x.any() or x.all()"),
    "a layer that does not fit": (lambda: matrix() @ matrix(), "axis -2 of the second operand"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_says_what_was_wrong_in_a_short_traceback(mistake):
    make, words = MISTAKES[mistake]
    around = sys.exc_info()[1]  # the runner of the tests may handle an exception meanwhile

    with pytest.raises(Exception) as caught:  # noqa: PT011  # many classes
        make()

    error: BaseException | None = caught.value
    while error is not None and around is not None:
        if error.__context__ is around:
            error.__context__ = None
        error = error.__context__
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert words in str(caught.value)
    assert lines[0] == "Traceback (most recent call last):"
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert sum("/tapegrad/" in line for line in lines) <= 5


def test_the_environment_asks_for_full_tracebacks(monkeypatch):
    def frames():
        with pytest.raises(TypeError) as caught:
            tf.constant(1.0, "flaot32")
        return len(traceback.extract_tb(caught.value.__traceback__)), caught.value.__cause__

    short, no_cause = frames()
    monkeypatch.setenv("TAPEGRAD_TRACEBACK", "full")
    full, cause = frames()

    assert short < full
    assert no_cause is None
    assert isinstance(cause, TypeError)


def test_a_generator_that_ends_early_warns():
    def batches():
        for _ in range(2):
            yield X, Y

    with pytest.warns(UserWarning, match="ended after 2 steps of epoch 1"):
        network().fit(batches(), steps_per_epoch=5, epochs=2, verbose=0)
