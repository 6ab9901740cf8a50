"""The messages of `tf.train` for data: Example, Features, Feature and the lists of values."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from tapegrad.core.values.strings import text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.io.wire import LENGTH, VARINT, fields, message, varint, varints


class Message:
    """Base class of messages: bytes to and from a message, and equality."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        raise NotImplementedError

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        raise NotImplementedError

    @classmethod
    def FromString(cls, serialized: Any) -> Self:  # noqa: N802
        """Return the message that bytes hold."""
        found = cls()
        found.ParseFromString(serialized)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]  # messages change


class _ValueList(Message):
    """Base class of messages with a list `value`."""

    def __init__(self, value: Iterable[Any] = ()) -> None:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ArgumentTypeError(
                f"{type(self).__name__} takes a list as value. Got {type(value).__name__}; "
                "write value=[x]."
            )
        self.value: list[Any] = [self.checked(one) for one in value]

    def checked(self, one: Any) -> Any:
        raise NotImplementedError

    def read(self, kind: int, data: Any) -> list[Any]:
        raise NotImplementedError

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        data = bytes_of(serialized)
        self.value = [
            one for number, kind, part in fields(data) if number == 1
            for one in self.read(kind, part)
        ]  # fmt: skip
        return len(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r:.200})"


class Int64List(_ValueList):
    """A list of integers.

    >>> Int64List.FromString(Int64List(value=[1, -2]).SerializeToString()).value
    [1, -2]
    """

    def checked(self, one: Any) -> int:
        if isinstance(one, float | str | bytes):
            raise ArgumentTypeError(f"Int64List takes integers. Got {one!r:.60}.")
        return int(one)

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        packed = b"".join([varint(one) for one in self.value])
        return message([(1, packed)]) if packed else b""

    def read(self, kind: int, data: Any) -> list[int]:
        return varints(varint(data)) if kind == VARINT else varints(data)


class FloatList(_ValueList):
    """A list of numbers, which are kept as float32.

    >>> FloatList.FromString(FloatList(value=[0.5]).SerializeToString()).value
    [0.5]
    """

    def checked(self, one: Any) -> float:
        if isinstance(one, str | bytes):
            raise ArgumentTypeError(f"FloatList takes numbers. Got {one!r:.60}.")
        return float(np.float32(one))

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        packed = np.asarray(self.value, "<f4").tobytes()
        return message([(1, packed)]) if packed else b""

    def read(self, kind: int, data: Any) -> list[float]:
        if kind == LENGTH:
            found: list[float] = np.frombuffer(data, "<f4").tolist()
            return found
        return list(struct.unpack("<f", data))


class BytesList(_ValueList):
    """A list of bytes.

    >>> BytesList.FromString(BytesList(value=[b"a"]).SerializeToString()).value
    [b'a']
    """

    def checked(self, one: Any) -> bytes:
        if isinstance(one, str):
            raise ArgumentTypeError(f"BytesList takes bytes. Got the text {one!r:.60}; encode it.")
        return bytes_of(one)

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        return message([(1, one) for one in self.value])

    def read(self, kind: int, data: Any) -> list[bytes]:
        return [data]


_KINDS: dict[str, tuple[int, type[_ValueList]]] = {
    "bytes_list": (1, BytesList),
    "float_list": (2, FloatList),
    "int64_list": (3, Int64List),
}


class Feature(Message):
    """One list of bytes, numbers or integers.

    >>> Feature(int64_list=Int64List(value=[3])).WhichOneof("kind")
    'int64_list'
    """

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        set_ones = [name for name, one in given.items() if one is not None]
        if len(set_ones) > 1:
            raise ArgumentError(f"A Feature has one list. Got {', '.join(set_ones)}.")
        for name, one in given.items():
            if one is not None and not isinstance(one, _KINDS[name][1]):
                raise ArgumentTypeError(
                    f"{name} must be a {_KINDS[name][1].__name__}. Got {type(one).__name__}."
                )
        self._kind = set_ones[0] if set_ones else None
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()

    def WhichOneof(self, oneof_group: str = "kind") -> str | None:  # noqa: N802
        """Return the name of the list that is set."""
        filled = [name for name in _KINDS if getattr(self, name).value]
        return filled[0] if filled else self._kind

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        kind = self.WhichOneof()
        if kind is None:
            return b""
        return message([(_KINDS[kind][0], getattr(self, kind).SerializeToString())])

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        Feature.__init__(self)
        for number, _, part in fields(data):
            for name, (own, kind) in _KINDS.items():
                if number == own:
                    setattr(self, name, kind.FromString(part))
                    self._kind = name
        return len(data)

    def __repr__(self) -> str:
        kind = self.WhichOneof()
        return f"Feature({'' if kind is None else f'{kind}={getattr(self, kind)!r}'})"


class _FeatureMap(dict[str, Feature]):
    """A dictionary that makes an empty feature for a name that is read first."""

    def __missing__(self, name: str) -> Feature:
        self[name] = Feature()
        return self[name]


class Features(Message):
    """Features by name.

    >>> list(Features(feature={"a": Feature()}).feature)
    ['a']
    """

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        for name, one in (feature or {}).items():
            if not isinstance(one, Feature):
                raise ArgumentTypeError(f"{name!r} must be a Feature. Got {type(one).__name__}.")
        self.feature: dict[str, Feature] = _FeatureMap(feature or {})

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        return map_bytes(self.feature)

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        self.feature = _FeatureMap(map_entries(data, Feature))
        return len(data)

    def __repr__(self) -> str:
        return f"Features(feature={dict(self.feature)!r})"


class Example(Message):
    """The features of one example, which record files hold.

    >>> example = Example(features=Features(feature={"a": Feature(int64_list=Int64List([3]))}))
    >>> Example.FromString(example.SerializeToString()).features.feature["a"].int64_list.value
    [3]
    """

    def __init__(self, features: Features | None = None) -> None:
        if features is not None and not isinstance(features, Features):
            raise ArgumentTypeError(
                f"features must be tapegrad.train.Features. Got {type(features).__name__}."
            )
        self.features = features or Features()

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the message as bytes."""
        return message([(1, self.features.SerializeToString())])

    def ParseFromString(self, serialized: Any) -> int:  # noqa: N802
        """Read the message from bytes; return their number."""
        data = bytes_of(serialized)
        self.features = Features()
        for number, _, part in fields(data):
            if number == 1:
                self.features = Features.FromString(part)
        return len(data)

    def __repr__(self) -> str:
        return f"Example(features={self.features!r})"


def bytes_of(value: Any) -> bytes:
    """Return the bytes of bytes, a string tensor of one text, or an array of one text.

    >>> bytes_of(b"a")
    b'a'
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    texts = text_array(value)
    if texts.size != 1:
        raise ArgumentTypeError(f"This takes one text. Got shape {texts.shape}.")
    found: bytes = texts.item()
    return found


def map_bytes(entries: Mapping[str, Message]) -> bytes:
    """Return a map from names to messages as bytes."""
    return message([
        (1, message([(1, name), (2, entries[name].SerializeToString())]))
        for name in sorted(entries)
    ])  # fmt: skip


def map_entries(data: bytes, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and messages of a map from its bytes."""
    for number, _, entry in fields(data):
        if number == 1:
            parts = {own: part for own, _, part in fields(entry)}
            yield _name(parts.get(1, b"")), kind.FromString(parts.get(2, b""))


def _name(data: Any) -> str:
    if not isinstance(data, bytes):
        raise FileFormatError(f"A feature has the number {data!r:.80} as its name.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"A feature has a name that is no UTF-8: {data!r:.80}.") from error
