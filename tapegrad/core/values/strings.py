"""String tensors: arrays of text on the host, beside the tensors of numbers.

A string tensor holds Python's bytes in a NumPy array of objects. It has no gradient and is never on
another device. Primitives that get one hand the call to `tapegrad.ops.strings`, which runs those
that only move values (reshape, concat, gather, ...), so tensors of numbers pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.values import host, nest
from tapegrad.core.values.convert import (
    TextFoundError,
    read_on_host,
    to_tensor,
)
from tapegrad.core.values.dtypes import StringDType, is_text_type, string
from tapegrad.core.values.tensor import Tensor, TensorRef, wrap
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, ArgumentTypeError

_NO_NUMBER = "A string tensor is no number. Use tapegrad.strings.to_number(x)."


class StringTensor:
    """A tensor of text; `tapegrad.constant` makes one. Elements are bytes, as in TensorFlow.

    >>> import tapegrad
    >>> x = tapegrad.constant(["some", "words"])
    >>> x.shape, x.dtype, x[1].numpy()
    ((2,), <dtype: 'string'>, b'words')
    """

    __slots__ = ("__weakref__", "array")

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise, so hashing would mislead

    tensor = np.zeros(())
    """Stands for the host: batched values hold a tensor under this name, which has a device."""
    node = None
    dtype: StringDType = string
    device = "cpu"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.array.shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Check the shape, in which None means any length."""
        wanted = tuple(shape)
        fits = len(wanted) == self.ndim and all(
            [n is None or n == m for n, m in zip(wanted, self.shape)]
        )
        if not fits:
            raise ArgumentError(f"A string tensor of shape {self.shape} does not fit {wanted}.")

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    def numpy(self) -> Any:
        """Return a copy as a NumPy array of bytes objects, or the bytes of a 0-d tensor."""
        return self.array.copy() if self.array.ndim else self.array[()]

    def item(self, *where: Any) -> Any:
        """Return one element as bytes."""
        return self.array.item(*where)

    def tolist(self) -> Any:
        return self.array.tolist()

    def ref(self) -> TensorRef:
        """Return a hashable reference to this tensor, for sets and dictionary keys."""
        return TensorRef(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.array.copy()
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        if not self.array.ndim:
            raise ArgumentTypeError(
                "A 0-d tensor has no length. tapegrad.strings.length counts bytes."
            )
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        if not self.array.ndim:
            raise ArgumentTypeError("A 0-d string tensor cannot be iterated.")
        return iter([self[k] for k in range(len(self.array))])

    def __getitem__(self, index: Any) -> StringTensor:
        parts = index if isinstance(index, tuple) else (index,)
        plain = [read_on_host(p, "an index") if hasattr(p, "array") else p for p in parts]
        return string_tensor(self.array[tuple(plain)])

    def __add__(self, other: Any) -> Any:
        return _joined(self, other) if is_text(other) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return _joined(other, self) if is_text(other) else NotImplemented

    def __eq__(self, other: object) -> Any:
        return equal_texts(self, other) if is_text(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return ~equal_texts(self, other) if is_text(other) else NotImplemented

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "A string tensor is neither true nor false. Compare it, or read tapegrad.size(x)."
        )

    def __int__(self) -> int:
        raise ArgumentTypeError(_NO_NUMBER)

    def __float__(self) -> float:
        raise ArgumentTypeError(_NO_NUMBER)

    def __bytes__(self) -> bytes:
        return _only(self)

    def __fspath__(self) -> str:
        """Return the path that a 0-d tensor holds, for `open` and the like."""
        return _only(self).decode()

    def __repr__(self) -> str:
        array = self.array
        body = np.array2string(array, separator=", ") if array.ndim else repr(array[()])
        return f"<tapegrad.Tensor: shape={self.shape}, dtype=string, numpy={body}>"

    def __str__(self) -> str:
        return f"tapegrad.Tensor({self.array[()]}, shape={self.shape}, dtype=string)"

    def __copy__(self) -> StringTensor:
        return StringTensor(self.array)

    def __deepcopy__(self, memo: dict[int, Any]) -> StringTensor:
        return StringTensor(self.array)

    def __reduce__(self) -> Any:
        return StringTensor, (self.array,)


def _only(text: StringTensor) -> bytes:
    if text.array.size != 1:
        raise ArgumentTypeError(f"This needs one text. Got a string tensor of shape {text.shape}.")
    found: bytes = text.array.item()
    return found


def shown_texts(array: np.ndarray) -> str:
    """Return texts as `tapegrad.print` shows them: in quotes, except for a single one.

    >>> shown_texts(text_array(["a", "b"]))
    '["a" "b"]'
    """
    if array.ndim == 0:
        found: str = array.item().decode("utf-8", "replace")
        return found
    quoted = [
        f'"{shown_texts(np.asarray(x))}"' if array.ndim == 1 else shown_texts(x) for x in array
    ]
    return f"[{' '.join(quoted)}]"


def string_tensor(array: Any) -> StringTensor:
    """Return a string tensor of an array of bytes, or of one element of it."""
    if isinstance(array, np.ndarray):
        return StringTensor(array)
    found = np.empty((), object)
    found[()] = array
    return StringTensor(found)


def sample_texts(shape: Any, words: int) -> StringTensor:
    """Return a string tensor of texts of so many words, to try out functions of text.

    >>> sample_texts([2], 3).tolist()
    [b'a a a', b'a a a']
    """
    array = np.empty(tuple(shape), object)
    array.fill(b" ".join([b"a"] * words))
    return StringTensor(array)


def _joined(first: Any, second: Any) -> StringTensor:
    return string_tensor(np.add(text_array(first), text_array(second)))


def equal_texts(first: Any, second: Any) -> Tensor:
    """Return where two texts are equal, as a tensor of bool."""
    found = np.equal(text_array(first), text_array(second))
    return wrap(host.place(np.asarray(found, np.bool_)))


def text_array(value: Any) -> np.ndarray:
    """Return text, or nested lists and arrays of it, as an array of bytes objects.

    >>> text_array(["a", b"b"]).tolist()
    [b'a', b'b']
    """
    if isinstance(value, StringTensor):
        return value.array
    if isinstance(value, str | bytes):
        found = np.empty((), object)
        found[()] = _as_bytes(value)
        return found
    value = _as_numpy(value)
    given = value if isinstance(value, np.ndarray) else np.array(_plain(value), object)
    found = np.empty(given.shape, object)
    found.ravel()[:] = [_as_bytes(one) for one in given.ravel().tolist()]
    return found


def _as_numpy(value: Any) -> Any:
    """Return columns of data frames and the like as arrays, if they hold objects; others as is."""
    if isinstance(value, np.ndarray | StringTensor) or not hasattr(value, "__array__"):
        return value
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return np.asarray(value) if kind in _TEXT_KINDS else value


_TEXT_KINDS = ("O", "S", "U", "T")


def _plain(value: Any) -> Any:
    """Replace the string tensors in nested lists by their texts."""
    if isinstance(value, StringTensor):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _as_bytes(one: Any) -> bytes:
    if isinstance(one, bytes):
        return one
    if isinstance(one, str):
        return one.encode()
    if isinstance(one, StringTensor):
        return _only(one)
    if isinstance(one, list | tuple):
        raise ArgumentError("Nested lists of text must have equal lengths to form a tensor.")
    raise TextFoundError(f"A string tensor holds text. Got {type(one).__name__}: {one!r:.60}.")


def is_text(value: Any) -> bool:
    """Return whether a value is text, or a list or array of text.

    >>> is_text(["a"]), is_text([1.0])
    (True, False)
    """
    while isinstance(value, list | tuple) and value:
        value = value[0]
    value = _as_numpy(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":  # empty arrays of objects are text, as in TensorFlow
            return not value.size or isinstance(value.flat[0], str | bytes)
        return value.dtype.kind in "SUT"
    return isinstance(value, str | bytes | StringTensor)


def is_list_of_text(value: Any) -> bool:
    """Return whether a value is a list of Python's texts, perhaps nested.

    >>> is_list_of_text(["a"]), is_list_of_text("a")
    (True, False)
    """
    is_list = isinstance(value, list | tuple) and bool(value)
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return is_list and isinstance(value, str | bytes)


def text_or_raise(value: Any, dtype: Any, error: Exception) -> StringTensor:
    """Return a value that is no number as a string tensor, or raise the error."""
    if dtype is not None and not is_text_type(dtype):
        raise error
    if not is_text(value) and not (dtype is not None and not np.size(value)):
        raise error
    return StringTensor(text_array(value))


def to_any_tensor(value: Any, dtype: Any = None, like: Tensor | None = None) -> Any:
    """Return `value` as a tensor; text becomes a string tensor.

    `like` sets the device and perhaps the dtype of numbers.

    >>> to_any_tensor("a").numpy(), to_any_tensor(1.0).dtype.name
    (b'a', 'float32')
    """
    if type(value) is StringTensor:
        return value
    try:
        return to_tensor(value, dtype, like)
    except (TextFoundError, ArgumentTypeError) as error:
        return text_or_raise(value, dtype, error)


nest.LEAF_TYPES.add(StringTensor)
