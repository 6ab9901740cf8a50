"""The distribution scipy.stats.t, recorded on traced values."""

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

__getattr__ = _Borrowed(_stats.t, "scipy.stats:t").find
