"""Attention on the GPU, by cuDNN and by our kernels, against the generic kernel in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.attention import primitives as attention_core

cupy = pytest.importorskip("cupy")
attending = pytest.importorskip("tapegrad_cupy.kernels.attention.attention")
cudnn_attention = pytest.importorskip("tapegrad_cupy.kernels.attention.cudnn_attention")

FAMILY = attention_core  # it declares the primitives
HALVES = [np.dtype(ml_dtypes.bfloat16), np.dtype("float16")]
DTYPES = [*HALVES, np.dtype("float32"), np.dtype("float64")]
# Tolerances relative to the largest element, for roundings of results, weights and float32 sums.
TOLERANCES = {"bfloat16": 1.5e-2, "float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
HAS_CUDNN = cudnn_attention.library()[0] is not None
WAYS = [False, True] if HAS_CUDNN else [False]

ALL = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
BOTH = pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
EACH = pytest.mark.parametrize("cudnn", WAYS, ids=lambda cudnn: "cudnn" if cudnn else "kernels")

# Examples, heads of queries and of keys, queries, keys, features of keys and of values.
SIZES = [
    (1, 1, 1, 5, 40, 8, 8),
    (2, 4, 4, 128, 128, 64, 64),
    (2, 4, 2, 77, 130, 64, 64),
    (2, 6, 2, 130, 77, 40, 24),
    (1, 3, 3, 65, 65, 33, 17),
    (1, 2, 1, 100, 333, 128, 128),
    (1, 2, 2, 90, 50, 96, 80),
    (1, 2, 1, 50, 90, 256, 200),
    (3, 8, 2, 257, 511, 128, 64),
]


@pytest.fixture(autouse=True)
def ask_cudnn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave cuDNN out, unless a test has the parameter and it is true."""
    parameters = getattr(request.node, "callspec", None)
    asked = parameters is not None and parameters.params.get("cudnn", False)
    monkeypatch.setattr(attending, "CUDNN", asked)


def draw(shape: tuple[int, ...], dtype: Any, seed: int, between: bool = True) -> Any:
    """Return [examples, heads, rows, features] on the device; heads may lie between the others."""
    values = np.random.default_rng(seed).normal(size=shape)
    if not between:
        return cupy.asarray(values.astype(dtype))
    inner = np.ascontiguousarray(values.transpose(0, 2, 1, 3).astype(dtype))
    return cupy.asarray(inner).transpose(0, 2, 1, 3)


def operands(sizes: tuple[int, ...], dtype: Any, between: bool = True) -> list[Any]:
    """Return q, k, v and a cotangent of the result."""
    b, heads, shared, n, m, depth, width = sizes
    shapes = [(b, heads, n, depth), (b, shared, m, depth), (b, shared, m, width)]
    shapes.append((b, heads, n, width))
    return [draw(shape, dtype, seed, between) for seed, shape in enumerate(shapes)]


def wide(x: Any) -> np.ndarray[Any, Any]:
    return cupy.asnumpy(x).astype("float64")


def expected(q: Any, k: Any, v: Any, t: Any, scale: float, causal: bool) -> list[Any]:
    """Return the result and the three gradients."""
    params = {"scale": scale, "causal": causal}
    hosts = [wide(x) for x in (q, k, v)]
    forward: Any = PRIMITIVES["attention"].forward
    backward: Any = PRIMITIVES["attention_gradient"].forward
    y, weights = forward(np, *hosts, **params)
    return [y, *backward(np, wide(t), *hosts, y, weights, **params)]


def both_ways(q: Any, k: Any, v: Any, t: Any, scale: float, causal: bool) -> list[Any]:
    y, kept = attending.attention(q, k, v, scale=scale, causal=causal)
    gradients = attending.attention_gradient(t, q, k, v, y, kept, scale=scale, causal=causal)
    return [y, *gradients]


def check(q: Any, k: Any, v: Any, t: Any, causal: bool, scale: float | None = None) -> list[Any]:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    results = both_ways(q, k, v, t, scale, causal)
    for result, reference in zip(results, expected(q, k, v, t, scale, causal), strict=True):
        assert result.shape == reference.shape
        assert result.dtype == q.dtype
        size = max(np.abs(reference).max(initial=0.0), 1e-30)
        np.testing.assert_allclose(
            wide(result) / size, reference / size, rtol=0, atol=TOLERANCES[q.dtype.name]
        )
    return results


@EACH
@BOTH
@ALL
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_attention_and_its_gradient(
    sizes: tuple[int, ...], dtype: Any, causal: bool, cudnn: bool
) -> None:
    check(*operands(sizes, dtype), causal)


@EACH
@pytest.mark.parametrize("seed", range(8))
def test_random_sizes(seed: int, cudnn: bool) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        shared, group = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 4]))
        # With one key the gradient of queries would be 0 except for roundings.
        rows = [int(rng.integers(1, 300)), int(rng.integers(2, 300))]
        depth = int(rng.choice([8, 16, 24, 32, 40, 64, 72, 96, 128, 160, 192, 256]))
        width = depth if rng.random() < 0.7 else int(rng.choice([8, 32, 64, 128]))
        sizes = (int(rng.integers(1, 4)), shared * group, shared, *rows, depth, width)
        dtype = DTYPES[int(rng.integers(3))]

        check(*operands(sizes, dtype, between=rng.random() < 0.5), causal=rng.random() < 0.5)


@ALL
def test_the_log_sum_exp_is_kept(dtype: Any) -> None:
    q, k, v, _ = operands((2, 4, 2, 70, 50, 32, 32), dtype)

    _, kept = attending.attention(q, k, v, scale=0.3, causal=True)

    scores = wide(q) @ np.repeat(wide(k), 2, 1).swapaxes(-1, -2) * 0.3
    scores[..., ~np.tri(70, 50, -20, dtype=bool)] = -np.inf
    reference = np.log(np.exp(scores).sum(-1), where=np.arange(70) >= 20, out=np.zeros((2, 4, 70)))
    np.testing.assert_allclose(wide(kept), reference, atol=1e-4)


@pytest.mark.skipif(not HAS_CUDNN, reason="Needs the optional package nvidia-cudnn-frontend.")
@pytest.mark.parametrize("sizes", [SIZES[1], SIZES[2], SIZES[5]], ids=str)
@pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: dtype.name)
def test_cudnn_has_plans_for_usual_sizes(sizes: tuple[int, ...], dtype: Any) -> None:
    q, k, v, t = operands(sizes, dtype)
    forward = tuple(attending.operand(x) for x in (q, k, v, t))
    call = cudnn_attention.Call(dtype.name, forward, 0.125, True)

    backward = call._replace(operands=(*forward, forward[3], *forward[:3]))

    assert cudnn_attention.is_offered(call)
    assert cudnn_attention.forward_plan(call) is not None
    assert cudnn_attention.backward_plan(backward) is not None


@EACH
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2]], ids=lambda dtype: dtype.name)
def test_results_lie_as_their_operands_do(dtype: Any, cudnn: bool) -> None:
    joined = (2, 77, 4 * 64)

    for result in check(*operands((2, 4, 4, 77, 77, 64, 64), dtype), True):
        merged = result.transpose(0, 2, 1, 3)
        assert merged.flags.c_contiguous
        assert merged.reshape(joined).data.ptr == result.data.ptr
    for result in check(*operands((2, 4, 4, 77, 77, 64, 64), dtype, between=False), True):
        assert result.flags.c_contiguous


@EACH
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2]], ids=lambda dtype: dtype.name)
def test_parts_of_one_projection_and_other_layouts(dtype: Any, cudnn: bool) -> None:
    rng = np.random.default_rng(0)
    packed = cupy.asarray(rng.normal(size=(2, 50, 3, 4, 32)).astype(dtype))
    q, k, v = (packed[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    t = draw((2, 4, 50, 32), dtype, 1)
    check(q, k, v, t, True)

    check(q[0, 0], k[0, 0], v[0, 0], t[0, 0], True)
    check(q[1], k[1], v[1], t[1], False)
    check(*(x.reshape(2, 1, 4, 50, 32) for x in (q, k, v, t)), False)
    check(q, cupy.broadcast_to(k[:1], k.shape), cupy.broadcast_to(v[:, :1], v.shape), t, True)
    check(q[..., ::2], k[..., 1::2], v, t, True)
    check(q[..., 1:], k[..., :31], v[..., 3:], t[..., 3:], True)
    check(q[:, :, ::-1], k[:, :, ::3], v[:, :, ::3], t, False)
    turned = cupy.asarray(rng.normal(size=(2, 4, 32, 50)).astype(dtype)).swapaxes(-1, -2)
    check(turned, k, v, turned, False)


@ALL
def test_what_kernels_do_not_take_is_composed(dtype: Any) -> None:
    check(*operands((1, 2, 2, 9, 7, 300, 20), dtype), True)
    check(*operands((1, 2, 2, 9, 7, 20, 300), dtype), False)
    check(*operands((1, 4, 2, 9, 7, 20, 20), dtype), True, scale=-0.5)


@pytest.mark.parametrize(
    "sizes", [(2, 2, 1, 0, 5, 8, 8), (2, 2, 1, 5, 0, 8, 8), (0, 2, 2, 5, 5, 8, 8)]
)
def test_empty_operands(sizes: tuple[int, ...]) -> None:
    for dtype in (DTYPES[0], DTYPES[2]):
        check(*operands(sizes, dtype, between=False), True)


@EACH
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2]], ids=lambda dtype: dtype.name)
def test_large_scores_do_not_overflow(dtype: Any, cudnn: bool) -> None:
    q, k, v, t = operands((1, 2, 2, 200, 200, 64, 64), dtype)

    large = [cupy.asarray((wide(x) * 30).astype(dtype)) for x in (q, k)]
    results = both_ways(*large, v, t, 1.0, True)

    assert all(np.isfinite(wide(result)).all() for result in results)


@EACH
@BOTH
@ALL
def test_the_same_every_time(dtype: Any, causal: bool, cudnn: bool) -> None:
    arrays = operands((2, 8, 2, 300, 333, 64, 64), dtype)

    first = both_ways(*arrays, 0.125, causal)

    for _ in range(3):
        for one, other in zip(first, both_ways(*arrays, 0.125, causal), strict=True):
            assert cupy.asnumpy(one).tobytes() == cupy.asnumpy(other).tobytes()


@EACH
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2]], ids=lambda dtype: dtype.name)
def test_captured_and_replayed(dtype: Any, cudnn: bool) -> None:
    arrays = operands((2, 4, 2, 150, 150, 64, 64), dtype)
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    reference = [wide(result) for result in both_ways(*arrays, 0.125, True)]
    cupy.cuda.Device().synchronize()

    with stream, cupy.cuda.using_allocator(pool.malloc):
        both_ways(*arrays, 0.125, True)
        stream.begin_capture()
        results = both_ways(*arrays, 0.125, True)
        graph = stream.end_capture()
        for result in results:
            result.fill(0)
        graph.launch()
        stream.synchronize()

    for result, wanted in zip(results, reference, strict=True):
        np.testing.assert_array_equal(wide(result), wanted)


@EACH
def test_long_sequences_take_no_memory_for_weights(cudnn: bool) -> None:
    arrays = operands((1, 4, 4, 16384, 16384, 64, 64), DTYPES[0])
    pool = cupy.cuda.MemoryPool()

    with cupy.cuda.using_allocator(pool.malloc):
        results = both_ways(*arrays, 0.125, True)
        cupy.cuda.Device().synchronize()
        used = pool.total_bytes()

    assert all(np.isfinite(wide(result[:, :, ::1000])).all() for result in results)
    assert used < 256 * 2**20  # The weights would be 2 GiB.


@EACH
@pytest.mark.parametrize("dtype", [DTYPES[0], DTYPES[2]], ids=lambda dtype: dtype.name)
def test_the_tape_differentiates_it(dtype: Any, cudnn: bool) -> None:
    q, k, v, _ = operands((2, 4, 2, 40, 50, 32, 32), dtype)
    tensors = [tf.constant(x) for x in (q, k, v)]

    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = tf.nn.scaled_dot_product_attention(*tensors, causal=True)
    gradients = tape.gradient(y, tensors)

    reference = expected(q, k, v, cupy.ones((2, 4, 40, 32)), 32**-0.5, True)
    for result, wanted in zip([y, *gradients], reference, strict=True):
        size = np.abs(wanted).max()
        error = np.abs(result.numpy().astype("float64") - wanted).max() / size
        assert error < TOLERANCES[dtype.name]
