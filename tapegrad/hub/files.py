"""The files of a model: a folder, or its newest snapshot in Hugging Face's cache. No downloads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.keras.saving.tensor_file import TensorFile

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def cache_folder() -> Path:
    """Return the folder of Hugging Face's cache, which its environment variables can move."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"]).expanduser()
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    return Path(home).expanduser() / "hub"


def find_model(name: Any, revision: str = "main") -> Path:
    """Return the folder of a model: `name` is a path, or the name of a model in the cache.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "config.json").write_text("{}")
    ...     find_model(folder) == Path(folder)
    True
    """
    folder = Path(name).expanduser()
    if (folder / CONFIG).is_file():
        return folder
    if folder.is_dir():
        raise ArgumentError(f"The folder {str(folder)!r} has no {CONFIG}, so it is no model.")
    cached = cache_folder() / ("models--" + str(name).replace("/", "--"))
    reference = cached / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = cached / "snapshots" / commit
    if (snapshot / CONFIG).is_file():
        return snapshot
    raise ArgumentError(
        f"There is no model {str(name)!r}: it is no folder with {CONFIG}, and the cache "
        f"{str(cache_folder())!r} has no snapshot of it for the revision {revision!r}. "
        f"tapegrad.hub downloads nothing; fetch it with `hf download {name}`, or pass a folder."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a model.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "config.json").write_text('{"model_type": "gpt2"}')
    ...     read_config(Path(folder))
    {'model_type': 'gpt2'}
    """
    path = Path(folder) / CONFIG
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{str(path)!r} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{str(path)!r} must hold an object. Got {type(found).__name__}.")
    return found


def read_weights(folder: Path) -> dict[str, Any]:
    """Return all arrays of a model by name, from one safetensors file or from its parts.

    >>> import tempfile
    >>> from tapegrad.keras.saving.tensor_file import write_tensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(Path(folder, "model.safetensors"), {"bias": [1.0, 2.0]})
    ...     read_weights(Path(folder))["bias"].tolist()
    [1.0, 2.0]
    """
    folder = Path(folder)
    if (folder / WEIGHTS).is_file():
        return _arrays_of(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        found: dict[str, Any] = {}
        for part in sorted(set(_parts(folder / INDEX).values())):
            if Path(part).name != part or not (folder / part).is_file():
                raise FileFormatError(
                    f"{str(folder / INDEX)!r} names the part {part!r}, which is not in its folder."
                )
            found.update(_arrays_of(folder / part))
        return found
    raise ArgumentError(
        f"The folder {str(folder)!r} has no {WEIGHTS}. Weights in PyTorch's pickle format are not "
        "read, since they can run code; convert them to safetensors."
    )


def _parts(path: Path) -> dict[str, str]:
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(part) for name, part in parts.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{str(path)!r} has no weight_map of names to files.") from error


def _arrays_of(path: Path) -> dict[str, Any]:
    with TensorFile(str(path)) as file:
        return {name: file[name] for name in file}
