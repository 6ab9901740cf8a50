"""tf.distribute with one replica."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError


def test_a_custom_training_loop_computes_the_same_as_without_a_strategy() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    y = x @ np.array([[1.0], [2.0], [3.0]], "float32")
    found = []
    for strategy in (tf.distribute.MirroredStrategy(), None):
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")]
        )
        optimizer = keras.optimizers.SGD(0.1)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)

        def step(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                each = keras.losses.mean_squared_error(b, model(a))  # noqa: B023
                loss = tf.nn.compute_average_loss(each, global_batch_size=4)
            gradients = tape.gradient(loss, model.trainable_variables)  # noqa: B023
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B023
            return loss

        if strategy is None:
            found.append([float(step(a, b)) for a, b in data])
            continue

        @tf.function
        def distributed(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
            each = strategy.run(step, args=(a, b))  # noqa: B023
            return strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None)  # noqa: B023

        with strategy.scope():
            batches = strategy.experimental_distribute_dataset(data)
            found.append([float(distributed(a, b)) for a, b in batches])

    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_contexts_say_where_the_code_runs() -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    seen = []
    with strategy.scope():
        seen.append(
            (tf.distribute.get_strategy() is strategy, tf.distribute.in_cross_replica_context())
        )
        strategy.run(lambda: seen.append((True, tf.distribute.in_cross_replica_context())))

    assert seen == [(True, True), (True, False)]
    assert not tf.distribute.has_strategy()


def test_means_and_datasets() -> None:
    strategy = tf.distribute.get_strategy()

    assert float(strategy.reduce("mean", tf.constant([1.0, 3.0]), axis=0)) == 2.0
    made = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(context.get_per_replica_batch_size(3))
    )
    assert [int(n) for n in made] == [0, 1, 2]


def test_several_devices_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'SUM' or 'MEAN'"):
        tf.distribute.get_strategy().reduce("MAX", 1.0)
    with pytest.raises(AttributeError, match="one process per GPU"):
        tf.distribute.ParameterServerStrategy  # noqa: B018


def test_variables_take_the_words_for_replicas() -> None:
    step = tf.Variable(
        1.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
    assert float(step.assign_add(2.0)) == 3.0
    assert [one.name for one in tf.VariableAggregation] == [
        "NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA",
    ]  # fmt: skip
    assert (tf.compat.dimension_value(step.shape.rank), tf.compat.dimension_value(None)) == (
        0,
        None,
    )
