"""Names of Keras that this face does not have, and what to use instead."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

_REAL = (
    "Real Keras offers it; tapegrad.keras, which needs no other package, does not. For real Keras, "
    "run pip install '.[keras]' in a checkout of tapegrad and set KERAS_BACKEND=tapegrad before "
    "the import."
)
_AUGMENTATIONS = (
    *("ContrastLimitedAdaptiveHistogramEqualization", "MaxNumBoundingBoxes"),
    "ReversibleEmbedding",
)
_SENTENCES: dict[str, dict[str, str]] = {
    "keras": {
        "applications": _REAL,
        "quantizers": f"Quantization is not supported. {_REAL}",
        "export": "Use keras.Model.export, or tapegrad.saved_model.save for several functions.",
        "StatelessScope": (
            "Layers and models have stateless_call, and metrics have stateless_update_state, "
            "stateless_result and stateless_reset_state."
        ),
        "SymbolicScope": _REAL,
        "Quantizer": f"Quantization is not supported. {_REAL}",
        "Function": "Use keras.Model, or tapegrad.function.",
        "RematScope": "Wrap functions with keras.remat.",
        "distillation": _REAL,
        "dtensor": "Start one process per GPU; see keras.distribution.",
        "engine": "It is internal to Keras; use the names of keras.layers and keras.models.",
        "experimental": "Use the names of keras itself, which has most of these.",
        "src": "It is internal to Keras; use the public names.",
        "wrappers": f"The wrappers for scikit-learn are not supported. {_REAL}",
        "visualization": f"Image galleries are not supported. {_REAL}",
    },
    "keras.layers": {
        "DenseFeatures": "Use the layers for preprocessing, such as keras.layers.StringLookup.",
        "experimental": "Use the names of keras.layers itself.",
        "Linear": "Use keras.layers.Dense.",
        "JaxLayer": "Functions of JAX are not supported. Write the layer with keras.ops.",
        "FlaxLayer": "Modules of Flax are not supported. Write the layer with keras.ops.",
        "TorchModuleWrapper": "Modules of PyTorch are not supported. Write a layer.",
        "Random*": _REAL,
        **dict.fromkeys(_AUGMENTATIONS, _REAL),
    },
    "keras.backend": {
        "get_session": "There are no sessions; functions run at once.",
        "gradients": "Use tapegrad.GradientTape.",
        "manual_variable_initialization": "Variables have values when they are created.",
        "set_learning_phase": "Pass training=True or training=False to the model.",
        "set_session": "There are no sessions; functions run at once.",
        "*": "Use the functions of tapegrad itself.",
    },
    "keras.callbacks": {
        "OrbaxCheckpoint": "Use keras.callbacks.ModelCheckpoint.",
        "RemoteMonitor": "Send the logs in a keras.callbacks.LambdaCallback.",
    },
    "keras.config": {
        "set_backend": "This is the only backend. Real Keras has others.",
    },
    "keras.distribution": {
        "distribute_tensor": "Each process has its own tensors. Take the part of its rank.",
    },
    "keras.dtype_policies": {
        "*Policy*": f"Quantization is not supported. {_REAL}",
    },
    "keras.optimizers": {
        "MultiOptimizer": f"Call apply_gradients of several optimizers in train_step. {_REAL}",
        "OptimizerMap": f"Call apply_gradients of several optimizers in train_step. {_REAL}",
        "ScheduleFreeAdamW": _REAL,
        "experimental": "Use the optimizers of keras.optimizers.",
        "legacy": "Use the optimizers of keras.optimizers.",
    },
    "keras.saving": {"KerasFileEditor": _REAL},
    "keras.utils": {
        "Config": "Use a Python dict.",
        "FeatureSpace": _REAL,
        "generic_utils": "Use the functions of keras.utils and keras.saving.",
        "np_utils": "Use keras.utils.to_categorical.",
        "model_to_dot": "Use keras.utils.plot_model, which needs no other program.",
    },
    "keras.utils.bounding_boxes": {"affine_transform": _REAL},
    "Model": {
        "parameters": "Use model.trainable_variables.",
        "state_dict": "Use model.get_weights() or model.save_weights(path).",
        "load_state_dict": "Use model.set_weights(weights) or model.load_weights(path).",
        "zero_grad": "A tape returns new gradients, which are not added to older ones.",
        "eval": "Calls take training=False; model.evaluate(x, y) computes the metrics.",
        "train": "Use model.fit(x, y), or training=True in a call.",
        "forward": "Define call(self, inputs), and call the model itself: model(x).",
        "cuda": 'Make the model inside `with tapegrad.device("gpu"):`.',
        "register_buffer": "Use add_weight(..., trainable=False).",
        "quantize": f"Quantization is not supported. {_REAL}",
    },
}


def absent_name(place: str, name: str, known: list[str]) -> AttributeError:
    """Return the AttributeError for a name that a module of Keras does not have here.

    >>> absent_name("keras.layers", "Dens", ["Dense"])
    AttributeError("keras.layers has no 'Dens'. Did you mean 'Dense'?")
    """
    sentence = why_absent(place, name)
    close = get_close_matches(name, known, 1)
    if not sentence and close:
        sentence = f" Did you mean {close[0]!r}?"
    # Without a module, Python does not add its own suggestion.
    return AttributeError(f"{place} has no {name!r}.{sentence}", name=name, obj=None)


def why_absent(place: str, name: str) -> str:
    """Return the sentence about a name of Keras that is missing here, or an empty string.

    >>> why_absent("Model", "quantize")[:32]
    ' Quantization is not supported. '
    """
    rules = _SENTENCES.get(place, {})
    sentence = rules.get(name) or next((rules[one] for one in rules if fnmatchcase(name, one)), "")
    return f" {sentence}" if sentence else ""
