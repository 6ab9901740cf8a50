"""Tokenizers of pretrained models, through the package `tokenizers`."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.hub.files import find_model

FILE = "tokenizer.json"


def load_tokenizer(name: Any, revision: str = "main") -> Any:
    """Return the tokenizer of a model: `.encode(text).ids` and `.decode(ids)` of `tokenizers`.

    >>> load_tokenizer("no/model")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tapegrad.errors.ArgumentError: There is no model 'no/model': ...
    """
    folder = find_model(name, revision)
    if not (folder / FILE).is_file():
        raise ArgumentError(
            f"The folder {str(folder)!r} has no {FILE}. Save the model's tokenizer in this format."
        )
    try:
        from tokenizers import Tokenizer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ArgumentError(
            "Tokenizers need the package tokenizers: pip install tokenizers."
        ) from error
    return Tokenizer.from_file(str(folder / FILE))
