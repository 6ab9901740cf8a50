"""A pytest plug-in that adds tapegrad to the namespaces of scikit-learn's array API tests.

The tests are parametrized over the names that functions of `sklearn.utils._array_api` yield, so
these functions are replaced before pytest imports the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sklearn.utils._array_api as array_api
from outcomes import NAMESPACE


def _namespaces(include_numpy_namespaces: bool = True) -> Iterator[str]:
    """Stand in for `yield_namespaces`."""
    yield NAMESPACE


def _combinations(include_numpy_namespaces: bool = True) -> Iterator[tuple[str, Any, Any]]:
    """Stand in for `yield_namespace_device_dtype_combinations`: both dtypes, as for torch."""
    yield NAMESPACE, "cpu", "float64"
    yield NAMESPACE, "cpu", "float32"


def _mixtures() -> Iterator[tuple[Any, Any, str]]:
    """Stand in for `yield_mixed_namespace_input_permutations`."""
    ours = array_api.NamespaceAndDevice(NAMESPACE, "cpu")
    theirs = array_api.NamespaceAndDevice("numpy", None)
    strict = array_api.NamespaceAndDevice("array_api_strict", "device1")
    yield ours, theirs, "tapegrad to numpy"
    yield theirs, ours, "numpy to tapegrad"
    yield strict, ours, "array_api_strict to tapegrad"


array_api.yield_namespaces = _namespaces
array_api.yield_namespace_device_dtype_combinations = _combinations
array_api.yield_mixed_namespace_input_permutations = _mixtures
