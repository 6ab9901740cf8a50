"""Layer: weights, building, names, dtypes, losses, freezing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import dtype_policies, naming
from tapegrad.keras.layers import Dense, Layer
from tapegrad.keras.regularizers import L2


class Scale(Layer):
    """One factor per feature, and a counter that training does not change."""

    def __init__(self, start: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start

    def build(self, input_shape: Any) -> None:
        self.calls = self.add_weight((), "zeros", trainable=False, name="calls")
        self.factor = self.add_weight((input_shape[-1],), "ones", name="factor")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if training:
            self.calls.assign_add(1.0)
        return inputs * self.factor * self.start


class Pair(Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = [Scale(2.0), Scale(3.0)]
        self.last = Dense(1)

    def call(self, inputs: Any) -> Any:
        for part in self.parts:
            inputs = part(inputs)
        return self.last(inputs)


def x_of(rows: int = 2, columns: int = 3) -> Any:
    return tf.constant(np.arange(rows * columns, dtype="float32").reshape(rows, columns))


def test_weights_are_made_at_the_first_call() -> None:
    layer = Scale()
    assert layer.variables == []

    layer(x_of())

    assert layer.built
    assert [tuple(v.shape) for v in layer.variables] == [(3,), ()]


def test_weights_that_were_made_by_hand_are_not_made_again() -> None:
    layer = Dense(2)
    layer.build((None, 3))
    kernel = layer.kernel

    layer(x_of())

    assert layer.built
    assert layer.kernel is kernel


def test_trainable_weights_come_first_and_inner_layers_last() -> None:
    layer = Pair()
    layer(x_of())

    names = [v.name for v in layer.variables]

    assert names == ["factor:0", "calls:0"] * 2 + ["kernel:0", "bias:0"]
    assert len(layer.trainable_variables) == 4
    assert len(layer.non_trainable_variables) == 2


def test_numpy_arrays_may_come_in() -> None:
    np.testing.assert_array_equal(
        Scale(2.0)(np.ones((2, 3), "float32")).numpy(), np.full((2, 3), 2)
    )


def test_training_is_passed_on_to_inner_layers() -> None:
    layer = Pair()
    layer(x_of())
    layer(x_of(), training=True)
    layer(x_of(), training=True)
    layer(x_of(), training=False)

    assert [float(part.calls) for part in layer.parts] == [2.0, 2.0]


def test_a_layer_told_otherwise_does_not_follow_its_caller() -> None:
    class Still(Pair):
        def call(self, inputs: Any) -> Any:
            return self.parts[0](inputs, training=False)

    layer = Still()
    layer(x_of(), training=True)

    assert float(layer.parts[0].calls) == 0.0


def test_a_frozen_layer_has_no_trainable_variables_and_tapes_do_not_follow_it() -> None:
    layer = Pair()
    layer(x_of())
    layer.trainable = False

    with tf.GradientTape() as tape:
        tf.reduce_sum(layer(x_of()))

    assert layer.trainable_variables == []
    assert tape.watched_variables() == ()
    layer.trainable = True
    assert len(layer.trainable_variables) == 4
    assert [v.name for v in layer.variables][:2] == ["factor:0", "calls:0"]


def test_a_layer_frozen_before_it_is_built_can_be_thawed() -> None:
    layer = Dense(2, trainable=False)
    layer(x_of())
    assert layer.trainable_variables == []

    layer.trainable = True

    assert [v.name for v in layer.trainable_variables] == ["kernel:0", "bias:0"]


def test_names_count_up_by_class() -> None:
    naming.clear_session()

    assert [Scale().name, Scale().name, Dense(1).name, Scale(name="mine").name] == [
        "scale", "scale_1", "dense", "mine",
    ]  # fmt: skip


def test_a_name_with_a_slash_is_refused() -> None:
    with pytest.raises(ArgumentError, match="without a slash"):
        Scale(name="a/b")


def test_an_unknown_argument_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ArgumentError, match=r"'unitz'.*name, dtype, trainable"):
        Scale(unitz=3)


def test_a_configuration_makes_the_same_layer() -> None:
    layer = Scale(2.5, name="two", trainable=False)

    other = Scale.from_config(layer.get_config())

    assert (other.start, other.name, other.trainable) == (2.5, "two", False)


def test_weights_are_read_and_set_as_arrays_or_not_at_all() -> None:
    layer = Dense(2)
    layer(x_of())
    kernel, bias = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0])

    layer.set_weights([kernel, bias])
    with pytest.raises(ShapeError, match=r"\(3, 2\), \(2,\).*Got \[\(3, 2\), \(3,\)\]"):
        layer.set_weights([kernel + 1, np.ones(3)])

    np.testing.assert_array_equal(layer.get_weights()[0], kernel)
    np.testing.assert_array_equal(layer.get_weights()[1], bias)


def test_regularizers_and_added_losses_are_collected_once_per_call() -> None:
    class Penalised(Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Dense(1, use_bias=False, kernel_regularizer=L2(0.5))

        def call(self, inputs: Any) -> Any:
            self.add_loss(tf.reduce_sum(inputs))
            return self.inner(inputs)

    layer = Penalised()
    for _ in range(3):
        layer(x_of())
    kernel = layer.inner.kernel.numpy()

    found = [float(loss) for loss in layer.losses]

    np.testing.assert_allclose(found, [15.0, 0.5 * (kernel**2).sum()], rtol=1e-6)


def test_activity_is_regularized_per_example() -> None:
    layer = Scale(2.0, activity_regularizer=L2(0.25))
    y = layer(x_of()).numpy()

    np.testing.assert_allclose(float(layer.losses[0]), 0.25 * (y**2).sum() / 2, rtol=1e-6)


def test_a_mixed_policy_keeps_weights_in_float32_and_computes_in_half_precision() -> None:
    layer = Dense(2, dtype="mixed_float16")
    with tf.GradientTape() as tape:
        y = layer(x_of())
        loss = tf.reduce_sum(tf.cast(y, "float32"))

    assert y.dtype == tf.float16
    assert layer.kernel.dtype == tf.float32
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert [g.dtype for g in gradients] == [tf.float32, tf.float32]
    np.testing.assert_allclose(gradients[0].numpy(), [[3, 3], [5, 5], [7, 7]])


def test_the_global_policy_is_that_of_new_layers() -> None:
    dtype_policies.set_dtype_policy("float64")
    try:
        layer = Dense(1)
        assert layer(x_of()).dtype == tf.float64
    finally:
        dtype_policies.set_dtype_policy("float32")
    assert Dense.from_config(layer.get_config()).dtype == "float64"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"mixed_bfloat16, mixed_float16.*'mixed_int8'"):
        Dense(1, dtype="mixed_int8")


def test_a_size_that_is_not_known_is_named() -> None:
    with pytest.raises(ShapeError, match=r"'late'.*None"):
        Dense(1, name="late").build((None, None))


def test_the_shape_of_an_output_is_tried_out_where_a_layer_does_not_say_it() -> None:
    class Twice(Layer):
        def call(self, inputs: Any) -> Any:
            return tf.concat([inputs, inputs], axis=-1)

    assert Twice().compute_output_shape((None, 5, 3)) == (None, 5, 6)


def test_a_layer_inside_a_function_equals_the_eager_one() -> None:
    layer = Pair()
    expected = layer(x_of()).numpy()

    recorded = tf.function(layer)

    for _ in range(3):
        np.testing.assert_allclose(recorded(x_of()).numpy(), expected, rtol=1e-6)


def test_a_print_in_a_trial_call_shows_no_numbers(capsys):
    class Printing(Layer):
        def call(self, x):
            sys.stdout.write(f"{x}\n")
            return 2 * x

    tf.keras.Model(inputs := tf.keras.Input([3]), Printing()(inputs))

    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"tapegrad.Tensor(unknown, shape=({n}, 3), dtype=float32)" for n in (2, 3)]
    Printing()(np.ones([1, 1], "float32"))
    assert capsys.readouterr().out.startswith("tapegrad.Tensor([[1.]]")
