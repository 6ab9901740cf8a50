"""Row and column kernels on the GPU against NumPy in float64, and against the generic kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.nn import cross_entropy, softmax
from tapegrad.ops.normalization import primitives as normalization, with_relu as normalization_relu
from tapegrad.ops.reduction import logsumexp

cupy = pytest.importorskip("cupy")
rows = pytest.importorskip("tapegrad_cupy.kernels.rows.rows")
normalizing = pytest.importorskip("tapegrad_cupy.kernels.rows.normalization")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Imported because it declares the primitives.
FAMILIES = (cross_entropy, logsumexp, normalization, normalization_relu, softmax)
DTYPES = [np.dtype(ml_dtypes.bfloat16), *map(np.dtype, ("float16", "float32", "float64"))]
# Tolerances relative to the largest element, for roundings of results and of float32 sums.
TOLERANCES = {"bfloat16": 1.5e-2, "float16": 2e-3, "float32": 4e-6, "float64": 1e-12}
# Lengths for a warp, a block in registers (vectors, single elements), a cached loop, and a loop.
LENGTHS = [1, 7, 1000, 4096, 4101, 33001, 60008]
ALL = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)


def draw(*shape: int, seed: int = 0, scale: float = 2.0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape) * scale


def place(values: Any, dtype: Any) -> tuple[Any, Any]:
    """Return values on the device, and as float64 what was left of them after rounding."""
    rounded = np.asarray(values).astype(dtype)
    return cupy.asarray(rounded), rounded.astype("float64")


def expected(name: str, *args: Any, **params: Any) -> Any:
    return PRIMITIVES[name].forward(np, *args, **params)


def check(results: Any, references: Any, dtype: Any) -> None:
    if not isinstance(results, tuple):
        results, references = (results,), (references,)
    for result, reference in zip(results, references, strict=True):
        result = cupy.asnumpy(result).astype("float64")
        assert result.shape == reference.shape
        finite = np.abs(reference[np.isfinite(reference)])
        size = max(1e-30, finite.max() if finite.size else 0.0)
        np.testing.assert_allclose(
            result / size, reference / size, rtol=0, atol=TOLERANCES[dtype.name]
        )


def compare(name: str, values: list[Any], dtype: Any, *others: Any, **params: Any) -> None:
    """Check a kernel on `values`, rounded to the dtype, and on other arrays as they are."""
    placed = [place(value, dtype) for value in values]
    arrays = [device for device, _ in placed] + [cupy.asarray(other) for other in others]
    wide = [host for _, host in placed] + list(others)
    check(rows.KERNELS[name](*arrays, **params), expected(name, *wide, **params), dtype)


# Softmax and log-sum-exp


@ALL
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "softmax_gradient", "log_softmax_gradient"]
)
def test_softmax(name: str, length: int, dtype: Any) -> None:
    x = draw(5, length)
    y = expected(name.removesuffix("_gradient"), draw(5, length, seed=1), axis=1)

    compare(name, [x, y] if name.endswith("gradient") else [x], dtype, axis=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("length", [6, 2000, 20000])
def test_masked_rows_infinities_and_nan_are_those_of_the_generic_kernel(
    name: str, length: int
) -> None:
    x = draw(6, length).astype("float32")
    x[0] = -np.inf
    x[1, length // 2 :] = -np.inf
    x[2, 1] = np.nan
    x[3, 2] = np.inf
    x[4, : length // 2] = -np.inf
    x[4, -1] = 300.0
    x[5] = -1e30
    params = {"axis": (1,), "keepdims": True} if name == "logsumexp" else {"axis": 1}

    result = rows.KERNELS[name](cupy.asarray(x), **params)

    reference = expected(name, x, **params)
    np.testing.assert_allclose(cupy.asnumpy(result), reference, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_and_any_strides(axis: int) -> None:
    x, t = cupy.asarray(draw(4, 6, 10)), cupy.asarray(draw(10, 6, 4, seed=1)).transpose(2, 1, 0)
    x, t = x[:, ::2], t[:, ::2]

    y = rows.softmax(x, axis=axis)
    g = rows.softmax_gradient(t, y, axis=axis)

    hosts = [cupy.asnumpy(array) for array in (x, t)]
    reference = expected("softmax", hosts[0], axis=axis)
    check(y, reference, np.dtype("float64"))
    check(g, expected("softmax_gradient", hosts[1], reference, axis=axis), np.dtype("float64"))


@pytest.mark.parametrize("length", [8, 4096, 20000, 60000])
def test_arrays_that_start_off_a_boundary(length: int) -> None:
    x = cupy.asarray(draw(3 * length + 1).astype("float32"))[1:].reshape(3, length)

    check(
        rows.softmax(x, axis=1),
        expected("softmax", cupy.asnumpy(x).astype("float64"), axis=1),
        np.dtype("float32"),
    )


def test_empty_arrays_stay_empty() -> None:
    for shape in ((0, 5), (5, 0), (0,)):
        x = cupy.zeros(shape, "float32")

        assert rows.softmax(x, axis=len(shape) - 1).shape == shape
        assert rows.log_softmax_gradient(x, x, axis=len(shape) - 1).shape == shape
    loss, weights = rows.sparse_cross_entropy(cupy.zeros((0, 5), "float32"), cupy.zeros(0, "int64"))
    assert (loss.shape, weights.shape) == ((0,), (0, 5))
    loss, log_total = rows.cross_entropy(cupy.zeros((2, 0)), cupy.zeros((2, 0)))
    assert cupy.asnumpy(loss).tolist() == cupy.asnumpy(log_total).tolist() == [0.0, 0.0]


@ALL
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((), ()), ((3, 4), ()), ((3, 4, 5), (0, 2)), ((2, 100003), (1,)), ((500, 1001), (0, 1))],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(
    shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool, dtype: Any
) -> None:
    compare("logsumexp", [draw(*shape)], dtype, axis=axis, keepdims=keepdims)


# Cross entropy


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_sparse_cross_entropy(length: int, dtype: Any) -> None:
    for labels in (np.array([0, length - 1, length // 2], "int32"), np.arange(3) % length):
        compare("sparse_cross_entropy", [draw(3, length)], dtype, labels)
        weights = expected("softmax", draw(3, length), axis=1)
        t = place(draw(3), dtype)
        w = place(weights, dtype)
        g = rows.sparse_cross_entropy_gradient(t[0], w[0], cupy.asarray(labels))
        check(g, expected("sparse_cross_entropy_gradient", t[1], w[1], labels), dtype)
        mask = rows.label_mask(w[0], cupy.asarray(labels))
        np.testing.assert_array_equal(
            cupy.asnumpy(mask).astype("float64"), expected("label_mask", w[1], labels)
        )


@pytest.mark.parametrize("length", [9, 30000])
def test_a_label_out_of_range_makes_its_row_nan(length: int) -> None:
    labels = cupy.asarray(np.array([-1, 3, length], "int64"))

    loss, weights = rows.sparse_cross_entropy(cupy.asarray(draw(3, length)), labels)

    assert np.isnan(cupy.asnumpy(loss)).tolist() == [True, False, True]
    assert np.isnan(cupy.asnumpy(weights)).all(axis=1).tolist() == [True, False, True]


def test_labels_of_other_integers_and_more_axes() -> None:
    labels = np.array([[1, 2], [0, 4]], "uint8")

    compare("sparse_cross_entropy", [draw(2, 2, 5)], np.dtype("float32"), labels)
    compare("sparse_cross_entropy", [draw(5)], np.dtype("float32"), np.array(3))


@ALL
@pytest.mark.parametrize("length", LENGTHS)
def test_cross_entropy(length: int, dtype: Any) -> None:
    x, labels = draw(3, length), np.abs(draw(3, length, seed=1))
    labels[:, ::3] = 0

    compare("cross_entropy", [x, labels / length], dtype)
    log_total = expected("cross_entropy", place(x, dtype)[1], labels)[1]
    work = np.dtype("float64" if dtype == np.float64 else "float32")
    compare("cross_entropy_gradient", [draw(3), x, labels], dtype, log_total.astype(work))


def test_an_impossible_class_that_is_not_asked_for_costs_nothing() -> None:
    x = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [0.0, -np.inf]])
    labels = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])

    loss, _ = rows.cross_entropy(cupy.asarray(x), cupy.asarray(labels))

    assert cupy.asnumpy(loss).tolist() == [0.0, 0.0, np.inf]


# Normalisation


def normalize_both_ways(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    parameter: tuple[int, ...],
    dtype: Any,
    gain_dtype: Any,
    center: bool = True,
    offset: float = 0.0,
) -> None:
    (x, x64), (t, t64) = place(draw(*shape) + offset, dtype), place(draw(*shape, seed=1), dtype)
    gain, gain64 = place(draw(*parameter, seed=2), gain_dtype)
    bias, bias64 = place(draw(*parameter, seed=3), gain_dtype)
    params = {"axes": axes, "epsilon": 1e-3, "center": center, "scaled": True}

    y, mean, variance = normalizing.normalize(x, gain, bias, shifted=True, **params)
    gradients = normalizing.normalize_gradient(
        t, x, gain, mean, variance, bias_shape=parameter, **params
    )

    references = expected("normalize", x64, gain64, bias64, shifted=True, **params)
    check((y, mean, variance), references, dtype)
    moments = references[1:]
    check(
        gradients,
        expected("normalize_gradient", t64, x64, gain64, *moments, bias_shape=parameter, **params),
        dtype,
    )
    assert [g.dtype for g in gradients] == [dtype, gain.dtype, bias.dtype]


@ALL
@pytest.mark.parametrize("length", [1, 7, 512, 1000, 4096, 4101, 20001])
def test_layer_normalisation(length: int, dtype: Any) -> None:
    normalize_both_ways((37, length), (1,), (1, length), dtype, dtype)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("parameter", [(1, 1, 1), (1, 6, 8)])
def test_rms_one_number_for_all_and_wide_gains(center: bool, parameter: tuple[int, ...]) -> None:
    dtype = DTYPES[0]

    normalize_both_ways((300, 6, 8), (1, 2), parameter, dtype, np.dtype("float32"), center)


@ALL
@pytest.mark.parametrize("shape", [(70, 3), (9, 8, 8, 64), (5000, 40), (3, 300)])
def test_batch_normalisation(shape: tuple[int, ...], dtype: Any) -> None:
    axes = tuple(range(len(shape) - 1))

    normalize_both_ways(shape, axes, (*(1 for _ in axes), shape[-1]), dtype, dtype)


def rectify_both_ways(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    parameter: tuple[int, ...],
    dtype: Any,
    gain_dtype: Any,
) -> None:
    (x, x64), (t, t64) = place(draw(*shape), dtype), place(draw(*shape, seed=1), dtype)
    gain, gain64 = place(draw(*parameter, seed=2), gain_dtype)
    bias, bias64 = place(draw(*parameter, seed=3), gain_dtype)
    params = {"axes": axes, "epsilon": 1e-3}

    y, mean, variance = normalizing.normalize_relu(x, gain, bias, **params)
    gradients = normalizing.normalize_relu_gradient(
        t, x, y, gain, mean, variance, bias_shape=parameter, **params
    )

    references = expected("normalize_relu", x64, gain64, bias64, **params)
    check((y, mean, variance), references, dtype)
    y64, moments = cupy.asnumpy(y).astype("float64"), references[1:]
    wanted = expected(
        "normalize_relu_gradient", t64, x64, y64, gain64, *moments, bias_shape=parameter, **params
    )
    check(gradients, wanted, dtype)
    assert [g.dtype for g in gradients] == [dtype, gain.dtype, bias.dtype]
    assert 0 < np.count_nonzero(y64) < y64.size


GAIN_DTYPES = [(dtype, dtype) for dtype in DTYPES] + [(d, np.dtype("float32")) for d in DTYPES[:2]]


@pytest.mark.parametrize(("dtype", "gain_dtype"), GAIN_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(70, 3), (9, 8, 8, 64), (5000, 40), (3, 300), (2, 8)])
def test_batch_normalisation_with_a_relu(shape: Any, dtype: Any, gain_dtype: Any) -> None:
    axes = tuple(range(len(shape) - 1))

    rectify_both_ways(shape, axes, (*(1 for _ in axes), shape[-1]), dtype, gain_dtype)


@pytest.mark.parametrize(
    ("shape", "axes", "parameter"),
    [((2, 6, 5), (1,), (1, 1, 5)), ((4, 5), (1,), (4, 1)), ((4, 5), (1,), (1, 5))],
)
def test_a_relu_behind_other_axes_is_left_to_the_generic_kernel(
    shape: Any, axes: Any, parameter: Any
) -> None:
    rectify_both_ways(shape, axes, parameter, DTYPES[3], DTYPES[3])


def test_a_large_cotangent_that_is_a_view_is_copied_and_replayed(monkeypatch: Any) -> None:
    shape = (64, 16, 16, 64)
    kernel = find_backend(cupy.ndarray).kernels["normalize_relu_gradient"]  # type: ignore[union-attr]
    x, y = (cupy.asarray(draw(*shape, seed=seed).astype("float32")) for seed in (0, 1))
    t = cupy.broadcast_to(cupy.asarray(draw(64, 1, 1, 64).astype("float32")), shape)
    gain, ones = cupy.asarray(draw(64).astype("float32")), cupy.ones(64, "float32")
    params = {"axes": (0, 1, 2), "epsilon": 1e-3, "bias_shape": (64,)}
    made = [kernel(t, x, y, gain, 2 * ones, ones, **params) for _ in range(2)]
    calls: list[Any] = []
    monkeypatch.setattr(normalizing, "_gradient", lambda *args: calls.append(args))
    made.append(kernel(t, x, y, gain, 2 * ones, ones, **params))

    given = [cupy.asnumpy(a).astype("float64") for a in (t, x, y, gain, 2 * ones, ones)]
    wanted = expected("normalize_relu_gradient", *given, **params)
    for one in made:
        check(one, wanted, np.dtype("float32"))
    assert t.nbytes > 1 << 20
    assert not calls


def test_what_is_no_number_passes_a_relu_behind_a_normalisation() -> None:
    x = draw(64, 16).astype("float32")
    x[5, 3], x[7, 4] = np.nan, np.inf
    ones, zeros = cupy.ones((1, 16), "float32"), cupy.zeros((1, 16), "float32")

    y, *_ = normalizing.normalize_relu(cupy.asarray(x), ones, zeros, axes=(0,), epsilon=1e-3)

    is_bad = ~np.isfinite(cupy.asnumpy(y))
    assert is_bad[:, 3].all()
    assert is_bad[:, 4].any()
    assert not np.delete(is_bad, [3, 4], axis=1).any()


@pytest.mark.parametrize("center", [False, True])
def test_batch_normalisation_with_a_large_mean(center: bool) -> None:
    x = (draw(4096, 24, scale=1.0) + 1000.0).astype("float32")
    nothing = cupy.zeros((1, 1), "float32")
    params = {"axes": (0,), "epsilon": 0.0, "center": center, "scaled": False, "shifted": False}

    y, mean, variance = normalizing.normalize(cupy.asarray(x), nothing, nothing, **params)

    references = expected("normalize", x.astype("float64"), 0.0, 0.0, **params)
    np.testing.assert_allclose(cupy.asnumpy(variance), references[2], rtol=1e-4)
    np.testing.assert_allclose(cupy.asnumpy(y), references[0], atol=1e-3)
    np.testing.assert_allclose(cupy.asnumpy(mean), references[1], rtol=1e-6)


def test_other_axes_are_left_to_the_generic_kernel() -> None:
    normalize_both_ways((2, 6, 5), (1,), (1, 1, 5), DTYPES[3], DTYPES[3])
    normalize_both_ways((4, 5), (1,), (4, 1), DTYPES[3], DTYPES[3])


def test_gradients_are_the_same_every_time() -> None:
    x, t = (cupy.asarray(draw(3000, 264, seed=seed).astype("float32")) for seed in (0, 1))
    gain = cupy.ones((1, 264), "float32")
    params = {"axes": (1,), "epsilon": 1e-5, "center": True, "scaled": True}
    mean, variance = cupy.zeros((3000, 1), "float32"), cupy.ones((3000, 1), "float32")

    first, second = (
        normalizing.normalize_gradient(t, x, gain, mean, variance, bias_shape=(1, 264), **params)
        for _ in range(2)
    )

    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other))


# Size


def test_more_than_two_to_the_31_elements() -> None:
    count, length = 43000, 50304
    if cupy.cuda.runtime.memGetInfo()[0] < 16 * 2**30:
        pytest.skip("Needs 16 GiB of free memory on the device.")
    x = cupy.zeros((count, length), DTYPES[0])
    x[-1, -1] = 20.0
    labels = cupy.full(count, length - 1)

    loss, weights = rows.sparse_cross_entropy(x, labels)

    np.testing.assert_allclose(float(weights[-1, -1]), 1.0, atol=1e-2)
    np.testing.assert_allclose(float(loss[0]), np.log(length), rtol=1e-2)
    assert float(loss[-1]) < 1e-2


@pytest.mark.parametrize("length", LENGTHS)
def test_the_gradient_of_cross_entropy_sums_to_zero_for_large_logits(length: int) -> None:
    rng = np.random.default_rng(length)
    logits = cupy.asarray((1000 + rng.normal(size=(3, length))).astype(np.float32))
    labels = cupy.zeros((3, length), np.float32)
    labels[:, 0] = 1
    _, log_total = PRIMITIVES["cross_entropy"].kernel(cupy.ndarray)(logits, labels)
    t = cupy.ones(3, np.float32)
    gradient = PRIMITIVES["cross_entropy_gradient"].kernel(cupy.ndarray)(
        t, logits, labels, log_total
    )
    assert float(abs(gradient.sum(-1, dtype=np.float64)).max()) < 1e-6
