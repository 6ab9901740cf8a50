"""Compressed texts and examples in JSON."""

from __future__ import annotations

import binascii
import gzip
import json
import zlib
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.strings import text_array
from tapegrad.errors import FileFormatError
from tapegrad.io.messages import BytesList, Example, Feature, Features, FloatList, Int64List
from tapegrad.strings.ragged import as_tensor

_UNPACK: dict[str, Callable[[Any], Any]] = {
    "": bytes,
    "ZLIB": zlib.decompress,
    "GZIP": gzip.decompress,
}


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Any:
    """Return texts that were compressed as "ZLIB" or "GZIP".

    >>> decode_compressed(zlib.compress(b"text"), "ZLIB").numpy()
    b'text'
    """
    check_choice("compression_type", compression_type, tuple(_UNPACK))
    texts = text_array(bytes)
    found = np.empty(texts.shape, object)
    try:
        found.ravel()[:] = [_UNPACK[compression_type](text) for text in texts.ravel().tolist()]
    except (zlib.error, OSError, EOFError) as error:
        raise FileFormatError(
            f"decode_compressed: the bytes are not {compression_type}: {error}."
        ) from error
    return as_tensor(found)


def decode_json_example(json_examples: Any, name: str | None = None) -> Any:
    """Return examples that are written in JSON as the bytes of `tf.train.Example`.

    >>> text = '{"features": {"feature": {"a": {"int64List": {"value": ["3"]}}}}}'
    >>> Example.FromString(decode_json_example(text).numpy()).features.feature["a"].int64_list.value
    [3]
    """
    texts = text_array(json_examples)
    found = np.empty(texts.shape, object)
    try:
        found.ravel()[:] = [_example(json.loads(text)) for text in texts.ravel().tolist()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"decode_json_example: this is not an example in JSON: {error}."
        ) from error
    return as_tensor(found)


def _example(entries: Any) -> bytes:
    features = entries.get("features", {}).get("feature", {})
    kept = {name: _feature(one) for name, one in features.items()}
    return Example(features=Features(feature=kept)).SerializeToString()


def _feature(entry: Any) -> Feature:
    for name, one in entries_of(entry):
        values = one.get("value", [])
        if name == "int64list":
            return Feature(int64_list=Int64List([int(value) for value in values]))
        if name == "floatlist":
            return Feature(float_list=FloatList([float(value) for value in values]))
        if name == "byteslist":
            return Feature(bytes_list=BytesList([_decoded(value) for value in values]))
        raise ValueError(f"{name!r} is no kind of feature")
    return Feature()


def entries_of(entry: Any) -> Any:
    """Return the lists of a feature by their names, which may have underscores or capitals.

    >>> entries_of({"int64_list": 1})
    [('int64list', 1)]
    """
    return [(name.replace("_", "").lower(), one) for name, one in entry.items()]


def _decoded(value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{value!r} is not base64") from error
