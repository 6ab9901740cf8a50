"""The module as a namespace: the Array API's inspection, DLPack, methods, out=, messages."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tests.house.sources import ROOT


def test_an_array_is_a_tensor_and_no_subclass_of_ndarray():
    x = tnp.zeros(3)

    assert type(x) is tapegrad.Tensor is tnp.ndarray
    assert not isinstance(x, np.ndarray)


@pytest.mark.parametrize("kind", [tapegrad.Variable, tapegrad.constant])
def test_an_array_knows_its_namespace(kind):
    x = kind([1.0])

    assert x.__array_namespace__() is tnp
    assert x.__array_namespace__(api_version="2025.12") is tnp
    assert tnp.__array_api_version__ == "2025.12"


def test_an_unknown_version_of_the_standard_is_refused():
    with pytest.raises(ValueError, match=r"follows the Array API up to 2025.12. Got .*'2099.12'"):
        tnp.zeros(1).__array_namespace__(api_version="2099.12")


def test_inspection():
    info = tnp.__array_namespace_info__()

    assert info.default_device() in info.devices()
    assert info.capabilities()["data-dependent shapes"]
    assert info.default_dtypes()["integral"] == tnp.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert "bool" in info.dtypes()
    with pytest.raises(ValueError, match="kind must be one of bool"):
        info.dtypes(kind="decimal")


def test_python_floats_are_float64_here_and_float32_in_tensorflows_part():
    assert tnp.asarray([1.0]).dtype == tnp.sin(1.0).dtype == "float64"
    assert tapegrad.constant([1.0]).dtype == "float32"
    assert (tapegrad.constant([1.0]) + tnp.asarray(1, dtype="float32")).dtype == "float32"


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_list_of_floats_beside_integers_is_not_rounded(kind):
    x = tnp.asarray([1, 2], dtype=kind)

    assert (x * [0.1, 0.2]).tolist() == [0.1, 0.4]


def test_a_list_of_arrays_becomes_an_array_with_gradients():
    x = tnp.asarray(3.0)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = (tnp.array([x, [2.0, x][1], 1]) ** 2).sum()

    assert float(tape.gradient(y, x)) == 12.0


def test_a_copy_is_written_to_by_itself():
    x = tnp.arange(3)
    y = x.copy()
    z = tnp.asarray(x)
    y[0], z[1] = 7, 9

    assert (x.tolist(), y.tolist()) == ([0, 9, 2], [7, 1, 2])


def test_dlpack_goes_both_ways():
    x = tnp.from_dlpack(np.arange(3.0))

    assert np.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    assert np.from_dlpack(x, copy=True).tolist() == [0.0, 1.0, 2.0]
    assert tnp.from_dlpack(x, copy=True).tolist() == [0.0, 1.0, 2.0]
    assert x.__dlpack_device__()[0] == 1


def test_a_copy_through_dlpack_has_memory_of_its_own():
    theirs = np.array([1.0, -0.0])
    copied, shared = tnp.from_dlpack(theirs, copy=True), tnp.from_dlpack(theirs)
    given = np.from_dlpack(copied, copy=True)
    theirs[0] = 9.0
    given[0] = 7.0

    assert (shared.tolist(), copied.tolist()) == ([9.0, -0.0], [1.0, -0.0])
    assert np.signbit(copied.numpy()[1])  # nothing was added


def test_a_copy_of_a_tensor_through_dlpack_has_memory_of_its_own_and_a_gradient():
    theirs = np.array([1.0, -0.0])
    x = tnp.from_dlpack(theirs)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        copied, shared = tnp.from_dlpack(x, copy=True), tnp.from_dlpack(x)
        y = tnp.sum(copied * 3.0)
    theirs[0] = 9.0

    assert (shared.tolist(), copied.tolist()) == ([1.0, -0.0], [1.0, -0.0])  # a tape uses them
    assert np.signbit(copied.numpy()[1])
    assert tape.gradient(y, x).tolist() == [3.0, 3.0]


def test_zero_keeps_its_sign():
    made = (
        tnp.asarray(-0.0), tnp.full((), -0.0), tnp.full((2,), -0.0), tapegrad.constant(-0.0),
        tapegrad.fill((3,), -0.0), tnp.zeros(2) * -1.0, tnp.asarray([-0.0, -0.0]),
    )  # fmt: skip

    for x in made:
        assert np.signbit(x.numpy()).all()


def test_a_variable_has_the_methods_too():
    v = tapegrad.Variable([[1.0, 2.0], [3.0, 4.0]])

    assert v.T.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert v.sum(axis=0).tolist() == [4.0, 6.0]


def test_methods_work_inside_vmap():
    x = tnp.arange(6.0).reshape(3, 2)

    assert tapegrad.vmap(lambda row: row.sum() + row.max())(x).tolist() == [2.0, 8.0, 14.0]


def test_importing_the_package_loads_no_method_and_a_method_loads_them_all():
    code = (
        "import sys, tapegrad; x = tapegrad.constant([1.0]);"
        "before = 'tapegrad.numpy' in sys.modules; x.sum();"
        "print(before, 'tapegrad.numpy' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")])}

    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )

    assert answer.stdout.split() == ["False", "True"]


def test_scipy_takes_tensors_through_the_standard():
    code = (
        "import tapegrad, scipy.stats, tapegrad.numpy as np;"
        "x = np.linspace(0.1, 0.9, 5);"
        "tape = tapegrad.GradientTape(); tape.__enter__(); tape.watch(x);"
        "y = scipy.stats.zscore(x)[0];"
        "print(type(y).__name__, tape.gradient(y, x).round(3).tolist()[0])"
    )
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    environment = {**os.environ, "PYTHONPATH": paths, "SCIPY_ARRAY_API": "1"}

    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )

    assert answer.stdout.split() == ["Tensor", "1.414"]


def test_functions_can_be_pickled():
    for function in (tnp.sin, tnp.add, tnp.sum, tnp.special.erf, tnp.special.beta):
        assert pickle.loads(pickle.dumps(function)) is function


def test_out_receives_the_result():
    place = tnp.zeros(2)

    assert tnp.sin([0.0, 1.0], out=place) is place
    assert tnp.add([1.0, 2.0], 1.0, out=(place,)) is place
    assert place.tolist() == [2.0, 3.0]


def test_a_dtype_makes_an_array():
    assert (tnp.float32(3).dtype, tnp.int64([1, 2]).tolist()) == ("float32", [1, 2])


def test_no_dtype_is_none():
    assert tnp.float64 != None  # noqa: E711 -- NumPy takes None for float64


def test_at_changes_a_copy():
    x = tnp.asarray([1.0, 2.0, 3.0])

    assert x.at[1].set(9).tolist() == [1.0, 9.0, 3.0]
    assert x.at[[0, 0]].add(1.0).tolist() == [3.0, 2.0, 3.0]
    assert x.at[:2].multiply(2.0).tolist() == [2.0, 4.0, 3.0]
    assert x.at[:2].divide(2.0).tolist() == [0.5, 1.0, 3.0]
    assert x.at[2].power(2.0).tolist() == [1.0, 2.0, 9.0]
    assert x.at[0].subtract(1.0).tolist() == [0.0, 2.0, 3.0]
    assert x.at[:].max(2.0).tolist() == [2.0, 2.0, 3.0]
    assert x.at[:].min(2.0).tolist() == [1.0, 2.0, 2.0]
    assert x.at[1].apply(lambda v: -v).tolist() == [1.0, -2.0, 3.0]
    assert x.at[1].get().tolist() == 2.0
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_files():
    file, archive = io.BytesIO(), io.BytesIO()
    tnp.save(file, tnp.arange(3))
    tnp.savez(archive, a=tnp.arange(2))
    file.seek(0)
    archive.seek(0)
    text = io.StringIO()
    tnp.savetxt(text, tnp.arange(2.0))
    text.seek(0)

    assert tnp.load(file).tolist() == [0, 1, 2]
    assert tnp.load(archive)["a"].tolist() == [0, 1]
    assert tnp.loadtxt(text).tolist() == [0.0, 1.0]
    assert tnp.genfromtxt(io.StringIO("1 2")).tolist() == [1.0, 2.0]


def test_files_on_a_disk(tmp_path):
    tnp.savez_compressed(tmp_path / "a.npz", a=tnp.arange(2))
    (tmp_path / "raw").write_bytes(tnp.arange(2.0).tobytes())

    assert tnp.load(tmp_path / "a.npz")["a"].tolist() == [0, 1]
    assert tnp.fromfile(tmp_path / "raw").tolist() == [0.0, 1.0]


def test_einsum_path_is_numpys():
    x = tnp.ones((2, 3))

    assert tnp.einsum_path("ij,kj->ik", x, x)[0] == ["einsum_path", (0, 1)]


def test_a_function_of_numbers_becomes_one_of_arrays():
    function = tnp.frompyfunc(lambda a, b: (a + b, a * b), 2, 2)

    assert [part.tolist() for part in function([1.0, 2.0], 3.0)] == [[4.0, 5.0], [3.0, 6.0]]
    assert (function.nin, function.nout) == (2, 2)


WORDS = {
    "np.frompyfunc(abs, 1, 1)(x, x)": "takes 1 arrays. Got 2",
    "np.format_float_positional(x)": "takes one number. Got an array of shape (3,)",
    "np.lib.stride_tricks.as_strided(x, (4,), (8,))": "exceeds the array of shape (3,)",
    "np.lib.stride_tricks.as_strided(x, (2,), (3,))": "in multiples of 8 bytes",
    "np.lib.stride_tricks.as_strided(x, writeable=True)": "writeable=True is not supported",
    "np.zeros(2, order='F')": "Tensors only have order 'C'",
    "np.zeros_like(x, order='F')": "Tensors only have order 'C'",
    "np.eye(2, order='F')": "Tensors only have order 'C'",
    "x.astype('float32', order='F')": "Tensors only have order 'C'",
    "np.require(x, requirements=['F'])": "Tensors only have order 'C'",
    "np.array([[1.0]], ndmax=1)": "ndmax=1 got lists of depth 2",
    "np.sort(x, kind='bubble')": "kind must be one of quicksort",
    "np.sort(x, order='name')": "no fields to sort by",
    "np.argsort(x, kind='stable', stable=True)": "Give kind or stable, not both",
    "np.partition(x, 3)": "kth must be below 3",
    "np.argpartition(x, 1, kind='quick')": "kind must be 'introselect'",
    "np.isin(x, x, kind='hash')": "kind must be 'sort', 'table' or None",
    "np.histogram(x, 'auto', weights=x)": "takes no weights",
    "np.einsum('i->', x, dtype='float32')": "cannot cast float64 to float32",
    "np.quantile(x, 0.5, weights=x)": "need method='inverted_cdf'",
    "np.quantile(x, 0.5, method='inverted_cdf', weights=[-1, 1, 1])": "Weights must be finite and",
    "np.quantile(x, 0.5, method='inverted_cdf', weights=[1.0])": "Weights must have the shape",
    "np.interp(x, [0.0, 2.0, 1.0], x)": "points xp in increasing order",
    "np.polynomial.Polynomial([1.0]) + np.polynomial.Chebyshev([1.0])": "use convert()",
    "np.polynomial.Polynomial([1.0], [0, 1, 2])": "A domain must be a pair of numbers",
    "np.polynomial.Polynomial([1.0], symbol='2')": "symbol must be a name",
    "np.polynomial.polynomial.polypow(x, -1)": "The power of a series must be an integer >= 0",
    "np.polynomial.chebyshev.chebpow(x, 17)": "exceeds maxpower=16",
    "np.polynomial.chebyshev.chebder(x, -1)": "The order of derivatives must be an integer >= 0",
    "np.polynomial.chebyshev.chebadd(x, [[1.0]])": "A series needs a vector",
    "np.polynomial.chebyshev.chebfit(x, [1.0], 1)": "as many values as points",
    "np.poly1d(x) ** -1": "The power of a polynomial must be an integer >= 0",
    "np.poly1d([[1.0]])": "A polynomial needs a vector",
    "np.result_type()": "needs at least one array or dtype",
    "np.finfo('int8')": "finfo needs a floating-point dtype. Got int8",
    "np.iinfo('float32')": "iinfo needs an integer dtype. Got float32",
    "np.isdtype('int8', 'whole')": "kind must be one of bool",
    "np.asarray([1.0], order='F')": "Tensors only have order 'C'",
    "np.asarray([1.0], copy=False)": "must copy a list",
    "np.asarray(x, dtype='float32', copy=False)": "without a copy",
    "np.arange(1, 2, 0)": "a nonzero step",
    "np.linspace(0, 1, -1)": "num >= 0",
    "np.concatenate([])": "at least one array. Got none",
    "np.split(x, 4)": "cannot divide 3 entries into 4 equal parts",
    "np.where(x > 0, 1)": "both x and y, or neither",
    "np.max(x, where=x > 0)": "needs initial=",
    "np.var(x, ddof=1, correction=1)": "Give ddof or correction, not both",
    "np.quantile(x, 2.0)": "q must lie between 0 and 1",
    "np.quantile(x, 0.5, method='best')": "method must be one of linear",
    "np.average(x, weights=[1.0])": "needs axis=",
    "np.nanargmax([math.nan])": "A slice contains only NaN",
    "np.digitize(x, [1.0, 0.0, 2.0])": "monotonic bins",
    "np.searchsorted(x, x, side='middle')": "side must be 'left' or 'right'",
    "np.cross([1, 2, 3, 4], [1, 2, 3, 4])": "vectors of length 2 or 3",
    "np.linalg.inv(np.ones((2, 3)))": "inv needs square matrices",
    "np.linalg.qr(np.eye(2), mode='full')": "mode must be 'reduced', 'complete' or 'r'",
    "np.gradient(x, 1.0, 2.0)": "needs no spacing, one spacing, or one",
    "np.interp(x, [0.0, 1.0], [1.0])": "as many points as values",
    "np.polyfit(x, [1.0], 1)": "as many values as points",
    "np.sin(x, out=[0.0])": "out= must be a tensor",
    "np.sin(x, out=np.zeros(3, dtype='int64'))": "cannot be written to out= of int64",
    "np.block([[x], x])": "lists of equal depth",
    "np.ix_([[1]])": "ix_ needs vectors",
    "np.bincount([0.5])": "bincount needs integers",
    "np.select([], [])": "as many conditions as choices",
    "np.subtract.reduce(np.zeros(0))": "reduce of an empty axis has no value",
    "np.asarray_chkfinite([math.nan])": "found NaN or infinity",
    "np.bitwise_count([0.5])": "bitwise_count needs integers",
    "np.unstack(1.0)": "unstack needs an array with axes",
    "x.to_device('cpu', stream=1)": "does not support streams",
    "np.asarray(None)": "Got None",
    "np.asarray('text')": "Got the text 'text'",
}


@pytest.mark.parametrize("call", WORDS)
def test_what_is_wrong_is_said_in_words(call):
    import math

    with pytest.raises((ValueError, TypeError)) as error:
        eval(call, {"np": tnp, "math": math, "x": tnp.asarray([0.5, 1.5, 2.5])})

    assert WORDS[call] in str(error.value)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "min", "max"])
@pytest.mark.parametrize(
    "index",
    [[0, 2, 0, 0], ([0, 1, 1], [2, 0, 0]), [[1, 1], [1, 0]]],
    ids=["rows", "pairs", "table"],
)
def test_all_values_of_a_repeated_index_count(name, index):
    ufunc = {"min": np.minimum, "max": np.maximum}.get(name) or getattr(np, name)
    rng = np.random.default_rng(0)
    start = rng.uniform(1, 2, size=(3, 4))
    values = rng.uniform(0.5, 3, size=start[index].shape)
    expected = start.copy()
    ufunc.at(expected, index, values)

    x, v = tnp.asarray(start), tnp.asarray(values)
    with tapegrad.GradientTape() as tape:
        tape.watch([x, v])
        changed = getattr(x.at[index], name)(v)
        total = tnp.sum(changed * changed)

    np.testing.assert_allclose(changed.numpy(), expected, rtol=1e-14)
    step = rng.normal(size=values.shape)

    def risen(size):
        moved = start.copy()
        ufunc.at(moved, index, values + size * step)
        return (moved**2).sum()

    slope = float((tape.gradient(total, v).numpy() * step).sum())
    assert slope == pytest.approx((risen(1e-6) - risen(-1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.concatenate([x, x], dtype="int64", casting="same_kind"),
        lambda xp, x: xp.stack([x, x], dtype="float32", casting="safe"),
        lambda xp, x: xp.vstack([x], dtype="int64"),
        lambda xp, x: xp.copyto(xp.zeros(2, dtype="int64"), x),
        lambda xp, x: x.astype("float32", casting="safe"),
        lambda xp, x: xp.nanvar(x, ddof=1, correction=1),
    ],
    ids=["concatenate", "stack", "vstack", "copyto", "astype", "nanvar"],
)
def test_what_numpy_refuses_is_refused(call):
    for xp in (np, tnp):
        with pytest.raises((TypeError, ValueError)):
            call(xp, xp.asarray([1.0, 2.0]))


def test_results_are_written_where_out_says():
    place, numbers = tnp.zeros((1, 1)), [tnp.asarray([[2.0]])] * 3

    assert tnp.linalg.multi_dot(numbers, out=place) is place
    assert place.tolist() == [[8.0]]
    for draw in ("random", "standard_normal"):
        drawn = tnp.zeros(3)
        assert getattr(tnp.random.default_rng(1), draw)(out=drawn) is drawn
        assert drawn.tolist() == getattr(tnp.random.default_rng(1), draw)(3).tolist()
