"""tapegrad: NumPy and CuPy code with gradients, through TensorFlow's GradientTape."""

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.variable import Variable
from tapegrad.ops import operators as _operators
from tapegrad.ops.creation import constant

__version__ = "0.1.0"
