"""The files that layers keep in a model file beside their weights, such as vocabularies.

A layer writes them in `save_assets(folder)` and reads them in `load_assets(folder)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

from tapegrad.core.files.formats import refuse
from tapegrad.keras.saving.layer_paths import layers_by_path

_FOLDER = "assets"


def asset_parts(model: Any) -> dict[str, list[bytes]]:
    """Return the contents of the files that the layers of a model write, by their place."""
    found: dict[str, list[bytes]] = {}
    for path, layer in layers_by_path(model).items():
        if not hasattr(layer, "save_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file():
                    inner = file.relative_to(folder)
                    place = PurePosixPath(_FOLDER, path, *inner.parts)
                    found[str(place)] = [file.read_bytes()]
    return found


def load_assets(model: Any, archive: ZipFile) -> None:
    """Let the layers of a model read their files from an archive."""
    for path, layer in layers_by_path(model).items():
        if not hasattr(layer, "load_assets"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for inner, content in _files(archive, PurePosixPath(_FOLDER, path)).items():
                file = Path(folder, *inner.parts)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            layer.load_assets(folder)


def _files(archive: ZipFile, folder: PurePosixPath) -> Mapping[PurePosixPath, bytes]:
    """Return the contents of the files in a folder of an archive, by their place in it."""
    found: dict[PurePosixPath, bytes] = {}
    for name in archive.namelist():
        place = PurePosixPath(name)
        if name.endswith("/") or not place.is_relative_to(folder):
            continue
        inner = place.relative_to(folder)
        if ".." in inner.parts or "\\" in name or ":" in name:
            refuse(str(archive.filename), f"{name!r} is outside the folder of its layer")
        found[inner] = archive.read(name)
    return found
