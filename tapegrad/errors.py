"""Every exception that tapegrad raises.

    TapegradError
    ├── ArgumentError (ValueError)            a value that is not allowed
    │   ├── ShapeError                        shapes that do not fit
    │   │   └── ImageShapeError (RuntimeError) arguments of an image function that do not fit
    │   ├── IndexOutOfRangeError (IndexError) an index beyond the end of its axis
    │   │   ├── IndexShapeError (also ShapeError) index arrays that do not broadcast together
    │   │   │   └── MaskError                 a mask of the wrong shape
    │   │   ├── AxisError (also ShapeError)   an axis that the array does not have
    │   │   └── IndexKindError (also TypeError) a fraction, text, ... as index
    │   ├── OutOfRangeError (OverflowError)   a number too large, the end of a dataset
    │   ├── ZeroDivisorError (ZeroDivisionError) a count or a sum of weights is 0
    │   ├── NonFiniteError (FloatingPointError) NaN or an infinity where the check of numbers is on
    │   ├── FileFormatError                   a file that is damaged, hostile or of another kind
    │   └── DeviceError                       unknown or mixed devices
    ├── ArgumentTypeError (TypeError)         a value of the wrong type
    │   ├── DTypeError (also ArgumentError)   a dtype that does not fit
    │   ├── ArgumentKindError (also ArgumentError) text, a fraction, ... where a size is meant
    │   └── TapeExitError                     a value left the tape (debug.tape_exits("raise"))
    ├── TapeError (RuntimeError)              a tape used in the wrong state
    ├── InPlaceError (RuntimeError)           a variable changed other than by assign
    ├── BackendUnavailableError (RuntimeError) the backend's library or driver is missing
    │   └── BackendBrokenError                they are there, but do not work
    ├── TransferError (RuntimeError)          a forbidden copy to or from a device
    ├── OutOfMemoryError (MemoryError)        a device has no memory for a result
    ├── NotFoundError (FileNotFoundError)     a file or folder does not exist
    ├── AlreadyExistsError (FileExistsError)  a file or folder is already there
    ├── MissingRuleError (LookupError)        a primitive has no derivative rule
    ├── RecordingError (RuntimeError)         a recorded function does what a replay cannot repeat
    └── UnconnectedGradientError (ValueError) a gradient is None and on_none="raise"

Each is also the builtin that users of NumPy and TensorFlow expect to catch. TensorFlow's names are
at the end: `InvalidArgumentError` is the same class as `ArgumentError`.
"""

from __future__ import annotations


class TapegradError(Exception):
    """Base of all errors raised by tapegrad."""

    @property
    def message(self) -> str:
        """The words of the error, under TensorFlow's name."""
        return str(self)


class ArgumentError(TapegradError, ValueError):
    """An argument has a value that is not allowed."""


class ShapeError(ArgumentError):
    """Two shapes do not fit together."""

    elements: tuple[int, int] | None = None
    """Of a reshape: how many elements there were, and how many the new shape would need."""


class IndexOutOfRangeError(ArgumentError, IndexError):
    """An index points beyond the end of its axis."""


class IndexShapeError(ShapeError, IndexOutOfRangeError):
    """The arrays of an index do not broadcast together; an IndexError, as in NumPy."""


class MaskError(IndexShapeError):
    """A mask has another shape than the axes that it indexes; an IndexError, as in NumPy."""


class AxisError(ShapeError, IndexOutOfRangeError):
    """An axis is outside the dimensions of an array; an IndexError too, as in NumPy.

    Errors that functions raise are instances of `numpy.exceptions.AxisError` as well.
    """

    axis: int | None
    ndim: int | None


class ImageShapeError(ShapeError, RuntimeError):
    """Arguments of an image function do not fit; also a RuntimeError, as in scipy.ndimage."""


class OutOfRangeError(ArgumentError, OverflowError):
    """A Python integer is outside the range of the requested dtype, or a dataset has ended.

    `DatasetIterator.get_next` raises it after the last element, as TensorFlow's does.
    """


class ZeroDivisorError(ArgumentError, ZeroDivisionError):
    """A divisor is 0: a number of parts or a sum of weights."""


class NonFiniteError(ArgumentError, FloatingPointError):
    """A value is NaN or infinite, found by `debug.nan_sentinel` or `debugging.check_numerics`."""


class FileFormatError(ArgumentError):
    """A file is damaged, is of another kind, or asks for more than a file may ask for."""


class DeviceError(ArgumentError):
    """A device is unknown, or two devices meet in one operation."""


class MissingNameError(ArgumentError, KeyError):
    """There is nothing of this name; a KeyError, as in TensorFlow."""

    __str__ = Exception.__str__  # a KeyError shows its sentence in quotes


class ArgumentTypeError(TapegradError, TypeError):
    """An argument has a type that is not allowed."""


class ArgumentKindError(ArgumentTypeError, ArgumentError):
    """An argument is not of its parameter's kind, e.g. a fraction or text where a size is meant.

    It is also a ValueError, which NumPy and TensorFlow raise in some of these cases.
    """


class IndexKindError(ArgumentKindError, IndexOutOfRangeError):
    """An index is not an integer, a boolean or a slice; an IndexError too, as in NumPy."""


class DTypeError(ArgumentTypeError, ArgumentError):
    """A dtype does not fit; also a ValueError, which TensorFlow raises in some of these cases."""


class SignatureError(ShapeError, ArgumentTypeError):
    """A tensor does not fit the signature of a function; a TypeError, as in TensorFlow."""


class TapeError(TapegradError, RuntimeError):
    """A tape or accumulator is used in a state that does not allow it."""


class TapeExitError(ArgumentTypeError):
    """A value left the tape, so that its derivative would be lost: `debug.tape_exits("raise")`."""


class TapeExitWarning(UserWarning):
    """A value left the tape, so that its derivative is lost."""


class InPlaceError(TapegradError, RuntimeError):
    """A variable is changed by an in-place operator instead of `assign`."""


class BackendUnavailableError(TapegradError, RuntimeError):
    """A backend cannot run here; the message says what is missing."""


class BackendBrokenError(BackendUnavailableError):
    """A backend's library, driver or device is here and cannot be used."""


class TransferError(TapegradError, RuntimeError):
    """A value crosses between host and device where that is forbidden.

    It is read inside `debug.transfers("raise")`, or while a CUDA graph is captured.
    """


class OutOfMemoryError(TapegradError, MemoryError):
    """A device has no memory for a result, even after cached memory was freed."""


class NotFoundError(TapegradError, FileNotFoundError):
    """A file or a folder does not exist."""


class AlreadyExistsError(TapegradError, FileExistsError):
    """A file or a folder is there already."""


class MissingRuleError(TapegradError, LookupError):
    """A primitive on the path from target to source has no derivative rule."""


class RecordingError(TapegradError, RuntimeError):
    """A function that is being recorded does something that a replay could not repeat."""


class LeakedTensorError(RecordingError, AttributeError, TypeError):
    """A tensor of a recording is used after it, for which TensorFlow has errors of these kinds."""

    def __init__(
        self,
        message: str = (
            "A tensor that was computed while a function was recorded is used after the "
            "recording. Return tensors from the function, or assign them to variables."
        ),
    ) -> None:
        super().__init__(message)


class UnconnectedGradientError(TapegradError, ValueError):
    """A gradient is None although the tape was made with on_none='raise'."""


# TensorFlow's names of the classes above

OpError = TapegradError
InvalidArgumentError = ArgumentError
ResourceExhaustedError = OutOfMemoryError
DataLossError = FileFormatError
UnavailableError = BackendUnavailableError
FailedPreconditionError = TapeError


# TensorFlow's names that tapegrad never raises; `except` clauses may name them.


class AbortedError(TapegradError):
    """TensorFlow's error for an operation that was aborted; never raised here."""


class CancelledError(TapegradError):
    """TensorFlow's error for an operation that was cancelled; never raised here."""


class DeadlineExceededError(TapegradError):
    """TensorFlow's error for an operation that took too long; never raised here."""


class InternalError(TapegradError):
    """TensorFlow's error for a defect in its runtime; never raised here."""


class PermissionDeniedError(TapegradError, PermissionError):
    """TensorFlow's error for a missing permission; Python's PermissionError is raised here."""


class UnauthenticatedError(TapegradError):
    """TensorFlow's error for a request without credentials; never raised here."""


class UnimplementedError(TapegradError, NotImplementedError):
    """TensorFlow's error for an operation without a kernel; never raised here."""


class UnknownError(TapegradError):
    """TensorFlow's error for everything else; never raised here."""


class OperatorNotAllowedInGraphError(TapegradError, TypeError):
    """TensorFlow's error for Python operators on symbolic tensors; never raised here."""


# The numbers that TensorFlow gives to the errors.
OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16
