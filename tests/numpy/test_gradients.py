"""Every call in the table that has floating results is differentiated, in reverse and forward."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest

import tapegrad.numpy as tnp
from tapegrad.testing.checks import check_batching, check_jvp, check_vjp
from tapegrad.testing.sample import Sample, fixed
from tests.numpy.calls import ALL_CALLS, ARRAYS, after

FLOATS = {name for name, value in ARRAYS.items() if value.dtype in ("float64", "complex128")}

# Calls whose results move in steps, or not with their arrays at all, each with its reason.
NO_DERIVATIVE = {
    "np.nextafter(x, y)": "the neighbour is a rounding of x",
    "np.spacing(x)": "likewise",
    "np.histogram(x, 4)": "the edges of bins are read on the host",
    "np.histogram(x, 3, density=True)": "likewise",
    "np.histogram(x, 3, weights=u)": "likewise",
    "np.histogram2d(x.ravel(), y.ravel(), 3)": "likewise",
    "np.histogram_bin_edges(x, 4)": "likewise",
}


def letters_in(call):
    """The floating arrays that a call names."""
    return [name for name in re.findall(r"\b([a-z])\b(?!\s*=[^=])", call) if name in FLOATS]


def flat(result):
    parts = result if isinstance(result, list | tuple) else [result]
    parts = [part for each in parts for part in (flat(each) if isinstance(each, tuple) else [each])]
    return tuple(part for part in parts if hasattr(part, "node") or hasattr(part, "level"))


def sample_of(call):
    letters = sorted(set(letters_in(call)))

    def function(*tensors):
        others = {name: tnp.asarray(value) for name, value in ARRAYS.items()}
        names = {"np": tnp, "math": math, "after": after, **others}
        names.update(zip(letters, tensors, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flat(eval(call, names))

    return Sample(call, function, [fixed(ARRAYS[name]) for name in letters])


def has_slope(call):
    if call in NO_DERIVATIVE or not letters_in(call):
        return False
    sample = sample_of(call)
    results = sample.function(*[tnp.asarray(a) for a in sample.make()])
    return any(result.dtype.name in ("float64", "complex128") for result in results)


SLOPES = [call for call in ALL_CALLS if has_slope(call)]


@pytest.mark.parametrize("call", SLOPES)
@pytest.mark.filterwarnings("ignore")
def test_reverse_mode_agrees_with_differences(call):
    with np.errstate(all="ignore"):
        check_vjp(sample_of(call))


@pytest.mark.parametrize("call", SLOPES)
@pytest.mark.filterwarnings("ignore")
def test_forward_mode_agrees_with_differences(call):
    with np.errstate(all="ignore"):
        check_jvp(sample_of(call))


# Calls that look at values in Python, which vmap refuses with a sentence.
READS_VALUES = (
    *("np.real_if_close", "np.nanarg", "np.unique", "np.asarray_chkfinite", "np.from_dlpack"),
    *("np.polymul", "np.polydiv", "np.poly(m)", "np.histogram", "np.linalg.lstsq", "after("),
    *(
        "np.polyfit(v, w, 1, cov=True)",
        "np.sin(x, where=x > 0, out=",
        "np.emath.",
        "np.modf(p, out=",
    ),
)


def reads_values(call):
    """Also the degree of a poly1d, and the range of points to which a series is fitted."""
    return call.startswith(READS_VALUES) or "np.poly1d" in call or re.search(r"[A-Z]\w+\.fit", call)


@pytest.mark.parametrize("call", [call for call in SLOPES if not reads_values(call)])
@pytest.mark.filterwarnings("ignore")
def test_a_batched_call_equals_a_loop(call):
    with np.errstate(all="ignore"):
        check_batching(sample_of(call))


def test_most_calls_have_a_derivative():
    assert len(SLOPES) > 400
