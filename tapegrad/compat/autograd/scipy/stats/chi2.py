"""The distribution scipy.stats.chi2, recorded on traced values."""

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

__getattr__ = _Borrowed(_stats.chi2, "scipy.stats:chi2").find
