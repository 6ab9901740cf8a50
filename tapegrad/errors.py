"""Every exception that tapegrad raises.

    TapegradError
    ├── ArgumentError (ValueError)            a value that is not allowed
    │   ├── ShapeError                        shapes that do not fit
    │   ├── IndexOutOfRangeError (IndexError) an index beyond the end of its axis
    │   ├── OutOfRangeError (OverflowError)   a number that a dtype cannot hold
    │   ├── ZeroDivisorError (ZeroDivisionError) a number of parts, or a sum of weights, that is 0
    │   └── DeviceError                       unknown or mixed devices
    ├── ArgumentTypeError (TypeError)         a value of the wrong type
    │   └── DTypeError (also ArgumentError)   a dtype that does not fit
    ├── TapeError (RuntimeError)              a tape used in the wrong state
    ├── InPlaceError (RuntimeError)           a variable changed other than by assign
    ├── BackendUnavailableError (RuntimeError) a backend whose library or driver is missing
    ├── TransferError (RuntimeError)          a copy to or from a device where it is forbidden
    ├── OutOfMemoryError (MemoryError)        a device has no room for an operation's result
    ├── MissingRuleError (LookupError)        a primitive on the path has no rule
    ├── RecordingError (RuntimeError)         a function does what its recording cannot repeat
    └── UnconnectedGradientError (ValueError) a gradient is None and on_none="raise"

Each is also the builtin that users of NumPy and TensorFlow expect to catch.
"""

from __future__ import annotations


class TapegradError(Exception):
    """Base of all errors raised by tapegrad."""


class ArgumentError(TapegradError, ValueError):
    """An argument has a value that is not allowed."""


class ShapeError(ArgumentError):
    """Two shapes do not fit together."""


class IndexOutOfRangeError(ArgumentError, IndexError):
    """An index points beyond the end of its axis."""


class OutOfRangeError(ArgumentError, OverflowError):
    """A whole number of Python's is beyond the limits of the dtype that was asked for."""


class ZeroDivisorError(ArgumentError, ZeroDivisionError):
    """A number that is divided by is 0: of parts, or the sum of weights."""


class DeviceError(ArgumentError):
    """A device is unknown, or two devices meet in one operation."""


class ArgumentTypeError(TapegradError, TypeError):
    """An argument has a type that is not allowed."""


class DTypeError(ArgumentTypeError, ArgumentError):
    """A dtype does not fit; TensorFlow reports it as ValueError in places, so both are caught."""


class TapeError(TapegradError, RuntimeError):
    """A tape or accumulator is used in a state that does not allow it."""


class InPlaceError(TapegradError, RuntimeError):
    """A variable is changed by an in-place operator instead of `assign`."""


class BackendUnavailableError(TapegradError, RuntimeError):
    """A backend cannot run here; the message says what is missing."""


class TransferError(TapegradError, RuntimeError):
    """A value crosses between host and device where that is forbidden.

    Either it is read inside `debug.transfers("raise")`, or a CUDA graph is being captured.
    """


class OutOfMemoryError(TapegradError, MemoryError):
    """A device has no room for a result, not even after cached memory was given back."""


class MissingRuleError(TapegradError, LookupError):
    """A primitive on the path from target to source has no derivative rule."""


class RecordingError(TapegradError, RuntimeError):
    """A function that is being recorded does something that a replay could not repeat."""


class UnconnectedGradientError(TapegradError, ValueError):
    """A gradient is None although the tape was made with on_none='raise'."""
