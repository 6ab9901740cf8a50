"""Functions with tensors on several devices do what eager code does, or refuse as it does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.errors import DeviceError
from tests.seeds import SEED

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

DEVICES = ("cpu", "strict:0")
ONE: Sequence[Callable[..., Any]] = (
    tf.sin,
    tf.nn.relu,
    lambda x: tf.reshape(x, [-1]),
    lambda x: x[0:1] * 2.0,
    lambda x: tf.concat([x, x], 0),
    lambda x: tf.where(x > 0, x, 0.0),
)
TWO: Sequence[Callable[..., Any]] = (
    tf.add,
    tf.multiply,
    tf.maximum,
    lambda a, b: tf.concat([a, b], 0),
    lambda a, b: tf.where(a > 0, a, b),
    lambda a, b: tf.matmul(tf.reshape(a, [1, -1]), tf.reshape(b, [-1, 1])),
)


@pytest.fixture(autouse=True)
def two_devices() -> Iterator[None]:
    register_backend(strict.StrictBackend())
    yield
    unregister_backend("strict")


def random_program(rng: random.Random, variable: Any) -> Callable[..., Any]:
    """Return a function of two tensors that also reads a variable."""
    steps: list[tuple[Any, list[int]]] = []
    for count in range(3, 3 + rng.randrange(1, 5)):
        kinds, reads = (ONE, 1) if rng.random() < 0.6 else (TWO, 2)
        steps.append((rng.choice(kinds), [rng.randrange(count) for _ in range(reads)]))
    wanted = [rng.randrange(3, 3 + len(steps)) for _ in range(2)]

    def program(*tensors: Any) -> Any:
        values = [*tensors, variable]
        for step, places in steps:
            values.append(step(*[values[place] for place in places]))
        return [values[place] for place in wanted]

    return program


def outcome(function: Callable[..., Any], tensors: list[Any], with_tape: bool) -> Any:
    """The devices and values of results and gradients, or the type of the error."""
    try:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            if not with_tape:
                with tape.stop_recording():
                    results = function(*tensors)
            else:
                results = function(*tensors)
        if with_tape:
            results += [g for g in tape.gradient(results, tensors) if g is not None]
        return [(y.device, np.asarray(tf.to_device(y, "cpu").array).tolist()) for y in results]
    except (DeviceError, ValueError) as error:
        return type(error)


def test_random_programs_on_two_devices() -> None:
    rng = random.Random(SEED)
    refused = 0
    for _ in range(60):
        with device(rng.choice(DEVICES)):
            variable = tf.Variable([0.5, -1.0])
        tensors = []
        for _ in range(2):
            with device(rng.choice(DEVICES)):
                tensors.append(tf.constant([1.0, -2.0]))
        program = random_program(rng, variable)
        recorded, with_tape = tf.function(program), rng.random() < 0.4
        with device(rng.choice(DEVICES)):
            expected = outcome(program, tensors, with_tape)
            refused += expected is DeviceError
            for _ in range(2):
                found = outcome(recorded, tensors, with_tape)
                if isinstance(expected, type):
                    assert found is expected
                else:
                    assert [place for place, _ in found] == [place for place, _ in expected]
                    for (_, one), (_, other) in zip(found, expected):
                        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert refused


def test_mixed_arguments_are_refused_with_both_names() -> None:
    here = tf.constant([1.0])
    with device("strict:0"):
        there = tf.constant([1.0])
    f = tf.function(lambda x, y: x * 2.0 + y)

    for _ in range(2):
        with pytest.raises(DeviceError, match=r"cpu and strict:0"):
            f(here, there)
