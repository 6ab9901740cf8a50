"""The distribution scipy.stats.dirichlet, recorded on traced values."""

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

__getattr__ = _Borrowed(_stats.dirichlet, "scipy.stats:dirichlet").find
