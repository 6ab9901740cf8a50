"""`except tf.errors.X` catches what tapegrad raises where TensorFlow raises X."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive

RAISED = {
    "shapes": ("InvalidArgumentError", lambda: tf.ones((2, 3)) @ tf.ones((2, 3))),
    "reshape": ("InvalidArgumentError", lambda: tf.reshape([1.0, 2.0], (3,))),
    "index": ("InvalidArgumentError", lambda: tf.gather([1.0, 2.0], [5])),
    "dtypes": ("InvalidArgumentError", lambda: tf.nn.softplus(tf.constant(1j))),
    "assertion": ("InvalidArgumentError", lambda: tf.debugging.assert_equal(1.0, 2.0)),
    "end of a dataset": ("OutOfRangeError", lambda: iter(tf.data.Dataset.range(0)).get_next()),
    "TensorArray": ("OutOfRangeError", lambda: tf.TensorArray("float32", 2).read(2)),
    "missing file": ("NotFoundError", lambda: tf.io.read_file("no/such/file")),
    "remote file": ("UnimplementedError", lambda: tf.io.read_file("gs://bucket/file")),
    "any": ("OpError", lambda: tf.reshape([1.0, 2.0], (3,))),
}


@pytest.mark.parametrize(("name", "act"), RAISED.values(), ids=RAISED)
def test_tensorflows_name_catches_the_error(name, act):
    with pytest.raises(getattr(tf.errors, name)) as caught:
        act()

    assert caught.value.message == str(caught.value)


def test_no_memory_is_an_exhausted_resource():
    def full(xp, x):
        raise MemoryError("no room for 4,000 bytes")

    greedy = Primitive("greedy", full)
    try:
        with pytest.raises(tf.errors.ResourceExhaustedError, match="greedy"):
            greedy(tf.constant(np.ones(3)))
    finally:
        del PRIMITIVES["greedy"]


@pytest.mark.parametrize(
    "name",
    [
        *("AbortedError", "AlreadyExistsError", "CancelledError", "DataLossError"),
        *("DeadlineExceededError", "FailedPreconditionError", "InternalError", "NotFoundError"),
        *("PermissionDeniedError", "UnauthenticatedError", "UnavailableError", "UnknownError"),
    ],
)
def test_every_name_is_an_op_error(name):
    assert issubclass(getattr(tf.errors, name), tf.errors.OpError)
