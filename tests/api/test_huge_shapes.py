"""Results that no memory can hold are refused at once, before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
import tapegrad_strict as strict
from tapegrad.core.argument_checks import MOST_ELEMENTS, check_elements
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, OutOfMemoryError, ShapeError, TapegradError

keras: Any = tf.keras

CALLS: dict[str, Callable[[int], Any]] = {
    "zeros": lambda n: tf.zeros([n, n]),
    "ones": lambda n: tf.ones([n, 8]),
    "fill": lambda n: tf.fill([n, 8], 1.0),
    "numpy.full": lambda n: tnp.full((n, 8), 2),
    "numpy.empty": lambda n: tnp.empty((n, n)),
    "broadcast_to": lambda n: tf.broadcast_to(1.0, [n, n]),
    "one_hot": lambda n: tf.one_hot([0] * 8, n),
    "confusion_matrix": lambda n: tf.math.confusion_matrix([0], [0], num_classes=n),
    "random.normal": lambda n: tf.random.normal([n, 8]),
    "random.uniform": lambda n: tf.random.uniform([n, 8]),
    "random.gamma": lambda n: tf.random.gamma([n, 8], 1.0),
    "random.categorical": lambda n: tf.random.categorical(tf.zeros([1, 8]), n),
    "stateless_normal": lambda n: tf.random.stateless_normal([n, 8], [1, 2]),
    "numpy.random.rand": lambda n: tnp.random.rand(n, n),
    "tile": lambda n: tf.tile(tf.ones([8]), [n]),
    "repeat": lambda n: tf.repeat(tf.ones([8]), n),
    "pad": lambda n: tf.pad(tf.ones([8, 8]), [[n, 0], [n, 0]]),
    "pad by itself": lambda n: tf.pad(tf.ones([8, 8]), [[n, 0], [n, 0]], "SYMMETRIC"),
    "fft": lambda n: tf.signal.fft(tf.ones([8, 8], tf.complex64), n),
    "unsorted_segment_sum": lambda n: tf.math.unsorted_segment_sum(tf.ones([2, 8]), [0, 1], n),
    "unsorted_segment_max": lambda n: tf.math.unsorted_segment_max(tf.ones([2, 8]), [0, 1], n),
    "scatter_nd": lambda n: tf.scatter_nd([[0, 0]], [1.0], [n, n]),
    "MeanIoU": lambda n: keras.metrics.MeanIoU(num_classes=n),
    "Dense": lambda n: keras.layers.Dense(n)(tf.ones([1, 8])),
    "Embedding": lambda n: keras.layers.Embedding(n, 8)(tf.constant([1])),
    "ZeroPadding1D": lambda n: keras.layers.ZeroPadding1D(n)(tf.ones([1, 8, 8])),
    "UpSampling1D": lambda n: keras.layers.UpSampling1D(n)(tf.ones([1, 8, 8])),
}


@pytest.fixture(params=["cpu", "strict:0"])
def on_device(request: Any) -> Iterator[None]:
    register_backend(strict.StrictBackend())
    try:
        with tf.device(request.param):
            yield
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize("size", [2**55, 2**62])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("on_device")
def test_a_huge_result_is_refused_in_one_sentence(name: str, size: int) -> None:
    with pytest.raises(ShapeError, match=r"No memory holds more than 2\*\*57 elements"):
        CALLS[name](size)


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**62, 2**62), (2**64,), (3,) * 40])
def test_counts_are_computed_without_overflow(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="zeros cannot make a result of shape"):
        check_elements("zeros", shape)


@pytest.mark.parametrize("shape", [(), (MOST_ELEMENTS,), (2**62, 0, 2**62), (1,) * 64])
def test_other_shapes_pass(shape: tuple[int, ...]) -> None:
    check_elements("zeros", shape)


HOSTED: dict[str, Callable[[int], Any]] = {
    "linspace": lambda n: tf.linspace(0.0, 1.0, n),
    "range": lambda n: tf.range(n),
    "numpy.arange": lambda n: tnp.arange(n),
    "eye": lambda n: tf.eye(n),
    "tri": lambda n: tnp.tri(n),
    "indices": lambda n: tnp.indices((n, 2)),
    "hann_window": lambda n: tf.signal.hann_window(n),
    "sequence_mask": lambda n: tf.sequence_mask([1], n),
    "to_categorical": lambda n: keras.utils.to_categorical([1], n),
}


@pytest.mark.parametrize("size", [2**44, 2**62])
@pytest.mark.parametrize("name", HOSTED)
def test_numbers_that_the_host_has_no_room_for_are_refused_by_name(name: str, size: int) -> None:
    with pytest.raises(TapegradError, match=f"(?i){name.rpartition('.')[2]}.*{size}") as caught:
        HOSTED[name](size)

    assert isinstance(caught.value, ArgumentError | OutOfMemoryError)


@pytest.mark.parametrize(
    "make",
    [
        keras.metrics.AUC,
        lambda num_thresholds: keras.metrics.PrecisionAtRecall(0.5, num_thresholds),
    ],
)
def test_more_thresholds_than_anyone_can_wait_for_are_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match=r"num_thresholds of .* must be at most 10,000,000"):
        make(num_thresholds=2**40)


def test_a_program_refuses_them_too() -> None:
    @tf.function
    def tiled(x: Any) -> Any:
        return tf.tile(x, [2**62])

    with pytest.raises(ShapeError, match="No memory holds"):
        tiled(tf.constant(np.ones(8, np.float32)))
