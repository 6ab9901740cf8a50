"""Small models in Hugging Face's layout: configurations, weights made of names, and inputs."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.keras.saving.tensor_file import write_tensors

RECORD = Path(__file__).with_name("logits.json")
_TEXT = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 20, "max_position_embeddings": 16, "hidden_act": "gelu"}  # fmt: skip
_IMAGES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
           "intermediate_size": 20, "image_size": 8, "patch_size": 4}  # fmt: skip
_RESIDUAL = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {
        "model_type": "gpt2", "vocab_size": 23, "n_positions": 16, "n_embd": 12, "n_layer": 2,
        "n_head": 3,
    }),
    "gpt2_untied": ("GPT2LMHeadModel", {
        "model_type": "gpt2", "vocab_size": 23, "n_positions": 16, "n_embd": 12, "n_layer": 1,
        "n_head": 3, "tie_word_embeddings": False,
    }),
    "bert": ("BertForMaskedLM", {"model_type": "bert", **_TEXT}),
    "bert_untied": ("BertForMaskedLM", {
        "model_type": "bert", "tie_word_embeddings": False, **_TEXT,
    }),
    "bert_token_classes": ("BertForTokenClassification", {"model_type": "bert", **_TEXT}),
    "bert_answers": ("BertForQuestionAnswering", {"model_type": "bert", **_TEXT}),
    "bert_classes": ("BertForSequenceClassification", {"model_type": "bert", **_TEXT}),
    "bert_hidden": ("BertModel", {"model_type": "bert", **_TEXT}),
    "vit": ("ViTForImageClassification", {"model_type": "vit", **_IMAGES}),
    "resnet_basic": ("ResNetForImageClassification", {
        "model_type": "resnet", "layer_type": "basic", **_RESIDUAL,
    }),
    "resnet_bottleneck": ("ResNetForImageClassification", {
        "model_type": "resnet", "layer_type": "bottleneck", **_RESIDUAL,
    }),
}  # fmt: skip
TOKENS = np.array([[1, 5, 9, 2, 22, 0], [3, 3, 7, 11, 4, 8]])
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]])


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of a name: always the same, and different from those of other names."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith("running_var") or (name.endswith("weight") and len(shape) == 1):
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    return (0.3 * rng.normal(size=shape)).astype("float32")


def images(side: int) -> np.ndarray:
    """Return two images with channels last."""
    return np.random.default_rng(7).normal(size=(2, side, side, 3)).astype("float32")


def write_model(folder: Path, name: str, shapes: dict[str, list[int]], parts: int = 1) -> None:
    """Write the configuration and the weights of a model as Hugging Face does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name][1]))
    arrays = {key: weight(key, tuple(shape)) for key, shape in shapes.items()}
    if parts == 1:
        write_tensors(folder / "model.safetensors", arrays, {"format": "pt"})
        return
    places = {}
    for part in range(parts):
        file = f"model-{part + 1:05d}-of-{parts:05d}.safetensors"
        own = sorted(arrays)[part::parts]
        write_tensors(folder / file, {key: arrays[key] for key in own}, {"format": "pt"})
        places.update(dict.fromkeys(own, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
