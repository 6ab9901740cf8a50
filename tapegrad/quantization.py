"""TensorFlow's `tf.quantization` names: floats rounded to the values of few bits."""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.nn.fake_quantization import (
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient,
)
from tapegrad.ops.nn.quantized_values import (
    quantize_and_dequantize,
    quantize_and_dequantize_v2,
)

__all__ = [
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantize_and_dequantize",
    "quantize_and_dequantize_v2",
]

_check_calls(globals(), __all__)


def __getattr__(name: str) -> _Any:
    raise _absence("quantization", name)
