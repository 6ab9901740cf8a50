"""Text and file output by NumPy's functions, on host copies."""

from __future__ import annotations

import contextlib
import os
import tokenize
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import stored_dtype
from tapegrad.errors import FileFormatError, TapegradError
from tapegrad.numpy.values import as_array
from tapegrad.ops.creation import as_constant

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions
errstate = np.errstate
seterr = np.seterr
geterr = np.geterr


def array2string(a: Any, *args: Any, **options: Any) -> str:
    """Format the values as text.

    >>> array2string([1, 2])
    '[1 2]'
    """
    return np.array2string(_host(a), *args, **options)


def array_str(a: Any, *args: Any, **options: Any) -> str:
    """Format the values as text.

    >>> array_str([1, 2])
    '[1 2]'
    """
    return np.array_str(_host(a), *args, **options)


def array_repr(arr: Any, *args: Any, **options: Any) -> str:
    """Format the values as text with the name of the type.

    >>> array_repr([1, 2])
    'array([1, 2])'
    """
    return np.array_repr(_host(arr), *args, **options)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's format.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, [1.0, 2.0])
    >>> file.tell() > 0
    True
    """
    np.save(file, _host(arr), allow_pickle=allow_pickle)


@contextlib.contextmanager
def _reading(file: Any) -> Iterator[None]:
    """Name the file in the error of a reader that could not use its contents."""
    try:
        yield
    except (OSError, TapegradError):
        raise
    except (EOFError, SyntaxError, UnicodeError, ValueError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{_name(file)} cannot be read: {str(error).rstrip('.')}.") from error
    except tokenize.TokenError as error:
        raise FileFormatError(f"{_name(file)} has a damaged header: {error}.") from error


def _name(file: Any) -> str:
    return os.fspath(file) if isinstance(file, str | os.PathLike) else "The file"


def load(file: Any, mmap_mode: Any = None, allow_pickle: bool = False, **options: Any) -> Any:
    """Load an array (or an archive of arrays) from a file.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, [1.0, 2.0])
    >>> _ = file.seek(0)
    >>> load(file).tolist()
    [1.0, 2.0]
    """
    with _reading(file):
        found = np.load(file, mmap_mode, allow_pickle=allow_pickle, **options)
    return as_constant(found) if isinstance(found, np.ndarray) else found


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Write several arrays to one file.

    >>> import io
    >>> savez(io.BytesIO(), a=[1.0])
    """
    named: dict[str, Any] = {name: _host(a) for name, a in kwds.items()}
    np.savez(file, *[_host(a) for a in args], **named)


def savez_compressed(file: Any, *args: Any, **kwds: Any) -> None:
    """Write several arrays to one compressed file.

    >>> import io
    >>> savez_compressed(io.BytesIO(), a=[1.0])
    """
    named: dict[str, Any] = {name: _host(a) for name, a in kwds.items()}
    np.savez_compressed(file, *[_host(a) for a in args], **named)


def genfromtxt(fname: Any, *args: Any, **options: Any) -> Any:
    """Load numbers from a text file; missing ones become NaN.

    >>> import io
    >>> genfromtxt(io.StringIO("1,2"), delimiter=",").tolist()
    [1.0, 2.0]
    """
    with _reading(fname):
        return as_constant(np.genfromtxt(fname, *args, **options))


def fromfile(file: Any, dtype: Any = float, *args: Any, **options: Any) -> Any:
    """Load numbers from a binary file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(bytes([1, 2])), file.flush()
    ...     fromfile(file.name, "uint8").tolist()
    [1, 2]
    """
    return as_constant(np.fromfile(file, stored_dtype(dtype), *args, **options))


def loadtxt(fname: Any, **options: Any) -> Any:
    """Load numbers from a text file.

    >>> import io
    >>> loadtxt(io.StringIO("1 2")).tolist()
    [1.0, 2.0]
    """
    with _reading(fname):
        return as_constant(np.loadtxt(fname, **options))


def savetxt(fname: Any, X: Any, **options: Any) -> None:
    """Write an array to a text file.

    >>> import io
    >>> savetxt(io.StringIO(), [1.0])
    """
    np.savetxt(fname, _host(X), **options)


def _host(value: Any) -> np.ndarray:
    return read_on_host(as_array(value), "text or file")
