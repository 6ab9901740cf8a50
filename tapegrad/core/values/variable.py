"""Variable: a named, mutable value, e.g. a weight."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

import numpy as np

from tapegrad.core.absent_attributes import missing_attribute
from tapegrad.core.argument_checks import check_flag
from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.observed import observed_slot
from tapegrad.core.recorder import NO_PARAMS, Node, Stack, Token, active_stack, make_leaf, note_cut
from tapegrad.core.string_variable import StringVariable
from tapegrad.core.update_lock import other_threads, updating, withheld
from tapegrad.core.values import host, nest
from tapegrad.core.values.convert import (
    copy_of_device_array,
    register_tensor_conversion_function,
    to_tensor,
)
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.library_arrays import is_output, may_write, no_output, refuse_buffer
from tapegrad.core.values.shared import copy_of, private_array
from tapegrad.core.values.strings import is_text
from tapegrad.core.values.tensor import HasArray, Tensor, TensorRef, wrap
from tapegrad.core.values.variable_value import callable_value
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, InPlaceError, ShapeError

_next_number = count(1).__next__
_live: WeakValueDictionary[int, Variable] = WeakValueDictionary()
_listeners: list[Callable[[Variable], None]] = []
_new = object.__new__
_NUMERIC = (int, float, complex, Tensor, np.generic)
CONVERSIONS = {"safe": False}
"""Whether assignments convert tensors to the dtype of the variable, where this loses nothing."""
_IS_VARIABLE = {"variable": True}
_IS_READ = {"variable": True, "own": True}
"""Parameters of leaves: of operands that are a variable, and of a tensor from `read_value()`."""


class Variable(HasArray):
    """A value that can be assigned to; every active tape that reads it watches it.

    Reads are snapshots: a tensor read before an `assign` keeps its value, also if another thread
    assigns or runs a function that updates the variable in place. `assign`, `assign_add`,
    `assign_sub` and the methods that write to a slice are atomic: no update of another thread is
    lost. `v.assign(v + 1)` is a read and a write, between which another thread may update.

    >>> w = Variable([1.0, 2.0])
    >>> w.assign_add([1.0, 1.0]).numpy()
    array([2., 3.], dtype=float32)
    """

    __slots__ = (
        "__weakref__",
        "_constraint",
        "_declared_shape",
        "_leaf",
        "_path",
        "_trainable",
        "array",
        "name",
        "number",
        "overwritten",
    )
    overwritten: int
    """How often a program or an optimizer has written to the array, while there were threads.

    The array is the same object then. Whoever read it before has an old value nevertheless.
    """

    trainable: bool = observed_slot("_trainable")
    constraint: Callable[[Tensor], Any] | None = observed_slot("_constraint")

    def __new__(cls, *args: Any, **options: Any) -> Self:
        value = args[0] if args else options.get("initial_value")
        if not isinstance(value, _NUMERIC) and is_text(value):
            names = [*args[2:3], options.get("name"), "Variable"]
            label = next(name for name in names if name)
            text: Any = StringVariable(value, Variable(0), f"{label}:0")
            return text  # type: ignore[no-any-return]  # the exception
        return _new(cls)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: Any = None,
        name: str | None = None,
        dtype: Any = None,
        constraint: Callable[[Tensor], Any] | None = None,
        shape: Any = None,
        validate_shape: bool = True,
        synchronization: Any = None,
        aggregation: Any = None,
    ) -> None:
        if initial_value is None:
            raise ArgumentError("A Variable needs an initial_value. Got None.")
        if constraint is not None and not callable(constraint):
            raise ArgumentError(f"constraint must be a function or None. Got {constraint!r}.")
        if callable(initial_value) and not isinstance(initial_value, Tensor | Variable):
            initial_value = initial_value()
        self.number = _next_number()
        self.overwritten = 0
        self.array: Array = _initial_array(initial_value, dtype)
        self._trainable = True if trainable is None else bool(trainable)
        self.name = f"{name or 'Variable'}:0"
        self._constraint = constraint
        self._declared_shape = _declared(shape, self.array.shape)
        self._leaf: tuple[tuple[Token, ...], Node | None] | None = None
        _live[self.number] = self
        for listener in _listeners:
            listener(self)

    if TYPE_CHECKING:  # tapegrad.ops.interface.variable_slices adds these methods
        gather_nd: Callable[..., Tensor]
        scatter_add: Callable[..., Variable]
        scatter_div: Callable[..., Variable]
        scatter_max: Callable[..., Variable]
        scatter_min: Callable[..., Variable]
        scatter_mul: Callable[..., Variable]
        scatter_nd_add: Callable[..., Variable]
        scatter_nd_sub: Callable[..., Variable]
        scatter_nd_update: Callable[..., Variable]
        scatter_sub: Callable[..., Variable]
        scatter_update: Callable[..., Variable]
        sparse_read: Callable[..., Tensor]
    else:  # type checkers report names that do not exist

        def __getattr__(self, name: str) -> Any:
            """Return the array after the program that withholds it from other threads has ended."""
            if name == "array":
                with updating:
                    if self.number in withheld:  # this thread runs the program
                        return withheld[self.number]
                    return _array.__get__(self)
            raise missing_attribute(self, name)

    @property
    def path(self) -> str:
        """The name of the layer that made the variable, and its name: "dense/kernel"."""
        return getattr(self, "_path", None) or self.name.removesuffix(":0")

    @path.setter
    def path(self, path: str) -> None:
        self._path = path

    @property
    def value(self) -> Any:
        """The current value as an operand; `value()` is `read_value()`, as in TensorFlow.

        Inside `vmap` only the call is available.
        """
        tensor = self.shared_value()
        if type(tensor) is not Tensor:
            return self.read_value
        return callable_value(tensor, self.read_value)

    def read_value(self) -> Any:
        """Return the current value as a new tensor; active tapes record the read.

        The tensor is a separate source: the gradient with respect to it counts its uses only,
        and that with respect to the variable counts all uses.
        """
        stack = active_stack()
        if not stack.tokens:
            return wrap(self.array)
        if stack.framed:
            return stack.framed[-1].read_per_example(self, is_own=True)
        return wrap(self.array, self.new_leaf(stack, _IS_READ))

    def shared_value(self) -> Any:
        """Return the current value as an operand; all reads of one recording share a leaf."""
        stack = active_stack()
        if not stack.tokens:
            return wrap(self.array)
        if stack.framed:  # a tape inside vmap computes one gradient per example
            return stack.framed[-1].read_per_example(self)
        tensor: Tensor = _new(Tensor)
        tensor.array = self.array
        tensor.node = self.leaf(stack)
        return tensor

    def leaf(self, stack: Stack) -> Node | None:
        """Return the leaf of the current value for the recorders of `stack`, made on first read."""
        tokens = stack.tokens
        known = self._leaf
        if known is None or known[0] is not tokens:
            known = self._leaf = (tokens, self.new_leaf(stack, _IS_VARIABLE))
        return known[1]

    def was_read(self, stack: Stack) -> bool:
        """Whether the current value already has a leaf."""
        return self._leaf is not None and self._leaf[0] is stack.tokens

    def new_leaf(self, stack: Stack, params: dict[str, Any] = NO_PARAMS) -> Node | None:
        """Return a new leaf for the recorders of `stack` that track this variable, or None."""
        node = make_leaf(stack.tokens, params)
        followers = [r for r in stack.recorders if r.follows_variable(self, node)]
        if len(followers) != len(stack.tokens):
            node.tokens = tuple([recorder.token for recorder in followers])
        return node if followers else None

    def become(self, value: Tensor) -> None:
        """Take a value of any shape, e.g. a part of the old one that this process is to hold."""
        self.array = copy_of(value.array)  # a view would keep the old value alive
        self._declared_shape = tuple(value.shape)
        self.forget_leaf()

    def forget_leaf(self) -> None:
        """Make a new leaf at the next read, because a recorder began to track this variable."""
        self._leaf = None

    def assign(
        self, value: Any, use_locking: bool = False, name: Any = None, read_value: Any = True
    ) -> Any:
        """Replace the value; return the variable (None with `read_value=False`)."""
        if read_value is not True and read_value is not False:
            check_flag("read_value", read_value, "assign")
        new = self._fit(value, "assign")
        if other_threads():
            with updating:  # otherwise another thread's assign_add could overwrite it
                self.array = new
        else:
            self.array = new
        return self._after_assign(True) if read_value else None

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: Any = True
    ) -> Any:
        """Add `delta` to the value."""
        if read_value is not True and read_value is not False:
            check_flag("read_value", read_value, "assign_add")
        change = self._fit(delta, "assign_add")
        if other_threads():
            with updating:
                self.array = self.array + change
        else:
            self.array = self.array + change
        return self._after_assign(True) if read_value else None

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: Any = True
    ) -> Any:
        """Subtract `delta` from the value."""
        if read_value is not True and read_value is not False:
            check_flag("read_value", read_value, "assign_sub")
        change = self._fit(delta, "assign_sub")
        if other_threads():
            with updating:
                self.array = self.array - change
        else:
            self.array = self.array - change
        return self._after_assign(True) if read_value else None

    def _after_assign(self, read_value: bool) -> Variable | None:
        if not read_value:
            return None
        self.shared_value()  # the result counts as a read: tapes that watch reads record it
        return self

    def fitted(self, value: Any) -> Array:
        """Return the array that `assign(value)` would store, and change nothing."""
        return self._fit(value, "assign")

    def _fit(self, value: Any, method: str) -> Array:
        """Check shape and dtype of a new value and return it as an array on this device."""
        if isinstance(value, Variable):
            value = value.shared_value()
        elif not isinstance(value, Tensor):
            value = self._convert(value, method)
        if value.dtype != self.dtype and CONVERSIONS["safe"] and _holds(self.dtype, value.dtype):
            value = value.astype(self.dtype)
        if value.dtype != self.dtype:
            raise DTypeError(
                f"{method} on {self.name!r} expects {self.dtype}. Got a tensor of {value.dtype}; "
                f"cast it with tapegrad.cast(x, '{self.dtype}')."
            )
        if not _accepts(self._declared_shape, value.shape):
            raise ShapeError(
                f"{method} on {self.name!r} expects shape {self._declared_shape}. "
                f"Got {value.shape}."
            )
        if value.node is not None:
            note_cut(f"became the state of {self.name!r} by {method}", (value.node,))
        return host.move(private_array(value), self.device, f"{method}()")

    def _convert(self, value: Any, method: str) -> Tensor:
        """Convert a value; numbers, lists and arrays take this dtype, other types keep theirs."""
        try:
            copy = copy_of_device_array(value, self.dtype)
            return to_tensor(value, self.dtype) if copy is None else wrap(copy)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(
                f"{method} on {self.name!r} cannot take this value. {error}"
            ) from error

    def _refuse_in_place(self, other: Any) -> Any:
        raise InPlaceError(
            f"In-place operators do not change a variable. Use {self.name!r}.assign_add(x), "
            "assign_sub(x) or assign(new_value); or write `y = v + x` for a new tensor."
        )

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = _refuse_in_place
    __imod__ = __ipow__ = __imatmul__ = __iand__ = __ior__ = __ixor__ = _refuse_in_place
    __ilshift__ = __irshift__ = _refuse_in_place

    def numpy(self) -> np.ndarray:
        return self._outgoing().numpy()

    def numpy_later(self) -> host.Later:
        """Start to copy the current value to the host and return a future at once."""
        return self._outgoing().numpy_later()

    def item(self) -> Any:
        return self._outgoing().item()

    def _outgoing(self) -> Tensor:
        """Return the value for a read from outside, which the active recorders note."""
        stack = active_stack()
        is_noted = bool(stack.exit_listeners) and not stack.framed
        return wrap(self.array, self.leaf(stack) if is_noted else None)

    def ref(self) -> TensorRef:
        return TensorRef(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        caller = sys._getframe(1)
        if is_output(self, caller):
            raise no_output(f"the variable {self.name!r}", "v.assign(result)")
        copy = True if copy is None and may_write(caller) else copy
        return self.shared_value().__array__(dtype, copy)

    def __buffer__(self, flags: int) -> memoryview:
        refuse_buffer(sys._getframe(1))
        buffer: memoryview = self.shared_value().__buffer__(flags)
        return buffer

    def __bytes__(self) -> bytes:
        return bytes(self.shared_value())

    def __dlpack__(self, **options: Any) -> Any:
        return self.shared_value().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return wrap(self.array).__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        return self._outgoing().__cuda_array_interface__

    @property
    def __cupy_get_ndarray__(self) -> Any:
        return self._outgoing().__cupy_get_ndarray__

    def __len__(self) -> int:
        return len(wrap(self.array))

    def __bool__(self) -> bool:
        return bool(self.shared_value())

    def __int__(self) -> int:
        return int(self.shared_value())

    def __trunc__(self) -> int:
        return int(self.shared_value().__trunc__())

    def __float__(self) -> float:
        return float(self.shared_value())

    def __complex__(self) -> complex:
        return complex(self.shared_value())

    def __index__(self) -> int:
        return int(self.shared_value().__index__())

    def __format__(self, spec: str) -> str:
        return format(wrap(self.array), spec) if spec else str(self)

    def __repr__(self) -> str:
        value = repr(wrap(self.array)).partition("numpy=")[2]
        shown = f"numpy={value}" if value else "recorded>"
        return f"<tapegrad.Variable {self.name!r} shape={self.shape} dtype={self.dtype}, {shown}"

    def __copy__(self) -> Variable:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        twin = _restore(*self._state())
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> Any:
        return _restore, self._state()

    def _state(self) -> tuple[Any, ...]:
        value = host.fetch(self.array, None, "pickle")
        import copy  # slow to import

        constraint = copy.copy(self.constraint)
        return value, self.trainable, self.name, self.device, constraint


_array: Any = Variable.__dict__["array"]
"""The attribute itself; a recording replaces it by a property."""


def _take_back() -> None:
    """Give variables their arrays in a forked process, where no program is running."""
    for number, array in withheld.items():
        if number in _live:
            _array.__set__(_live[number], array)
    withheld.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_take_back)


def note_creations(listener: Callable[[Variable], None]) -> None:
    """Call `listener` with each new variable, e.g. to find those that a recording creates."""
    _listeners.append(listener)


def live_variables() -> list[Variable]:
    """Return all variables that are still referenced, in order of creation."""
    return [variable for _, variable in sorted(_live.items())]


def _initial_array(initial_value: Any, dtype: Any) -> Array:
    """Return the initial value as an array that no other object can change."""
    if isinstance(initial_value, Variable):
        initial_value = initial_value.shared_value()
    if isinstance(initial_value, Tensor):
        if initial_value.node is not None:
            note_cut("became the initial value of a variable", (initial_value.node,))
        if dtype is None or initial_value.dtype == dtype:
            return private_array(initial_value)
        array = initial_value.array
        xp = backend_of(array).xp
        return xp.astype(xp.asarray(array), numpy_dtype(dtype))
    array = copy_of_device_array(initial_value, dtype)
    return to_tensor(initial_value, dtype).array if array is None else array


def _declared(shape: Any, actual: tuple[int, ...]) -> tuple[int | None, ...] | None:
    if shape is None:
        return tuple(actual)
    declared = getattr(shape, "dims", shape)
    if declared is None:
        return None
    declared = tuple(declared)
    if not _accepts(declared, actual):
        raise ShapeError(f"shape={declared} does not fit the initial value's {tuple(actual)}.")
    return declared


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether `wide` has all values of `narrow`."""
    return np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe")


def _accepts(declared: tuple[int | None, ...] | None, actual: tuple[int, ...]) -> bool:
    if declared is None:
        return True
    return len(declared) == len(actual) and all(
        want is None or want == have for want, have in zip(declared, actual, strict=True)
    )


def _restore(value: Any, trainable: bool, name: str, device: str, constraint: Any) -> Variable:
    """Restore a Variable from its pickled state."""
    variable = Variable(
        Tensor(host.place(value, device)), trainable, name.removesuffix(":0"), constraint=constraint
    )
    return variable


register_tensor_conversion_function(Variable, Variable.shared_value)
nest.LEAF_TYPES.add(Variable)
