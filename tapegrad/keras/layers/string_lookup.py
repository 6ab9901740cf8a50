"""StringLookup: the position of texts in a vocabulary. It runs on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_flag
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import StringTensor, is_text, string_tensor, text_array
from tapegrad.core.values.trial import is_trial
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError
from tapegrad.fingerprints import farm_hash, sip_hash
from tapegrad.io.files import read_file
from tapegrad.keras.layers.category_layers import OLD_MODES, CategoryLayer, checked_salt
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import constant
from tapegrad.strings.ragged import Ragged, as_tensor

Texts = StringTensor | Ragged
_DROPPED = -1
"""The position of masked texts, which counts leave out."""


class StringLookup(CategoryLayer):
    """Return the position of texts in a vocabulary, which is given or set by `adapt`.

    The first positions are those of `mask_token`, if there is one, and of texts that are not in
    the vocabulary, `num_oov_indices` of them. With `invert`, positions become texts again. The
    output mode "tf_idf" weights counts by `idf_weights`, which `adapt` computes.

    >>> layer = StringLookup(vocabulary=["a", "b", "c"])
    >>> layer([["a", "c"], ["z", "b"]]).tolist()
    [[1, 3], [0, 2]]
    """

    modes = ("int", "one_hot", "multi_hot", "count", "tf_idf")

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        salt: Any = None,
        **kwargs: Any,
    ) -> None:
        mode = OLD_MODES.get(output_mode, output_mode)
        if str(kwargs.get("dtype", "")) == "string":
            kwargs["dtype"] = None  # the only dtype of text
        super().__init__(mode, sparse, **kwargs)
        if invert and mode != "int":
            raise ArgumentError(f"invert=True needs output_mode='int'. Got {output_mode!r}.")
        if num_oov_indices < 0:
            raise ArgumentError(f"num_oov_indices must be at least 0. Got {num_oov_indices}.")
        if pad_to_max_tokens and max_tokens is None:
            raise ArgumentError("pad_to_max_tokens=True needs max_tokens.")
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token, self.oov_token = mask_token, oov_token
        self.invert, self.pad_to_max_tokens, self.encoding = invert, pad_to_max_tokens, encoding
        self.salt = checked_salt(salt)
        if max_tokens is not None and max_tokens <= self._first:
            raise ArgumentError(
                f"max_tokens must be above {self._first}, the number of special positions. "
                f"Got {max_tokens}."
            )
        self._places: dict[bytes, int] | None = None
        self._idf: np.ndarray | None = None
        self.reset_state()
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)
        elif idf_weights is not None:
            raise ArgumentError("idf_weights needs a vocabulary.")

    @property
    def _has_mask(self) -> bool:
        return self.mask_token is not None and self.output_mode == "int"

    @property
    def _first(self) -> int:
        """The position of the first entry of the vocabulary."""
        return self._has_mask + self.num_oov_indices

    def _encoded(self, token: Any) -> bytes:
        return token if isinstance(token, bytes) else str(token).encode(self.encoding)

    # The vocabulary

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """Return the texts in the order of their positions."""
        check_flag("include_special_tokens", include_special_tokens, "get_vocabulary")
        tokens = [token.decode(self.encoding, "replace") for token in self._places or ()]
        if not include_special_tokens:
            return tokens
        mask = [self.mask_token] if self._has_mask and self.mask_token is not None else []
        return [*mask, *[self.oov_token] * self.num_oov_indices, *tokens]

    def vocabulary_size(self) -> int:
        """Return how many positions there are, special ones included."""
        return self._first + len(self._places or ())

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Set the texts: a list, an array, or the path of a file with one text per line."""
        if isinstance(vocabulary, str):
            vocabulary = read_file(vocabulary).numpy().decode(self.encoding).splitlines()
        array = (
            np.asarray(vocabulary, object) if not is_text(vocabulary) else text_array(vocabulary)
        )
        if array.ndim != 1 or not array.size:
            raise ArgumentError(f"vocabulary must be a list of texts. Got {vocabulary!r:.80}.")
        tokens = [self._encoded(token) for token in array]
        special = [self._encoded(one) for one in self.get_vocabulary()[: self._first]]
        has_special = bool(special) and tokens[: self._first] == special
        self._check_tokens(tokens := tokens[self._first :] if has_special else tokens)
        if (idf_weights is None) == (self.output_mode == "tf_idf"):
            raise ArgumentError(
                "idf_weights belongs to output_mode='tf_idf', which needs it beside a vocabulary. "
                f"Got output_mode={self.output_mode!r}."
            )
        if idf_weights is not None:
            self._idf = self._checked_weights(idf_weights, len(array), has_special)
        self._set_tokens(tokens)

    def _check_tokens(self, tokens: list[bytes]) -> None:
        repeated = [token for token, count in Counter(tokens).items() if count > 1]
        reserved = self.mask_token is not None and self._encoded(self.mask_token) in tokens
        if self.invert and self._encoded(self.oov_token) in tokens:
            reserved = True
        if repeated or reserved:
            why = f"{repeated[0]!r} is there twice" if repeated else "a special token is among them"
            raise ArgumentError(f"A vocabulary holds each text once, but {why}.")
        if self.max_tokens is not None and len(tokens) + self._first > self.max_tokens:
            raise ArgumentError(
                f"The vocabulary has {len(tokens)} texts and {self._first} special positions, "
                f"more than max_tokens={self.max_tokens}."
            )

    def _checked_weights(self, given: Any, count: int, has_special: bool) -> np.ndarray:
        weights = np.asarray(read_on_host(given, "idf_weights"), np.float32)
        if weights.shape != (count,):
            raise ArgumentError(
                f"idf_weights must have one number per text, {count}. Got shape {weights.shape}."
            )
        return weights if has_special else self._with_first(weights)

    def _with_first(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights with those of unknown texts, which are the mean of the others."""
        mean = weights.mean(dtype=np.float32) if len(weights) else np.float32(0)
        return np.concatenate([np.full(self._first, mean, np.float32), weights])

    def _set_tokens(self, tokens: Iterable[bytes]) -> None:
        self._places = {token: place for place, token in enumerate(tokens, self._first)}

    def adapt(self, data: Any, steps: int | None = None, batch_size: int | None = None) -> None:
        """Set the vocabulary to the texts of an array or of batches, the most frequent first."""
        self.reset_state()
        for batch in batches_of_text(data, steps):
            self.update_state(batch)
        self.finalize_state()

    def reset_state(self) -> None:
        """Forget the counts of `update_state`."""
        self._counts: Counter[bytes] = Counter()
        self._documents: Counter[bytes] = Counter()
        self._document_count = 0

    def update_state(self, data: Any) -> None:
        """Count the texts of a batch; each row is a document."""
        for row in _documents(data):
            self._counts.update(row)
            self._document_count += 1
            if self.output_mode == "tf_idf":
                self._documents.update(set(row))

    def finalize_state(self) -> None:
        """Set the vocabulary to the texts that were counted."""
        special = {self._encoded(t) for t in (self.mask_token, self.oov_token) if t is not None}
        counts = self._counts
        # As in Keras, the larger of two equally frequent texts comes first.
        found = sorted(counts.keys() - special, key=lambda t: (counts[t], t), reverse=True)
        room = None if self.max_tokens is None else self.max_tokens - self._first
        tokens = found[:room]
        self._set_tokens(tokens)
        if self.output_mode == "tf_idf":
            with_token = np.array([self._documents[token] for token in tokens], np.float32)
            self._idf = self._with_first(np.log1p(self._document_count / (1 + with_token)))
        self.reset_state()

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments, with the vocabulary that `adapt` has set."""
        tokens = None if self._places is None else self.get_vocabulary(False) or None
        weights = None
        if self._idf is not None and tokens:
            tokens, weights = self.get_vocabulary(), self._idf.tolist()
        return {**super().get_config(), "vocabulary": tokens, "idf_weights": weights}

    # The lookup

    def count_categories(self) -> int:
        if self.pad_to_max_tokens and self.max_tokens is not None:
            return self.max_tokens
        return self.vocabulary_size()

    def call(self, inputs: Any) -> Any:
        if self._places is None:
            raise ArgumentError(
                f"{self._title} has no vocabulary yet. Pass one, or call adapt(data) first."
            )
        if self.invert:
            if isinstance(inputs, Ragged):
                return inputs.with_flat_values(self._texts_at(inputs.flat_values).array)
            return self._texts_at(inputs)
        if isinstance(inputs, Ragged):
            flat = self._positions(text_array(inputs.flat_values))
            rows = inputs.with_flat_values(as_tensor(flat))
            return rows if self.output_mode == "int" else self._in_mode(rows.to_tensor(_DROPPED))
        if not isinstance(inputs, StringTensor):
            raise ArgumentTypeError(f"{self._title} takes text. Got {inputs.dtype.name}.")
        return self._in_mode(constant(self._positions(inputs.array)))

    def _in_mode(self, places: Any) -> Any:
        if self.output_mode != "tf_idf":
            return self.encoded(places)
        counts = self.encoded(places)
        if self._idf is None:
            raise ArgumentError(f"{self._title} has no idf_weights. Call adapt(data) first.")
        weights = np.zeros(self.count_categories(), np.float32)
        weights[: len(self._idf)] = self._idf
        return counts * in_dtype(constant(weights), self.compute_dtype)

    def _positions(self, texts: np.ndarray) -> np.ndarray:
        places = self._places or {}
        unknown = int(self._has_mask) if self.num_oov_indices == 1 else -2
        flat = texts.ravel().tolist()
        found = np.array([places.get(text, unknown) for text in flat], np.int64)
        if self.mask_token is not None:
            mask = self._encoded(self.mask_token)
            is_masked = np.array([text == mask for text in flat], np.bool_)
            found[is_masked] = 0 if self._has_mask else _DROPPED
        others = np.flatnonzero(found == -2).tolist()
        if others and not self.num_oov_indices and is_trial():
            found[others] = 0
        elif others and not self.num_oov_indices:
            raise IndexOutOfRangeError(
                f"{self._title} has num_oov_indices=0, and {flat[others[0]]!r} is not in its "
                "vocabulary."
            )
        elif others:
            words = [flat[k] for k in others]
            hashes = farm_hash(words) if self.salt is None else sip_hash(words, self.salt)
            found[others] = (hashes % np.uint64(self.num_oov_indices)).astype(np.int64)
            found[others] += int(self._has_mask)
        return found.reshape(texts.shape)

    def _texts_at(self, inputs: Any) -> StringTensor:
        places = np.asarray(read_on_host(inputs, "StringLookup"), np.int64)
        tokens = [self._encoded(one) for one in self.get_vocabulary()]
        unknown = self._encoded(self.oov_token)
        found = [tokens[k] if 0 <= k < len(tokens) else unknown for k in places.ravel().tolist()]
        array = np.empty(len(found), object)
        array[:] = found
        return string_tensor(array.reshape(places.shape))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        if self.invert:
            return KerasTensor(args[0].shape, "string")
        return super().compute_output_spec(*args, **kwargs)


def batches_of_text(data: Any, steps: int | None = None) -> Iterator[Any]:
    """Yield the batches of `adapt`; one array or list is one batch with a document per text.

    >>> [batch.shape for batch in batches_of_text(["a", "b"])]
    [(2, 1)]
    """
    if isinstance(data, Ragged):
        yield data
        return
    if isinstance(data, list | tuple | str) or hasattr(data, "__array__"):
        texts = text_array(data)
        yield texts.reshape(-1, 1) if texts.ndim <= 1 else texts
        return
    for number, batch in enumerate(data):
        if steps is not None and number >= steps:
            return
        yield batch


def _documents(data: Any) -> list[list[bytes]]:
    if isinstance(data, Ragged):
        return data.to_list()
    texts = text_array(data)
    rows = texts.reshape(1, -1) if texts.ndim <= 1 else texts.reshape(-1, texts.shape[-1])
    found: list[list[bytes]] = rows.tolist()
    return found
