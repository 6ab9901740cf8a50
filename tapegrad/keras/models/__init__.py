"""Models, under Keras' names."""

from tapegrad.keras.models.cloning import clone_model
from tapegrad.keras.models.functional import Functional
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential

__all__ = ["Functional", "Model", "Sequential", "clone_model"]
