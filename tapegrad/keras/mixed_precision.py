"""Mixed precision: computation in half precision with variables in float32.

keras.mixed_precision.set_global_policy("mixed_bfloat16")
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.dtype_policies import DTypePolicy, dtype_policy, set_dtype_policy
from tapegrad.keras.optimizers.loss_scale import LossScaleOptimizer

Policy = DTypePolicy
global_policy = dtype_policy
set_global_policy = set_dtype_policy

__all__ = [
    "DTypePolicy",
    "LossScaleOptimizer",
    "Policy",
    "dtype_policy",
    "global_policy",
    "set_dtype_policy",
    "set_global_policy",
]

# Optimizers check their own arguments.
_check_calls(globals(), [name for name in __all__ if name != "LossScaleOptimizer"])
