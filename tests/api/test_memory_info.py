"""Memory counters, and errors when memory runs out."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad import cli
from tapegrad.core.backend.registry import get_backend, register_backend, unregister_backend
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.extend import binary, unary

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def forget_new_primitives() -> Iterator[None]:
    before = set(PRIMITIVES)
    yield
    for name in set(PRIMITIVES) - before:
        del PRIMITIVES[name]


@pytest.fixture(params=["cpu", "strict:0"])
def place(request) -> Iterator[str]:
    register_backend(strict.StrictBackend())
    with tf.device(request.param):
        yield request.param
    unregister_backend("strict")


class Failing:
    """A function that runs out of memory in its first calls."""

    def __init__(self, times: int, function: Callable[..., Any]) -> None:
        self.times = times
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls <= self.times:
            raise MemoryError("no room for 4,000 bytes")
        return self.function(*args, **kwargs)


# Counters


def test_the_cpu_counts_while_tracemalloc_does():
    with tf.device("cpu"):
        assert tf.memory_info() == {"current": None, "peak": None}
        tracemalloc.start()
        try:
            x = tf.zeros((1000, 1000))
            y = tf.zeros((5000, 1000))
            del y
            before = tf.memory_info()
            tf.reset_peak_memory()
            y = tf.add(x, 1.0)
            del y
            info = tf.memory_info("cpu")
        finally:
            tracemalloc.stop()

    assert 4_000_000 <= info["current"] < 6_000_000
    assert before["peak"] >= 24_000_000
    assert 8_000_000 <= info["peak"] < 10_000_000


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="There is no device 'abacus'"):
        tf.memory_info("abacus")


def test_info_describes_the_devices(place, capsys):
    cli.main(["info"])

    assert "strict:0        array_api_strict in place of a GPU\n" in capsys.readouterr().out


# Out of memory


def kernel_calls(kernel: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    """One call per code path from an operation to its kernel."""
    square = unary("squared_here", lambda t, x: t * x * 2.0, forward=kernel)
    product = binary("product_here", lambda t, x2: t * x2, lambda t, x1: t * x1, forward=kernel)
    general = Primitive("general_here", kernel)
    return {
        "one operand": lambda x: square(x),
        "two operands": lambda x: product(x, x),
        "number first": lambda x: product(2.0, x),
        "number second": lambda x: product(x, 2.0),
        "general": lambda x: general(x, x),
        "list": lambda x: square([1.0, 2.0]),
    }


WAYS = ("one operand", "two operands", "number first", "number second", "general", "list")


@pytest.mark.engine
@pytest.mark.parametrize("way", WAYS)
def test_an_operation_is_tried_once_more(way, place):
    kernel = Failing(1, lambda xp, *args: args[-1] * 3.0)
    x = tf.constant([1.0, 2.0])

    kernel_calls(kernel)[way](x)

    assert kernel.calls == 2
    if place == "strict:0":
        assert get_backend("strict").memory(place).released == 1


@pytest.mark.engine
@pytest.mark.parametrize("way", WAYS)
def test_a_second_failure_is_a_sentence_and_nothing_is_lost(way, place):
    kernel = Failing(2, lambda xp, *args: args[-1] * 3.0)
    call = kernel_calls(kernel)[way]
    v = tf.Variable([1.0, 2.0])

    with pytest.raises(MemoryError) as caught:
        call(v.value())

    assert isinstance(caught.value, tf.errors.OutOfMemoryError)
    assert kernel.calls == 2
    sentence = str(caught.value)
    assert "_here ran out of memory on " + place + ": no room for 4,000 bytes. " in sentence
    assert "tapegrad.recompute_grad" in sentence
    call(v.value())
    assert v.assign_add([1.0, 1.0]).numpy().tolist() == [2.0, 3.0]


def test_the_sentence_says_what_is_in_use_and_what_the_tape_keeps():
    kernel = Failing(9, lambda xp, x: x)
    hungry = Primitive("hungry_here", kernel)
    tracemalloc.start()
    try:
        with tf.device("cpu"), tf.GradientTape() as tape:
            x = tf.Variable(np.ones((1024, 1024), "float32"))
            y = tf.exp(x * x)
            with pytest.raises(MemoryError) as caught:
                hungry(y)
    finally:
        tracemalloc.stop()

    # x for the product (once, although both factors keep it) and the result of exp.
    assert "The tape keeps 8.0 MiB for the gradient." in str(caught.value)
    assert "MiB are in use there." in str(caught.value)
    assert tape.gradient(y, x).shape == (1024, 1024)


@pytest.mark.engine
def test_what_the_first_attempt_made_is_gone_in_the_second():
    made: list[Any] = []

    def kernel(xp: Any, x: Any) -> Any:
        if made:
            assert made[0]() is None
            return x
        intermediate = np.ones(10)
        made.append(weakref.ref(intermediate))
        raise MemoryError

    with tf.device("cpu"):
        Primitive("wasteful_here", kernel)(tf.constant([1.0]))

    assert len(made) == 1


# In the gradient


@pytest.mark.engine
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("form", ["per input", "joint"])
def test_a_rule_is_tried_once_more(form, times, place):
    rule = Failing(times, lambda t: t * 2.0)
    double = Primitive("double_here", lambda xp, x: x * 2.0)
    if form == "joint":
        double.vjp(lambda t: (rule(t),))
    else:
        double.vjps(lambda t: rule(t))
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = double(x) * x

    if times == 1:
        assert tape.gradient(y, x).numpy().tolist() == [4.0, 8.0]
    else:
        with pytest.raises(MemoryError, match="The gradient of double_here ran out of memory"):
            tape.gradient(y, x)
        assert tape.gradient(y, x).numpy().tolist() == [4.0, 8.0]
    assert rule.calls == times + 1


@pytest.mark.engine
def test_the_second_order_is_not_tried_more_often():
    kernel = Failing(2, lambda xp, x: x)
    inner = Primitive("inner_here", kernel).vjps(lambda t: t)
    outer = Primitive("outer_here", lambda xp, x: x).vjps(lambda t: inner(t))
    with tf.device("cpu"):
        x = tf.Variable([1.0])
        with tf.GradientTape(), tf.GradientTape() as tape:
            y = outer(x)
            with pytest.raises(MemoryError, match=r"^inner_here ran out"):
                tape.gradient(y, x)

    assert kernel.calls == 2


# Elsewhere


@pytest.mark.engine
def test_an_optimizer_step_is_tried_once_more(place):
    step = Failing(1, lambda p, g, slots, scalars: (p - g,))

    class Plain(tf.optimizers.SGD):
        def update(self, p, g, slots, scalars):
            return step(p, g, slots, scalars)

    v = tf.Variable([3.0])
    Plain().apply_gradients([(tf.constant([1.0]), v)])

    assert (v.numpy().tolist(), step.calls) == ([2.0], 2)


def test_a_step_that_does_not_fit_leaves_the_variable_as_it_was(place):
    step = Failing(2, lambda p, g, slots, scalars: (p - g,))

    class Plain(tf.optimizers.SGD):
        def update(self, p, g, slots, scalars):
            return step(p, g, slots, scalars)

    v = tf.Variable([3.0], name="v")
    with pytest.raises(MemoryError, match="The step of 'v:0' ran out of memory"):
        Plain().apply_gradients([(tf.constant([1.0]), v)])

    assert v.numpy().tolist() == [3.0]


@pytest.mark.engine
def test_a_copy_to_the_device_is_tried_once_more(monkeypatch):
    backend = get_backend("numpy")
    copy = Failing(1, np.array)
    monkeypatch.setattr(backend, "from_host", lambda value, device: copy(value))

    with tf.device("cpu"):
        assert tf.constant([1.0]).array.tolist() == [1.0]
        assert copy.calls == 2
        copy.calls, copy.times = 0, 2
        with pytest.raises(MemoryError, match="Copying 4 bytes to the device ran out of memory"):
            tf.constant([1.0])
