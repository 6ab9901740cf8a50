"""Every function of NumPy that asks its arguments is answered, or refused with a sentence.

Each is called with tensors that a tape follows, and falls under one heading: `recorded` (some
result is followed), `without derivative` (an answer that no tape can follow: truth values, indices,
shapes, files), or `refused`. None takes a tensor through `__array__`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from numpy.testing import overrides

import tapegrad
import tapegrad.numpy as tnp
from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.interface import numpy_protocol, operators
from tests.numpy.calls import ARRAYS, CALLS, after
from tests.numpy.test_gradients import flat
from tests.numpy.test_protocol import asks_tensors

for _name in ("char", "fft", "lib.recfunctions", "lib.scimath", "polynomial", "strings"):
    importlib.import_module(f"numpy.{_name}")

# Functions that the table of calls shows on lists only, or not at all.
MORE_CALLS = """
np.amax(x)
np.arange(3, like=x)
np.array([1.0], like=x)
np.asanyarray([1.0], like=x)
np.asarray([1.0], like=x)
np.ascontiguousarray([1.0], like=x)
np.can_cast(x, "float32")
np.copyto(x, y)
np.divmod(x, 0.3)
np.einsum_path("ij,kj", x, y)
np.empty((2,), like=x)
np.eye(2, like=x)
np.fill_diagonal(m, 0.0)
np.float_power(p, u)
np.frombuffer(b"abcdefgh", dtype="uint8", like=x)
np.fromfile(path / "numbers", like=x)
np.fromfunction(lambda a, b: a + b, (2, 2), like=x)
np.fromiter([1.0, 2.0], "float64", like=x)
np.full((2,), 1.0, like=x)
np.full_like(x, v[0])
np.genfromtxt(["1 2"], like=x)
np.histogram2d(v, v, 3, weights=w)
np.histogramdd(v[:, None], 3, weights=w)
np.identity(2, like=x)
np.intersect1d(v, v)
np.ix_(k, k)
np.linalg.eig(m)
np.loadtxt(["1 2"], like=x)
np.min_scalar_type(x)
np.ones((2,), like=x)
np.place(x, b, v)
np.polynomial.polynomial.polygrid2d(v, w, x)
np.polynomial.polynomial.polyval2d(v, w, x)
np.put(x, [0], v)
np.put_along_axis(x, k[:, None], 0.0, axis=1)
np.putmask(x, b, v)
np.ravel_multi_index((k, k), (3, 3))
np.require([1.0], like=x)
np.result_type(x, f)
np.roots(v)
np.save(path / "x.npy", x)
np.savetxt(path / "x.txt", x)
np.savez(path / "x.npz", x)
np.savez_compressed(path / "y.npz", x)
np.setdiff1d(v, w)
np.setxor1d(v, w)
np.tri(3, like=x)
np.trim_zeros(v)
np.union1d(v, w)
np.unique_all(v)
np.unique_counts(v)
np.unique_inverse(v)
np.unique_values(v)
np.unpackbits(np.packbits(b))
np.unravel_index(k, (3, 3))
np.zeros((2,), like=x)
np.asfortranarray([1.0], like=x)
np.fromstring("1 2", sep=" ", like=x)
""".strip().split("\n")

# What does not support tensors, by module or by name: text, dates, fields, columns first.
REFUSED_MODULES = ("numpy.char", "numpy.lib.recfunctions", "numpy.strings")
REFUSED = {
    *("asfortranarray", "busday_count", "busday_offset", "datetime_as_string", "fromstring"),
    *("is_busday", "isnat"),
}
TEXT_UFUNCS = {
    *("_center", "_expandtabs", "_expandtabs_length", "_ljust", "_lstrip_chars", "_partition"),
    *("_lstrip_whitespace", "_partition_index", "_replace", "_rjust", "_rpartition", "_slice"),
    *("_rpartition_index", "_rstrip_chars", "_rstrip_whitespace", "_strip_chars", "_zfill"),
    *("_strip_whitespace", "count", "endswith", "find", "index", "isalnum", "isalpha"),
    *("isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "rfind"),
    *("rindex", "startswith", "str_len"),
}


def key_of(function):
    """A function's home and name: NumPy counts some twice, for their parameter `like`."""
    return getattr(function, "__module__", "numpy.ufunc"), function.__name__


def overridable():
    functions = overrides.get_overridable_numpy_array_functions()
    ufuncs = overrides.get_overridable_numpy_ufuncs()
    return sorted(functions | ufuncs, key=key_of)


class Watch:
    """Notes who is asked for an answer, what the answer is, and who reads `__array__`."""

    def __init__(self, patch):
        self.heading = {}
        self.left = []
        self._depth = 0
        operators._protocol()  # fills the table below
        patch.setattr(operators, "_functions_of_ufuncs", {})  # which leaves out `call_ufunc`
        for name in ("call_function", "call_ufunc"):
            patch.setattr(numpy_protocol, name, self._noting(getattr(numpy_protocol, name)))
        read = Tensor.__array__
        patch.setattr(
            Tensor, "__array__", lambda x, *a, **k: self.left.append(x) or read(x, *a, **k)
        )

    def _noting(self, call):
        def noted(function, *rest):
            self._depth += 1
            try:
                result = call(function, *rest)
                heading = "recorded" if is_followed(result, rest) else "without derivative"
            except tapegrad.errors.ArgumentTypeError as error:
                heading = f"refused: {error}"
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._note(key_of(function), heading)
            return result

        return noted

    def _note(self, key, heading):
        if self.heading.get(key) != "recorded":
            self.heading[key] = heading


def is_followed(result, rest):
    if result is None:  # the function wrote into its first argument
        result = next(args for args in rest if isinstance(args, tuple))[0]
    parts = flat(result) if isinstance(result, list | tuple) else flat([result])
    return any(part.node is not None for part in parts)


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.arange(3.0).tofile(folder / "numbers")
    calls = [call for call in CALLS if asks_tensors(call)] + MORE_CALLS
    with pytest.MonkeyPatch.context() as patch:
        noted = Watch(patch)
        for call in calls:
            evaluate(lambda names, call=call: eval(call, names), folder)
        for function in overridable():
            if key_of(function) not in noted.heading:
                evaluate(lambda names, f=function: f(*[names["x"]] * needed(f)), folder)
    return noted


def evaluate(call, folder):
    x = {name: tnp.asarray(value) for name, value in ARRAYS.items()}
    floats = [value for value in x.values() if value.dtype.is_differentiable]
    with warnings.catch_warnings(), tapegrad.GradientTape() as tape:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "A tensor that a tape follows")
        tape.watch(floats)
        # Which functions refuse, and in which words, is looked at in what `Watch` notes.
        with contextlib.suppress(tapegrad.errors.ArgumentTypeError):
            call({"np": np, "math": math, "after": after, "path": folder, **x})


def needed(function):
    if isinstance(function, np.ufunc):
        return function.nin
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def is_refusable(key):
    module, name = key
    return module in REFUSED_MODULES or name in REFUSED | TEXT_UFUNCS


def test_no_function_is_left_out(watch):
    assert [key for key in map(key_of, overridable()) if key not in watch.heading] == []


def test_only_text_dates_and_fields_are_refused(watch):
    refused = [key for key in map(key_of, overridable()) if "refused" in watch.heading[key]]

    assert [key for key in refused if not is_refusable(key)] == []
    assert [key for key in map(key_of, overridable()) if is_refusable(key)] == refused


def test_refusals_name_another_way(watch):
    sentences = {text for text in watch.heading.values() if text.startswith("refused")}

    for sentence in sentences:
        assert "does not support tensors" in sentence
        assert re.search(r"(x\.numpy\(\)|tapegrad\.numpy\.\w+)", sentence), sentence


def test_at_least_four_of_five_have_answers(watch):
    counts = Counter(watch.heading[key].split(":")[0] for key in map(key_of, overridable()))
    answered = counts["recorded"] + counts["without derivative"]

    assert answered >= 0.8 * counts.total()
    assert counts["recorded"] >= 250


def test_no_tensor_leaves_through_array(watch):
    assert watch.left == []
