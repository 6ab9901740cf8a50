"""Tensor: an immutable handle on a backend's array.

Operators are bound from the table in `tapegrad.ops.interface.operators`.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapegrad.core.absent_attributes import add_absent
from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.exits import AS_ARRAY, CUDA_INTERFACE, CUPY, DLPACK, note_exit
from tapegrad.core.ownership import is_held_elsewhere
from tapegrad.core.recorder import Node
from tapegrad.core.values import host, nest
from tapegrad.core.values.device_name import device_name
from tapegrad.core.values.dlpack import export_array
from tapegrad.core.values.dtypes import KNOWN_DTYPES, DType, as_dtype, refuse_unsupported
from tapegrad.core.values.library_arrays import is_output, may_write, output_memory, refuse_buffer
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.trial import is_trial
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

if TYPE_CHECKING:
    from tapegrad.core.values.operator_types import HasOperators
else:
    HasOperators = object

_new = object.__new__
_WRITABLE = 1
"""The flag of Python's buffer protocol that asks for memory to write to."""


_new_shape = tuple.__new__  # of a shape, without a call of Python code


class TensorRef:
    """A hashable stand-in for a tensor or variable (from `.ref()`), equal by identity."""

    __slots__ = ("_referent",)

    def __init__(self, referent: Any) -> None:
        self._referent = referent

    def deref(self) -> Any:
        return self._referent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorRef) and self._referent is other._referent

    def __hash__(self) -> int:
        return id(self._referent)

    def __repr__(self) -> str:
        return f"<ref of {self._referent!r}>"


class HasArray(HasOperators):
    """The properties of an array that tensors and variables share."""

    __slots__ = ()

    array: Array

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise, so hashing would mislead

    @property
    def shape(self) -> TensorShape:
        return _new_shape(TensorShape, self.array.shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Check that the shape is this one, in which None means any size; nothing is changed.

        >>> import tapegrad
        >>> tapegrad.ones([2, 3]).set_shape((None, 3))
        """
        if shape is None:
            return
        known = tuple(self.array.shape)
        if len(shape) != len(known) or any(m not in (None, n) for m, n in zip(shape, known)):
            raise ShapeError(f"set_shape({tuple(shape)}) does not fit a tensor of shape {known}.")

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def size(self) -> int:
        # Programs for all sizes see which decisions depend on the shape.
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        known = KNOWN_DTYPES.get(self.array.dtype)
        return known or as_dtype(backend_of(self.array).dtype_of(self.array))

    @property
    def device(self) -> str:
        return device_name(backend_of(self.array).device_of(self.array))

    def _repr_html_(self) -> str:
        """Return a table of the values, which notebooks display."""
        from tapegrad.core import html  # for notebooks only

        if is_recorded(self.array):
            return html.preformatted(repr(self))
        title = f"{type(self).__name__} of shape {self.shape}, {self.dtype}, on {self.device}"
        return html.array_page(title, host.fetch(self.array, None, "repr()"))


add_absent(
    HasArray,
    {
        "backward grad": "Compute inside `with tapegrad.GradientTape() as tape:`, then call "
        "tape.gradient(loss, variables).",
        "detach": "Use tapegrad.stop_gradient.",
        "requires_grad requires_grad_": "A tape follows variables, and tensors after tape.watch.",
        "cuda": 'Use x.to("gpu"), or make it inside `with tapegrad.device("gpu"):`.',
        "unsqueeze": "Use tapegrad.expand_dims.",
        "permute": "Use tapegrad.transpose.",
        "block_until_ready": "Reading the value waits for it: x.numpy().",
    },
)


class Tensor(HasArray):
    """An immutable array that tapes can record. Make one with `tapegrad.constant`.

    `node` is the value's node in the recorded graph, None if no recorder tracks it. Only a view has
    `view_of`, and only a tensor with views has `views`: see `tapegrad.ops.indexing.views`.

    >>> import tapegrad
    >>> x = tapegrad.constant([[1.0, 2.0]])
    >>> x.shape, x.dtype, x.device
    ((1, 2), <dtype: 'float32'>, 'cpu')
    """

    __slots__ = ("__weakref__", "array", "node", "view_of", "views")

    node: Node | None
    is_shared: ClassVar[bool] = False
    """Whether another library can write to the memory."""
    view_of: Any
    views: list[weakref.ref[Tensor]]

    def __init__(self, array: Array) -> None:
        refuse_unsupported(backend_of(array).dtype_of(array))
        self.array = array
        self.node = None

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """Return a copy as a NumPy array (a NumPy scalar for a 0-d tensor)."""
        value = host.fetch(self.array, self.node, "numpy()")
        # A scalar of NumPy has the methods of an array, so type checkers may take it for one.
        return value[()] if value.ndim == 0 else value

    def numpy_later(self) -> host.Later:
        """Start to copy the value to the host and return a future at once, e.g. to log a loss.

        Its `done()` returns whether the value has arrived, and `result()` waits for it.
        """
        return host.fetch_later(self.array, self.node, "numpy_later()")

    def item(self, *where: Any) -> Any:
        """Return one element as a Python number: the only one, or the one at a position.

        The position is an index into the flattened tensor, or one index per axis.
        """
        return host.fetch(self.array, self.node, "item()").item(*where)

    def tolist(self) -> Any:
        return host.fetch(self.array, self.node, "tolist()").tolist()

    def ref(self) -> TensorRef:
        """Return a hashable reference to this tensor, for sets and dictionary keys."""
        return TensorRef(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a snapshot for `np.asarray(x)`, or an array to write to for `np.array(x)`.

        The snapshot is read-only: a function that were to write its result into `x` would fill
        the snapshot instead. Libraries get what `tapegrad.core.values.library_arrays` describes.
        """
        if copy is False:
            raise ArgumentError(
                "A tensor becomes a NumPy array by a copy, which copy=False forbids. "
                "np.from_dlpack(x) shares the memory of a tensor on the CPU."
            )
        caller = sys._getframe(1)
        if not copy and is_output(self, caller) and not is_recorded(self.array):
            return output_memory(self)
        value = host.fetch(self.array, self.node, AS_ARRAY)
        value = value if dtype is None else value.astype(dtype, copy=False)
        value.flags.writeable = bool(copy) or may_write(caller)
        return value

    def __buffer__(self, flags: int) -> memoryview:
        """Return a read-only buffer of a copy for `memoryview(x)` (Python 3.12 and later).

        NumPy tries this before `__array__`, so it must also give `np.asarray(x)` a snapshot.
        """
        if flags & _WRITABLE:
            raise BufferError("A tensor offers no memory to write to. Write to x.numpy().")
        if self.dtype.name == "bfloat16":
            raise DTypeError(
                "Python's buffers hold no bfloat16. Use x.numpy() or tapegrad.cast(x, 'float32')."
            )
        refuse_buffer(sys._getframe(1))
        value = host.fetch(self.array, self.node, AS_ARRAY)
        value.flags.writeable = False
        return value.data

    def __bytes__(self) -> bytes:
        """Return a copy of the memory, as NumPy does; by default `bytes(x)` would iterate."""
        return host.fetch(self.array, self.node, "bytes()").tobytes()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """Share the memory with other libraries: `y = torch.from_dlpack(x)`.

        If something else holds the memory too, e.g. a tape, `x` is copied first. With
        `copy=False` the memory is shared as it is, and must only be read.
        """
        if self.node is not None:
            note_exit(DLPACK, self.node)
        array = self._shared_array if copy is False else self._exposed()
        return export_array(array, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> Any:
        return self._shared_array.__dlpack_device__()

    @property
    def _shared_array(self) -> Array:
        """The array; NumPy scalars, which have no DLPack methods, become 0-d arrays."""
        return np.asarray(self.array) if isinstance(self.array, np.generic) else self.array

    def _show(self, memory: Array) -> None:
        """Make this a tensor of memory that other code writes."""
        self.array = memory
        if type(self) is Tensor:
            self.__class__ = SharedTensor

    def _exposed(self) -> Array:
        """Return the array for a library that may write to it: nothing else has its memory."""
        if type(self) is not SharedTensor:
            if is_held_elsewhere(self):
                self.array = backend_of(self.array).xp.asarray(self.array, copy=True)
            self._show(self.array)
        return self._shared_array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface; tensors on other devices do not have this attribute.

        It does not support bfloat16. Use `__dlpack__` for tensors of that dtype.
        """
        has_interface = hasattr(self.array, "__cuda_array_interface__")
        if not has_interface or self.dtype.name == "bfloat16":
            raise AttributeError(
                f"A tensor of {self.dtype} on {self.device} has no __cuda_array_interface__."
            )
        if self.node is not None:
            note_exit(CUDA_INTERFACE, self.node)
        interface: dict[str, Any] = self._exposed().__cuda_array_interface__
        return interface

    @property
    def __cupy_get_ndarray__(self) -> Callable[[], Array]:
        """Used by `cupy.asarray(x)` for dtypes that `__cuda_array_interface__` lacks."""
        if not hasattr(self.array, "__cuda_array_interface__"):
            raise AttributeError(f"A tensor on {self.device} is not a CuPy array.")
        return self._shared

    def _shared(self) -> Array:
        if self.node is not None:
            note_exit(CUPY, self.node)
        return self._exposed()

    def __len__(self) -> int:
        shape = self.array.shape
        if not shape:
            raise ArgumentTypeError("A 0-d tensor has no length. Use tapegrad.size(x).")
        return int(shape[0])

    def __bool__(self) -> bool:
        value = host.fetch(self.array, None, "bool()")  # a branch has no derivative
        if value.size > 1:
            raise ArgumentError(
                "The truth value of an array with more than one element is ambiguous. Got a tensor "
                f"of {self.dtype} and shape {self.shape}; use x.any() or x.all(), and &, | and ~ "
                "instead of `and`, `or` and `not`."
            )
        return bool(value)

    def __int__(self) -> int:
        return int(self._only_number("int()"))

    def __trunc__(self) -> int:
        whole: int = math.trunc(self._only_number("math.trunc()"))
        return whole

    def __float__(self) -> float:
        return float(self._only_number("float()"))

    def __complex__(self) -> complex:
        return complex(self._only_number("complex()"))

    def _only_number(self, how: str) -> Any:
        value = host.fetch(self.array, self.node, how)
        if value.size != 1:
            raise ArgumentError(
                f"{how} needs a tensor with only one element. Got one of {self.dtype} and shape "
                f"{self.shape}; functions of tapegrad, such as tapegrad.sqrt, take all elements."
            )
        return value.item()

    def __hash__(self) -> int:  # type: ignore[override]  # variables have none
        """Return the hash of one integer, so that np.argmax(x) can be a key of a dictionary."""
        if self.array.shape == () and self.dtype.is_integer:
            return hash(self.__index__())
        raise TypeError(
            "unhashable type: 'Tensor', because == compares elements. Use x.ref() as the key of a "
            "dictionary. Only a tensor of one integer has a hash."
        )

    def __index__(self) -> int:
        number = host.fetch(self.array, self.node, "index()")
        try:
            return number.__index__()
        except TypeError:
            raise ArgumentTypeError(
                "An index, a length or range() takes one integer. "
                f"Got a tensor of {self.dtype} and shape {self.shape}."
            ) from None

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.size != 1:
            raise ArgumentTypeError(
                f"The format {spec!r} is for one number. Got a tensor of shape "
                f"{self.shape}: format the elements of x.tolist(), or str(x)."
            )
        return format(host.fetch(self.array, None, "format()").item(), spec)

    def __repr__(self) -> str:
        if is_recorded(self.array):
            return f"<tapegrad.Tensor: shape={self.shape}, dtype={self.dtype}, recorded>"
        if is_trial():
            return f"<tapegrad.Tensor: shape={self.shape}, dtype={self.dtype}, unknown>"
        value = host.fetch(self.array, None, "repr()")
        body = np.array2string(value, separator=", ") if value.ndim else str(value[()])
        return f"<tapegrad.Tensor: shape={self.shape}, dtype={self.dtype}, numpy={body}>"

    def __str__(self) -> str:
        if is_recorded(self.array):
            return f"tapegrad.Tensor(recorded, shape={self.shape}, dtype={self.dtype})"
        if is_trial():
            return f"tapegrad.Tensor(unknown, shape={self.shape}, dtype={self.dtype})"
        value = host.fetch(self.array, None, "str()")
        return f"tapegrad.Tensor({value}, shape={self.shape}, dtype={self.dtype})"

    def __copy__(self) -> Tensor:
        """Return a second handle on the value; item assignment to one does not change the other."""
        return wrap(self.array, self.node)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return wrap(self.array, self.node)

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, str]]:
        return _rebuild, (host.fetch(self.array, self.node, "pickle"), self.device)


def is_recorded(array: Array) -> bool:
    """Whether an array belongs to a recording, so that its value must not be shown."""
    return getattr(type(array), "is_recorded", False)


class SharedTensor(Tensor):
    """A tensor whose memory another library can write: see `tapegrad.core.values.shared`."""

    __slots__ = ()
    is_shared = True


def wrap(array: Array, node: Node | None = None) -> Tensor:
    """Return a tensor of a raw array, without checks."""
    tensor: Tensor = _new(Tensor)
    tensor.array = array
    tensor.node = node
    return tensor


def _rebuild(value: np.ndarray, device: str) -> Tensor:
    return Tensor(host.place(value, device))


nest.LEAF_TYPES.update((Tensor, SharedTensor, np.ndarray))
