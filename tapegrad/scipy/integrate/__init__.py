"""SciPy's integration on tensors, with gradients: differential equations and quadrature.

ivp           solve_ivp, odeint; explicit and radau: their methods; adjoint: their gradients
quadrature    quad, quad_vec: functions, adaptively
rules         samples, and functions at fixed points
"""

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
    "OdeResult", "OdeSolution", "cumulative_simpson", "cumulative_trapezoid", "fixed_quad",
    "newton_cotes", "odeint", "quad", "quad_vec", "romb", "simpson", "solve_ivp", "trapezoid",
]  # fmt: skip
