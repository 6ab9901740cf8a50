from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import signal

from tapegrad_numpy.kernels import convolution
from tapegrad_numpy.kernels.convolution import KERNELS, output_shape

conv = KERNELS["conv"]
conv_input_gradient = KERNELS["conv_input_gradient"]
conv_filter_gradient = KERNELS["conv_filter_gradient"]


@dataclass(frozen=True)
class Case:
    """One convolution; what is left out is 1 or 0 along each dimension."""

    name: str
    spatial: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    batch: int = 2
    channels: tuple[int, int] = (3, 4)
    groups: int = 1
    params: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        ones = (1,) * len(self.window)
        params = {
            "strides": self.strides or ones,
            "padding": self.padding or ((0, 0),) * len(ones),
            "dilation": self.dilation or ones,
            "groups": self.groups,
        }
        object.__setattr__(self, "params", params)

    def arrays(self, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return data, filters and output cotangents."""
        c_in, c_out = self.channels
        geometry = {k: v for k, v in self.params.items() if k != "groups"}
        count = output_shape(self.spatial, self.window, **geometry)
        x = draw((self.batch, *self.spatial, c_in), dtype, 1)
        w = draw((*self.window, c_in // self.groups, c_out), dtype, 2)
        return x, w, draw((self.batch, *count, c_out), dtype, 3)


def draw(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


CASES = [
    Case("1d", (7,), (3,)),
    Case("1d everything", (17,), (3,), (2,), ((2, 3),), (3,), channels=(4, 6), groups=2),
    Case("2d", (6, 5), (3, 2)),
    Case("2d stride", (8, 9), (3, 2), (2, 3)),
    Case("2d stride leaves a rest", (10, 11), (3, 2), (4, 5)),
    Case("2d stride beyond the window", (9, 9), (2, 2), (3, 4)),
    Case("2d same padding", (5, 6), (3, 4), padding=((1, 1), (1, 2))),
    Case("2d padding wider than the window", (3, 2), (2, 2), (1, 2), ((3, 4), (2, 0))),
    Case("2d dilation", (9, 8), (3, 2), dilation=(2, 3)),
    Case("2d everything", (9, 8), (3, 2), (2, 1), ((2, 1), (0, 2)), (2, 3)),
    Case("2d groups", (6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), channels=(6, 9), groups=3),
    Case("2d depthwise", (6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), channels=(4, 4), groups=4),
    Case("2d depthwise multiplier", (9, 5), (3, 2), dilation=(2, 1), channels=(4, 12), groups=4),
    Case("2d pointwise", (4, 3), (1, 1), channels=(5, 7)),
    Case("2d pointwise groups", (4, 3), (1, 1), channels=(4, 6), groups=2),
    Case("2d pointwise depthwise", (4, 3), (1, 1), channels=(3, 3), groups=3),
    Case("2d pointwise stride", (5, 4), (1, 1), (2, 3)),
    Case("2d pointwise padding", (5, 4), (1, 1), padding=((1, 0), (2, 1))),
    Case("2d one channel", (6, 6), (3, 3), channels=(1, 1)),
    Case("2d window of the whole input", (4, 3), (4, 3)),
    Case("3d", (4, 5, 4), (2, 3, 2)),
    Case("3d everything", (5, 6, 7), (2, 3, 2), (2, 1, 2), ((1, 0), (1, 1), (0, 2)), (1, 2, 3)),
    Case("3d depthwise", (4, 5, 4), (2, 2, 3), (1, 2, 1), channels=(2, 4), groups=2),
    Case("4d", (3, 4, 3, 4), (2, 2, 1, 3), (1, 2, 1, 1), channels=(2, 2)),
]
EMPTY = [
    Case("no images", (6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), batch=0),
    Case("no images pointwise", (4, 3), (1, 1), batch=0),
    Case("no images depthwise", (6, 5), (3, 2), channels=(4, 4), groups=4, batch=0),
    Case("no room for a window", (2, 2), (3, 5), (1, 2)),
    Case("no elements", (0, 3), (1, 2)),
]
every_case = pytest.mark.parametrize("case", [*CASES, *EMPTY], ids=lambda case: case.name)


def conv_by_loops(x, w, *, strides, padding, dilation, groups):
    window, (fan_in, c_out) = w.shape[:-2], w.shape[-2:]
    count = output_shape(x.shape[1:-1], window, strides, padding, dilation)
    padded = np.pad(x, ((0, 0), *padding, (0, 0)))
    y = np.zeros((x.shape[0], *count, c_out), np.result_type(x, w))
    for o in product(*map(range, count)):
        for k in product(*map(range, window)):
            at = tuple(a * s + b * d for a, s, b, d in zip(o, strides, k, dilation))
            for out in range(c_out):
                first = out // (c_out // groups) * fan_in
                element = padded[(slice(None), *at)][:, first : first + fan_in]
                y[(slice(None), *o, out)] += element @ w[(*k, slice(None), out)]
    return y


def pairing(a: np.ndarray, b: np.ndarray) -> Any:
    return np.sum(a * b)


@every_case
def test_conv_equals_explicit_loops(case):
    x, w, _ = case.arrays()

    y = conv(x, w, **case.params)

    np.testing.assert_allclose(y, conv_by_loops(x, w, **case.params), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["valid", "same", "full"])
@pytest.mark.parametrize(
    ("spatial", "window"), [((9,), (3,)), ((6, 7), (3, 5)), ((4, 5, 6), (3,) * 3)]
)
def test_conv_equals_scipy_correlate(spatial, window, mode):
    x, w = draw(spatial, np.float64, 1), draw(window, np.float64, 2)
    room = {"valid": 0, "same": 0.5, "full": 1}[mode]
    padding = tuple((int(room * (k - 1)),) * 2 for k in window)
    ones = (1,) * len(window)

    y = conv(
        x[None, ..., None],
        w[..., None, None],
        strides=ones,
        padding=padding,
        dilation=ones,
        groups=1,
    )

    np.testing.assert_allclose(y[0, ..., 0], signal.correlate(x, w, mode=mode), atol=1e-12)


@every_case
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients_are_the_transposes_of_conv(case, dtype):
    x, w, t = case.arrays(dtype)

    in_x = conv_input_gradient(t, w, input_shape=x.shape, **case.params)
    in_w = conv_filter_gradient(x, t, window=case.window, **case.params)

    expected = pairing(conv(x, w, **case.params), t)
    assert in_x.shape == x.shape
    assert in_w.shape == w.shape
    np.testing.assert_allclose(pairing(in_x, x), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(pairing(in_w, w), expected, rtol=1e-10, atol=1e-10)


@every_case
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_dtype_in_is_dtype_out(case, dtype):
    x, w, t = case.arrays(dtype)

    y = conv(x, w, **case.params)
    in_x = conv_input_gradient(t, w, input_shape=x.shape, **case.params)
    in_w = conv_filter_gradient(x, t, window=case.window, **case.params)

    assert {y.dtype, in_x.dtype, in_w.dtype} == {np.dtype(dtype)}


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_integers_are_exact(groups):
    case = Case("", (6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), channels=(4, 4), groups=groups)
    x, w, _ = (np.round(5 * a).astype(np.int32) for a in case.arrays())

    y = conv(x, w, **case.params)

    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, conv_by_loops(x, w, **case.params))


@pytest.mark.parametrize("groups", [1, 512])
def test_float16_accumulates_in_float32(groups):
    channels = 512
    x = np.full((1, 64, 64, channels), 1 / 16, np.float16)
    w = np.full((8, 8, channels // groups, channels), 1 / 16, np.float16)
    params = {"strides": (8, 8), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": groups}

    y = conv(x, w, **params)
    t = np.full(y.shape, 2.0**-10, np.float16)
    in_w = conv_filter_gradient(x, t, window=(8, 8), **params)
    in_x = conv_input_gradient(t, w, input_shape=x.shape, **params)

    np.testing.assert_array_equal(y, np.float16(64 * channels / groups / 256))
    np.testing.assert_array_equal(in_w, np.float16(64 * 2.0**-14))
    np.testing.assert_array_equal(in_x, np.float16(channels / groups * 2.0**-14))


def test_bfloat16_keeps_its_dtype():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    case = Case("", (6, 5), (3, 2), channels=(4, 4))
    x, w, _ = case.arrays(bfloat16)

    y = conv(x, w, **case.params)

    assert y.dtype == bfloat16
    exact = conv_by_loops(x.astype(float), w.astype(float), **case.params)
    np.testing.assert_allclose(y.astype(float), exact, rtol=2**-8, atol=1e-5)


@every_case
@pytest.mark.parametrize("tile", [1, 40, 300])
def test_result_does_not_depend_on_the_tile_size(case, tile, monkeypatch):
    x, w, t = case.arrays()
    y = conv(x, w, **case.params)
    in_w = conv_filter_gradient(x, t, window=case.window, **case.params)

    monkeypatch.setattr(convolution, "_TILE", tile)

    np.testing.assert_allclose(conv(x, w, **case.params), y, rtol=1e-12, atol=1e-12)
    tiled = conv_filter_gradient(x, t, window=case.window, **case.params)
    np.testing.assert_allclose(tiled, in_w, rtol=1e-12, atol=1e-12)


@every_case
def test_views_with_any_strides_are_read_as_they_are(case):
    x, w, t = case.arrays()

    def odd(a):
        """Return the same values behind negative and foreign strides."""
        return np.asfortranarray(a[::-1])[::-1]

    np.testing.assert_allclose(
        conv(odd(x), odd(w), **case.params), conv(x, w, **case.params), atol=1e-12
    )
    np.testing.assert_allclose(
        conv_input_gradient(odd(t), odd(w), input_shape=x.shape, **case.params),
        conv_input_gradient(t, w, input_shape=x.shape, **case.params),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        conv_filter_gradient(odd(x), odd(t), window=case.window, **case.params),
        conv_filter_gradient(x, t, window=case.window, **case.params),
        atol=1e-12,
    )


def test_pointwise_conv_does_not_copy_its_input():
    x = draw((2, 4, 3, 5), np.float64, 1)
    patches = convolution._patches(x, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1))

    columns = convolution._columns(patches, (1, 1), 1)

    assert np.shares_memory(columns, x)


def test_elements_no_window_reaches_get_no_gradient():
    case = Case("", (10,), (3,), (4,), channels=(1, 1))
    _, w, _ = case.arrays()

    g = conv_input_gradient(np.ones((2, 2, 1)), w, input_shape=(2, 10, 1), **case.params)

    np.testing.assert_array_equal(g[:, [3, 7, 8, 9]], 0)
    assert np.all(g[:, [0, 1, 2, 4, 5, 6]] != 0)
