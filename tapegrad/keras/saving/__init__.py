"""Weights and checkpoints in files of the safetensors format."""

from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.keras.saving.weights import load_weights, save_weights

__all__ = ["TensorFile", "load_weights", "save_weights", "write_tensors"]
