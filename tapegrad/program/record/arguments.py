"""The arguments of a call: which are inputs of the program, and how the others are distinguished.

Every argument is one of these:

- An array: tensors, arrays of any library that offers DLPack, `__array__` or a buffer. Its values
  are inputs of the program; the key has its shape and dtype.
- A variable, by its number.
- A number, text, dtype or the like, by its exact value: 0.0 and -0.0 are two keys, NaN is one.
- Any other object, by identity. Its programs end with it.
"""

from __future__ import annotations

import array as buffers
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.exact_key import exact_key
from tapegrad.core.precision import TF32
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values import nest
from tapegrad.core.values.convert import has_mask, to_arrays, to_tensor
from tapegrad.core.values.device import chosen_device
from tapegrad.core.values.dtypes import ALLOWED, DType
from tapegrad.core.values.host import array_type
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import SharedTensor, Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import TapegradError

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

BY_VALUE = frozenset({
    *(int, float, complex, bool, str, bytes, type(None), type(...)),
    *(range, slice, frozenset, DType),
})  # fmt: skip
"""Types of immutable values, which are distinguished by value."""

_OFFERS = ("__dlpack__", "__array__", "__array_interface__", "__cuda_array_interface__")
_BUFFERS = (buffers.array, bytearray, memoryview)
_PLAIN_ARRAYS = (np.ndarray, np.memmap)
_NUMBERS = "fiubc"
_TEXT = "SUTMmOV"
"""NumPy's kinds of text, dates, objects and records. bfloat16 is of kind V, too."""


class CannotRecord(TypeError):  # noqa: N818  # it never leaves the package
    """An argument is neither an array nor hashable, so calls cannot be distinguished."""


def flatten_call(args: Args, kwargs: Kwargs) -> list[Any]:
    """Return the leaves of all arguments, with arrays of all libraries as tensors."""
    leaves = nest.flatten((args, kwargs)) if kwargs or not _is_flat(args) else list(args)
    hosts = [place for place, leaf in enumerate(leaves) if _is_numeric(leaf)]
    if hosts:
        place_hosts(leaves, hosts)
        for place in hosts:
            leaves[place] = wrap(leaves[place])
    for leaf in leaves:
        if type(leaf) is Tensor and isinstance(leaf.array, np.generic):
            _as_array(leaf)
    return [leaf if type(leaf) in _KNOWN else _as_tensor(leaf) for leaf in leaves]


def with_tensors(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """Return the arguments with NumPy arrays as tensors, as the code of a program gets them."""
    leaves = nest.flatten((args, kwargs))
    hosts = [place for place, leaf in enumerate(leaves) if _is_numeric(leaf)]
    if not hosts:
        return args, kwargs
    place_hosts(leaves, hosts)
    for place in hosts:
        leaves[place] = wrap(leaves[place])
    packed: tuple[Args, Kwargs] = nest.pack_sequence_as((args, kwargs), leaves)
    return packed


def _as_array(tensor: Tensor) -> np.ndarray:
    """Let a tensor hold an array instead of a NumPy scalar, which would be another key."""
    tensor.array = np.asarray(tensor.array)
    return tensor.array  # type: ignore[no-any-return]


def arrays_in(leaves: list[Any]) -> list[Any]:
    """Return the arrays of the tensors among the leaves: the inputs of the program."""
    return [leaf.array for leaf in leaves if type(leaf) is Tensor]


def take_shared(leaves: list[Any]) -> list[Tensor]:
    """Replace tensors with memory of other libraries by ordinary ones; return those replaced.

    The program reads the memory before the call returns, so no copy is needed.
    """
    shared: list[Tensor] = [leaf for leaf in leaves if type(leaf) is SharedTensor]
    if shared:
        leaves[:] = [wrap(t.array) if type(t) is SharedTensor else t for t in leaves]
    return shared


_KNOWN = BY_VALUE | {Tensor, Variable}
"""Types of leaves that need no conversion."""


def _is_flat(args: Args) -> bool:
    return not any([nest.is_nested(arg) for arg in args])


def plain_key(args: Args) -> tuple[Any, list[Any], list[int]] | None:
    """Return the key and the arrays of a call with tensors and NumPy arrays only, else None.

    NumPy arrays are not placed yet; the third item has their positions. The key is that of
    `key_of`.
    """
    key: list[Any] = [(chosen_device(), TF32["on"])]
    arrays: list[Any] = []
    hosts: list[int] = []
    kind: type | None = None
    for arg in args:
        if type(arg) is Tensor:
            array = arg.array
            shape = array.shape
            if not shape and isinstance(array, np.generic):
                array = _as_array(arg)
            key += (type(array), shape, array.dtype)
        elif _is_numeric(arg):
            array, kind = arg, kind or array_type()
            hosts.append(len(arrays))
            key += (kind, array.shape, array.dtype)
        else:
            return None
        arrays.append(array)
    return tuple(key), arrays, hosts


def place_hosts(values: list[Any], hosts: Sequence[int]) -> None:
    """Replace the NumPy arrays at these positions by copies on the current device."""
    placed = to_arrays([values[place] for place in hosts])
    for place, array in zip(hosts, placed, strict=True):
        values[place] = array


def _is_numeric(leaf: Any) -> bool:
    """Whether a leaf is a NumPy array of numbers."""
    return type(leaf) is np.ndarray and leaf.dtype.kind in _NUMBERS


def _as_tensor(leaf: Any) -> Any:
    """Return an array as a tensor, and any other leaf as it is."""
    kind: Any = type(leaf)
    if isinstance(leaf, Tensor):  # e.g. a slice of a variable, or a tensor that shares its memory
        leaf = to_tensor(leaf)
        known = type(leaf) is Tensor or type(leaf) is SharedTensor
        return leaf if known else wrap(leaf.array, leaf.node)
    if not _is_array_type(kind):
        return leaf
    try:
        if find_backend(kind) is not None or _is_on_device(leaf):
            return to_tensor(leaf)
        by_dlpack = not hasattr(kind, "__array__") and hasattr(kind, "__dlpack__")
        array = np.from_dlpack(leaf) if by_dlpack else np.asarray(leaf)
        known = array.dtype.kind not in _TEXT or array.dtype.name in ALLOWED
        return to_tensor(array) if known else leaf
    except (TapegradError, TypeError, ValueError, RuntimeError, BufferError):
        return leaf  # it has no numbers, or its library refuses; the function may know better


@functools.lru_cache(maxsize=256)
def _is_array_type(kind: type) -> bool:
    if issubclass(kind, np.ndarray):
        return kind in _PLAIN_ARRAYS  # matrices and masked arrays compute in another way
    if kind in INTERPRETERS or issubclass(kind, np.generic | Variable | IndexedSlices | type):
        return False
    return issubclass(kind, _BUFFERS) or any(hasattr(kind, name) for name in _OFFERS)


def _is_on_device(leaf: Any) -> bool:
    """Whether an array is in memory that NumPy cannot read."""
    if hasattr(leaf, "__cuda_array_interface__"):
        return True
    ask = getattr(leaf, "__dlpack_device__", None)
    return ask is not None and int(ask()[0]) not in (1, 3)  # DLPack's host and page-locked memory


def key_of(leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
    """Return the cache key of a call.

    `plain_key` builds the same key for calls with tensors and NumPy arrays only.
    """
    parts: list[Any] = [(chosen_device(), TF32["on"])]
    for position, leaf in enumerate(leaves):
        if type(leaf) is Tensor:
            array = leaf.array
            parts += (type(array), array.shape, array.dtype)
        elif type(leaf) is Variable:
            parts += (Variable, leaf.number)
        else:
            parts.append(_static(position, leaf))
    if kwargs or not _is_flat(args):
        parts.append(structure_of((args, kwargs)))
    return tuple(parts)


def _static(position: int, leaf: Any) -> Any:
    """Return the key of an argument that is a constant of the program."""
    kind: Any = type(leaf)
    if kind in BY_VALUE or isinstance(leaf, np.generic | np.dtype):
        return exact_key(leaf)
    if kind is tuple:
        return (kind, *[_static(position, entry) for entry in leaf])
    if isinstance(leaf, Iterator):
        raise CannotRecord(
            f"Argument {position} is an iterator ({kind.__name__}), which can be read only once. "
            "Pass a list or a tensor to have it recorded"
        )
    if isinstance(leaf, IndexedSlices) or has_mask(leaf) or _is_array_type(kind):
        raise CannotRecord(
            f"Argument {position} is of type {kind.__name__}, whose values cannot be inputs of a "
            "program. Pass a tensor to have it recorded"
        )
    if not _is_hashable(leaf):
        raise CannotRecord(
            f"Argument {position} is of type {kind.__name__}, which is not hashable, so that calls "
            "cannot be distinguished. Pass a tuple, a number or a tensor to have it recorded"
        )
    if kind is MethodType:  # each access of a method makes a new object
        return kind, Identity(leaf.__func__), Identity(leaf.__self__)
    return Identity(leaf)


def _is_hashable(leaf: Any) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True


def structure_of(value: Any) -> Any:
    """Return a key of the containers of a nested value without the leaves."""
    kind = type(value)
    if kind in nest.LEAF_TYPES:
        return None
    if kind is tuple or kind is list:
        return (kind, *[structure_of(child) for child in value])
    if kind is not dict and not nest.is_nested(value):
        return None
    if isinstance(value, Mapping):
        # The order counts: the function may iterate over the entries.
        keys = [key if type(key) is str else exact_key(key) for key in value]
        return (kind, *keys, *[structure_of(value[key]) for key in value])
    notes = None
    if hasattr(kind, "__tf_flatten__"):
        notes = _static(0, value.__tf_flatten__()[0])
    return (kind, notes, *[structure_of(child) for child in nest.children(value)])


class Identity:
    """A key that is equal for the same object only, and never again after the object is gone."""

    __slots__ = ("_hash", "_object")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._object: Callable[[], Any] = weakref.ref(value)
        except TypeError:  # no weak references: the key keeps the object alive
            self._object = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return NotImplemented
        mine = self._object()
        return mine is not None and mine is other._object()

    def __repr__(self) -> str:
        return f"<identity of {self._object()!r}>"

    def call_at_end(self, action: Callable[[], None]) -> Any:
        """Call `action` when the object is gone, as long as the result of this call is kept."""
        value = self._object()
        if value is None or not isinstance(self._object, weakref.ref):
            return None
        return weakref.ref(value, lambda _: action())


def identities_in(key: Any) -> Iterator[Identity]:
    """Yield the objects in a key."""
    if isinstance(key, Identity):
        yield key
    elif type(key) is tuple:
        for part in key:
            yield from identities_in(part)


def why_uncompiled(leaves: list[Any]) -> str:
    """Return why no program can take these arguments, or an empty string.

    >>> import tapegrad
    >>> why_uncompiled([tapegrad.constant("text")])
    'an argument is text, which stays on the host'
    """
    for leaf in leaves:
        if type(leaf) in INTERPRETERS:
            if type(leaf) is StringTensor:
                return "an argument is text, which stays on the host"
            return "vmap or a forward mode tracks an argument"
    return ""
