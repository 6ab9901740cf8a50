"""Build a model from its configuration and fill it with its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.hub.bert import Bert
from tapegrad.hub.files import find_model, read_config, read_weights
from tapegrad.hub.gpt2 import GPT2
from tapegrad.hub.placing import place_weights
from tapegrad.hub.resnet import ResNet
from tapegrad.hub.vit import ViT

_MODELS: dict[str, Any] = {"gpt2": GPT2, "bert": Bert, "vit": ViT, "resnet": ResNet}
_PARTS = ("pooler", "classifier", "cls", "qa_outputs")
"""The attributes that hold heads."""
_HEADS: dict[str, tuple[str, ...]] = {
    "gpt2": ("words", "hidden"),
    "bert": ("hidden", "pooled", "masked_words", "classes", "token_classes", "answers"),
    "vit": ("hidden", "pooled", "classes"),
    "resnet": ("hidden", "pooled", "classes"),
}


def load(name: Any, head: str | None = None, revision: str = "main") -> Any:
    """Return a pretrained model: `name` is a folder, or a model in Hugging Face's cache.

    The folder holds `config.json` and `model.safetensors`, perhaps in parts. The architectures are
    GPT-2, BERT, ViT and ResNet. `head` selects the result (see the classes); by default it is that
    of the head whose weights the files hold. Images have channels last. Nothing is downloaded.

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from tapegrad.keras.saving.tensor_file import write_tensors
    >>> config = {"model_type": "gpt2", "vocab_size": 5, "n_positions": 4, "n_embd": 2,
    ...           "n_layer": 0, "n_head": 1}
    >>> weights = {"wte.weight": np.ones((5, 2)), "wpe.weight": np.ones((4, 2)),
    ...            "ln_f.weight": np.ones(2), "ln_f.bias": np.ones(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "config.json").write_text(json.dumps(config))
    ...     write_tensors(Path(folder, "model.safetensors"), weights)
    ...     model = load(folder)
    >>> model([[1, 2]]).tolist()
    [[[2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0]]]
    """
    folder = find_model(name, revision)
    config = read_config(folder)
    kind = config.get("model_type")
    if kind not in _MODELS:
        raise ArgumentError(
            f"tapegrad.hub loads {', '.join(_MODELS)}. The model in {str(folder)!r} has the type "
            f"{kind!r}."
        )
    weights = read_weights(folder)
    heads = _HEADS[kind]
    head = _held_head(kind, weights) if head is None else head
    check_choice("head", head, heads)
    model = _build(kind, config, head, weights)
    kept = _without_other_heads(weights, model)
    place_weights(model, kept, model.prefix, model.ignored, f"The model in {str(folder)!r}")
    return model


def _held_head(kind: str, weights: Mapping[str, Any]) -> str:
    """Return the head whose weights a file holds."""
    if kind == "gpt2":
        return "words"
    if any(name.startswith("classifier.") for name in weights):
        is_for_tokens = kind == "bert" and not any("pooler." in name for name in weights)
        return "token_classes" if is_for_tokens else "classes"
    if any(name.startswith("qa_outputs.") for name in weights):
        return "answers"
    if any(name.startswith("cls.predictions.") for name in weights):
        return "masked_words"
    return "hidden"


def _without_other_heads(weights: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the weights without those of heads that the model lacks."""
    others = tuple(f"{part}." for part in _PARTS if not getattr(model, part, None))
    return {
        name: value
        for name, value in weights.items()
        if not name.removeprefix(model.prefix).startswith(others)
    }


def _build(kind: str, config: dict[str, Any], head: str, weights: Mapping[str, Any]) -> Any:
    """Return a model whose variables exist."""
    if kind == "gpt2":
        return _called(lambda: GPT2(config, head), np.zeros((1, 1), np.int32), config)
    labels = [v for n, v in weights.items() if n.startswith("classifier.") and n.endswith("weight")]
    count = int(labels[0].shape[0]) if labels else len(config.get("id2label", ())) or 2
    if kind == "bert":
        example: Any = np.zeros((1, 1), np.int32)
    else:
        side = config.get("image_size", 224) if kind == "vit" else 32
        example = np.zeros((1, side, side, config.get("num_channels", 3)), np.float32)
    return _called(lambda: _MODELS[kind](config, head, count), example, config)


def _called(make: Callable[[], Any], example: Any, config: dict[str, Any]) -> Any:
    try:
        model = make()
    except KeyError as error:
        raise ArgumentError(
            f"config.json lacks {error.args[0]!r}. It has {', '.join(sorted(config))}."
        ) from error
    model(example)
    return model
