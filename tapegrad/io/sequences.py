"""Sequence examples: the messages of `tf.train`, and their parsing into tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.io.messages import (
    Example,
    Feature,
    Features,
    Message,
    bytes_of,
    map_bytes,
    map_entries,
)
from tapegrad.io.parsing import (
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
)
from tapegrad.io.wire import fields, message
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse.tensor import as_tensor


class FeatureList(Message):
    """The features of the steps of a sequence.

    >>> len(FeatureList(feature=[Feature(), Feature()]).feature)
    2
    """

    def __init__(self, feature: Iterable[Feature] = ()) -> None:
        self.feature = list(feature)
        for one in self.feature:
            if not isinstance(one, Feature):
                raise ArgumentTypeError(f"A FeatureList takes Features. Got {type(one).__name__}.")

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        return message([(1, one.SerializeToString()) for one in self.feature])

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        self.feature = [Feature.FromString(part) for own, _, part in fields(data) if own == 1]
        return len(data)

    def __repr__(self) -> str:
        return f"FeatureList(feature={self.feature!r:.200})"


class FeatureLists(Message):
    """Feature lists by name.

    >>> list(FeatureLists(feature_list={"a": FeatureList()}).feature_list)
    ['a']
    """

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None) -> None:
        self.feature_list: dict[str, FeatureList] = _ListMap(feature_list or {})
        for name, one in self.feature_list.items():
            if not isinstance(one, FeatureList):
                raise ArgumentTypeError(
                    f"{name!r} must be a FeatureList. Got {type(one).__name__}."
                )

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        return map_bytes(self.feature_list)

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        self.feature_list = _ListMap(map_entries(data, FeatureList))
        return len(data)

    def __repr__(self) -> str:
        return f"FeatureLists(feature_list={dict(self.feature_list)!r})"


class _ListMap(dict[str, FeatureList]):
    """A dictionary that makes an empty list for a name that is read first."""

    def __missing__(self, name: str) -> FeatureList:
        self[name] = FeatureList()
        return self[name]


class SequenceExample(Message):
    """The features of a sequence: those of the whole, and those of its steps.

    >>> SequenceExample().feature_lists
    FeatureLists(feature_list={})
    """

    def __init__(
        self, context: Features | None = None, feature_lists: FeatureLists | None = None
    ) -> None:
        self.context = context or Features()
        self.feature_lists = feature_lists or FeatureLists()

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        parts = ((1, self.context), (2, self.feature_lists))
        return message([(number, one.SerializeToString()) for number, one in parts])

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        SequenceExample.__init__(self)
        for number, _, part in fields(data):
            if number == 1:
                self.context = Features.FromString(part)
            if number == 2:
                self.feature_lists = FeatureLists.FromString(part)
        return len(data)

    def __repr__(self) -> str:
        return f"SequenceExample(context={self.context!r}, feature_lists={self.feature_lists!r})"


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the features of a whole sequence, and those of its steps, as tensors by name.

    Those of steps have an axis for them first. VarLenFeature gives sparse tensors, RaggedFeature
    ragged ones.

    >>> from tapegrad.io.messages import Int64List
    >>> steps = FeatureList([Feature(int64_list=Int64List([n])) for n in (3, 4)])
    >>> data = SequenceExample(feature_lists=FeatureLists({"a": steps})).SerializeToString()
    >>> spec = {"a": FixedLenSequenceFeature([], "int64")}
    >>> parse_single_sequence_example(data, sequence_features=spec)[1]["a"].tolist()
    [3, 4]
    """
    if np.ndim(text_array(serialized)):
        raise ArgumentError(
            "parse_single_sequence_example takes one example. Use parse_sequence_example for a "
            "batch."
        )
    example = _read(text_array(serialized).item())
    whole = Example(example.context).SerializeToString()
    context = parse_single_example(whole, dict(context_features or {}))
    lists = example.feature_lists.feature_list
    steps = {key: _steps(key, spec, lists) for key, spec in (sequence_features or {}).items()}
    return context, steps


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the same for a vector of sequences, and the lengths of those that are padded.

    >>> from tapegrad.io.messages import Int64List
    >>> def sequence(*numbers):
    ...     steps = FeatureList([Feature(int64_list=Int64List([n])) for n in numbers])
    ...     return SequenceExample(feature_lists=FeatureLists({"a": steps})).SerializeToString()
    >>> spec = {"a": FixedLenSequenceFeature([], "int64")}
    >>> _, steps, lengths = parse_sequence_example([sequence(3, 4), sequence(5)], None, spec)
    >>> steps["a"].tolist(), lengths["a"].tolist()
    ([[3, 4], [5, 0]], [2, 1])
    """
    examples = [_read(one) for one in text_array(serialized).ravel().tolist()]
    wholes = [Example(one.context).SerializeToString() for one in examples]
    context = parse_example(wholes, dict(context_features or {}))
    steps: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    for key, spec in (sequence_features or {}).items():
        rows = [_steps(key, _dense(key, spec), one.feature_lists.feature_list) for one in examples]
        counts = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate([np.asarray(row) for row in rows])
        ragged = RaggedTensor.from_row_lengths(as_tensor(flat), counts)
        steps[key] = ragged.to_tensor()
        lengths[key] = as_tensor(counts)
    return context, steps, lengths


def _dense(key: str, spec: Any) -> Any:
    if not isinstance(spec, FixedLenSequenceFeature):
        raise ArgumentTypeError(
            f"parse_sequence_example takes FixedLenSequenceFeatures. {key!r} is a "
            f"{type(spec).__name__}; use parse_single_sequence_example and ragged batches."
        )
    return spec


def _read(data: bytes) -> SequenceExample:
    try:
        return SequenceExample.FromString(data)
    except (FileFormatError, UnicodeDecodeError) as error:
        raise FileFormatError(f"This is not a sequence example: {error}") from error


def _steps(key: str, spec: Any, lists: Mapping[str, FeatureList]) -> Any:
    if key not in lists and not getattr(spec, "allow_missing", True):
        raise ArgumentError(f"The feature list {key!r} is missing, and allow_missing is False.")
    given = lists[key].feature if key in lists else []
    rows = [Example(Features({key: one})).SerializeToString() for one in given]
    if isinstance(spec, VarLenFeature | RaggedFeature):
        found: Any = parse_example(np.array(rows, object), {key: RaggedFeature(spec.dtype)})[key]
        return found.to_sparse() if isinstance(spec, VarLenFeature) else found
    if not isinstance(spec, FixedLenSequenceFeature):
        raise ArgumentTypeError(
            f"The feature list {key!r} must be described by FixedLenSequenceFeature, VarLenFeature "
            f"or RaggedFeature. Got {type(spec).__name__}."
        )
    return _stacked(key, spec, rows)


def _stacked(key: str, spec: FixedLenSequenceFeature, rows: Sequence[bytes]) -> Any:
    shape = tuple(int(n) for n in spec.shape)
    one = {key: FixedLenSequenceFeature(shape, spec.dtype, allow_missing=True)}
    parts = [np.asarray(parse_single_example(row, one)[key]) for row in rows]
    if any(len(part) != 1 for part in parts):
        raise ArgumentError(
            f"Each step of {key!r} must have one value of shape {shape}. Got "
            f"{[len(part) for part in parts]!r:.60}; VarLenFeature takes any number."
        )
    if not parts:
        return as_tensor(np.empty((0, *shape), as_dtype(spec.dtype).dtype))
    return as_tensor(np.concatenate(parts))
