"""keras.ops: neural network functions, arrays and loops against formulas in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import ArgumentError
from tapegrad.keras import ops

RNG = np.random.default_rng(6)


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def close(ours, expected, rtol=1e-5):
    np.testing.assert_allclose(ops.convert_to_numpy(ours), expected, rtol=rtol, atol=1e-5)


# Convolutions and pooling


def correlated(x, kernel, stride=1, gap=1):
    """The definition of a convolution of sequences, channels last."""
    width, _, filters = kernel.shape
    number = (x.shape[1] - (width - 1) * gap - 1) // stride + 1
    y = np.zeros((x.shape[0], number, filters))
    for place in range(number):
        window = x[:, place * stride : place * stride + (width - 1) * gap + 1 : gap]
        y[:, place] = np.einsum("bwc,wcf->bf", window, kernel)
    return y


@pytest.mark.parametrize(("stride", "gap"), [(1, 1), (2, 1), (1, 2)])
def test_conv(stride, gap):
    x, kernel = draw(2, 9, 3), draw(3, 3, 4)

    close(ops.conv(x, kernel, stride, dilation_rate=gap), correlated(x, kernel, stride, gap))
    turned = ops.conv(x.transpose(0, 2, 1), kernel, stride, "valid", "channels_first", gap)
    close(turned, correlated(x, kernel, stride, gap).transpose(0, 2, 1))


def test_conv_with_padding_keeps_the_size():
    x, kernel = draw(2, 9, 3), draw(3, 3, 4)

    close(
        ops.conv(x, kernel, padding="same"), correlated(np.pad(x, [(0, 0), (1, 1), (0, 0)]), kernel)
    )


def test_depthwise_and_separable_conv():
    x, kernel, mixing = draw(2, 9, 3), draw(3, 3, 2), draw(1, 6, 5)
    each = [correlated(x[..., c : c + 1], kernel[:, c : c + 1]) for c in range(3)]
    expected = np.concatenate(each, -1)

    close(ops.depthwise_conv(x, kernel), expected)
    close(ops.separable_conv(x, kernel, mixing), expected @ mixing[0])


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_conv_transpose_is_the_gradient_of_conv(padding, data_format):
    y, kernel = draw(2, 4, 5), draw(3, 6, 5)
    size = 8 if padding == "same" else 9
    x = tg.zeros((2, size, 6))
    with tg.GradientTape() as tape:
        tape.watch(x)
        loss = ops.sum(ops.conv(x, kernel, 2, padding) * y)
    expected = tape.gradient(loss, x).numpy()
    if data_format == "channels_first":
        y, expected = y.transpose(0, 2, 1), expected.transpose(0, 2, 1)

    close(ops.conv_transpose(y, kernel, 2, padding, data_format=data_format), expected)


def test_conv_transpose_with_output_padding_has_more_places():
    assert ops.conv_transpose(draw(1, 4, 2), draw(3, 1, 2), 2, output_padding=1).shape == (1, 10, 1)


def test_pooling():
    x = draw(2, 6, 8, 3)
    windows = x.reshape(2, 3, 2, 4, 2, 3)

    close(ops.max_pool(x, 2), windows.max((2, 4)))
    close(ops.average_pool(x, (2, 2)), windows.mean((2, 4)))
    close(ops.max_pool(x, 2, strides=1)[:, 1, 1], x[:, 1:3, 1:3].max((1, 2)))


@pytest.mark.parametrize(("shape", "data_format"), [((2, 3), None), ((2, 3, 4), "last")])
def test_wrong_shapes_and_formats_are_refused(shape, data_format):
    with pytest.raises(ArgumentError, match="3 to 5 dimensions and data_format"):
        ops.max_pool(draw(*shape), 2, data_format=data_format)


# Losses, encodings, normalisation


def test_cross_entropies():
    chances = np.array([[0.2, 0.8], [0.6, 0.4]], np.float32)
    logits = np.log(chances)
    expected = -np.log([0.8, 0.6])

    close(ops.sparse_categorical_crossentropy([1, 0], chances), expected)
    close(ops.sparse_categorical_crossentropy([1, 0], logits, from_logits=True), expected)
    close(ops.categorical_crossentropy([[0.0, 1.0], [1.0, 0.0]], chances), expected)
    close(
        ops.binary_crossentropy([[0.0, 1.0], [1.0, 0.0]], chances),
        -np.log([[0.8, 0.8], [0.6, 0.6]]),
    )


def test_encodings():
    close(ops.one_hot([[0, 2]], 3, axis=1), np.eye(3)[[0, 2]].T[None])
    close(ops.multi_hot([[0, 2], [1, 1]], 3), [[1, 0, 1], [0, 1, 0]])
    close(ops.multi_hot([0, 2], 3, dtype="int32"), [1, 0, 1])
    close(ops.multi_hot([[[0, 2], [1, 1]]], 3), [[[1, 1, 0], [0, 1, 1]]])
    with pytest.raises(ArgumentError, match="dense"):
        ops.one_hot([0], 3, sparse=True)


def test_gelu_is_approximate_unless_told():
    x = draw(20)
    exact = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.tolist()]
    rough = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    close(ops.gelu(x, approximate=False), exact)
    close(ops.gelu(x), rough)


def test_normalisations():
    x, scale, shift = draw(4, 5, 3), draw(3), draw(3)
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    rows = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-7)

    close(ops.moments(x, [0, 1])[0], mean)
    close(ops.moments(x, [0, 1], keepdims=True)[1], variance[None, None])
    normal = ops.batch_normalization(x, mean, variance, -1, shift, scale)
    close(normal, (x - mean) / np.sqrt(variance + 1e-3) * scale + shift)
    along = ops.batch_normalization(x, x.mean((1, 2)), x.var((1, 2)), axis=0)
    close(along, (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-3))
    close(ops.layer_normalization(x, scale, shift), rows * scale + shift)
    root = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-7)
    close(ops.rms_normalization(x, scale), x / root * scale)
    close(ops.rms_normalization(x, epsilon=1.0), x / np.sqrt(root**2 + 1 - 1e-7))
    close(ops.normalize(x, axis=1), x / np.sqrt((x * x).sum(1, keepdims=True)))
    close(ops.normalize(x, axis=-1, order=1), x / np.abs(x).sum(-1, keepdims=True))


def test_layer_normalisation_over_another_axis():
    x, scale = draw(4, 5, 3), draw(5)
    centred = x - x.mean(1, keepdims=True)
    expected = centred / np.sqrt(x.var(1, keepdims=True) + 1e-3) * scale[:, None]

    close(ops.layer_normalization(x, scale, axis=1, epsilon=1e-3), expected)


def test_psnr():
    x, y = draw(3, 4), draw(3, 4)

    close(ops.psnr(x, y, 2.0), 10 * np.log10(4 / ((x - y) ** 2).mean()))


def attended(q, k, v, seen, bias=0.0):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores) * seen
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


def test_attention():
    q, k, v = draw(2, 5, 3, 4), draw(2, 6, 3, 4), draw(2, 6, 3, 4)
    mask, bias = RNG.uniform(size=(2, 1, 5, 6)) < 0.7, draw(1, 3, 5, 6)
    mask[..., 0] = True

    close(ops.dot_product_attention(q, k, v), attended(q, k, v, 1.0))
    close(ops.dot_product_attention(q, k, v, mask=mask), attended(q, k, v, mask))
    close(ops.dot_product_attention(q, k, v, bias, mask), attended(q, k, v, mask, bias))
    numbers = mask.astype(np.int32)
    close(ops.dot_product_attention(q, k, v, mask=numbers), attended(q, k, v, mask))
    close(ops.dot_product_attention(q, k, v, scale=1.0), attended(2 * q, k, v, 1.0))
    causal = np.tril(np.ones((5, 5)))
    close(ops.dot_product_attention(q, q, q, is_causal=True), attended(q, q, q, causal))
    # With unequal lengths, Keras aligns the first query with the first key.
    for queries, keys in ((3, 6), (5, 2), (1, 4)):
        few, many = q[:, :queries], k[:, :keys]
        seen = np.tri(queries, keys)
        close(
            ops.dot_product_attention(few, many, v[:, :keys], is_causal=True),
            attended(few, many, v[:, :keys], seen),
        )
    seen = mask[..., :3, :] & np.tri(3, 6, dtype=bool)
    found = ops.dot_product_attention(q[:, :3], k, v, bias[:, :, :3], mask[..., :3, :], None, True)
    close(found, attended(q[:, :3], k, v, seen, bias[:, :, :3]))
    with pytest.raises(ArgumentError, match="attn_logits_soft_cap"):
        ops.dot_product_attention(q, k, v, attn_logits_soft_cap=1.0)


# Arrays


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_segments(kind):
    data, ids = draw(5, 2), [2, 0, 2, 1, 0]
    expected = [getattr(np, kind)(data[np.array(ids) == k], axis=0) for k in range(3)]

    close(getattr(ops, f"segment_{kind}")(data, ids), expected)
    assert getattr(ops, f"segment_{kind}")(data, ids, num_segments=4).shape == (4, 2)


def test_transforms_take_and_give_pairs():
    x, y = draw(3, 8), draw(3, 8)

    for ours, theirs in ((ops.fft, np.fft.fft), (ops.fft2, np.fft.fft2), (ops.ifft2, np.fft.ifft2)):
        expected = theirs(x + 1j * y)
        close(ours((x, y))[0], expected.real)
        close(ours((x, y))[1], expected.imag)
    half = ops.rfft(x, fft_length=6)
    close(half[1], np.fft.rfft(x, 6).imag)
    close(ops.irfft(ops.rfft(x)), x)


def test_complex_numbers():
    x, y = draw(3, 4), draw(3, 4)

    close(ops.view_as_complex(np.stack([x, y], -1)), x + 1j * y)
    close(ops.view_as_real((x + 1j * y).astype(np.complex64)), np.stack([x, y], -1))
    close(ops.polar(np.abs(x), y), np.abs(x) * np.exp(1j * y))


def test_matrices():
    root = np.tril(draw(3, 3)) + 3 * np.eye(3, dtype=np.float32)
    rhs = draw(3, 2)

    close(ops.solve_triangular(root, rhs, lower=True), np.linalg.solve(root, rhs))
    close(ops.solve_triangular(root.T, rhs[:, 0]), np.linalg.solve(root.T, rhs[:, 0]))
    close(ops.cholesky_inverse(root), np.linalg.inv(root @ root.T), 1e-4)
    close(ops.cholesky_inverse(root.T.copy(), upper=True), np.linalg.inv(root @ root.T), 1e-4)


def test_parts():
    x = draw(3, 4)

    close(ops.get_item(x, (slice(1), 2)), x[:1, 2])
    late = ops.slice_update(x, (2, 3), np.zeros((2, 2), np.float32))
    close(
        late,
        np.where((np.arange(12).reshape(3, 4) % 4 > 1) & (np.arange(12).reshape(3, 4) > 3), 0, x),
    )


# Loops


def test_scan_carries_and_collects():
    x = tg.constant(draw(4, 2))

    total, sums = ops.scan(lambda carry, row: (carry + row, carry * row), ops.zeros((2,)), x)
    before = np.concatenate([np.zeros((1, 2)), np.cumsum(x.numpy(), 0)[:-1]])
    close(total, x.numpy().sum(0))
    close(sums, before * x.numpy())

    back = ops.scan(lambda carry, row: (carry + row, carry + row), ops.zeros((2,)), x, reverse=True)
    close(back[1], np.cumsum(x.numpy()[::-1], 0)[::-1])


def test_scan_without_inputs_counts():
    last, none = ops.scan(lambda carry, _: (carry * 2, None), 1.0, length=5)

    assert (float(last), none) == (32.0, None)
    with pytest.raises(ArgumentError, match="equal length, or a length"):
        ops.scan(lambda carry, _: (carry, None), 1.0)
    with pytest.raises(ArgumentError, match=r"xs of \['2', '3'\]"):
        ops.scan(lambda carry, _: (carry, None), 1.0, (tg.zeros(2), tg.zeros(3)))
    with pytest.raises(ArgumentError, match=r"xs of \['2'\] and length=3"):
        ops.scan(lambda carry, _: (carry, None), 1.0, tg.zeros(2), length=3)


def test_map_takes_structures():
    x, y = tg.constant(draw(3, 2)), tg.constant(draw(3))

    close(ops.map(lambda pair: pair[0] * pair[1], (x, y)), x.numpy() * y.numpy()[:, None])


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(size, reverse):
    x = draw(2, size, 2, 2)
    order = range(size)[::-1] if reverse else range(size)
    found, product = {}, np.eye(2)
    for place in order:
        product = product @ x[:, place]
        found[place] = product

    for axis in (1, -3):
        ours = ops.associative_scan(ops.matmul, tg.constant(x), reverse=reverse, axis=axis)
        close(ours, np.stack([found[place] for place in range(size)], 1), 1e-4)


def test_loops_and_choices():
    x = tg.constant(2.0)

    assert (
        float(ops.fori_loop(0, 3, lambda i, value: value * x + i, x))
        == ((2 * 2 + 0) * 2 + 1) * 2 + 2
    )
    branches = [lambda v: v, lambda v: -v, lambda v: v * v]
    assert [float(ops.switch(k, branches, x)) for k in (-1, 0, 1, 2, 9)] == [
        2.0,
        2.0,
        -2.0,
        4.0,
        4.0,
    ]
    assert float(ops.switch(tg.constant(1), branches, x)) == -2.0
