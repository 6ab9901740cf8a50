"""Data types with TensorFlow's attributes, which NumPy accepts as dtypes."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import described
from tapegrad.core.values.array_interface import array_interface
from tapegrad.errors import ArgumentTypeError, DTypeError

_DIFFERENTIABLE = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}

ALLOWED = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""Names of all dtypes that a tensor can have."""

# bfloat16, which ml_dtypes adds to NumPy, is added when it is first used.
_allowed_types = {np.dtype(name).type for name in ALLOWED if name != "bfloat16"}
_await_bfloat16: list[Callable[[], None]] = []


class DType:
    """A data type such as `tapegrad.float32`.

    It is equal to everything that NumPy accepts for the same type, and NumPy functions accept it.

    >>> float32 == "float32", float32 == np.float32, np.zeros(1, float32).dtype.name
    (True, True, 'float32')
    """

    __slots__ = ("dtype", "is_differentiable", "kind", "name")

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype  # NumPy reads this attribute of objects that are passed as a dtype
        self.name = dtype.name
        self.kind = "f" if dtype.name == "bfloat16" else dtype.kind
        self.is_differentiable = dtype.name in _DIFFERENTIABLE

    @property
    def as_numpy_dtype(self) -> builtins.type:
        return self.dtype.type

    @property
    def type(self) -> builtins.type:
        """NumPy's class of scalars of this dtype, under the name of NumPy's dtypes."""
        return self.dtype.type

    @property
    def char(self) -> str:
        """NumPy's one letter for this dtype."""
        return self.dtype.char

    @property
    def is_floating(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "u"

    @property
    def base_dtype(self) -> DType:
        """The type itself: there are no references to values."""
        return self

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64."""
        return as_dtype(np.empty(0, self.dtype).real.dtype)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    size = itemsize

    @property
    def min(self) -> Any:
        return self.limits.min

    @property
    def max(self) -> Any:
        return self.limits.max

    @property
    def limits(self) -> Any:
        """NumPy's `iinfo` or `finfo` of this dtype, or the like of ml_dtypes."""
        if self.name == "bfloat16":
            return _ml_dtypes().finfo(self.dtype)
        return np.iinfo(self.dtype) if self.is_integer else np.finfo(self.dtype)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether values of the other type can be used in place of values of this one.

        >>> float32.is_compatible_with("float32"), float32.is_compatible_with(float64)
        (True, False)
        """
        return self == as_dtype(other)

    def __call__(self, value: Any = 0) -> Any:
        """Return a value as a tensor of this dtype, e.g. `float32(3)`."""
        return array_interface().asarray(value, dtype=self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.dtype == other.dtype
        # NumPy would interpret None as float64, and compare the elements of an array.
        if other is None or isinstance(other, np.ndarray):
            return False
        try:
            return bool(self.dtype == other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


class StringDType(DType):
    """The dtype `tapegrad.string` of text, which is kept on the host as Python's bytes.

    Functions of numbers refuse it: see `tapegrad.core.values.strings`.

    >>> string == "string", string.name, np.zeros(1, string).dtype.name
    (True, 'string', 'object')
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.dtype(object))
        self.name = "string"

    def __call__(self, value: Any = b"") -> Any:
        raise ArgumentTypeError("Make tensors of text with tapegrad.constant.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringDType) or (
            isinstance(other, str | type | np.dtype) and is_text_type(other)
        )

    __hash__ = DType.__hash__


def is_text_type(dtype: Any) -> bool:
    """Return whether this names the dtype of text.

    >>> is_text_type("string"), is_text_type(str), is_text_type("float32")
    (True, True, False)
    """
    if isinstance(dtype, np.dtype):
        return dtype.kind in "OSUT"
    if isinstance(dtype, type):
        return dtype in (str, bytes, object, np.object_, np.str_, np.bytes_)
    return isinstance(dtype, StringDType) or (isinstance(dtype, str) and dtype in _TEXT)


_TEXT = ("string", "str", "object")

KNOWN_DTYPES: dict[Any, DType] = {}
"""Every DType made so far, by NumPy dtype."""


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype behind a DType, a name, a Python type or a NumPy type.

    It has the byte order of this machine, like all tensors.
    """
    if type(dtype) is DType:
        return dtype.dtype
    stored = stored_dtype(dtype)
    return stored if stored.isnative else stored.newbyteorder("=")


_OF_SIZES = " A shape is one argument: zeros([2, 3])."


def stored_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of bytes from outside, whose byte order may be another one."""
    if type(dtype) is DType:
        return dtype.dtype
    if isinstance(dtype, StringDType) or (isinstance(dtype, str) and dtype == "string"):
        raise DTypeError(
            "This needs a dtype of numbers. Got tapegrad.string, the dtype of text: see "
            "tapegrad.strings.to_number and tapegrad.strings.as_string."
        )
    if isinstance(dtype, str) and dtype == "bfloat16":
        dtype = _ml_dtypes().bfloat16
    try:
        stored = np.dtype(_ALIASES.get(dtype, dtype) if isinstance(dtype, str) else dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"{described(dtype)} is not a data type. Use one like 'float32' or tapegrad.float32."
            f"{_OF_SIZES if type(dtype) is int else ''}"
        ) from error
    refuse_unsupported(stored)
    return stored


def _ml_dtypes() -> Any:
    """Import ml_dtypes, which adds bfloat16 to NumPy and is an optional dependency."""
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise DTypeError(
            "The dtype bfloat16 needs ml_dtypes, which is not installed. "
            "Run: pip install ml_dtypes."
        ) from error


def refuse_unsupported(dtype: np.dtype[Any], whose: str = "") -> None:
    """Raise an error that lists the supported dtypes if this one is not supported.

    `whose` names the value that has the dtype.

    >>> refuse_unsupported(np.dtype("float32"))
    """
    if dtype.type in _allowed_types:
        return
    if dtype.name == "bfloat16":
        _meet_bfloat16(dtype.type)
    # Names are slow to compute. They catch types that are equal to a supported one, such as
    # `long long`.
    if dtype.name in ALLOWED:
        return
    raise DTypeError(
        f"Tensors hold values of {', '.join(ALLOWED[:-1])} and {ALLOWED[-1]}. Got "
        f"{f'{whose} of ' if whose else ''}{dtype}; cast it first, e.g. x.astype('float32')."
    )


def when_bfloat16_is_met(act: Callable[[], None]) -> None:
    """Call `act` when bfloat16 is first used, or now if it has been used already.

    A backend can so defer the setup that only this dtype needs.

    >>> when_bfloat16_is_met(lambda: None)
    """
    _await_bfloat16.append(act)
    if any(scalar_type.__name__ == "bfloat16" for scalar_type in _allowed_types):
        act()


def _meet_bfloat16(scalar_type: type) -> None:
    _allowed_types.add(scalar_type)
    for act in _await_bfloat16:
        act()


def as_dtype(type_value: Any) -> DType:
    """Return the DType for anything that names one.

    >>> as_dtype("int32") is int32, as_dtype(np.float64) is float64
    (True, True)
    """
    if type(type_value) is not DType and is_text_type(type_value):
        return string
    native = numpy_dtype(type_value)
    known = KNOWN_DTYPES.get(native)
    if known is None:
        known = KNOWN_DTYPES[native] = DType(native)
    return known


string = StringDType()
_ALIASES = {"half": "float16", "single": "float32", "double": "float64"}

bool_ = as_dtype("bool")
int8 = as_dtype("int8")
int16 = as_dtype("int16")
int32 = as_dtype("int32")
int64 = as_dtype("int64")
uint8 = as_dtype("uint8")
uint16 = as_dtype("uint16")
uint32 = as_dtype("uint32")
uint64 = as_dtype("uint64")
float16 = as_dtype("float16")
float32 = as_dtype("float32")
float64 = as_dtype("float64")
complex64 = as_dtype("complex64")
complex128 = as_dtype("complex128")


def __getattr__(name: str) -> Any:
    if name != "bfloat16":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return as_dtype(name)
