"""Old module path of tensors, kept so that pickles of earlier revisions load."""

from tapegrad.core.values.tensor import TensorShape as TensorShape, _rebuild as _rebuild
