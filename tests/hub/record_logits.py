"""Record what `transformers` computes for the small models: python -m tests.hub.record_logits

Needs `transformers`, `torch` and `safetensors`; the tests need none of them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.hub.small_models import CONFIGS, MASK, RECORD, SEGMENTS, TOKENS, images, weight


def main() -> None:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    record: dict[str, object] = {"transformers": transformers.__version__}
    for name, (kind, config) in CONFIGS.items():
        settings = {key: value for key, value in config.items() if key != "model_type"}
        made = transformers.AutoConfig.for_model(config["model_type"], **settings)
        model = getattr(transformers, kind)(made).eval()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            file = Path(folder) / "model.safetensors"
            arrays = load_file(file)
            shapes = {key: list(array.shape) for key, array in arrays.items()}
            for key, shape in shapes.items():
                if not key.endswith("num_batches_tracked"):
                    arrays[key] = torch.tensor(weight(key, tuple(shape)))
            save_file(arrays, file, {"format": "pt"})
            model = getattr(transformers, kind).from_pretrained(folder).eval()
        with torch.no_grad():
            found = _run(model, config)
        record[name] = {"shapes": shapes, "result": np.round(found, 7).tolist()}
    RECORD.write_text(json.dumps(record) + "\n")


def _run(model: Any, config: dict[str, Any]) -> np.ndarray:
    import torch

    if config["model_type"] in ("vit", "resnet"):
        side = config.get("image_size", 40)
        pixels = torch.tensor(images(side).transpose(0, 3, 1, 2).copy())
        return model(pixel_values=pixels).logits.numpy()
    inputs = {"input_ids": torch.tensor(TOKENS)}
    if config["model_type"] == "bert":
        inputs |= {"attention_mask": torch.tensor(MASK), "token_type_ids": torch.tensor(SEGMENTS)}
    found = model(**inputs)
    if hasattr(found, "start_logits"):
        return torch.stack([found.start_logits, found.end_logits], -1).numpy()
    return (found.logits if hasattr(found, "logits") else found.last_hidden_state).numpy()


if __name__ == "__main__":
    main()
