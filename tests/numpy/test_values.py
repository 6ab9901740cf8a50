"""Every function gives what NumPy gives: values, dtypes and shapes."""

from __future__ import annotations

import inspect
import math
import re
import warnings

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tests.numpy.calls import ALL_CALLS, ARRAYS, after

# Names that no call in the table shows, each with its reason.
ELSEWHERE = {
    "einsum_path": "gives a plan, not an array: test_namespace.py",
    "emath": "a module",
    "errstate": "NumPy's own",
    "fromfile": "files: test_namespace.py",
    "genfromtxt": "likewise",
    "fft": "a module",
    "frompyfunc": "gives objects in NumPy: test_namespace.py",
    "get_printoptions": "NumPy's own",
    "geterr": "NumPy's own",
    "in1d": "gone from NumPy",
    "seterrcall": "NumPy's own",
    "setbufsize": "NumPy's own",
    "get_include": "NumPy's own",
    "getbufsize": "NumPy's own",
    "geterrcall": "NumPy's own",
    "lib": "a module",
    "linalg": "a module",
    "load": "files: test_namespace.py",
    "loadtxt": "likewise",
    "printoptions": "NumPy's own",
    "random": "a module: test_random.py",
    "row_stack": "gone from NumPy; it is vstack",
    "save": "files: test_namespace.py",
    "savetxt": "likewise",
    "savez": "likewise",
    "savez_compressed": "likewise",
    "set_printoptions": "NumPy's own",
    "seterr": "NumPy's own",
    "special": "a module: test_special.py",
}


def run(call, module, arrays):
    names = {"np": module, "math": math, "after": after, **arrays}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of NaN and such
        return eval(call, names)


def tensors():
    return {name: tnp.asarray(value) for name, value in ARRAYS.items()}


def assert_same(ours, theirs):
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other)
    elif isinstance(theirs, np.ndarray | np.generic) and not isinstance(theirs, np.bool):
        assert isinstance(ours, tapegrad.Tensor) or np.isscalar(ours)
        mine = ours.numpy() if isinstance(ours, tapegrad.Tensor) else ours
        assert (np.asarray(mine).dtype, np.shape(mine)) == (theirs.dtype, theirs.shape)
        tolerance = 1e-6 if theirs.dtype.itemsize // (1 + (theirs.dtype.kind == "c")) < 8 else 1e-10
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    else:
        assert bool(ours == theirs)


@pytest.mark.parametrize("call", ALL_CALLS)
def test_the_result_is_numpys(call):
    assert_same(run(call, tnp, tensors()), run(call, np, dict(ARRAYS)))


def shown_names():
    return {name for call in ALL_CALLS for name in re.findall(r"np\.(\w+)", call)}


def is_function(value):
    is_kind = isinstance(value, type | tapegrad.DType)
    return not is_kind and (callable(value) or inspect.ismodule(value))


def test_every_function_is_in_the_table():
    functions = {name for name in tnp.__all__ if is_function(getattr(tnp, name))}

    assert functions - shown_names() - ELSEWHERE.keys() - {"__array_namespace_info__"} == set()


def test_no_name_is_excused_in_vain():
    assert ELSEWHERE.keys() - set(tnp.__all__) - {"errstate", "printoptions"} == set()


# In single precision a remainder that NumPy takes for zero may differ by a rounding; series of
# polynomials keep single precision here, where NumPy doubles some: a test of their own is below.
SINGLE = [
    call
    for call in ALL_CALLS
    if not re.search(r"np\.polydiv|np\.polynomial", call) and re.search(r"\b[a-z]\b", call)
]


def in_single_precision(value):
    narrow = {"float64": "float32", "complex128": "complex64"}
    return value.astype(narrow.get(value.dtype.name, value.dtype))


@pytest.mark.parametrize("call", SINGLE)
def test_dtypes_are_numpys_in_single_precision(call):
    arrays = {name: in_single_precision(value) for name, value in ARRAYS.items()}
    theirs = run(call, np, arrays)
    ours = run(call, tnp, {name: tnp.asarray(value) for name, value in arrays.items()})

    assert kinds_of(ours) == kinds_of(theirs)


def kinds_of(result):
    if isinstance(result, list | tuple):
        return [kinds_of(part) for part in result]
    is_array = isinstance(result, np.ndarray | np.generic | tapegrad.Tensor)
    return str(result.dtype) if is_array else None


# Points that are made by themselves are in double precision.
SERIES = [
    call
    for call in ALL_CALLS
    if re.search(r"np\.polynomial.*\bv", call) and not re.search("linspace|interpolate", call)
]


@pytest.mark.parametrize("call", SERIES)
def test_series_keep_single_precision(call):
    arrays = {name: tnp.asarray(in_single_precision(value)) for name, value in ARRAYS.items()}
    kinds = kinds_of(run(call, tnp, arrays))

    assert set(kinds if isinstance(kinds, list) else [kinds]) == {"float32"}
