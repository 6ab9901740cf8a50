"""SciPy's integration on tensors, with gradients: differential equations and quadrature."""

from tapegrad.scipy.integrate.ivp import OdeResult, odeint, solve_ivp
from tapegrad.scipy.integrate.rules import cumulative_trapezoid, fixed_quad, simpson, trapezoid

__all__ = [
    "OdeResult",
    "cumulative_trapezoid",
    "fixed_quad",
    "odeint",
    "simpson",
    "solve_ivp",
    "trapezoid",
]
