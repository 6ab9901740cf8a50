"""Checks of the hints of an operator by its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.debugging import assert_near, assert_that
from tapegrad.ops.linalg.common import adjoint_of
from tapegrad.ops.linalg.eigen import eigvalsh, svdvals
from tapegrad.ops.reduction.primitives import max as largest, min as smallest


class Assertions:
    """Methods of operators that raise an error if a property does not hold."""

    def assert_non_singular(self, name: str = "assert_non_singular") -> None:
        """Raise unless the smallest singular value is more than rounding of the largest."""
        values = svdvals(self._dense())
        limit = float(np.finfo(np.dtype(values.dtype.name)).eps) * max(values.shape[-1], 1)
        is_regular = smallest(values, axis=-1) > limit * largest(values, axis=-1)
        assert_that(is_regular, "The operator is singular.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> None:
        """Raise unless the Hermitian part has positive eigenvalues only."""
        x = self._dense()
        values = eigvalsh(0.5 * (x + adjoint_of(x)))
        assert_that(values > 0, "The operator is not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> None:
        """Raise unless the operator equals its adjoint."""
        x = self._dense()
        assert_near(x, adjoint_of(x), message="The operator is not equal to its adjoint.")

    def _dense(self) -> Any:
        return self.to_dense()  # type: ignore[attr-defined]
