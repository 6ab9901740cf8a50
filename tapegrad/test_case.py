# ruff: noqa: PT009  # these are the assertions of unittest
"""`tapegrad.test.TestCase`: assertions on tensors and arrays for Python's unittest."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable


def _host(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor | Variable) else np.asarray(value)


class TestCase(unittest.TestCase):
    """Python's TestCase with assertions about tensors, arrays, and lists and dicts of these.

    >>> TestCase().assertAllClose([1.0, 2.0], (1.0, 2.0 + 1e-9))
    """

    def evaluate(self, tensors: Any) -> Any:
        """Return tensors as NumPy arrays."""
        if isinstance(tensors, Mapping):
            return {key: self.evaluate(value) for key, value in tensors.items()}
        if isinstance(tensors, list | tuple):
            return type(tensors)(self.evaluate(value) for value in tensors)
        return _host(tensors)

    def get_temp_dir(self) -> str:
        """Return a new folder, which is removed after the test."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    @contextmanager
    def session(self, *_: Any, **__: Any) -> Iterator[None]:
        """Accept a `with self.session():` block; functions run at once."""
        yield

    cached_session = test_session = session

    def assertAllClose(  # noqa: N802  # the name in TensorFlow
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Fail unless all elements are close; lists and dicts are compared entry by entry."""
        if isinstance(a, Mapping):
            self.assertEqual(sorted(a), sorted(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg or f"at {key!r}")
            return
        if isinstance(a, list | tuple) and any(np.ndim(_host(one)) for one in a):
            self.assertEqual(len(a), len(b), msg)
            for one, other in zip(a, b):
                self.assertAllClose(one, other, rtol, atol, msg)
            return
        np.testing.assert_allclose(_host(a), _host(b), rtol, atol, err_msg=msg or "")

    def assertNotAllClose(self, a: Any, b: Any, **kwargs: Any) -> None:  # noqa: N802
        """Fail if all elements are close."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        self.fail("The values are all close.")

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Fail unless all elements are equal."""
        np.testing.assert_array_equal(_host(a), _host(b), err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Fail if all elements are equal."""
        self.assertFalse(np.array_equal(_host(a), _host(b)), msg or "The values are all equal.")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Fail unless all elements are greater than the target."""
        self.assertTrue((_host(a) > comparison_target).all(), f"Got {_host(a)}.")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Fail unless all elements are at least the target."""
        self.assertTrue((_host(a) >= comparison_target).all(), f"Got {_host(a)}.")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Fail unless all elements are less than the target."""
        self.assertTrue((_host(a) < comparison_target).all(), f"Got {_host(a)}.")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Fail unless all elements are at most the target."""
        self.assertTrue((_host(a) <= comparison_target).all(), f"Got {_host(a)}.")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:  # noqa: N802
        """Fail unless all elements are in a set."""
        wrong = {*_host(target).reshape(-1).tolist()} - {*expected_set}
        self.assertFalse(wrong, f"{wrong} is not in {expected_set}.")

    def assertNear(self, f1: Any, f2: Any, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Fail unless two numbers differ by at most `err`."""
        self.assertLessEqual(abs(float(f1) - float(f2)), err, msg)

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Fail unless two arrays have the same shape."""
        self.assertEqual(tuple(input_a.shape), tuple(input_b.shape), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:  # noqa: N802
        """Fail unless a tensor has this dtype."""
        wanted = np.dtype(getattr(expected_dtype, "dtype", expected_dtype))
        self.assertEqual(_host(target).dtype, wanted)
