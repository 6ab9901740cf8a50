"""TextVectorization: texts to rows of integers, or to counts of words. It runs on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, described
from tapegrad.core.values.strings import StringTensor, string_tensor, text_array
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.calling import shape_of
from tapegrad.keras.layers.category_layers import texts_in
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.string_lookup import StringLookup, batches_of_text
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.strings.elementwise import lower, regex_replace
from tapegrad.strings.joining import ngrams as ngrams_of
from tapegrad.strings.ragged import Ragged, as_tensor
from tapegrad.strings.splitting import split as split_at, unicode_split

_PUNCTUATION = r"""[!"#$%&()\*\+,\-\./:;<=>?@\[\\\]^_`{|}~']"""
_STANDARDS = ("lower_and_strip_punctuation", "lower", "strip_punctuation")
_SPLITS = ("whitespace", "character")


class TextVectorization(Layer):
    """Split texts into words and return the position of each word in a vocabulary.

    The vocabulary is given or set by `adapt`. Position 0 is padding, and 1 is for unknown words.
    Other output modes count the words of each text: see `StringLookup`.

    >>> layer = TextVectorization(output_sequence_length=4)
    >>> layer.adapt(["the earth", "the wind!"])
    >>> layer.get_vocabulary()
    ['', '[UNK]', 'the', 'wind', 'earth']
    >>> layer(["The wind, the fire"]).tolist()
    [[2, 3, 2, 1]]
    """

    takes_text = True

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: Any = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        **kwargs: Any,
    ) -> None:
        kwargs.pop("dtype", None)  # text has one dtype, and so have positions
        super().__init__(**kwargs)
        for name, given, known in (
            ("standardize", standardize, _STANDARDS),
            ("split", split, _SPLITS),
        ):
            if given is not None and not callable(given):
                check_choice(name, given, known)
        widths = tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else ngrams
        if widths is not None and not all(isinstance(n, int) and n > 0 for n in widths):
            raise ArgumentError(f"ngrams must be integers above 0. Got {described(ngrams)}.")
        if output_mode != "int" and (output_sequence_length is not None or ragged):
            raise ArgumentError(
                "output_sequence_length and ragged need output_mode='int'. "
                f"Got output_mode={output_mode!r}."
            )
        self.standardize, self.split, self._widths = standardize, split, widths
        self.ragged, self.output_sequence_length = ragged, output_sequence_length
        self._lookup = StringLookup(
            max_tokens=max_tokens,
            mask_token="",
            vocabulary=vocabulary,
            idf_weights=idf_weights,
            output_mode=output_mode,
            pad_to_max_tokens=pad_to_max_tokens,
            sparse=sparse,
            encoding=encoding,
            name=f"{self.name}_lookup",
        )

    # The vocabulary

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Set the vocabulary to the words of texts or of batches of them, most frequent first."""
        self.reset_state()
        for batch in batches_of_text(data, steps):
            self.update_state(batch)
        self.finalize_state()

    def reset_state(self) -> None:
        """Forget the counts of `update_state`."""
        self._lookup.reset_state()

    def update_state(self, data: Any) -> None:
        """Count the words of a batch of texts."""
        self._lookup.update_state(self._words(string_tensor(text_array(data))))

    def finalize_state(self) -> None:
        """Set the vocabulary to the words that were counted."""
        self._lookup.finalize_state()

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """Return the words in the order of their positions."""
        return self._lookup.get_vocabulary(include_special_tokens)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Set the words: a list, an array, or the path of a file with one word per line."""
        self._lookup.set_vocabulary(vocabulary, idf_weights)

    def vocabulary_size(self) -> int:
        """Return how many positions there are, special ones included."""
        return self._lookup.vocabulary_size()

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments, with the vocabulary that `adapt` has set."""
        inner = self._lookup.get_config()
        learned = {name: inner[name] for name in ("vocabulary", "idf_weights")}
        return {**super().get_config(), **learned}

    @classmethod
    def from_config(cls, config: Any) -> Any:
        """Create a layer from the result of `get_config`."""
        given = dict(config)
        if isinstance(given.get("ngrams"), list):
            given["ngrams"] = tuple(given["ngrams"])
        return super().from_config(given)

    # The call

    def text_inputs(self, args: Any) -> Any:
        """Return the arguments of a call with lists of texts as string tensors."""
        return texts_in(args)

    def call(self, inputs: Any) -> Any:
        found = self._lookup.call(self._words(inputs))
        if self._lookup.output_mode != "int" or self.ragged:
            return found
        length = self.output_sequence_length
        if isinstance(found, Ragged):
            return found.to_tensor(0, shape=(None, length))
        if length is None or found.shape[-1] == length:
            return found
        places = found.numpy()[..., :length]
        padded = np.zeros((*places.shape[:-1], length), np.int64)
        padded[..., : places.shape[-1]] = places
        return as_tensor(padded)

    def _words(self, texts: Any) -> Any:
        x = _standardized(texts, self.standardize)
        if self.split is not None:
            x = _split(x, self.split, self._title)
        if self._widths is not None:
            x = ngrams_of(x, self._widths, " ")
        return x

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = tuple(input_shape)
        if self._lookup.output_mode == "int":
            if self.split is None and self.output_sequence_length is None:
                return shape
            return (shape[0], self.output_sequence_length)
        shape = (shape[0], None) if self.split is not None else shape
        return self._lookup.compute_output_shape(shape if len(shape) > 1 else (*shape, 1))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        shape = self.compute_output_shape(shape_of(args[0]))
        is_int = self._lookup.output_mode == "int"
        return KerasTensor(shape, "int64" if is_int else self.compute_dtype)


def _standardized(texts: Any, how: str | Callable[..., Any] | None) -> Any:
    if callable(how):
        found = how(texts)
        return found if isinstance(found, StringTensor | Ragged) else string_tensor(
            text_array(found)
        )  # fmt: skip
    if how in ("lower", "lower_and_strip_punctuation"):
        texts = lower(texts)
    if how in ("strip_punctuation", "lower_and_strip_punctuation"):
        texts = regex_replace(texts, _PUNCTUATION, "")
    return texts


def _split(texts: Any, how: str | Callable[..., Any], who: str) -> Any:
    if len(texts.shape) > 1:
        if texts.shape[-1] != 1:
            raise ShapeError(
                f"{who} splits texts of shape (batch,) or (batch, 1). Got {tuple(texts.shape)}."
            )
        texts = texts[..., 0]
    if callable(how):
        found = how(texts)
        return found if isinstance(found, StringTensor | Ragged) else string_tensor(
            text_array(found)
        )  # fmt: skip
    return split_at(texts) if how == "whitespace" else unicode_split(texts, "UTF-8")
