"""The distribution scipy.stats.multivariate_normal, recorded on traced values.

As in SciPy, singular covariances are allowed: they use the pseudo-inverse and the product of the
nonzero eigenvalues.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

from tapegrad.compat.autograd import numpy as _np
from tapegrad.compat.autograd.core import defvjp as _defvjp
from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.compat.autograd.numpy.numpy_vjps import unbroadcast_f as _unbroadcast_f
from tapegrad.compat.autograd.primitives import primitive as _primitive
from tapegrad.scipy import stats as _stats

_names = _Borrowed(_stats.multivariate_normal, "scipy.stats:multivariate_normal")
_SMALL = 1e6 * 2.220446049250313e-16
"""Eigenvalues below this fraction of the largest count as zero, as in SciPy."""


def logpdf(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    """Return the logarithm of the density at `x`.

    >>> round(float(logpdf([0.0, 0.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])), 6)
    -1.837877
    """
    if not allow_singular:
        return _names.find("logpdf")(x, mean, cov)
    cov = _np.atleast_2d(cov)
    centre = _np.zeros(_np.shape(cov)[0]) if mean is None else mean
    return _singular_logpdf(_np.asarray(x), centre, cov)


def pdf(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    """Return the density at `x`.

    >>> round(float(pdf(0.0, 0.0, 1.0)), 6)
    0.398942
    """
    return _np.exp(logpdf(x, mean, cov, allow_singular))


@_primitive
def _singular_logpdf(x: Any, mean: Any, cov: Any) -> Any:
    values = _np.linalg.eigvalsh(cov)
    positive = values[values > _SMALL * _np.max(_np.abs(values))]
    away = x - mean
    form = _np.sum(away * _np.matmul(away, _inverse(cov)), axis=-1)
    return -0.5 * (len(positive) * log(2.0 * pi) + _np.sum(_np.log(positive)) + form)


def _inverse(cov: Any) -> Any:
    return _np.linalg.pinv(cov, rcond=_SMALL, hermitian=True)


def _pull(x: Any, mean: Any, cov: Any) -> Any:
    """The gradient with respect to x: minus the pseudo-inverse times x - mean."""
    return -_np.matmul(x - mean, _np.linalg.pinv(cov))


def _by_cov(g: Any, x: Any, mean: Any, cov: Any) -> Any:
    """Half of v v' - P, where P is the pseudo-inverse and v = P (x - mean)."""
    v = _pull(x, mean, cov)
    rows = _np.reshape(v, (-1, _np.shape(v)[-1]))
    weights = _np.reshape(g, (-1, 1))
    outer = _np.matmul(_np.transpose(rows * weights), rows)
    return 0.5 * (outer - _np.sum(g) * _np.linalg.pinv(cov))


_defvjp(
    _singular_logpdf,
    lambda ans, x, mean, cov: _unbroadcast_f(
        x, lambda g: _np.expand_dims(g, -1) * _pull(x, mean, cov)
    ),
    lambda ans, x, mean, cov: _unbroadcast_f(
        mean, lambda g: -_np.expand_dims(g, -1) * _pull(x, mean, cov)
    ),
    lambda ans, x, mean, cov: lambda g: _by_cov(g, x, mean, cov),
)

__getattr__ = _names.find
