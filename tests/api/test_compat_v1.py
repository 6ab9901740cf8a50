"""`tf.compat.v1`: the names that programs of TensorFlow 2 use."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.compat.v1 as tf1
from tapegrad.first_version import MOVED


def test_settings_of_sessions_are_accepted_and_running_is_explained() -> None:
    config = tf1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    config.graph_options.rewrite_options.memory_optimization = 1

    with tf1.Session(config=config) as session, session.as_default():
        tf1.keras.backend.set_session(session)
        with pytest.raises(TypeError, match="there are no graphs"):
            session.run(tf.constant(1))


def test_switches_are_accepted() -> None:
    tf1.enable_eager_execution()
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    tf1.set_random_seed(3)
    with pytest.warns(UserWarning, match="changes nothing"):
        tf1.disable_eager_execution()


def test_names_that_moved_are_those_of_tapegrad() -> None:
    assert tf1.log is tf.math.log
    assert tf1.matrix_inverse is tf.linalg.inv
    assert tf1.float32 is tf.float32
    assert tf1.bool is tf.bool
    assert tf1.nn.relu is tf.nn.relu
    assert tf1.keras.layers.Dense is tf.keras.layers.Dense
    assert tf.compat.v2 is tf


@pytest.mark.parametrize("name", sorted(MOVED))
def test_every_moved_name_is_found(name: str) -> None:
    assert callable(getattr(tf1, name))


def test_older_argument_names() -> None:
    x = np.arange(6.0).reshape(2, 3)

    assert tf1.reduce_sum(x, reduction_indices=1, keep_dims=True).tolist() == [[3.0], [12.0]]
    assert tf1.argmax(x, dimension=1).tolist() == [2, 2]
    assert tf1.squeeze(tf1.expand_dims(x, dim=0), squeeze_dims=[0]).shape == (2, 3)
    assert tf1.div(7, 2).tolist() == 3
    with pytest.raises(ValueError, match="only one of them"):
        tf1.reduce_sum(x, axis=0, reduction_indices=1)


def test_losses_are_divided_by_the_weights_that_are_not_zero() -> None:
    labels, values, weights = [1.0, 2.0, 3.0], [2.0, 4.0, 9.0], [1.0, 2.0, 0.0]

    assert float(tf1.losses.mean_squared_error(labels, values, weights)) == (1 + 2 * 4) / 2
    assert float(tf1.losses.absolute_difference(labels, values)) == pytest.approx((1 + 2 + 6) / 3)
    assert float(tf1.losses.mean_squared_error(labels, values, 0.0)) == 0.0
    hot = tf1.losses.softmax_cross_entropy([[0.0, 1.0]], [[1.0, 3.0]])
    assert float(hot) == pytest.approx(np.log1p(np.exp(-2)))
    assert float(tf1.losses.sparse_softmax_cross_entropy([1], [[1.0, 3.0]])) == pytest.approx(
        np.log1p(np.exp(-2))
    )


def test_optimizers_minimize_functions_and_count_steps() -> None:
    x, step = tf.Variable(3.0), tf1.train.get_or_create_global_step()
    before = int(step)

    tf1.train.GradientDescentOptimizer(0.25).minimize(lambda: x * x, global_step=step)

    assert float(x) == 1.5
    assert int(step) == before + 1
    with pytest.raises(TypeError, match="a loss is a function without arguments"):
        tf1.train.AdamOptimizer().minimize(x * x)


def test_resizing_keeps_pixel_positions_of_the_first_version() -> None:
    # Figures of TensorFlow's documented rule: position = index * (length / new length).
    row = np.array([[[[0.0], [3.0], [6.0]]]])

    def resized(**options: bool) -> list[float]:
        return tf1.image.resize_bilinear(row, [1, 6], **options).numpy().ravel().tolist()

    assert resized() == [0.0, 1.5, 3.0, 4.5, 6.0, 6.0]
    assert resized(align_corners=True) == pytest.approx([0.0, 1.2, 2.4, 3.6, 4.8, 6.0])
    assert resized(half_pixel_centers=True) == [0.0, 0.75, 2.25, 3.75, 5.25, 6.0]
    nearest = tf1.image.resize_nearest_neighbor(row, [1, 2]).numpy().ravel().tolist()
    assert nearest == [0.0, 3.0]


def test_iterators_variables_and_dropout() -> None:
    data = tf.data.Dataset.from_tensor_slices([1.0, 2.0])

    assert float(tf1.data.make_one_shot_iterator(data).get_next()) == 1.0
    assert tf1.data.get_output_types(data) == tf.float32
    zeros = tf1.get_variable("v", [2], initializer=tf1.zeros_initializer())
    assert zeros.numpy().tolist() == [0.0, 0.0]
    assert tf1.nn.dropout([1.0], keep_prob=1.0).tolist() == [1.0]
    with pytest.raises(ValueError, match="rate and keep_prob"):
        tf1.nn.dropout([1.0])


def test_names_that_need_a_graph_are_explained() -> None:
    with pytest.raises(AttributeError, match="no graphs, sessions and placeholders"):
        _ = tf1.placeholder
    with pytest.raises(AttributeError, match="no graphs"):
        _ = tf1.train.Saver
