"""Old module path of tensors, kept so that pickles of earlier revisions load."""

from tapegrad.core.values.tensor import _rebuild as _rebuild
from tapegrad.core.values.tensor_shape import TensorShape as TensorShape
