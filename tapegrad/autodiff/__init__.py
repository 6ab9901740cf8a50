"""Automatic differentiation. This module exports TensorFlow's `tf.autodiff` names."""

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.autodiff.gradient_tape import GradientTape

__all__ = ["ForwardAccumulator", "GradientTape", "UnconnectedGradients"]
