"""Names of PyTorch, JAX and NumPy, each with what tapegrad offers instead.

The AttributeError for such a name in a module of tapegrad says so.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

_LAYERS = "Use the layers of tapegrad.keras.layers, such as Dense, Conv2D and LSTM."
_TAPE = "Use tapegrad.GradientTape, or tapegrad.grad for functions."
_DEVICES = 'Use tapegrad.device("gpu"); tapegrad.list_devices() lists the devices.'
_SEEDS = "Use tapegrad.random.set_seed, or a tapegrad.random.Generator."
_SAMPLES = "Use tapegrad.random.normal, tapegrad.random.uniform or tapegrad.random.Generator."
_TREES = "Use tapegrad.nest.map_structure and the other functions of tapegrad.nest."
_SAVING = "Use tapegrad.train.Checkpoint for variables, and the method save of models."
_CONTROL = "Use tapegrad.cond, tapegrad.while_loop, tapegrad.scan and tapegrad.map_fn."
_COPIES = "Use tapegrad.constant, or tapegrad.Variable for a value that changes."

NAMES = {
    # PyTorch's
    "tensor": _COPIES,
    "from_numpy": _COPIES,
    "as_tensor": _COPIES,
    "FloatTensor": _COPIES,
    "*no_grad": "Code outside a tape is not recorded; inside one, use tape.stop_recording().",
    "inference_mode": "Code outside a tape is not recorded.",
    "autograd": _TAPE,
    "cat": "Use tapegrad.concat.",
    "unsqueeze": "Use tapegrad.expand_dims.",
    "permute": "Use tapegrad.transpose.",
    "nn.Module": "Use tapegrad.keras.Model, or tapegrad.Module for variables alone.",
    "nn.Parameter": "Use tapegrad.Variable.",
    "nn.functional": "Its functions are in tapegrad.nn.",
    "nn.*Loss": "Use the classes of tapegrad.keras.losses.",
    "nn.Sequential": "Use tapegrad.keras.Sequential.",
    "nn.[A-Z]*": _LAYERS,
    "optim": "Use tapegrad.optimizers.",
    "manual_seed": _SEEDS,
    "random.manual_seed": _SEEDS,
    "random.seed": _SEEDS,
    "cuda": _DEVICES,
    "save": _SAVING,
    "load": _SAVING,
    "utils": "Use tapegrad.data.Dataset for data and tapegrad.keras.utils for models.",
    "set_default_dtype": "Pass dtype=..., or call tapegrad.keras.config.set_floatx for layers.",
    # JAX's
    "jit": "Use tapegrad.function.",
    "pmap": "Use tapegrad.distribute; see docs/distribution.md.",
    "device_put": _DEVICES,
    "tree": _TREES,
    "tree_*": _TREES,
    "lax": _CONTROL,
    "random.PRNGKey": _SEEDS,
    "random.key": _SEEDS,
    "random.fold_in": _SEEDS,
    "random.bernoulli": _SAMPLES,
    # NumPy's
    "random.rand": _SAMPLES,
    "random.randn": _SAMPLES,
    "random.randint": _SAMPLES,
    "random.default_rng": "Use tapegrad.random.Generator.",
    "array": _COPIES,
    "asarray": _COPIES,
}
"""Patterns of names with the modules before them; the first that fits counts."""


def offered_instead(path: str) -> str:
    """Return what to use instead of another library's name, or an empty string.

    >>> offered_instead("nn.Linear")
    'Use the layers of tapegrad.keras.layers, such as Dense, Conv2D and LSTM.'
    >>> offered_instead("median")
    'Use tapegrad.numpy.median.'
    """
    found = next((NAMES[rule] for rule in NAMES if fnmatchcase(path, rule)), "")
    if not found and path.isidentifier() and callable(getattr(np, path, None)):
        from tapegrad import numpy as names  # imports nearly every module

        found = f"Use tapegrad.numpy.{path}." if hasattr(names, path) else ""
    return found
