"""IntegerLookup: the position of integers in a vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_flag
from tapegrad.core.values.device import device
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.trial import is_trial
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, DTypeError, IndexOutOfRangeError
from tapegrad.keras.layers.category_layers import CategoryLayer
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.selection import minimum, where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.sorting import searchsorted
from tapegrad.ops.reduction.functions import reduce_all
from tapegrad.program.record.recording import current_recording


class IntegerLookup(CategoryLayer):
    """Return the position of integers in a vocabulary, which is given or set by `adapt`.

    The first positions are those of `mask_token`, if there is one, and of integers that are not in
    the vocabulary, `num_oov_indices` of them. With `invert`, positions become integers again.

    >>> import tapegrad
    >>> layer = IntegerLookup(vocabulary=[12, 36, 1138, 42])
    >>> layer(tapegrad.constant([[12, 1138, 42], [42, 1000, 36]])).tolist()
    [[1, 3, 4], [4, 0, 2]]
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(output_mode, sparse, **kwargs)
        if idf_weights is not None:
            raise ArgumentError("IntegerLookup does not weight by frequency: omit idf_weights.")
        if invert and (output_mode != "int" or num_oov_indices != 1):
            raise ArgumentError(
                "IntegerLookup with invert=True takes output_mode='int' and num_oov_indices=1. "
                f"Got {output_mode!r} and {num_oov_indices}."
            )
        if num_oov_indices < 0:
            raise ArgumentError(f"num_oov_indices must be at least 0. Got {num_oov_indices}.")
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token, self.oov_token = mask_token, oov_token
        self.invert, self.pad_to_max_tokens = invert, pad_to_max_tokens
        self.vocabulary_dtype = vocabulary_dtype
        if max_tokens is not None and max_tokens <= self._first:
            raise ArgumentError(
                f"max_tokens must be above {self._first}, the number of special positions. "
                f"Got {max_tokens}."
            )
        self._tokens: tuple[int, ...] | None = None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    @property
    def _has_mask(self) -> bool:
        return self.mask_token is not None and self.output_mode == "int"

    @property
    def _first(self) -> int:
        """The position of the first entry of the vocabulary."""
        return self._has_mask + self.num_oov_indices

    # The vocabulary

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[int]:
        """Return the integers in the order of their positions."""
        check_flag("include_special_tokens", include_special_tokens, "get_vocabulary")
        tokens = list(self._tokens or ())
        if not include_special_tokens:
            return tokens
        mask = [self.mask_token] if self._has_mask and self.mask_token is not None else []
        return [*mask, *[self.oov_token] * self.num_oov_indices, *tokens]

    def vocabulary_size(self) -> int:
        """Return how many positions there are, special ones included."""
        return self._first + len(self._tokens or ())

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Set the integers, with or without the special ones at their beginning."""
        array = _on_host(vocabulary)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ArgumentError(f"vocabulary must be a list of integers. Got {vocabulary!r}.")
        tokens = [int(token) for token in array]
        special = self.get_vocabulary()[: self._first]
        if special and tokens[: self._first] == special:
            tokens = tokens[self._first :]
        repeated = [token for token, count in Counter(tokens).items() if count > 1]
        reserved = [token for token in (self.mask_token, self.oov_token) if token in tokens]
        if repeated or reserved:
            wrong = (repeated or reserved)[0]
            why = "is there twice" if repeated else "is a special token"
            raise ArgumentError(f"A vocabulary holds each integer once, but {wrong} {why}.")
        if self.max_tokens is not None and len(tokens) + self._first > self.max_tokens:
            raise ArgumentError(
                f"The vocabulary has {len(tokens)} integers and {self._first} special positions, "
                f"more than max_tokens={self.max_tokens}."
            )
        self._tokens = tuple(tokens)

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Set the vocabulary to the integers of an array or of batches, the most frequent first."""
        batches: Iterable[Any] = [data] if hasattr(data, "shape") else data
        if isinstance(batches, list | tuple) and batches and not hasattr(batches[0], "shape"):
            batches = [batches]
        counts: Counter[int] = Counter()
        for number, batch in enumerate(batches):
            if steps is not None and number >= steps:
                break
            counts.update(_on_host(batch).ravel().tolist())
        special = (self.mask_token, self.oov_token)
        # As in Keras, the larger of two equally frequent integers comes first.
        found = [token for token in counts if token not in special]
        tokens = sorted(found, key=lambda token: (counts[token], token), reverse=True)
        room = None if self.max_tokens is None else self.max_tokens - self._first
        self._tokens = tuple(int(token) for token in tokens[:room])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments, with the vocabulary that `adapt` has set."""
        tokens = None if self._tokens is None else list(self._tokens)
        return {**super().get_config(), "vocabulary": tokens}

    # The lookup

    def count_categories(self) -> int:
        if self.pad_to_max_tokens and self.max_tokens is not None:
            return self.max_tokens
        return self.vocabulary_size()

    def call(self, inputs: Any) -> Any:
        if not self._tokens:
            raise ArgumentError(
                f"{self._title} has no vocabulary yet. Pass one, or call adapt(data) first."
            )
        if not inputs.dtype.is_integer:
            raise DTypeError(f"{self._title} takes integers. Got {inputs.dtype.name}.")
        x = in_dtype(inputs, "int64")
        with device(x.device):
            return self._tokens_at(x) if self.invert else self.encoded(self._positions(x))

    def _positions(self, x: Any) -> Any:
        order = np.argsort(self._tokens or ())
        known = constant(np.array(self._tokens)[order], "int64")
        place = minimum(searchsorted(known, x), len(order) - 1)
        is_known = equal(gather(known, place), x)
        found = gather(constant(order + self._first, "int64"), place)
        others = constant(int(self._has_mask), "int64")
        if self.num_oov_indices > 1:
            others = others + x % self.num_oov_indices
        elif not self.num_oov_indices:
            self._check_known(is_known, x)
        found = where(is_known, found, others)
        return where(equal(x, self.mask_token), 0, found) if self._has_mask else found

    def _check_known(self, is_known: Any, x: Any) -> None:
        """Raise an error for an unknown integer; recorded functions cannot, and return 0."""
        if is_trial():
            return
        if self._has_mask:
            is_known = is_known | equal(x, self.mask_token)
        if current_recording() is None and not bool(reduce_all(is_known)):
            unknown = x.numpy()[~is_known.numpy()][0]
            raise IndexOutOfRangeError(
                f"{self._title} has num_oov_indices=0, and {unknown} is not in its vocabulary."
            )

    def _tokens_at(self, x: Any) -> Any:
        tokens = self.get_vocabulary()
        values = constant(np.array([*tokens, self.oov_token]), "int64")
        is_inside = (x >= 0) & (x < len(tokens))
        return gather(values, where(is_inside, x, len(tokens)))


def _on_host(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor | Variable) else np.asarray(value)
