"""Safetensors files: the format byte by byte, damaged files, atomic replacement."""

import builtins
import json
import os
import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, FileFormatError
from tapegrad.keras.saving import TensorFile, write_tensors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


def written(path, header, data=b""):
    """A file made by hand; `header` is JSON, or text as it is to be in the file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(start, stop, dtype="F32", shape=None):
    shape = [(stop - start) // 4] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


# The format


def test_a_file_is_the_headers_length_the_header_and_the_arrays_sorted_by_name(path):
    b, a = np.arange(6, dtype="<f4").reshape(2, 3), np.array([7, -1], "<i2")

    write_tensors(path, {"b": b, "a": a}, {"by": "me"})

    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert list(header) == ["__metadata__", "a", "b"]
    assert header["__metadata__"] == {"by": "me"}
    assert header["a"] == {"dtype": "I16", "shape": [2], "data_offsets": [0, 4]}
    assert header["b"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]}
    assert content[8 + length :] == a.tobytes() + b.tobytes()


def test_a_file_made_by_hand_is_read(path):
    data = struct.pack("<3f", 1, 2, 3) + struct.pack("<2q", -1, 2**40)
    header = {
        "x": entry(0, 12),
        "n": entry(12, 28, "I64", [2, 1]),
        "__metadata__": {"k": "v"},
    }
    written(path, header, data)

    with TensorFile(path) as file:
        x, n, metadata = file["x"], file["n"], file.metadata

    assert x.dtype == np.float32
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert n.dtype == np.int64
    assert n.tolist() == [[-1], [2**40]]
    assert metadata == {"k": "v"}


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("BOOL", "bool"),
        ("U8", "uint8"),
        ("I8", "int8"),
        ("U16", "uint16"),
        ("I16", "int16"),
        ("U32", "uint32"),
        ("I32", "int32"),
        ("U64", "uint64"),
        ("I64", "int64"),
        ("F16", "float16"),
        ("BF16", ml_dtypes.bfloat16),
        ("F32", "float32"),
        ("F64", "float64"),
        ("C64", "complex64"),
        ("F8_E4M3", ml_dtypes.float8_e4m3fn),
        ("F8_E5M2", ml_dtypes.float8_e5m2),
        ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
        ("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
        ("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
    ],
)
def test_every_dtype_has_its_word_and_comes_back_bit_by_bit(word, dtype, path):
    value = np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype)

    write_tensors(path, {"x": value})
    with TensorFile(path) as file:
        back = file["x"]

    header = json.loads(path.read_bytes()[8:].partition(b"}}")[0] + b"}}")
    assert header["x"]["dtype"] == word
    assert back.dtype == value.dtype
    assert back.shape == (2, 3)
    assert back.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[::2, ::-1],
        np.arange(3, dtype=">f8"),
        np.float64(2.5),
        np.zeros((0, 3)),
        np.array([[1 + 2j, -1j]]),
        np.array(3j),
    ],
    ids=["fortran", "strided", "big-endian", "scalar", "empty", "complex128", "complex128 scalar"],
)
def test_arrays_of_any_layout_come_back(value, path):
    write_tensors(path, {"other": np.ones(1, "int8"), "x": value})

    with TensorFile(path) as file:
        back, rest = file["x"], file.metadata

    assert back.shape == np.shape(value)
    assert back.dtype == value.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, value)
    assert rest == {}


def test_an_empty_file_of_arrays_is_valid(path):
    write_tensors(path, {})

    with TensorFile(path) as file:
        assert list(file) == []


def test_bfloat16_without_ml_dtypes_says_what_to_install(path, monkeypatch):
    write_tensors(path, {"x": np.ones(2, ml_dtypes.bfloat16), "y": np.ones(2)})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)

    with TensorFile(path) as file:
        assert file.entries["x"].dtype == "bfloat16"
        assert file["y"].tolist() == [1.0, 1.0]
        with pytest.raises(DTypeError, match=r"'x' of .* needs ml_dtypes.*pip install ml_dtypes"):
            file["x"]


def test_an_array_is_read_from_the_file_that_was_opened_even_if_another_takes_its_place(path):
    write_tensors(path, {"x": np.ones(4)})

    with TensorFile(path) as file:
        write_tensors(path, {"longer": np.zeros(9), "x": np.zeros(4)})
        x = file["x"]

    assert x.tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"x": np.array(["a"])}, None, "Got 'x' of str"),
        ({"x": np.ones(1, "datetime64[s]")}, None, "Got 'x' of datetime64"),
        ({"__metadata__": np.ones(1)}, None, "a string other than '__metadata__'"),
        ({3: np.ones(1)}, None, "Got 3"),
        ({}, {"epoch": 3}, "Metadata must map strings.*'epoch': 3.*json.dumps"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(
    tensors, metadata, message, path
):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        write_tensors(path, tensors, metadata)

    assert list(path.parent.iterdir()) == []


# Damaged files

TWO = {"a": entry(0, 8), "b": entry(8, 16)}
DAMAGE = {
    "no length": (b"", b"", "it has 3 bytes, but at least 8 are needed"),
    "length over the limit": (b"", b"", "its header has 100,000,001 bytes; at most 100,000,0"),
    "length over the file": (b"", b"", "its header needs 9,008 bytes, but the file has 10"),
    "no brace": (b" {}", b"", "does not start with"),
    "no JSON": (b"{'a'", b"", "its header is not JSON"),
    "no UTF-8": (b'{"\xff": 1}', b"", "its header is not JSON"),
    "too deep": (b'{"a":' + b"[" * 200_000, b"", "its header is not JSON"),
    "a list": (b"[]", b"", "does not start with"),
    "a name twice": (b'{"a": 1, "a": 2}', b"", "has the name 'a' twice"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", "must map strings to strings"),
    "metadata in a list": ({"__metadata__": []}, b"", "must map strings to strings"),
    "no dtype": ({"a": {"shape": [], "data_offsets": [0, 4]}}, bytes(4), "'a' needs a dtype"),
    "a number as entry": ({"a": 3}, b"", "'a' needs a dtype, a shape"),
    "unknown dtype": ({"a": entry(0, 4, "F77")}, bytes(4), "'a' has unknown dtype 'F77'"),
    "list as dtype": ({"a": entry(0, 4, ["F32"])}, bytes(4), "'a' has unknown dtype"),
    "packed dtype": ({"a": entry(0, 4, "F4", [8])}, bytes(4), "smaller than a byte"),
    "negative shape": ({"a": entry(0, 4, shape=[-1])}, bytes(4), "'a' has shape"),
    "true as shape": ({"a": entry(0, 4, shape=[True])}, bytes(4), "'a' has shape"),
    "too many axes": ({"a": entry(0, 4, shape=[1] * 99)}, bytes(4), "'a' has shape"),
    "shape and bytes": ({"a": entry(0, 8, shape=[3])}, bytes(8), "needs 12 bytes but has 8"),
    "huge shape": ({"a": entry(0, 0, shape=[2**63, 0, 9])}, b"", "'a' has shape"),
    "offsets backwards": ({"a": entry(8, 4, shape=[1])}, bytes(8), "of .start, stop."),
    "one offset": ({"a": {**entry(0, 4), "data_offsets": [4]}}, bytes(4), "of .start, stop."),
    "overlap": ({**TWO, "b": entry(4, 12)}, bytes(12), "'b' overlaps"),
    "same place": ({**TWO, "b": entry(0, 8)}, bytes(8), "overlaps"),
    "gap": ({**TWO, "b": entry(12, 20)}, bytes(20), "a gap of 4 bytes before array 'b'"),
    "gap at the front": ({"b": entry(8, 16)}, bytes(16), "a gap of 8 bytes before array 'b'"),
    "cut off": (TWO, bytes(15), "need 16 bytes, but there are 15: it is truncated"),
    "too long": (TWO, bytes(17), "1 bytes after the last array belong to no array"),
    "wrong truth": ({"a": entry(0, 2, "BOOL", [2])}, b"\x01\x02", "bytes other than 0 and 1"),
    "false complex": (
        {**TWO, "__metadata__": {"tapegrad.complex128": '["a"]'}},
        bytes(16),
        "'a' is marked as complex128",
    ),
    "complex without names": (
        {"__metadata__": {"tapegrad.complex128": "3"}},
        b"",
        "must be a JSON list of names",
    ),
    "complex too deep": (
        {"__metadata__": {"tapegrad.complex128": "[" * 200_000}},
        b"",
        "must be a JSON list of names",
    ),
}
RAW = {
    "no length": b"abc",
    "length over the limit": struct.pack("<Q", 100_000_001) + b"{}",
    "length over the file": struct.pack("<Q", 9000) + b"{}",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named_with_what_is_wrong(kind, path):
    header, data, message = DAMAGE[kind]
    written(path, header, data)
    if kind in RAW:
        path.write_bytes(RAW[kind])

    with pytest.raises(ArgumentError, match=message) as caught, TensorFile(path) as file:
        dict(file)

    assert str(path) in str(caught.value)


def test_every_file_that_is_cut_off_is_noticed(path):
    write_tensors(path, {"a": np.arange(5.0), "b": np.ones(3, "int8")})
    content = path.read_bytes()

    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ArgumentError, match="is not a valid safetensors file"):
            TensorFile(path)


def test_a_changed_byte_of_the_header_never_gives_another_error_than_ours(path):
    write_tensors(path, {"a": np.arange(2.0), "b": np.ones(3, "int8")})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])

    for place in range(8 + length):
        for byte in (0, ord("9"), ord('"'), ord("}"), 0xFF):
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            try:
                with TensorFile(path) as file:
                    dict(file)
            except ArgumentError:
                pass


# Replacing files


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file_and_no_other(call, path, monkeypatch):
    write_tensors(path, {"x": np.ones(3)})
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, {"x": np.zeros(3)})

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_is_interrupted_leaves_the_old_file_and_no_other(path, monkeypatch):
    write_tensors(path, {"x": np.ones(3)})
    before = path.read_bytes()

    def interrupt(number):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_tensors(path, {"x": np.zeros(3)})

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_call_returns(
    path, monkeypatch
):
    calls = []
    fsync, replace, opened = os.fsync, os.replace, os.open

    def note_fsync(number):
        calls.append("sync")
        fsync(number)

    def note_replace(source, target):
        calls.append("replace")
        assert Path(source).parent == Path(target).parent
        replace(source, target)

    def note_open(target, *rest, **named):
        if Path(target) == path.parent:
            calls.append("open folder")
        return opened(target, *rest, **named)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    monkeypatch.setattr(os, "open", note_open)
    write_tensors(path, {"x": np.ones(3)})

    assert calls == ["open folder", "sync", "replace", "sync"]


def test_folders_are_made_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "new" / "folder" / "w", tmp_path / "link"
    write_tensors(target, {"x": np.ones(1)})
    link.symlink_to(target)

    write_tensors(link, {"x": np.zeros(1)})

    assert link.is_symlink()
    with TensorFile(target) as file:
        assert file["x"].tolist() == [0.0]


def test_a_new_file_has_the_permissions_that_open_gives(path):
    write_tensors(path, {"x": np.ones(1)})
    with builtins.open(path.with_name("other"), "wb"):
        pass

    assert path.stat().st_mode == path.with_name("other").stat().st_mode


def test_a_pipe_is_refused_instead_of_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match="is a pipe"):
        TensorFile(path)
