"""Stand-ins for public names that `tapegrad` does not export yet; delete with the last of them."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import tapegrad
from tapegrad import autodiff, ops
from tapegrad.core import dtypes, indexed_slices, tensor

AUTODIFF = {
    "custom_gradient": ("custom_gradient", "recompute_grad", "grad_pass_through"),
    "gradient_tape": ("GradientTape",),
    "arguments": ("UnconnectedGradients",),
    "forward": ("ForwardAccumulator",),
    "batching": ("vmap",),
    "transforms": (
        "grad",
        "value_and_grad",
        "vjp",
        "jvp",
        "jacobian",
        "hessian",
        "hvp",
        "checkpoint",
    ),
}
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all")


def fill(module: ModuleType, name: str, value: object) -> None:
    if not hasattr(module, name) or isinstance(getattr(module, name), ModuleType):
        setattr(module, name, value)


for file, names in AUTODIFF.items():
    for name in names:
        value = getattr(importlib.import_module(f"tapegrad.autodiff.{file}"), name)
        fill(tapegrad, name, value)
        if name in ("GradientTape", "ForwardAccumulator"):
            fill(autodiff, name, value)

for kind in (dtypes.DType, indexed_slices.IndexedSlices, tensor.Tensor):
    fill(tapegrad, kind.__name__, kind)

for info in pkgutil.iter_modules(ops.__path__):
    try:
        module = importlib.import_module(f"tapegrad.ops.{info.name}")
    except ImportError:
        continue  # being written
    for name, value in vars(module).items():
        if callable(value) and not name.startswith("_") and not isinstance(value, type):
            if info.name == "reduction" and name in REDUCTIONS:
                fill(tapegrad, f"reduce_{name}", value)
            elif not name.endswith("_p") and not hasattr(tapegrad, name):
                fill(tapegrad, name, value)
