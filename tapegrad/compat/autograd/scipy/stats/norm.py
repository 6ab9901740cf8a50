"""The distribution scipy.stats.norm, recorded on traced values."""

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

__getattr__ = _Borrowed(_stats.norm, "scipy.stats:norm").find
