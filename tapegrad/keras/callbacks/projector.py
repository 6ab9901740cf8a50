"""Settings of TensorBoard's projector, which shows the rows of embeddings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.core import Embedding

_TENSOR = "layer_with_weights-0/embeddings/.ATTRIBUTES/VARIABLE_VALUE"
"""The name that Keras gives to the weights of an embedding, which is the first layer."""


def projector_settings(model: Any, metadata: Any) -> str:
    """Return the settings for all embeddings of a model, in the text form of protocol buffers.

    `metadata` is the path of the labels, or a dict from names of layers to paths.

    >>> from tapegrad.keras import Sequential
    >>> print(projector_settings(Sequential([Embedding(5, 2)]), "words.tsv"))
    embeddings {
      tensor_name: "layer_with_weights-0/embeddings/.ATTRIBUTES/VARIABLE_VALUE"
      metadata_path: "words.tsv"
    }
    <BLANKLINE>
    """
    names = [layer.name for layer in model.layers if isinstance(layer, Embedding)]
    paths = metadata if isinstance(metadata, Mapping) else dict.fromkeys(names, metadata)
    unknown = {*paths} - {*names}
    if unknown:
        raise ArgumentError(
            f"embeddings_metadata names {sorted(unknown)}. The embeddings of the model are {names}."
        )
    lines = []
    for name in names:
        path = paths.get(name)
        label = [] if path is None else [f"  metadata_path: {json.dumps(str(path))}"]
        lines += ["embeddings {", f'  tensor_name: "{_TENSOR}"', *label, "}", ""]
    return "\n".join(lines)
