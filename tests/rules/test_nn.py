"""Network primitives: what the table of samples cannot say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import tapegrad
from tapegrad.autodiff.batching import vmap
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.attention import functions as attention
from tapegrad.ops.convolution import functions as conv_functions, pooling
from tapegrad.ops.nn import dropout, losses, softmax as softmaxes
from tapegrad.ops.normalization import functions as norm_functions
from tapegrad.ops.normalization.with_relu import normalize_relu_p
from tapegrad.ops.random.generator import Generator

sparse_loss = losses.sparse_softmax_cross_entropy_with_logits


def gradient(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    sources = [tapegrad.constant(np.asarray(array)) for array in arrays]
    with GradientTape() as tape:
        tape.watch(sources)
        target = function(*sources)
    return [None if g is None else g.numpy() for g in tape.gradient(target, sources)]


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_out_of_range_is_named_with_the_number_of_classes(label):
    with pytest.raises(ArgumentError, match=rf"logits have 3 classes. Got the label {label}\."):
        sparse_loss([0, label], np.zeros((2, 3)))


def test_labels_of_a_floating_dtype_point_to_the_dense_loss():
    with pytest.raises(
        ArgumentTypeError, match=r"integer dtype. Got float32; for class probabilities"
    ):
        sparse_loss([0.0], np.zeros((1, 3)))


def test_labels_of_the_wrong_shape_are_refused():
    with pytest.raises(ShapeError, match=r"labels of shape \(1,\) and logits of shape \(2, 3\)"):
        sparse_loss([0], np.zeros((2, 3)))


def test_the_tape_of_the_sparse_loss_keeps_one_array_of_the_logits_size():
    logits = tapegrad.constant(np.zeros((4, 3)))
    with GradientTape() as tape:
        tape.watch(logits)
        loss = sparse_loss([0, 1, 2, 0], logits)

    saved = loss.node.inputs[0].saved

    assert [part.shape for part in saved] == [(4,), (4, 3)]
    assert tape.gradient(loss, logits).shape == (4, 3)


def test_an_impossible_class_that_is_not_the_label_does_no_harm():
    logits = np.array([[0.0, -np.inf, 1.0]])

    (sparse,) = gradient(lambda x: sparse_loss([2], x), logits)
    (dense,) = gradient(
        lambda x: losses.softmax_cross_entropy_with_logits([[0.0, 0.0, 1.0]], x), logits
    )

    weights = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(sparse, weights - [[0, 0, 1]])
    np.testing.assert_allclose(dense, sparse)


def test_a_row_that_is_masked_altogether_has_weights_and_gradient_zero():
    (g,) = gradient(softmaxes.softmax, np.full((1, 3), -np.inf))

    assert g.tolist() == [[0.0, 0.0, 0.0]]


def test_the_first_of_equal_elements_gets_the_gradient_of_max_pool():
    (g,) = gradient(lambda x: pooling.max_pool(x, 2, 2, "VALID"), np.ones((1, 2, 2, 1)))

    assert g.ravel().tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_window_larger_than_the_data_is_refused():
    with pytest.raises(ShapeError, match="conv2d got a window of 3 elements"):
        conv_functions.conv2d(np.ones((1, 2, 2, 1)), np.ones((3, 3, 1, 1)), 1, "VALID")


def test_filters_whose_channels_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"Got 3 channels and filters of shape \(1, 1, 2, 4\)"):
        conv_functions.conv2d(np.ones((1, 2, 2, 3)), np.ones((1, 1, 2, 4)), 1, "VALID")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"padding": "FULL"}, "padding 'SAME', 'VALID' or a list"),
        ({"strides": [2, 1, 1, 1]}, "strides of 1 for batch and channels"),
        ({"strides": 0}, "strides as a positive number"),
        ({"data_format": "NWHC"}, "data_format 'NHWC' or 'NCHW'"),
    ],
)
def test_arguments_of_a_convolution_are_checked(options, words):
    arguments = {"strides": 1, "padding": "SAME", **options}

    with pytest.raises(ArgumentError, match=words):
        conv_functions.conv2d(np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), **arguments)


def test_a_transposed_convolution_says_which_input_its_output_shape_needs():
    with pytest.raises(ShapeError, match=r"input of shape \(1, 2, 2, 1\). Got \(1, 3, 3, 1\)"):
        conv_functions.conv2d_transpose(
            np.ones((1, 3, 3, 1)), np.ones((2, 2, 1, 1)), (1, 4, 4, 1), 2
        )


def test_running_moments_are_mixed_with_the_unbiased_variance():
    x = np.array([[1.0], [3.0]])

    _, mean, variance = norm_functions.fused_batch_norm(
        x, None, None, np.array([0.0]), np.array([1.0]), exponential_avg_factor=0.5
    )

    assert mean.numpy().tolist() == [1.0]
    assert variance.numpy().tolist() == [1.5]


def test_the_gradient_of_dropout_uses_the_mask_of_the_forward_pass():
    kept = []

    def run(x: Any) -> Any:
        kept.append(dropout.dropout(x, 0.5, rng=Generator.from_seed(1)))
        return kept[0]

    (g,) = gradient(run, np.ones(20))

    assert np.array_equal(g, kept[0].numpy())
    assert set(g.tolist()) == {0.0, 2.0}


def test_dropout_leaves_no_nan_behind_where_it_drops_infinities():
    y = dropout.dropout(np.full(20, np.inf), 0.5, rng=Generator.from_seed(1)).numpy()

    assert set(y.tolist()) == {0.0, np.inf}


def test_a_dropout_rate_of_one_is_refused():
    with pytest.raises(ArgumentError, match=r"rate in \[0, 1\). Got 1.0"):
        dropout.dropout(np.ones(2), 1.0)


def test_heads_of_keys_must_divide_those_of_queries():
    q, k = np.ones((3, 2, 2)), np.ones((2, 2, 2))

    with pytest.raises(ShapeError, match=r"must divide the number of query heads. Got 2 key"):
        attention.scaled_dot_product_attention(q, k, k)


def test_attention_dropout_drops_whole_weights():
    q = np.ones((1, 4, 2))
    options = {"dropout_rate": 0.5, "rng": Generator.from_seed(2)}

    y = attention.scaled_dot_product_attention(q, q, np.ones((1, 4, 1)), **options).numpy()

    assert set(y.ravel().tolist()) <= {0.0, 0.5, 1.0, 1.5, 2.0}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_narrow_floats_keep_their_dtype_and_are_summed_in_a_wider_one(dtype):
    x = np.full((1, 5000), 0.1, dtype)

    y = softmaxes.softmax(x).numpy()

    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(float), 2e-4, rtol=1e-3)


# The generic kernels are what a new backend starts with; NumPy's own must agree with them.

GEOMETRY = {"strides": (2, 1), "padding": ((1, 0), (0, 1)), "dilation": (1, 2), "groups": 2}
WINDOW = {"window": (2, 2), "strides": (2, 1), "padding": ((1, 0), (0, 1))}
NORM = {"axes": (0, 2), "epsilon": 0.1, "center": True, "scaled": True}
RECTIFIED = {"axes": (0, 2), "epsilon": 0.1}
rng = np.random.default_rng(0)
X, W = rng.normal(size=(2, 4, 5, 4)), rng.normal(size=(2, 2, 2, 6))
T = rng.normal(size=(2, 2, 4, 6))
P = rng.normal(size=(2, 2, 5, 4))
INDICES = rng.integers(0, 20, size=(2, 2, 5, 4))
ROWS, LABELS = rng.normal(size=(3, 4)), np.array([0, 3, 1])
ONE = rng.normal(size=3)
GAIN = rng.normal(size=(1, 1, 5, 1))
MOMENT = rng.uniform(1, 2, size=(1, 4, 1, 4))

CALLS = [
    ("conv", [X, W], GEOMETRY),
    ("conv_input_gradient", [T, W], {"input_shape": X.shape, **GEOMETRY}),
    ("conv_filter_gradient", [X, T], {"window": (2, 2), **GEOMETRY}),
    ("max_pool", [X], {**WINDOW, "dilation": (1, 1)}),
    ("pool_gather", [X, INDICES], {}),
    ("pool_scatter", [P, INDICES], {"spatial": (4, 5)}),
    ("avg_pool", [X], {**WINDOW, "count_padding": False}),
    ("avg_pool", [X], {**WINDOW, "count_padding": True}),
    ("avg_pool_gradient", [P], {**WINDOW, "spatial": (4, 5), "count_padding": False}),
    ("softmax", [X], {"axis": 1}),
    ("softmax_gradient", [X, X + 1], {"axis": 3}),
    ("log_softmax", [X], {"axis": 1}),
    ("log_softmax_gradient", [X, X - 1], {"axis": 2}),
    ("sparse_cross_entropy", [ROWS, LABELS], {}),
    ("sparse_cross_entropy_gradient", [ONE, ROWS, LABELS], {}),
    ("cross_entropy", [ROWS, ROWS + 1], {}),
    ("cross_entropy_gradient", [ONE, ROWS, ROWS + 1, ONE + 3], {}),
    ("normalize", [X, GAIN, GAIN], {**NORM, "shifted": True}),
    ("normalize_gradient", [X, X + 1, GAIN, MOMENT, MOMENT], {**NORM, "bias_shape": GAIN.shape}),
    ("normalize_relu", [X, GAIN, GAIN - 0.5], RECTIFIED),
    (
        "normalize_relu_gradient",
        [X, X + 1, np.maximum(X[::-1], 0), GAIN, MOMENT, MOMENT],
        {**RECTIFIED, "bias_shape": GAIN.shape},
    ),
]


@pytest.mark.parametrize(("name", "arrays", "params"), CALLS, ids=[call[0] for call in CALLS])
def test_generic_and_numpy_kernels_agree(name, arrays, params):
    primitive = PRIMITIVES[name]

    generic = primitive.forward(strict, *map(strict.asarray, arrays), **params)
    native = primitive.kernel(np.ndarray)(*arrays, **params)

    results = zip(generic, native, strict=True) if primitive.many else [(generic, native)]
    for ours, theirs in results:
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-12, atol=1e-12)


# Normalisation with a ReLU behind


def _rectified(x: Any, gain: Any, bias: Any) -> Any:
    return normalize_relu_p(x, gain, bias, axes=(0,), epsilon=0.1)[0]


def _pulled(t: Any, *arrays: Any) -> Any:
    """The gradients of all three inputs for a cotangent."""
    with GradientTape() as tape:
        tape.watch(arrays)
        y = _rectified(*arrays)
    return tape.gradient(y, arrays, t)


def test_the_pull_through_a_normalisation_with_a_relu_is_linear_in_the_cotangent():
    x, t, w = (tapegrad.constant(rng.normal(size=(6, 3))) for _ in range(3))
    gain, bias = (tapegrad.constant(rng.normal(size=3)) for _ in range(2))
    with GradientTape() as tape:
        tape.watch(t)
        total = tapegrad.reduce_sum(_pulled(t, x, gain, bias)[0] * w)
    by_cotangent = tape.gradient(total, t)

    # What pulls w forward: the directional derivative of the output.
    moved = [_rectified(x + s * w, gain, bias) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(
        by_cotangent.numpy(), (moved[0] - moved[1]).numpy() / 2e-6, atol=1e-8
    )


def test_the_pull_through_a_normalisation_with_a_relu_by_examples():
    xs, ts = (tapegrad.constant(rng.normal(size=(4, 6, 3))) for _ in range(2))
    gains = tapegrad.constant(rng.normal(size=(4, 3)))
    bias = tapegrad.constant(rng.normal(size=3))

    together = vmap(_pulled, (0, 0, 0, None))(ts, xs, gains, bias)

    for k in range(4):
        for ours, wanted in zip(together, _pulled(ts[k], xs[k], gains[k], bias), strict=True):
            np.testing.assert_allclose(ours[k].numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)
