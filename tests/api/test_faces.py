"""The public modules have TensorFlow's names, and functions accept TensorFlow's keywords."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType

import numpy as np
import pytest

import tapegrad as tf
from tests.api.tensorflow_names import NAMES

# tapegrad.test holds code, so it has imports of its own.
FACES = ["tapegrad", *(f"tapegrad.{name}" for name in NAMES if name not in ("", "test"))]
LINES = [(face, line) for face, text in NAMES.items() for line in text.split("\n") if line]


def find(face, name):
    return getattr(getattr(tf, face) if face else tf, name)


@pytest.mark.parametrize("name", FACES)
def test_all_is_what_a_user_sees(name):
    module = importlib.import_module(name)
    visible = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and value is not annotations
    }

    # `import *` must not load ml_dtypes, which bfloat16 needs.
    hidden = {"TYPE_CHECKING", "Any", "annotations", "bfloat16"}
    assert visible - set(module.__all__) <= hidden
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize(("face", "line"), LINES, ids=lambda value: value.partition("(")[0])
def test_tensorflows_name_and_its_parameters_exist(face, line):
    name, parameters = re.fullmatch(r"(\w+)(?:\((.*)\))?", line).groups()
    value = find(face, name)
    if parameters is None:
        return

    ours = inspect.signature(value).parameters
    kinds = {parameter.kind for parameter in ours.values()}
    for wanted in filter(None, parameters.split(", ")):
        if wanted == "*":
            assert inspect.Parameter.VAR_POSITIONAL in kinds
        else:
            assert wanted in ours or inspect.Parameter.VAR_KEYWORD in kinds


@pytest.mark.parametrize(("face", "line"), LINES, ids=lambda value: value.partition("(")[0])
def test_parameters_stand_in_tensorflows_order(face, line):
    name, parameters = re.fullmatch(r"(\w+)(?:\((.*)\))?", line).groups()
    if not parameters or "*" in parameters:
        return

    ours = list(inspect.signature(find(face, name)).parameters)
    wanted = [parameter for parameter in parameters.split(", ") if parameter in ours]

    assert wanted == [parameter for parameter in ours if parameter in wanted]


X = [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]
A = np.array(X)
IMAGE = np.arange(16.0).reshape(1, 4, 4, 1)

CALLS = {
    "reduce_sum": ({"input_tensor": X, "axis": 1, "keepdims": True}, A.sum(1, keepdims=True)),
    "reduce_mean": ({"input_tensor": X, "axis": [0, 1]}, A.mean()),
    "reduce_max": ({"input_tensor": X, "axis": -1}, A.max(-1)),
    "argmax": ({"input": X, "axis": 1}, A.argmax(1)),
    "gather": ({"params": X, "indices": [2, 0], "axis": 1}, A[:, [2, 0]]),
    "one_hot": ({"indices": [1, 0], "depth": 2}, [[0, 1], [1, 0]]),
    "cast": ({"x": [1.7, -1.7], "dtype": tf.int32}, [1, -1]),
    "clip_by_value": (
        {"t": X, "clip_value_min": -1.0, "clip_value_max": 2.0},
        A.clip(-1, 2),
    ),
    "matmul": ({"a": X, "b": X, "transpose_b": True}, A @ A.T),
    "concat": ({"values": [X, X], "axis": 0}, np.concatenate([A, A])),
    "stack": ({"values": [X, X], "axis": 0}, np.stack([A, A])),
    "where": ({"condition": A > 0, "x": X, "y": 0.0}, np.where(A > 0, A, 0)),
    "reshape": ({"tensor": X, "shape": [3, -1]}, A.reshape(3, -1)),
    "transpose": ({"a": X, "perm": [1, 0]}, A.T),
    "expand_dims": ({"input": X, "axis": 0}, A[None]),
    "squeeze": ({"input": [X], "axis": [0]}, A),
    "tile": ({"input": X, "multiples": [1, 2]}, np.tile(A, [1, 2])),
    "pad": ({"tensor": X, "paddings": [[0, 1], [1, 0]]}, np.pad(A, [[0, 1], [1, 0]])),
    "atan2": ({"y": 1.0, "x": 2.0}, np.arctan2(1.0, 2.0)),
    "pow": ({"x": 3.0, "y": 2.0}, 9.0),
    "identity": ({"input": X}, A),
    "stop_gradient": ({"input": X}, A),
    "zeros_like": ({"input": X}, np.zeros((2, 3))),
    "linspace": ({"start": 0.0, "stop": 1.0, "num": 3}, [0.0, 0.5, 1.0]),
    "range": ({"start": 1, "limit": 7, "delta": 2}, [1, 3, 5]),
    "fill": ({"dims": [2], "value": 7.0}, [7.0, 7.0]),
    "eye": ({"num_rows": 2}, np.eye(2)),
    "norm": ({"tensor": [3.0, 4.0]}, 5.0),
    "slice": ({"input_": X, "begin": [0, 1], "size": [2, 1]}, A[:, 1:2]),
    "split": ({"value": X, "num_or_size_splits": [1, 2], "axis": 1}, None),
    "scatter_nd": ({"indices": [[1]], "updates": [5.0], "shape": [3]}, [0.0, 5.0, 0.0]),
    "sort": ({"values": [2.0, 3.0, 1.0], "direction": "DESCENDING"}, [3.0, 2.0, 1.0]),
    "searchsorted": ({"sorted_sequence": [1.0, 3.0], "values": [2.0], "side": "left"}, [1]),
    "tensordot": ({"a": X, "b": X, "axes": [[0], [0]]}, A.T @ A),
    "cumsum": ({"x": X, "axis": 1, "exclusive": True}, A.cumsum(1) - A),
    "math.reduce_std": ({"input_tensor": X}, A.std()),
    "math.real": ({"input": [1 + 2j]}, [1.0]),
    "math.top_k": ({"input": [1.0, 3.0, 2.0], "k": 2}, None),
    "math.polyval": ({"coeffs": [1.0, 2.0], "x": 3.0}, 5.0),
    "math.confusion_matrix": (
        {"labels": [0, 1], "predictions": [1, 1], "num_classes": 2},
        [[0, 1], [0, 1]],
    ),
    "linalg.norm": ({"tensor": X, "ord": "euclidean"}, np.linalg.norm(A)),
    "linalg.solve": ({"matrix": np.eye(2) * 2, "rhs": X}, A / 2),
    "linalg.matvec": ({"a": X, "b": [1.0, 0.0, 0.0]}, A[:, 0]),
    "linalg.diag_part": ({"input": X}, np.diag(A)),
    "nn.softmax": ({"logits": [[0.0, 0.0]], "axis": -1}, [[0.5, 0.5]]),
    "nn.relu": ({"features": X}, np.maximum(A, 0)),
    "nn.leaky_relu": ({"features": X, "alpha": 0.1}, np.where(A > 0, A, 0.1 * A)),
    "nn.bias_add": ({"value": X, "bias": [1.0, 2.0, 3.0]}, A + np.arange(1, 4)),
    "nn.conv2d": (
        {"input": IMAGE, "filters": np.ones((1, 1, 1, 1)), "strides": 1, "padding": "SAME"},
        IMAGE,
    ),
    "nn.max_pool2d": (
        {"input": IMAGE, "ksize": 4, "strides": 4, "padding": "VALID"},
        [[[[15.0]]]],
    ),
    "nn.moments": ({"x": X, "axes": [0]}, None),
    "nn.sigmoid_cross_entropy_with_logits": (
        {"labels": [1.0], "logits": [0.0]},
        [np.log(2)],
    ),
    "nn.sparse_softmax_cross_entropy_with_logits": (
        {"labels": [1], "logits": [[0.0, 0.0]]},
        [np.log(2)],
    ),
    "nn.embedding_lookup": ({"params": A, "ids": [1, 1]}, A[[1, 1]]),
    "random.normal": ({"shape": [2, 3], "mean": 1.0, "stddev": 0.0}, np.ones((2, 3))),
    "random.uniform": ({"shape": [2], "minval": 2.0, "maxval": 2.0}, None),
    "random.stateless_normal": ({"shape": [2], "seed": [1, 2], "stddev": 0.0}, np.zeros(2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_tensorflows_keywords_are_understood(name):
    face, _, function = name.rpartition(".")
    keywords, expected = CALLS[name]

    result = find(face, function)(**keywords, name="a_name")

    if expected is not None:
        np.testing.assert_allclose(result.numpy(), expected, 1e-6, 1e-6)


def test_where_with_a_condition_alone_gives_the_places():
    assert tf.where([[True, False], [False, True]]).numpy().tolist() == [[0, 0], [1, 1]]


def test_functions_renamed_in_their_code_show_and_take_the_new_name():
    assert list(inspect.signature(tf.nn.relu).parameters) == ["features", "name"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        tf.nn.relu(x=1.0)
    assert float(tf.grad(lambda x: tf.nn.relu(features=x))(2.0)) == 1.0


# Control flow: what runs is recorded


def test_losses_metrics_and_initializers_are_found_where_tensorflow_has_them_too():
    assert tf.losses.MeanSquaredError is tf.keras.losses.MeanSquaredError
    assert tf.metrics.Mean is tf.keras.metrics.Mean
    assert tf.initializers.GlorotUniform is tf.keras.initializers.GlorotUniform
    with pytest.raises(AttributeError, match="Did you mean 'MeanSquaredError'"):
        tf.losses.MeanSquaredEror  # noqa: B018
    assert not hasattr(tf.losses, "__path__")  # it is no package


def test_cond_runs_one_branch():
    def f(x):
        return tf.cond(x > 0.0, lambda: x * x, lambda: tf.sqrt(x))

    assert float(tf.grad(f)(3.0)) == 6.0
    with pytest.raises(TypeError, match="wrap a value as `lambda: value`"):
        tf.cond(True, 1.0, 2.0)


def test_case_and_switch_case_choose():
    x = tf.constant(2.0)

    assert tf.case([(x < 1.0, lambda: "small"), (x < 3.0, lambda: "medium")]) == "medium"
    assert tf.switch_case(tf.constant(7), {0: lambda: "a", 2: lambda: "c"}) == "c"
    assert tf.switch_case(0, [(0, lambda: "a"), (2, lambda: "c")]) == "a"
    with pytest.raises(ValueError, match="No condition of case is true"):
        tf.case([(False, lambda: 1)])
    with pytest.raises(ValueError, match="exclusive=True got 2 true conditions"):
        tf.case([(True, lambda: 1), (True, lambda: 2)], exclusive=True)


def test_a_while_loop_is_differentiable():
    def power(x):
        return tf.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * x), [0, x])[1]

    assert float(tf.grad(power)(2.0)) == 32.0
    assert int(tf.while_loop(lambda n: True, lambda n: n + 1, (0,), maximum_iterations=5)[0]) == 5
    with pytest.raises(ValueError, match=r"must return 2 values\. Got 1"):
        tf.while_loop(lambda a, b: True, lambda a, b: a, (1, 2))


def test_map_fn_and_scan_take_structures_and_are_differentiable():
    x = tf.constant([1.0, 2.0, 3.0])

    pairs = tf.map_fn(lambda p: {"sum": p[0] + p[1], "twice": p[0] * 2.0}, (x, x * 10.0))
    backwards = tf.scan(lambda a, x: a + x, x, initializer=tf.constant(10.0), reverse=True)

    assert pairs["sum"].numpy().tolist() == [11.0, 22.0, 33.0]
    assert backwards.numpy().tolist() == [16.0, 15.0, 13.0]
    assert float(tf.foldl(lambda a, x: a * x, x)) == float(tf.foldr(lambda a, x: a * x, x)) == 6.0
    gradient = tf.grad(lambda x: tf.reduce_sum(tf.scan(lambda a, x: a * x, x)))(x)
    assert gradient.numpy().tolist() == [1.0 + 2.0 + 6.0, 1.0 + 3.0, 2.0]
    with pytest.raises(ValueError, match="at least one entry along axis 0"):
        tf.map_fn(lambda x: x, tf.zeros([0]))
    with pytest.raises(ValueError, match="the same length along axis 0"):
        tf.map_fn(lambda x: x, (x, x[:2]))


# Short compositions


def test_saturate_cast_keeps_within_the_range():
    assert tf.saturate_cast([-1e20, 1e20], "int32").numpy().tolist() == [-(2**31), 2147483520]
    assert tf.saturate_cast([1e10], "float16").numpy().tolist() == [65504.0]
    assert tf.saturate_cast([-3, 300], "uint8").numpy().tolist() == [0, 255]
    assert tf.saturate_cast([True], "float32").numpy().tolist() == [1.0]


def test_saturate_cast_of_complex_numbers_clips_their_parts():
    z = np.array([-300.0 + 1.0j, 7.0 - 400.0j, 300.0])

    assert tf.saturate_cast(z, "uint8").numpy().tolist() == [0, 7, 255]
    assert tf.saturate_cast(z, "float32").numpy().tolist() == [-300.0, 7.0, 300.0]
    most = float(np.finfo(np.float32).max)
    found = tf.saturate_cast([1e300 - 1e300j, 2.0 + 3.0j], "complex64")
    assert found.dtype == tf.complex64
    assert found.numpy().tolist() == [complex(most, -most), 2.0 + 3.0j]


def test_bias_add_knows_channels_first():
    result = tf.nn.bias_add(tf.zeros([1, 2, 2, 2]), [1.0, 2.0], data_format="NCHW")

    assert result.numpy()[0, :, 0, 0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="one number per channel"):
        tf.nn.bias_add(tf.zeros([1, 3]), [1.0, 2.0])


def test_reverse_sequence_along_any_axes():
    x = np.arange(12.0).reshape(3, 4)

    rows = tf.reverse_sequence(x, [0, 2, 3, 1], seq_axis=0, batch_axis=1)

    assert rows.numpy().T.tolist() == [[0, 4, 8], [5, 1, 9], [10, 6, 2], [3, 7, 11]]
    with pytest.raises(ValueError, match="one length per example"):
        tf.reverse_sequence(x, [1], seq_axis=1)


def test_scalar_mul_keeps_rows_sparse_and_refuses_arrays():
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([2]), (3, 1))

    assert tf.scalar_mul(2.0, rows).numpy().tolist() == [[0.0], [0.0], [2.0]]
    with pytest.raises(ValueError, match=r"needs a scalar. Got shape \(2,\)"):
        tf.scalar_mul(tf.constant([1.0, 2.0]), rows)


def test_order_is_told():
    assert bool(tf.math.is_strictly_increasing([1.0]))
    assert bool(tf.math.is_non_decreasing([[1.0, 1.0], [2.0, 2.0]]))
    assert not bool(tf.math.is_non_decreasing([2.0, 1.0]))
    assert tf.math.invert_permutation([3, 0, 2, 1]).numpy().tolist() == [1, 3, 2, 0]
    assert tf.is_tensor(tf.Variable(1.0))
    assert tf.math.reciprocal_no_nan([0.0, 4.0]).numpy().tolist() == [0.0, 0.25]
