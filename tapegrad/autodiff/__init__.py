"""Automatic differentiation. This module exports TensorFlow's `tf.autodiff` names."""

from typing import TYPE_CHECKING, Any

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.gradient_tape import GradientTape

if TYPE_CHECKING:
    from tapegrad.autodiff.forward import ForwardAccumulator

__all__ = ["ForwardAccumulator", "GradientTape", "UnconnectedGradients"]


def __getattr__(name: str) -> Any:
    """Import `ForwardAccumulator` on first use, so that `import tapegrad` stays cheap."""
    if name == "ForwardAccumulator":
        from tapegrad.autodiff.forward import ForwardAccumulator  # slow to import

        globals()[name] = ForwardAccumulator
        return ForwardAccumulator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
