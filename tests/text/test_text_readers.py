"""Datasets of text, and readers of text, table and record files."""

from __future__ import annotations

import csv
import gzip
import struct

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError, FileFormatError, NotFoundError
from tapegrad.io.checksums import _REMAINDERS, crc32c

WORDS = [b"some", b"words", b"here", b"some"]


def texts(dataset):
    return list(dataset.as_numpy_iterator())


def test_steps_take_text():
    words = Dataset.from_tensor_slices(WORDS)

    assert texts(words.map(tf.strings.upper)) == [word.upper() for word in WORDS]
    assert texts(words.filter(lambda word: word == "some")) == [b"some", b"some"]
    assert texts(words.unique()) == [b"some", b"words", b"here"]
    assert [batch.tolist() for batch in words.batch(3)] == [WORDS[:3], WORDS[3:]]
    assert sorted(texts(words.shuffle(4, seed=1))) == sorted(WORDS)
    assert texts(words.cache().prefetch(1).repeat(2)) == WORDS * 2
    assert texts(words.window(2).flat_map(lambda window: window.batch(2)).unbatch()) == WORDS
    assert words.reduce("", lambda state, word: state + word).numpy() == b"".join(WORDS)
    assert repr(words.batch(2).element_spec) == "TensorSpec(shape=(None,), dtype=string)"


def test_text_stands_beside_numbers_in_tuples_and_dictionaries():
    data = Dataset.from_tensor_slices(({"word": WORDS, "x": np.arange(4.0)}, [0, 1, 0, 1]))
    features, label = next(iter(data.batch(2)))

    assert features["word"].tolist() == WORDS[:2]
    assert features["word"].dtype == tf.string
    assert features["x"].tolist() == [0.0, 1.0]
    assert label.tolist() == [0, 1]


def test_rows_of_text_are_padded_with_empty_texts():
    rows = Dataset.from_generator(lambda: iter([["a"], ["b", "c"]]), output_types=tf.string)

    (batch,) = rows.padded_batch(2)
    assert batch.tolist() == [[b"a", b""], [b"b", b"c"]]
    (batch,) = rows.padded_batch(2, [3], "-")
    assert batch.tolist() == [[b"a", b"-", b"-"], [b"b", b"c", b"-"]]


def test_text_is_kept_in_files(tmp_path):
    given = [b"a", b"", "é".encode(), b"trailing\0", b"\x00\xff"]
    data = Dataset.from_tensor_slices((given, np.arange(5)))

    data.save(tmp_path / "saved")
    assert [word for word, _ in Dataset.load(tmp_path / "saved").as_numpy_iterator()] == given
    cached = data.cache(str(tmp_path / "cache"))
    assert [texts(cached) for _ in range(2)][1] == texts(data)


def test_a_pass_over_text_resumes():
    data = Dataset.from_tensor_slices(WORDS).shuffle(3, seed=2).batch(1)
    first = data.iterator()
    next(first)

    assert [x.tolist() for x in data.iterator(first.state())] == [x.tolist() for x in first]


# Files


def test_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n\nthree")
    (tmp_path / "b.txt").write_bytes(b"four\n")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"five\nsix\n"))
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt")]

    lines = [b"one", b"two", b"", b"three", b"four"]
    assert texts(tf.data.TextLineDataset(paths)) == lines
    files = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    assert texts(files) == [path.encode() for path in paths]
    assert texts(tf.data.TextLineDataset(files)) == lines
    assert texts(files.interleave(tf.data.TextLineDataset, cycle_length=1)) == lines
    assert texts(tf.data.TextLineDataset(tmp_path / "c.gz", "GZIP")) == [b"five", b"six"]
    with pytest.raises(NotFoundError, match="no file matches"):
        Dataset.list_files(str(tmp_path / "*.none"))
    with pytest.raises(NotFoundError, match=r"missing\.txt"):
        texts(tf.data.TextLineDataset(tmp_path / "missing.txt"))


def test_list_files_shuffles_by_a_seed(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.txt").touch()
    found = [texts(Dataset.list_files(str(tmp_path / "*"), seed=3)) for _ in range(2)]

    assert found[0] == found[1] != sorted(found[0])


TABLE = [["a", "b", "c"], ["1", "0.5", "x"], ["2", "", 'say "hi", you'], ["3000000000", "2", "y"]]


@pytest.fixture(name="table")
def _table(tmp_path):
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(TABLE)
    return path


def test_tables_infer_their_dtypes(table):
    data = tf.data.experimental.make_csv_dataset(
        str(table), 2, label_name="c", num_epochs=1, shuffle=False
    )
    (features, label), (more, _) = data

    assert features["a"].dtype == tf.int64
    assert features["b"].dtype == tf.float32
    assert features["a"].tolist() == [1, 2]
    assert features["b"].tolist() == [0.5, 0.0]
    assert label.tolist() == [b"x", b'say "hi", you']
    assert more["a"].tolist() == [3000000000]


def test_tables_repeat_and_choose_columns(table):
    data = tf.data.experimental.make_csv_dataset(
        str(table), 2, column_defaults=[tf.string, ""], select_columns=["a", "c"]
    )
    batches = [batch["a"].tolist() for batch in data.take(3)]

    assert sorted(one for batch in batches for one in batch) == sorted(
        row[0].encode() for row in TABLE[1:] * 2
    )
    with pytest.raises(ArgumentError, match="no column 'z'"):
        tf.data.experimental.make_csv_dataset(str(table), 2, select_columns=["z"])
    with pytest.raises(ArgumentError, match="label_name must be one of"):
        tf.data.experimental.make_csv_dataset(str(table), 2, label_name="z")


def test_rows_of_tables_have_the_dtypes_of_their_defaults(table):
    rows = tf.data.experimental.CsvDataset(table, [tf.int64, -1.0, ""], header=True)
    first, second, _ = texts(rows)

    assert first == (1, 0.5, b"x")
    assert second == (2, -1.0, b'say "hi", you')
    with pytest.raises(ArgumentError, match="Expected 2 fields but found 3 in record 0"):
        tf.io.decode_csv("1,2,3", [[0], [0]])
    with pytest.raises(ArgumentError, match="required but missing"):
        tf.io.decode_csv("1,", [[0], tf.float32])
    with pytest.raises(ArgumentError, match="not a valid int32: 'x'"):
        tf.io.decode_csv("x", [[0]])
    columns = Dataset.from_tensor_slices(["1,a"]).map(lambda line: tf.io.decode_csv(line, [0, ""]))
    assert texts(columns) == [(1, b"a")]


# Records


def test_checksums_of_long_data_are_those_of_single_bytes():
    for size in (4095, 4096, 4097, 70_001):
        data = np.random.default_rng(size).bytes(size)
        found = 0xFFFFFFFF
        for byte in data:
            found = (found >> 8) ^ _REMAINDERS[(found ^ byte) & 0xFF]
        assert crc32c(data) == found ^ 0xFFFFFFFF


def test_examples_have_the_bytes_of_protocol_buffers():
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, -1]))
    example = tf.train.Example(features=tf.train.Features(feature={"a": feature}))

    packed = b"\x01" + b"\xff" * 9 + b"\x01"
    inner = b"\x1a\x0d\x0a\x0b" + packed  # int64_list, with its packed values
    entry = b"\x0a\x01a\x12" + bytes([len(inner)]) + inner
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert example.SerializeToString() == b"\x0a" + bytes([len(features)]) + features
    assert tf.train.Example.FromString(example.SerializeToString()) == example


def test_unpacked_lists_are_read_too():
    floats = b"".join(b"\x0d" + struct.pack("<f", one) for one in (0.5, 2.0))
    assert tf.train.FloatList.FromString(floats).value == [0.5, 2.0]
    assert tf.train.Int64List.FromString(b"\x08\x05\x08\x07").value == [5, 7]


def example(number):
    lists = {
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "pair": tf.train.Feature(float_list=tf.train.FloatList(value=[number, 0.5])),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n%d" % number])),
        "row": tf.train.Feature(int64_list=tf.train.Int64List(value=range(number))),
    }
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


FEATURES = {
    "number": tf.io.FixedLenFeature([], tf.int64),
    "pair": tf.io.FixedLenFeature([2], tf.float32),
    "name": tf.io.FixedLenFeature([], tf.string),
    "row": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "missing": tf.io.FixedLenFeature([2], tf.float32, default_value=[1.0, 2.0]),
}


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
def test_records_are_written_and_parsed(tmp_path, compression):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for number in range(3):
            writer.write(example(number))
    records = tf.data.TFRecordDataset(path, compression_type=compression)

    singles = list(records.map(lambda one: tf.io.parse_single_example(one, FEATURES)))
    assert [int(one["number"]) for one in singles] == [0, 1, 2]
    assert singles[2]["row"].tolist() == [0, 1]
    assert singles[2]["name"].numpy() == b"n2"
    (batch,) = records.batch(3).map(lambda some: tf.io.parse_example(some, FEATURES))
    assert batch["pair"].tolist() == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]]
    assert batch["row"].tolist() == [[0, 0], [0, 0], [0, 1]]
    assert batch["missing"].tolist() == [[1.0, 2.0]] * 3


def test_damaged_records_name_the_file(tmp_path):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"first")
        writer.write(b"second")
    whole = path.read_bytes()

    for damaged, why in ((whole[:-1], "cut off"), (whole[:-8] + b"?" + whole[-7:], "checksum")):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=f"Record 1 of .*a.tfrecord.*{why}"):
            texts(tf.data.TFRecordDataset(path))
    with pytest.raises(ArgumentError, match="'number' is a int64_list, but string"):
        tf.io.parse_single_example(example(1), {"number": tf.io.FixedLenFeature([], tf.string)})
    with pytest.raises(ArgumentError, match="'none' is missing"):
        tf.io.parse_single_example(example(1), {"none": tf.io.FixedLenFeature([], tf.string)})
    with pytest.raises(ArgumentError, match="2 values, which do not fill"):
        tf.io.parse_single_example(example(1), {"pair": tf.io.FixedLenFeature([3], tf.float32)})
    with pytest.raises(FileFormatError, match="not an example"):
        tf.io.parse_single_example(b"\xff\xff", FEATURES)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_tensors_become_bytes_and_tensors_again(dtype):
    x = tf.cast([[0, 1, 2], [3, 4, 5]], dtype)

    data = tf.io.serialize_tensor(x)
    again = tf.io.parse_tensor(data, dtype)
    assert again.tolist() == x.tolist()
    assert again.dtype == x.dtype
    raw = x.numpy().tobytes()
    assert raw in data.numpy()
    with pytest.raises(ArgumentError, match="but out_type is complex64"):
        tf.io.parse_tensor(data, "complex64")


def test_raw_bytes_are_numbers():
    values = np.arange(4, dtype=np.int16)

    assert tf.io.decode_raw([values.tobytes()], tf.int16).tolist() == [[0, 1, 2, 3]]
    swapped = tf.io.decode_raw(values.byteswap().tobytes(), tf.int16, little_endian=False)
    assert swapped.tolist() == [0, 1, 2, 3]
    assert tf.io.decode_base64(tf.io.encode_base64(b"\xfb\xff")).numpy() == b"\xfb\xff"


def test_records_of_fixed_length(tmp_path):
    (tmp_path / "a").write_bytes(b"HEADaabbccF")
    data = tf.data.FixedLengthRecordDataset(tmp_path / "a", 2, header_bytes=4, footer_bytes=1)

    assert texts(data) == [b"aa", b"bb", b"cc"]
    with pytest.raises(FileFormatError, match="not a whole number"):
        texts(tf.data.FixedLengthRecordDataset(tmp_path / "a", 2))


def test_directories_of_texts(tmp_path):
    for kind in ("bad", "good"):
        (tmp_path / kind).mkdir()
        for number in range(5):
            (tmp_path / kind / f"{number}.txt").write_text(f"{kind} {number}")
    read = tf.keras.utils.text_dataset_from_directory

    train, test = read(
        tmp_path, validation_split=0.2, subset="both", seed=1, batch_size=3, verbose=False
    )
    pairs = [
        (t, y) for data in (train, test) for x, z in data for t, y in zip(x.tolist(), z.tolist())
    ]
    assert sorted(pairs) == sorted(
        (f"{kind} {n}".encode(), label)
        for label, kind in enumerate(("bad", "good"))
        for n in range(5)
    )
    assert train.class_names == ["bad", "good"]
    short = read(tmp_path, labels=None, max_length=3, batch_size=None, verbose=False)
    assert set(texts(short)) == {b"bad", b"goo"}
