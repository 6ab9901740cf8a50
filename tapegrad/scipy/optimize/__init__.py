"""SciPy's optimization with gradients from the tape and differentiable solutions.

minimizing    minimize; scalar_minima: minimize_scalar
roots         root, fsolve; scalar_roots: root_scalar, newton, brentq, bisect
fitting       least_squares, curve_fit
batched       many problems at once; many: their solvers
implicit      derivatives of solutions by the implicit function theorem
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.optimize import batched
from tapegrad.scipy.optimize.boxes import Bounds
from tapegrad.scipy.optimize.constraints import LinearConstraint, NonlinearConstraint
from tapegrad.scipy.optimize.fitting import curve_fit, least_squares
from tapegrad.scipy.optimize.minimizing import minimize
from tapegrad.scipy.optimize.result import OptimizeError, OptimizeResult
from tapegrad.scipy.optimize.roots import fsolve, root
from tapegrad.scipy.optimize.scalar_minima import minimize_scalar
from tapegrad.scipy.optimize.scalar_roots import RootResults, bisect, brentq, newton, root_scalar

__all__ = [
    "Bounds", "LinearConstraint", "NonlinearConstraint", "OptimizeError", "OptimizeResult",
    "RootResults", "batched", "bisect", "brentq", "curve_fit", "fsolve", "least_squares",
    "minimize", "minimize_scalar", "newton", "root", "root_scalar",
]  # fmt: skip

_check_calls(globals(), __all__)
