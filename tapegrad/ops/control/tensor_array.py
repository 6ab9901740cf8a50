"""TensorArray: a list of tensors that loops write and read by index, with gradients.

The entries are kept as a list of tensors, or stacked to one tensor where an index is computed by
the function that is being recorded, so that the loop can be recorded once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.variable import Variable
from tapegrad.errors import (
    ArgumentError,
    DTypeError,
    OutOfRangeError,
    RecordingError,
    ShapeError,
)
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.control.loops import is_recording
from tapegrad.ops.creation import constant, convert_to_tensor, zeros
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.scatter import tensor_scatter_nd_update
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import concat, split, stack, unstack

Shape = tuple[int | None, ...]


class TensorArray:
    """A list of tensors of one dtype that is written and read by index.

    In eager code `write` changes the array; while a function is recorded it returns a new one, so
    use its result, as in TensorFlow. A loop that is recorded once, such as a `while_loop` whose
    condition is computed, needs a `size`, because the array cannot grow there. An entry can be read
    any number of times: `clear_after_read` is accepted and has no effect.

    >>> import tapegrad
    >>> squares = TensorArray(tapegrad.float32, size=3)
    >>> for k in range(3):
    ...     squares = squares.write(k, float(k * k))
    >>> squares.stack().tolist()
    [0.0, 1.0, 4.0]
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        length = 0 if size is None else check_whole("size", size, "TensorArray")
        if length < 0:
            raise ArgumentError(f"TensorArray needs a size of at least 0. Got {length}.")
        self._dtype = as_dtype(dtype)
        self._is_dynamic = bool(dynamic_size)
        self._infers = bool(infer_shape)
        self._shape: Shape | None = None if element_shape is None else tuple(element_shape)
        self._entries: list[Any] | None = [None] * length
        self._stacked: Any = None

    # Properties

    @property
    def dtype(self) -> DType:
        """The dtype of all entries."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether a write beyond the end makes the array longer."""
        return self._is_dynamic

    @property
    def element_shape(self) -> Shape | None:
        """The shape of the entries, None if it is not known."""
        return self._shape

    def __len__(self) -> int:
        entries = self._entries
        return int(self._stacked.shape[0]) if entries is None else len(entries)

    def __repr__(self) -> str:
        return f"<TensorArray of {len(self)} entries, {self._dtype}, shape {self._shape}>"

    def size(self, name: str | None = None) -> Any:
        """Return the number of entries as a tensor.

        >>> int(TensorArray("float32", size=3).size())
        3
        """
        return constant(len(self), "int32")

    def identity(self) -> TensorArray:
        """Return an array with the same entries.

        >>> len(TensorArray("float32", size=3).identity())
        3
        """
        made = copy.copy(self)
        made._entries = None if self._entries is None else [*self._entries]
        return made

    def close(self, name: str | None = None) -> None:
        """Drop all entries.

        >>> array = TensorArray("float32", size=3)
        >>> array.close()
        >>> len(array)
        0
        """
        self._entries, self._stacked = [], None

    # One entry

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with the value at an index, which may be a tensor.

        >>> array = TensorArray("float32", size=0, dynamic_size=True).write(1, 5.0)
        >>> float(array.read(1))
        5.0
        """
        made = self._changed()
        tensor = made._accepted(value)
        if is_undecided(index):
            made._write_stacked(reshape(as_operand(index), (1,)), tensor[None])
            return made
        place = made._place(index, "write", grows=self._is_dynamic)
        entries = made._listed()
        entries.extend([None] * (place + 1 - len(entries)))
        entries[place] = tensor
        return made

    def read(self, index: Any, name: str | None = None) -> Any:
        """Return the entry at an index, which may be a tensor.

        >>> float(TensorArray("float32", size=2).write(0, 5.0).read(0))
        5.0
        """
        if is_undecided(index):
            return gather(self.stack(), as_operand(index))
        place = self._place(index, "read")
        if self._entries is None and is_recording():
            return self._stacked[place]  # other functions may use this array, too
        entry = self._listed()[place]
        return self._unwritten([place]) if entry is None else entry

    # All entries

    def stack(self, name: str | None = None) -> Any:
        """Return all entries, stacked along a new first axis; unwritten ones are zero.

        >>> TensorArray("float32", size=2).unstack([1.0, 2.0]).stack().tolist()
        [1.0, 2.0]
        """
        if self._stacked is not None:
            return self._stacked
        entries = self._listed()
        missing = [place for place, entry in enumerate(entries) if entry is None]
        if missing or not entries:
            empty = self._unwritten(missing)
            entries = [empty if entry is None else entry for entry in entries]
        return stack(entries) if entries else zeros((0, *empty.shape), self._dtype)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with the entries of a tensor along its first axis.

        >>> float(TensorArray("float32", size=2).unstack([1.0, 2.0]).read(1))
        2.0
        """
        tensor = self._converted(value)
        if not len(tensor.shape):
            raise ShapeError("TensorArray.unstack needs a tensor with an axis. Got a 0-d tensor.")
        made = self._changed()
        made._check_shape(tuple(tensor.shape[1:]))
        made._check_length(len(self), tensor.shape[0], "unstack")
        made._entries, made._stacked = None, tensor
        return made

    def concat(self, name: str | None = None) -> Any:
        """Return all entries, joined along their first axis.

        >>> array = TensorArray("int32", size=2, infer_shape=False)
        >>> array = array.write(0, [1]).write(1, [2, 3])
        >>> array.concat().tolist()
        [1, 2, 3]
        """
        entries = self._entries
        if not entries or any(entry is None for entry in entries):
            stacked = self.stack()
            return reshape(stacked, (-1, *stacked.shape[2:]))
        return concat(entries, 0)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Return the array with parts of a tensor, cut along its first axis.

        >>> array = TensorArray("int32", size=2, infer_shape=False).split([1, 2, 3], [1, 2])
        >>> array.read(1).tolist()
        [2, 3]
        """
        parts = split(self._converted(value), lengths)
        made = self._changed()
        made._check_length(len(self), len(parts), "split")
        made._entries = [made._accepted(part) for part in parts]
        made._stacked = None
        return made

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """Return some entries, stacked along a new first axis.

        >>> TensorArray("float32", size=3).unstack([1.0, 2.0, 3.0]).gather([2, 0]).tolist()
        [3.0, 1.0]
        """
        return gather(self.stack(), indices)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with the rows of a tensor at some indices.

        >>> TensorArray("float32", size=3).scatter([2, 0], [1.0, 2.0]).stack().tolist()
        [2.0, 0.0, 1.0]
        """
        rows = self._converted(value)
        places = as_operand(indices)
        if len(places.shape) != 1 or not len(rows.shape) or places.shape[0] != rows.shape[0]:
            raise ShapeError(
                "TensorArray.scatter needs one index per row of the value. Got indices of shape "
                f"{tuple(places.shape)} and a value of shape {tuple(rows.shape)}."
            )
        if is_undecided(places):
            made = self._changed()
            made._check_shape(tuple(rows.shape[1:]))
            made._write_stacked(places, rows)
            return made
        made = self
        for place, row in zip(places.numpy().tolist(), unstack(rows)):
            made = made.write(place, row)
        return made

    # Structures: see core/values/nest.py

    def __tf_flatten__(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the tensors by which loops and functions carry this array.

        While a function is recorded it is one tensor, if possible: the body of a loop must return
        as many tensors as it gets, and branches must return equally many. It stays one tensor then,
        because the structure of a result is needed again when the recording has ended.
        """
        settings = (self._dtype, self._is_dynamic, self._infers, self._shape)
        if self._entries is not None and is_recording() and self._known_shape() is not None:
            self._stacked, self._entries = self.stack(), None
        if self._entries is None:
            return (*settings, None), (self._stacked,)
        places = tuple([place for place, entry in enumerate(self._entries) if entry is not None])
        metadata = (*settings, (len(self._entries), places))
        return metadata, tuple([self._entries[place] for place in places])

    @classmethod
    def __tf_unflatten__(cls, metadata: Any, components: Sequence[Any]) -> TensorArray:
        """Return the array of some tensors; templates of results have None in their place."""
        dtype, is_dynamic, infers, shape, written = metadata
        if written is None:
            made = cls(dtype, 0, is_dynamic, infer_shape=infers, element_shape=shape)
            (made._stacked,) = components
            made._entries = None
            return made
        size, places = written
        made = cls(dtype, size, is_dynamic, infer_shape=infers, element_shape=shape)
        made._entries = [None] * size
        for place, component in zip(places, components):
            made._entries[place] = component
        return made

    # Helpers

    def _changed(self) -> TensorArray:
        """Return the array to change: a recorded function may still use the old one."""
        return self.identity() if is_recording() else self

    def _listed(self) -> list[Any]:
        if self._entries is None:
            self._entries, self._stacked = unstack(self._stacked), None
        return self._entries

    def _place(self, index: Any, what: str, grows: bool = False) -> int:
        place = check_whole("index", index, f"TensorArray.{what}")
        if place < 0 or (place >= len(self) and not grows):
            hint = "" if what == "read" else " With dynamic_size=True it grows."
            raise OutOfRangeError(
                f"TensorArray.{what} got index {place} of an array with {len(self)} entries.{hint}"
            )
        return place

    def _converted(self, value: Any) -> Any:
        has_dtype = hasattr(value, "dtype") or isinstance(value, Variable)
        tensor = as_operand(value) if has_dtype else convert_to_tensor(value, self._dtype)
        if tensor.dtype != self._dtype:
            raise DTypeError(
                f"A TensorArray of {self._dtype} got a value of {tensor.dtype}. Use cast."
            )
        return tensor

    def _accepted(self, value: Any) -> Any:
        tensor = self._converted(value)
        self._check_shape(tuple(tensor.shape))
        return tensor

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        wanted = self._shape
        fits = wanted is None or (
            len(wanted) == len(shape) and all(w in (None, n) for w, n in zip(wanted, shape))
        )
        if not fits:
            raise ShapeError(
                f"A TensorArray with entries of shape {wanted} got one of shape {shape}. With "
                "infer_shape=False and no element_shape, shapes may differ."
            )
        if self._infers and (wanted is None or None in wanted):
            self._shape = shape

    def _check_length(self, size: int, given: int, what: str) -> None:
        if size != given and not self._is_dynamic and size:
            raise ShapeError(
                f"TensorArray.{what} got {given} entries for an array of {size}. "
                "With dynamic_size=True it takes any number."
            )

    def _known_shape(self) -> tuple[int, ...] | None:
        """Return the shape that all entries have, None if it is not known."""
        shape = self._shape
        if shape is None or None in shape:
            return None
        return tuple(size for size in shape if size is not None)

    def _unwritten(self, places: Sequence[int]) -> Any:
        """Return the value of entries that nothing has written."""
        shape = self._known_shape()
        if shape is None:
            raise ArgumentError(
                f"Entry {places[0] if places else 0} of a TensorArray is not written, and the "
                "shape of its entries is not known. Write it, or give element_shape."
            )
        return zeros(shape, self._dtype)

    def _write_stacked(self, places: Any, rows: Any) -> None:
        if not len(self):
            raise RecordingError(
                "A TensorArray of size 0 is written at an index that the recorded function "
                "computes, so it cannot grow. Give it a size that is large enough."
            )
        if self._known_shape() is None:
            self._check_shape(tuple(rows.shape[1:]))
        updated = tensor_scatter_nd_update(self.stack(), places[:, None], rows)
        self._entries, self._stacked = None, updated


def with_shape_of(old: Any, new: Any) -> Any:
    """Return an array without entries as one whose entries have the shape of those in another.

    Anything but a TensorArray is returned as it is.
    """
    if not isinstance(old, TensorArray) or not isinstance(new, TensorArray):
        return old
    if old._known_shape() is not None or new._known_shape() is None:
        return old
    made = old.identity()
    made._shape = new._known_shape()
    return made
