"""Losses, metrics, activations and optimizers that are registered in a package of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras

register = keras.saving.register_keras_serializable(package="Shop")


@register
class Scaled(keras.losses.Loss):
    def __init__(self, scale: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.scale * tf.reduce_mean(tf.abs(y_true - y_pred), -1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@register
class Largest(keras.metrics.Metric):
    """Makes its variables as programs for Keras 2 do."""

    def __init__(self, start: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start
        more = {"aggregation": tf.VariableAggregation.MEAN}
        self.low = self.add_weight("low", initializer="random_uniform", **more)
        self.most = self.add_weight(
            "most", shape=(2,), initializer=keras.initializers.Constant(start)
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.most.assign(tf.maximum(self.most, tf.reduce_max(y_pred)))

    def result(self) -> Any:
        return self.most[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "start": self.start}


@register
class Steps(keras.optimizers.SGD):
    pass


@register
def doubled(x: Any) -> Any:
    return 2.0 * x


@register
def distance(y_true: Any, y_pred: Any) -> Any:
    return tf.reduce_sum(tf.square(y_true - y_pred), -1)


@pytest.mark.parametrize(
    ("module", "value"),
    [
        (keras.losses, Scaled(3.0)),
        (keras.losses, distance),
        (keras.metrics, Largest(4.0)),
        (keras.metrics, distance),
        (keras.activations, doubled),
        (keras.optimizers, Steps(0.25)),
    ],
    ids=lambda x: getattr(x, "__name__", type(x).__name__),
)
def test_what_is_serialized_is_found_by_its_package(module: Any, value: Any) -> None:
    config = module.serialize(value)
    assert "Shop>" in str(config)
    found = module.deserialize(config)
    assert type(found) is type(value)
    if hasattr(value, "get_config"):
        assert found.get_config() == value.get_config()
    else:
        assert found is value is module.get(config)


def test_custom_objects_need_no_package() -> None:
    def tripled(x: Any) -> Any:
        return 3.0 * x

    found = keras.activations.deserialize("Other>tripled", {"tripled": tripled})
    assert found is tripled


def test_a_layer_keeps_its_registered_activation(tmp_path: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation=doubled)])
    model.save(tmp_path / "m.keras")
    x = np.ones((2, 3), "float32")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    weights = model.layers[0].get_weights()
    np.testing.assert_allclose(loaded(x), 2 * (x @ weights[0] + weights[1]), rtol=1e-6)


def test_metrics_name_their_variables_first() -> None:
    metric = Largest(4.0)
    names = [variable.name.removesuffix(":0") for variable in metric.variables]
    assert names == ["low", "most"]
    assert [tuple(v.shape) for v in metric.variables] == [(), (2,)]
    assert float(metric([[0.0]], [[3.0]])) == 4.0
    assert float(metric([[0.0]], [[7.0]])) == 7.0
    assert -0.05 <= float(metric.variables[0]) <= 0.05


@register
def half_norm(x: Any) -> Any:
    return 0.5 * tf.reduce_sum(tf.square(x))


@register
class Mixed(keras.layers.Layer):
    """Describes its parts as the guides of Keras do; most of them are None."""

    def __init__(self, regularizer: Any = None, constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.regularizer = keras.regularizers.get(regularizer)
        self.constraint = keras.constraints.get(constraint)

    def build(self, input_shape: Any) -> None:
        self.w = self.add_weight(
            (3,), "ones", regularizer=self.regularizer, constraint=self.constraint, name="w"
        )

    def call(self, x: Any) -> Any:
        return x * self.w

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "regularizer": keras.regularizers.serialize(self.regularizer),
            "constraint": keras.constraints.serialize(self.constraint),
        }


@pytest.mark.parametrize("regularizer", [None, "l2", half_norm])
def test_parts_that_are_none_or_functions_are_kept(regularizer: Any, tmp_path: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), Mixed(regularizer)])
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(loaded(x), model(x))
    expected = {None: [], "l2": [0.03], half_norm: [1.5]}[regularizer]
    np.testing.assert_allclose([float(loss) for loss in loaded.losses], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "module", ["regularizers", "constraints", "initializers", "losses", "metrics", "optimizers"]
)
def test_none_is_serialized_as_none(module: str) -> None:
    one = getattr(keras, module)
    assert one.serialize(None) is one.deserialize(None) is None
