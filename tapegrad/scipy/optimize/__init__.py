"""SciPy's minimisation on tensors, with gradients by the tape."""

from tapegrad.scipy.optimize.minimizing import OptimizeResult, minimize

__all__ = ["OptimizeResult", "minimize"]
