"""SciPy's integration with gradients: differential equations and quadrature.

ivp           solve_ivp, odeint; methods in explicit, radau and bdf, gradients in adjoint
batched       many trajectories at once; many: their solvers
quadrature    quad, quad_vec: adaptive quadrature of functions
rules         quadrature of samples, and of functions at fixed points
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.integrate import batched
from tapegrad.scipy.integrate.ivp import OdeResult, odeint, solve_ivp
from tapegrad.scipy.integrate.quadrature import quad, quad_vec
from tapegrad.scipy.integrate.rules import (
    cumulative_simpson,
    cumulative_trapezoid,
    fixed_quad,
    newton_cotes,
    romb,
    simpson,
    trapezoid,
)
from tapegrad.scipy.integrate.solution import OdeSolution

__all__ = [
    "OdeResult", "OdeSolution", "batched", "cumulative_simpson", "cumulative_trapezoid",
    "fixed_quad", "newton_cotes", "odeint", "quad", "quad_vec", "romb", "simpson", "solve_ivp",
    "trapezoid",
]  # fmt: skip

_check_calls(globals(), __all__)
