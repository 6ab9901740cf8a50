"""Compatibility cases: how a file is written, how it is read, and what a reader must find in it.

A case writes files with one revision and reads them with another. Both sides return an `Outcome`.
The outcome of the writer comes from the objects that were saved, not from a second load, so the
recorded numbers do not depend on the reading code of the old revision.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras

EXPECTED = "expected.json"
CONFIGS = "configs.json.gz"

ROUNDINGS = 32
"""How many units of rounding (of the largest value in an array) a computed array may be off.

Saved numbers are compared exactly. Computed numbers depend on the BLAS library, on the vector
instructions of the processor and on the order of sums, which a compiler pass may change. With
NumPy restricted to SSE, OpenBLAS restricted to older processors, and no C compiler, no case was
off by more than 9 units. A wrong slot, seed or counter changes the first digits.
"""

_SHOWN = 8
"""Up to how many values of a stored array are recorded one by one; the file has all of them."""

_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass
class Outcome:
    """What a program finds in files: `stored` is compared exactly, `computed` up to rounding."""

    stored: dict[str, Any] = field(default_factory=dict)
    computed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One persistent format or one kind of object in it."""

    write: Callable[[Path], Outcome]
    """Save to an empty folder, continue with the saved objects, and return what they give."""
    read: Callable[[Path], Outcome]
    """Load from the folder, continue in the same way, and return what the loaded objects give."""


# Outcomes as JSON


def save_outcome(outcome: Outcome, folder: Path) -> None:
    """Write an outcome beside the files that it belongs to."""
    plain = {"stored": _exact(outcome.stored), "computed": _plain(outcome.computed)}
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    (folder / EXPECTED).write_text(text + "\n", encoding="utf-8")


def load_outcome(folder: Path) -> dict[str, Any]:
    """Return a recorded outcome as plain JSON; `check` compares it with a new one."""
    plain: dict[str, Any] = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))
    return plain


def _plain(value: Any) -> Any:
    """Return a structure as JSON; an array becomes {"float32[2, 3]": its values in a flat list}."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    array = value.numpy() if isinstance(value, tf.Tensor | tf.Variable) else np.asarray(value)
    return {f"{array.dtype.name}{list(array.shape)}": _numbers(array)}


def _numbers(array: Any) -> list[Any]:
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(f"f{array.itemsize // 2}")
    elif array.dtype.name == "bfloat16":
        array = array.astype("float32")
    if array.dtype.kind != "f":
        return list(array.ravel().tolist())
    # The shortest text that gives the same number again in this dtype.
    return [_number(text) for text in array.ravel().astype(str).tolist()]


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _array_name(plain: Any) -> str | None:
    """Return the dtype and shape of an array in JSON, None for anything else."""
    names = list(plain) if isinstance(plain, dict) else []
    is_array = len(names) == 1 and re.fullmatch(r"[a-z]+\d*\[[\d, ]*\]", names[0])
    return names[0] if is_array else None


def _exact(value: Any) -> Any:
    """Return a structure as JSON in which long lists of values are replaced by their digests."""
    return _digested(_plain(value))


def _digested(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_digested(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    name = _array_name(plain)
    if name is None or len(plain[name]) <= _SHOWN:
        return {key: _digested(item) for key, item in plain.items()}
    text = json.dumps(plain[name])
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16]}


def save_configs(objects: Mapping[str, Any], folder: Path) -> None:
    """Write how objects of Keras are made; compressed, because most of it repeats."""
    configs = {name: keras.saving.serialize_keras_object(one) for name, one in objects.items()}
    content = gzip.compress(json.dumps(configs).encode(), mtime=0)
    (folder / CONFIGS).write_bytes(content)


def load_configs(folder: Path) -> dict[str, Any]:
    """Make the objects that `save_configs` described."""
    configs = json.loads(gzip.decompress((folder / CONFIGS).read_bytes()))
    return {name: keras.saving.deserialize_keras_object(one) for name, one in configs.items()}


def fingerprint(values: Iterable[Any]) -> str:
    """Return a short text that is another one if a dtype, a shape or a bit of an array differs."""
    arrays = [_plain(value) for value in values]
    digest = hashlib.sha256(json.dumps(arrays).encode()).hexdigest()
    return f"{len(arrays)} arrays, {digest[:16]}"


# Comparison


def check(found: Outcome, expected: Mapping[str, Any], rounding: float = 0.0) -> None:
    """Raise AssertionError unless an outcome is the recorded one.

    Numbers may be off by `rounding` of the largest, if they were computed in half precision.
    """
    assert _exact(found.stored) == expected["stored"]
    assert found.computed.keys() == expected["computed"].keys()
    for name, value in expected["computed"].items():
        _check_close(name, _plain(found.computed[name]), value, rounding)


def _check_close(where: str, found: Any, expected: Any, rounding: float) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected)):
            _check_close(f"{where}[{place}]", one, other, rounding)
    elif not isinstance(expected, dict):
        _check_numbers(where, found, expected, "float32", rounding)
    elif (name := _array_name(expected)) is not None:
        assert _array_name(found) == name, where
        _check_numbers(where, found[name], expected[name], name.partition("[")[0], rounding)
    else:
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            _check_close(f"{where}/{key}", found[key], value, rounding)


def _check_numbers(where: str, found: Any, expected: Any, dtype: str, rounding: float) -> None:
    """Compare numbers; those that are no array were of the default dtype."""
    one, other = np.array(found, "float64"), np.array(expected, "float64")
    part = max(ROUNDINGS * _EPSILON.get(dtype, 0.0), rounding)
    most = part * np.max(np.abs(other), initial=0.0)
    np.testing.assert_allclose(one, other, rtol=0.0, atol=most, err_msg=where)
