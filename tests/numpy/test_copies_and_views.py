"""What is a view and what is a copy agrees with NumPy, for all functions and methods.

Each function is called with an array and with a tensor, and the result is overwritten. The argument
changes in both cases or in neither. A result that NumPy makes read-only refuses the write.
"""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp

ARGUMENTS = [(), (0,), (1,), ((2, 6),), (0, 1), (None,), ([1, 2], 0), (2, 1)]
BASES = [
    np.arange(12.0).reshape(3, 4) + 1,
    np.arange(4.0) + 1,
    np.ones((1, 3, 1)),
    np.arange(12.0).reshape(3, 4) * (1 + 2j),
    np.arange(9.0).reshape(3, 3),
]
METHODS = [
    *("T", "mT", "real", "imag", "ravel", "flatten", "reshape", "view"),
    *("swapaxes", "transpose", "squeeze", "diagonal", "copy", "astype", "conj"),
    *("conjugate", "clip", "round", "take", "repeat", "compress", "choose"),
    *("__copy__", "__deepcopy__"),
]
NOT_FUNCTIONS_OF_AN_ARRAY = {
    *("save", "savez", "savez_compressed", "savetxt", "load", "fromfile", "show_config"),
    *("fromfunction", "apply_along_axis", "apply_over_axes", "piecewise", "frompyfunc"),
    *("common_type", "min_scalar_type", "result_type"),
}
REFUSES_WHERE_NUMPY_WARNS = {"broadcast_arrays"}
WRITE_TO_ARGUMENTS = {"put", "place", "copyto", "fill_diagonal", "putmask"}
NAMES = [
    name
    for name in dir(tnp)
    if not name.startswith("_")
    and callable(getattr(tnp, name))
    and callable(getattr(np, name, None))
    and not inspect.isclass(getattr(np, name))
    and name not in NOT_FUNCTIONS_OF_AN_ARRAY | WRITE_TO_ARGUMENTS | REFUSES_WHERE_NUMPY_WARNS
]


def values_of(x):
    return np.array(x.numpy() if hasattr(x, "numpy") else x)


def effects_of_writing(function, x):
    """Overwrite each result of `function(x)`; return what happened, None if the call failed."""
    try:
        result = function(x)
    except Exception:
        return None
    return [
        effect_of_writing(y, x) for y in (result if isinstance(result, list | tuple) else [result])
    ]


def effect_of_writing(y, x):
    if not hasattr(y, "shape") or isinstance(y, np.generic):
        return "copy"  # a number
    before = values_of(x)
    try:
        y[...] = True if y.dtype == bool else 77
    except (ValueError, TypeError):
        return "refused"
    return "copy" if np.array_equal(before, values_of(x)) else "reaches the argument"


def disagreements(function):
    for arguments, base in product(ARGUMENTS, BASES):
        of_numpy = effects_of_writing(partial(function, np, rest=arguments), base.copy())
        if of_numpy is not None:
            tensor = tapegrad.constant(base)
            ours = effects_of_writing(partial(function, tnp, rest=arguments), tensor)
            if ours not in (None, of_numpy):
                yield arguments, base.shape, of_numpy, ours


@pytest.mark.parametrize("name", NAMES)
def test_results_of_functions(name):
    if name == "frombuffer" and tapegrad.constant(0.0).device != "cpu":
        return  # a buffer is in host memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(disagreements(lambda xp, x, rest: getattr(xp, name)(x, *rest)))

    assert found == []


@pytest.mark.parametrize("name", METHODS)
def test_results_of_methods(name):
    def call(_, x, rest):
        member = getattr(x, name)
        return member(*rest) if callable(member) else member

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(disagreements(call)) == []
