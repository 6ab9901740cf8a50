"""Tables from keys to values, on the host; keys and values are texts or numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ArgumentError, DTypeError, FileFormatError
from tapegrad.fingerprints import farm_hash
from tapegrad.io.files import read_file
from tapegrad.strings.ragged import Ragged, as_tensor


def _array(values: Any, dtype: Any = None) -> np.ndarray:
    """Return texts as bytes objects, and numbers with a dtype or the one they have."""
    if is_text(values) or (dtype is not None and as_dtype(dtype).name == "string"):
        return text_array(values)
    given = list(values) if isinstance(values, range) else values
    array = np.asarray(read_on_host(given, "lookup"))
    if dtype is not None:
        return array.astype(as_dtype(dtype).dtype)
    usual = {"int64": np.int32, "float64": np.float32}
    is_plain = not hasattr(values, "dtype")
    return array.astype(usual.get(array.dtype.name, array.dtype)) if is_plain else array


class KeyValueTensorInitializer:
    """The keys and the values of a table.

    >>> KeyValueTensorInitializer(["a", "b"], [1, 2]).key_dtype
    <dtype: 'string'>
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        self.keys, self.values = _array(keys, key_dtype), _array(values, value_dtype)
        if self.keys.shape != self.values.shape:
            raise ArgumentError(
                f"A table needs one value for each key. Got {self.keys.size} keys and "
                f"{self.values.size} values."
            )

    @property
    def key_dtype(self) -> DType:
        return as_dtype(self.keys.dtype)

    @property
    def value_dtype(self) -> DType:
        return as_dtype(self.values.dtype)


class TextFileIndex:
    """What a column of a file is: the whole line, or its number.

    >>> TextFileIndex.LINE_NUMBER
    -1
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(KeyValueTensorInitializer):
    """The keys and the values of a table, from the lines of a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/words.txt", "w") as file:
    ...         _ = file.write("some\\nwords\\n")
    ...     TextFileInitializer(folder + "/words.txt", "string", -2, "int64", -1).values.tolist()
    [0, 1]
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
    ) -> None:
        try:
            lines = read_file(filename).numpy().decode().splitlines()[:vocab_size]
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{filename} is no text in UTF-8: {error}.") from error

        def column(index: int, dtype: Any) -> list[Any]:
            if index == TextFileIndex.LINE_NUMBER:
                return list(range(len(lines)))
            is_whole = index == TextFileIndex.WHOLE_LINE
            kind = as_dtype(dtype)
            found = []
            for number, line in enumerate(lines, 1):
                try:
                    field = line if is_whole else line.split(delimiter)[index]
                    found.append(int(field) if kind.is_integer else field)
                except (IndexError, ValueError) as error:
                    raise FileFormatError(
                        f"Line {number} of {filename} has no {kind} in column {index}: "
                        f"{line!r:.80}."
                    ) from error
            return found

        keys, values = column(key_index, key_dtype), column(value_index, value_dtype)
        super().__init__(keys, values, key_dtype, value_dtype)


class _Table:
    """Base class: a dictionary, and the dtypes of keys and values."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._entries: dict[Any, Any] = {}

    def _unknown(self, keys: list[Any]) -> list[Any]:
        """Return the values of keys that are not in the table."""
        raise NotImplementedError

    def size(self, name: str | None = None) -> Any:
        """Return the number of keys."""
        return as_tensor(np.array(len(self._entries), np.int64))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the value of each key."""
        if isinstance(keys, Ragged):
            return keys.with_flat_values(self._found(keys.flat_values))
        return as_tensor(self._found(keys))

    def _found(self, keys: Any) -> np.ndarray:
        array = _array(keys)
        if (array.dtype.kind == "O") != (self.key_dtype.name == "string"):
            raise DTypeError(
                f"The keys of this table are of {self.key_dtype}. Got "
                f"{'text' if array.dtype.kind == 'O' else array.dtype}."
            )
        flat = array.ravel().tolist()
        missing = [key for key in dict.fromkeys(flat) if key not in self._entries]
        others = dict(zip(missing, self._unknown(missing))) if missing else {}
        found = np.empty(len(flat), self.value_dtype.dtype)
        entries = self._entries
        found[:] = [entries[key] if key in entries else others[key] for key in flat]
        return found.reshape(array.shape)

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def export(self, name: str | None = None) -> tuple[Any, Any]:
        """Return all keys and all values."""
        keys = np.empty(len(self._entries), self.key_dtype.dtype)
        values = np.empty(len(self._entries), self.value_dtype.dtype)
        keys[:], values[:] = list(self._entries), list(self._entries.values())
        return as_tensor(keys), as_tensor(values)


def _pairs(keys: np.ndarray, values: np.ndarray) -> Iterable[tuple[Any, Any]]:
    return zip(keys.ravel().tolist(), values.ravel().tolist())


class StaticHashTable(_Table):
    """A table that does not change.

    >>> table = StaticHashTable(KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    >>> table.lookup(["b", "c"]).tolist()
    [2, -1]
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._entries = dict(_pairs(initializer.keys, initializer.values))
        self._default = _array(default_value, self.value_dtype).item()

    def _unknown(self, keys: list[Any]) -> list[Any]:
        return [self._default] * len(keys)


class StaticVocabularyTable(_Table):
    """A table from texts to numbers, in which hashes number the texts that are not there.

    >>> table = StaticVocabularyTable(KeyValueTensorInitializer(["a", "b"], [0, 1]), 1)
    >>> table.lookup(["b", "c"]).tolist()
    [1, 2]
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        if num_oov_buckets < 1:
            raise ArgumentError(f"num_oov_buckets must be at least 1. Got {num_oov_buckets}.")
        given = initializer.key_dtype if initializer is not None else None
        super().__init__(lookup_key_dtype or given or "string", "int64")
        if initializer is not None:
            self._entries = dict(_pairs(initializer.keys, initializer.values))
        self._buckets = num_oov_buckets

    def size(self, name: str | None = None) -> Any:
        """Return the number of keys and of numbers for others."""
        return as_tensor(np.array(len(self._entries) + self._buckets, np.int64))

    def _unknown(self, keys: list[Any]) -> list[Any]:
        texts = [key if isinstance(key, bytes) else str(key).encode() for key in keys]
        hashes = farm_hash(texts) % np.uint64(self._buckets)
        return [len(self._entries) + int(one) for one in hashes]


class MutableHashTable(_Table):
    """A table that `insert` and `remove` change.

    >>> table = MutableHashTable("string", "int64", default_value=-1)
    >>> table.insert(["a"], [5])
    >>> table.lookup(["a", "b"]).tolist()
    [5, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default = _array(default_value, value_dtype).item()

    def _unknown(self, keys: list[Any]) -> list[Any]:
        return [self._default] * len(keys)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Set the values of keys."""
        pairs = _pairs(_array(keys, self.key_dtype), _array(values, self.value_dtype))
        self._entries.update(pairs)

    def remove(self, keys: Any, name: str | None = None) -> None:
        """Remove keys that are in the table."""
        for key in _array(keys, self.key_dtype).ravel().tolist():
            self._entries.pop(key, None)

    def erase(self, keys: Any, name: str | None = None) -> None:
        """Remove keys that are in the table."""
        self.remove(keys)


class DenseHashTable(MutableHashTable):
    """A table that `insert` and `remove` change, in which two keys must not occur.

    >>> table = DenseHashTable("int64", "int64", -1, empty_key=0, deleted_key=-2)
    >>> table.insert([3], [5])
    >>> table.lookup([3, 4]).tolist()
    [5, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)
        self._reserved = {
            _array(key, key_dtype).item(): what
            for key, what in ((empty_key, "empty_key"), (deleted_key, "deleted_key"))
        }
        if len(self._reserved) == 1:
            raise ArgumentError(
                f"empty_key and deleted_key must differ. Got {empty_key!r} for both."
            )

    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Set the values of keys."""
        for key in _array(keys, self.key_dtype).ravel().tolist():
            if key in self._reserved:
                raise ArgumentError(
                    f"The key {key!r} is the {self._reserved[key]} of this table, which must not "
                    "occur. Choose another one."
                )
        super().insert(keys, values)
