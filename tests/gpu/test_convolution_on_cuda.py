"""Convolution on the GPU, by cuDNN (if installed) and by patches, against NumPy in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.convolution import generic_kernels
from tapegrad.ops.convolution.primitives import conv_p

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
convolution = pytest.importorskip("tapegrad_cupy.kernels.convolution.convolution")
cudnn = pytest.importorskip("tapegrad_cupy.kernels.convolution.cudnn")
patches = pytest.importorskip("tapegrad_cupy.kernels.convolution.patches")
filter_layout = pytest.importorskip("tapegrad_cupy.kernels.convolution.filter_layout")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + [BFLOAT16]
OFF = "a test turns it off"


class Case(NamedTuple):
    data: tuple[int, ...]
    window: tuple[int, ...]
    c_out: int
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int = 1


CASES = {
    "1d": Case((3, 17, 8), (3,), 16, (1,), ((1, 1),), (1,)),
    "1d-odd": Case((2, 11, 3), (4,), 5, (3,), ((2, 0),), (2,)),
    "2d": Case((2, 9, 8, 16), (3, 3), 32, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "2d-odd": Case((3, 7, 6, 5), (3, 2), 7, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "2d-strides": Case((2, 10, 9, 8), (3, 3), 8, (2, 3), ((0, 1), (1, 1)), (1, 1)),
    "2d-uneven-padding": Case((2, 6, 7, 8), (3, 4), 8, (2, 1), ((2, 0), (0, 3)), (1, 1)),
    # Some engines of cuDNN returned wrong gradients of filters for these sizes.
    "2d-same": Case((32, 16, 16, 24), (3, 3), 48, (2, 2), ((0, 1), (0, 1)), (1, 1)),
    "2d-same-thick": Case((8, 11, 32, 128), (4, 5), 64, (1, 1), ((0, 3), (1, 3)), (1, 1)),
    "1d-uneven-padding": Case((2, 27, 32), (5,), 64, (2,), ((4, 1),), (1,)),
    "3d-uneven-padding": Case(
        (1, 11, 6, 7, 1), (5, 5, 3), 4, (3, 3, 3), ((3, 3), (0, 3), (2, 3)), (2, 1, 2)
    ),
    "2d-dilated": Case((1, 12, 11, 8), (3, 2), 24, (1, 2), ((2, 2), (3, 1)), (2, 3)),
    "2d-groups": Case((2, 6, 6, 16), (3, 3), 32, (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    "2d-groups-odd": Case((2, 6, 5, 6), (2, 3), 9, (2, 1), ((1, 0), (1, 2)), (1, 1), 3),
    "2d-depthwise": Case((2, 8, 8, 24), (3, 3), 48, (2, 2), ((1, 1), (1, 1)), (1, 1), 24),
    "2d-depthwise-parts": Case((4, 16, 15, 8), (3, 3), 8, (1, 1), ((1, 1), (0, 2)), (1, 1), 8),
    "2d-thick-groups": Case((2, 6, 5, 24), (3, 2), 40, (1, 2), ((1, 1), (0, 1)), (1, 1), 2),
    "2d-pointwise": Case((2, 5, 5, 12), (1, 1), 20, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "2d-pointwise-strided": Case((2, 6, 5, 8), (1, 1), 8, (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "2d-pointwise-padded": Case((2, 3, 4, 8), (1, 1), 8, (1, 1), ((1, 0), (0, 2)), (1, 1)),
    "2d-whole": Case((4, 5, 5, 8), (5, 5), 10, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "2d-gaps": Case((2, 9, 9, 8), (2, 2), 8, (4, 4), ((0, 0), (0, 0)), (1, 1)),
    "3d": Case((2, 5, 6, 4, 8), (2, 3, 3), 16, (1, 2, 1), ((0, 1), (1, 1), (1, 0)), (1, 1, 2)),
    "3d-groups": Case((1, 4, 4, 5, 6), (3, 1, 2), 4, (1, 1, 2), ((1, 1),) * 3, (1, 1, 1), 2),
}


@pytest.fixture(params=["chosen", "patches"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Once with what is there, and once without cuDNN."""
    if request.param == "patches":
        monkeypatch.setattr(cudnn, "library", lambda: (None, OFF))
    convolution.forget_plans()
    yield request.param
    convolution.forget_plans()


def draw(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    value = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.normal(size=shape)
    return cupy.asarray(value.astype(dtype))


def exact(array: Any) -> Any:
    value = cupy.asnumpy(array)
    return value.astype("complex128" if value.dtype.kind == "c" else "float64")


def operands(case: Case, dtype: Any) -> tuple[Any, Any, Any]:
    """Return data, filters and cotangents."""
    x = draw(case.data, dtype, 0)
    w = draw((*case.window, case.data[-1] // case.groups, case.c_out), dtype, 1)
    counts = generic_kernels.window_counts(
        case.data[1:-1], case.window, case.strides, case.padding, case.dilation
    )
    return x, w, draw((case.data[0], *counts, case.c_out), dtype, 2)


def calls(case: Case, dtype: Any) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return the operands and parameters of the three primitives."""
    x, w, t = operands(case, dtype)
    geometry = {
        "strides": case.strides,
        "padding": case.padding,
        "dilation": case.dilation,
        "groups": case.groups,
    }
    return {
        "conv": (x, w, geometry),
        "conv_input_gradient": (t, w, {"input_shape": case.data, **geometry}),
        "conv_filter_gradient": (x, t, {"window": case.window, **geometry}),
    }


def check(name: str, got: Any, a: Any, b: Any, params: dict[str, Any]) -> None:
    """Compare with the definition, within roundings times the sum of all magnitudes."""
    a, b = exact(a), exact(b)
    define = getattr(generic_kernels, name)
    want, magnitude = define(np, a, b, **params), define(np, abs(a), abs(b), **params)
    info = ml_dtypes.finfo(got.dtype)
    eps = float(info.eps) * (1 if got.dtype.itemsize == 2 else 16)
    bound = eps * magnitude + eps * float(info.tiny)

    assert got.shape == want.shape
    assert got.flags.c_contiguous
    np.testing.assert_array_less(abs(exact(got) - want), bound)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolution_and_its_transposes(way: str, case: Case, dtype: Any) -> None:
    for name, (a, b, params) in calls(case, dtype).items():
        got = convolution.KERNELS[name](a, b, **params)

        assert got.dtype == dtype
        check(name, got, a, b, params)


def random_case(rng: np.random.Generator) -> Case:
    """Any geometry; half of them with padding that differs from side to side."""
    rank = int(rng.choice([1, 2, 2, 2, 3]))
    groups = int(rng.choice([1, 1, 1, 2, 4]))
    c_in, c_out = (groups * int(rng.choice([1, 3, 8, 16, 24, 32, 48])) for _ in range(2))
    window, strides = rng.integers(1, 6, rank), rng.integers(1, 4, rank)
    dilation = rng.integers(1, 3, rank) if rng.random() < 0.2 else np.ones(rank, int)
    reach = (window - 1) * dilation + 1
    low, high = rng.integers(0, reach), rng.integers(0, reach)
    if rng.random() < 0.5:
        high = low
    spatial = rng.integers(1, 34 if rank < 3 else 12, rank)
    spatial = np.maximum(spatial, reach - low - high)
    data = (int(rng.choice([1, 2, 8, 32])), *spatial.tolist(), c_in)
    padding = tuple(zip(low.tolist(), high.tolist()))
    sizes = [tuple(array.tolist()) for array in (window, strides, dilation)]
    return Case(data, sizes[0], c_out, sizes[1], padding, sizes[2], groups)


@pytest.mark.parametrize("seed", range(16))
def test_random_geometries_give_what_kernels_of_our_own_give_in_float64(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(30):
        case, dtype = random_case(rng), DTYPES[rng.choice([0, 1, 3])]
        for name, (a, b, params) in calls(case, dtype).items():
            kernel = convolution.KERNELS[name]
            got = kernel(a, b, **params)

            wide_a, wide_b = a.astype("float64"), b.astype("float64")  # which cuDNN does not take
            want = kernel(wide_a, wide_b, **params)
            magnitude = kernel(abs(wide_a), abs(wide_b), **params)
            info = ml_dtypes.finfo(dtype)
            eps = float(info.eps) * (1 if dtype.itemsize == 2 else 16)
            bound = eps * magnitude + eps * float(info.tiny)
            assert bool((abs(got.astype("float64") - want) <= bound).all()), (name, dtype, case)
    convolution.forget_plans()


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "int32"])
@pytest.mark.parametrize("case", ["1d-odd", "2d-groups-odd", "3d"])
def test_other_dtypes(dtype: str, case: str) -> None:
    for name, (a, b, params) in calls(CASES[case], dtype).items():
        got = convolution.KERNELS[name](a, b, **params)

        assert got.dtype == dtype
        if dtype == "int32":
            want = getattr(generic_kernels, name)(np, exact(a), exact(b), **params)
            np.testing.assert_array_equal(cupy.asnumpy(got), want)
        else:
            check(name, got, a, b, params)


def test_operands_of_two_dtypes_give_the_wider_one(way: str) -> None:
    x, w, params = calls(CASES["2d"], "float32")["conv"]
    half = x.astype(BFLOAT16)

    got = convolution.conv(half, w, **params)

    assert got.dtype == np.float32
    check("conv", got, half, w, params)


@pytest.mark.parametrize("layout", ["channels first", "strided", "odd address"])
def test_the_layout_in_memory_does_not_matter(way: str, layout: str) -> None:
    for name, (a, b, params) in calls(CASES["2d"], BFLOAT16).items():
        if layout == "channels first":
            there = cupy.ascontiguousarray(a.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
        elif layout == "strided":
            there = cupy.repeat(a, 2, axis=2)[:, :, ::2]
        else:
            there = cupy.concatenate([cupy.zeros(1, BFLOAT16), a.ravel()])[1:].reshape(a.shape)

        check(name, convolution.KERNELS[name](there, b, **params), a, b, params)


@pytest.mark.parametrize("dtype", [np.dtype("float32"), BFLOAT16], ids=str)
@pytest.mark.parametrize("case", ["1d", "2d", "3d"])
def test_the_second_operand_may_be_in_the_order_of_cudnn(way: str, case: str, dtype: Any) -> None:
    for name, (a, b, params) in calls(CASES[case], dtype).items():
        there = cupy.moveaxis(cupy.ascontiguousarray(cupy.moveaxis(b, -1, 0)), 0, -1)
        assert filter_layout.is_cudnn_order(there)

        got = convolution.KERNELS[name](a, there, **params)

        assert got._c_contiguous
        check(name, got, a, b, params)


@pytest.mark.parametrize("dtype", [np.dtype("float32"), BFLOAT16], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_patches_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, dtype: Any, groups: int) -> None:
    case = Case((5, 7, 8, 20), (3, 3), 6, (1, 2), ((1, 1), (0, 1)), (1, 1), groups)
    monkeypatch.setattr(cudnn, "library", lambda: (None, OFF))
    convolution.forget_plans()
    whole = {n: convolution.KERNELS[n](a, b, **p) for n, (a, b, p) in calls(case, dtype).items()}
    monkeypatch.setattr(patches, "MOST_SCRATCH", 16_000)
    convolution.forget_plans()

    for name, (a, b, params) in calls(case, dtype).items():
        got = convolution.KERNELS[name](a, b, **params)

        check(name, got, a, b, params)
        check(name, whole[name], a, b, params)
    convolution.forget_plans()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_same_convolution_gives_the_same_bits(way: str, dtype: Any) -> None:
    case = Case((32, 32, 32, 64), (3, 3), 64, (1, 1), ((1, 1), (1, 1)), (1, 1))
    for name, (a, b, params) in calls(case, dtype).items():
        first = convolution.KERNELS[name](a, b, **params)
        for _ in range(3):
            again = convolution.KERNELS[name](a, b, **params)
            assert cupy.asnumpy(first).tobytes() == cupy.asnumpy(again).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_empty_data_and_no_windows(way: str, dtype: str) -> None:
    geometry = {"strides": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
    w = cupy.ones((3, 2, 4), dtype)

    assert convolution.conv(cupy.ones((0, 5, 2), dtype), w, **geometry).shape == (0, 3, 4)
    assert convolution.conv(cupy.ones((2, 2, 2), dtype), w, **geometry).shape == (2, 0, 4)
    g = convolution.conv_filter_gradient(
        cupy.ones((0, 5, 2), dtype), cupy.ones((0, 3, 4), dtype), window=(3,), **geometry
    )
    assert cupy.asnumpy(g).tolist() == np.zeros((3, 2, 4)).tolist()
    g = convolution.conv_input_gradient(
        cupy.ones((2, 0, 4), dtype), w, input_shape=(2, 2, 2), **geometry
    )
    assert cupy.asnumpy(g).tolist() == np.zeros((2, 2, 2)).tolist()


@pytest.mark.parametrize("dtype", [np.dtype("float32"), BFLOAT16], ids=str)
def test_a_convolution_is_captured_once_its_plan_exists(way: str, dtype: Any) -> None:
    for name, (a, b, params) in calls(CASES["2d"], dtype).items():
        kernel = convolution.KERNELS[name]
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with stream:
            expected = kernel(a, b, **params)
            stream.begin_capture()
            got = kernel(a, b, **params)
            graph = stream.end_capture()
            graph.launch()
        stream.synchronize()

        assert cupy.asnumpy(got).tobytes() == cupy.asnumpy(expected).tobytes()


def test_gradients_on_the_gpu_equal_those_on_the_host(way: str) -> None:
    x, w, t = (exact(a) for a in operands(CASES["2d-strides"], "float64"))

    def gradients(device: str) -> list[Any]:
        with tf.device(device):
            inputs = [tf.constant(x), tf.constant(w)]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                y = tf.nn.conv2d(*inputs, [2, 3], [[0, 0], [0, 1], [1, 1], [0, 0]])
                loss = tf.reduce_sum(tf.tanh(y) * tf.constant(t))
            return [g.numpy() for g in tape.gradient(loss, inputs)]

    for here, there in zip(gradients("cuda:0"), gradients("cpu")):
        np.testing.assert_allclose(here, there, rtol=1e-10, atol=1e-12)


# Filters kept for the gradient


@pytest.mark.parametrize("dtype", [np.dtype("float16"), np.dtype("float32"), BFLOAT16], ids=str)
@pytest.mark.parametrize("case", ["1d", "2d", "2d-uneven-padding", "2d-groups", "2d-pointwise"])
def test_gradients_under_a_tape_are_those_of_the_primitives(way, case, dtype) -> None:
    x, w, t = operands(CASES[case], dtype)
    made = calls(CASES[case], dtype)
    inputs = [tf.convert_to_tensor(x), tf.convert_to_tensor(w)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        y = conv_p(*inputs, **made["conv"][2])
    cotangent = tf.convert_to_tensor(t)

    both = tape.gradient(y, inputs, cotangent)
    (alone,) = tape.gradient(y, inputs[:1], cotangent)

    for name, got in zip(["conv_input_gradient", "conv_filter_gradient"], both):
        a, b, params = made[name]
        expected = convolution.KERNELS[name](a, b, **params)
        assert got.array.tobytes() == expected.tobytes()
    assert alone.array.tobytes() == both[0].array.tobytes()


def test_filters_that_were_written_to_are_turned_anew(way: str) -> None:
    x, w, t = operands(CASES["2d"], BFLOAT16)
    made = calls(CASES["2d"], BFLOAT16)
    with tf.GradientTape() as tape:
        tape.watch(watched := tf.convert_to_tensor(w))
        conv_p(tf.convert_to_tensor(x), watched, **made["conv"][2])
    w *= 2
    params = made["conv_input_gradient"][2]

    got = convolution.conv_input_gradient(t, w, **params)

    check("conv_input_gradient", got, t, w, params)


# The choice of the algorithm


def test_the_status_says_whether_cudnn_runs_convolutions() -> None:
    if importlib.util.find_spec("cudnn") is None:
        assert cudnn.status().endswith("the package nvidia-cudnn-frontend is not installed")
    else:
        assert cudnn.status().startswith("convolutions run on cuDNN 9")


def test_the_status_says_why_cudnn_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "library", lambda: (None, OFF))

    assert cudnn.status() == (
        f"convolutions run on matrix products; cuDNN is not used because {OFF}"
    )


@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=str)
@pytest.mark.parametrize("case", ["1d", "2d", "2d-strides", "2d-uneven-padding"])
def test_cudnn_plans_the_usual_convolutions_where_it_is_there(case: str, dtype: Any) -> None:
    windows = convolution.find_windows(CASES[case].data[1:-1], *_geometry(CASES[case]))
    batch, c_in = CASES[case].data[0], CASES[case].data[-1]
    size = patches.Convolution(batch, windows, c_in, CASES[case].c_out, CASES[case].groups, dtype)
    is_there = cudnn.library()[0] is not None

    for name in calls(CASES[case], dtype):
        assert (cudnn.plan(name, size, False) is not None) == is_there


def _geometry(case: Case) -> tuple[Any, ...]:
    return case.window, case.strides, case.padding, case.dilation
