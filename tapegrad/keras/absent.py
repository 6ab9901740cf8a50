"""Names of Keras that this face does not have, and what to use instead."""

from __future__ import annotations

from difflib import get_close_matches

_REAL = "Real Keras offers it; tapegrad.keras, which needs no other package, does not."
_SENTENCES = {
    "keras": {
        "applications": _REAL,
        "distribution": f"Training on several devices is not supported. {_REAL}",
        "quantizers": f"Quantization is not supported. {_REAL}",
        "export": f"Exported archives are files of TensorFlow. {_REAL}",
        "StatelessScope": (
            "Layers and models have stateless_call, and metrics have stateless_update_state, "
            "stateless_result and stateless_reset_state."
        ),
        "wrappers": f"The wrappers for scikit-learn are not supported. {_REAL}",
        "visualization": f"Image galleries are not supported. {_REAL}",
    },
    "keras.layers": {
        "TFSMLayer": f"SavedModels are files of TensorFlow. {_REAL}",
        "JaxLayer": "Functions of JAX are not supported. Write the layer with keras.ops.",
        "FlaxLayer": "Modules of Flax are not supported. Write the layer with keras.ops.",
        "TorchModuleWrapper": "Modules of PyTorch are not supported. Write a layer.",
        "MelSpectrogram": _REAL,
        "STFTSpectrogram": _REAL,
    },
    "keras.utils": {
        "FeatureSpace": _REAL,
        "audio_dataset_from_directory": f"Sound files are not read. {_REAL}",
    },
    "Model": {
        "export": f"Exported archives are files of TensorFlow; `save` writes a model file. {_REAL}",
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
    return AttributeError(f"{place} has no {name!r}.{sentence}")


def why_absent(place: str, name: str) -> str:
    """Return the sentence about a name of Keras that is missing here, or an empty string.

    >>> why_absent("Model", "quantize")[:32]
    ' Quantization is not supported. '
    """
    sentence = _SENTENCES[place].get(name, "")
    return f" {sentence}" if sentence else ""
