"""TensorFlow's `tf.nn.experimental` names: dropout with a given source of chance."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.nn.dropout import general_dropout, stateless_dropout

__all__ = ["general_dropout", "stateless_dropout"]

_check_calls(globals(), __all__)
