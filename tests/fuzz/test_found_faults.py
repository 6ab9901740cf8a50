"""Faults that the fuzzers found, each with the behaviour that took their place."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.signal

import tapegrad as tf
import tapegrad.numpy as tnp
import tapegrad.scipy.signal
from tapegrad import keras
from tapegrad.core.files.formats import damage_explained
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    FileFormatError,
    OutOfMemoryError,
    TapegradError,
)
from tapegrad.keras.preprocessing import text
from tests.fuzz.files import damaged_archive, loaders


def sparse() -> Any:
    return tf.sparse.SparseTensor([[0, 0], [0, 1]], [-5, -6], [2, 2])


def ragged() -> Any:
    return tf.ragged.constant([[1, 2], [3]])


@pytest.mark.parametrize("axis", [2, -3, 5])
@pytest.mark.parametrize(
    "call",
    [
        lambda axis: tf.sparse.reduce_max(sparse(), axis=axis),
        lambda axis: tf.sparse.reduce_sum(sparse(), axis=axis),
        lambda axis: tf.sparse.concat(axis, [sparse(), sparse()]),
        lambda axis: tf.concat([ragged(), ragged()], axis),
        lambda axis: tf.reverse(ragged(), [axis]),
        lambda axis: tf.reduce_sum(ragged(), axis),
        lambda axis: ragged().merge_dims(0, axis),
    ],
)
def test_axes_of_sparse_and_ragged_tensors_are_not_counted_around(
    call: Callable[[int], Any], axis: int
) -> None:
    with pytest.raises(TapegradError, match=f"axis {axis}"):
        call(axis)


def test_sparse_tensors_of_other_lengths_are_joined_only_on_request() -> None:
    wide = tf.sparse.SparseTensor([[0, 2]], [7], [1, 3])

    with pytest.raises(ArgumentError, match="equal lengths of the other axes"):
        tf.sparse.concat(0, [sparse(), wide])

    joined = tf.sparse.concat(0, [sparse(), wide], expand_nonconcat_dims=True)
    assert tf.sparse.to_dense(joined).numpy().tolist() == [[-5, -6, 0], [0, 0, 0], [0, 0, 7]]


def test_merged_axes_are_in_order() -> None:
    with pytest.raises(ArgumentError, match="outer_axis before inner_axis"):
        ragged().merge_dims(1, 0)


def test_an_index_beyond_the_rows_is_an_error_of_tapegrad() -> None:
    with pytest.raises(TapegradError, match="There are 2 rows"):
        ragged()[5]
    with pytest.raises(IndexError, match="Not all rows have an entry"):
        ragged()[:, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x93NUMPY\x01\x00v\x00{'descr'", "cannot be read"),
        (b"PK\x03\x04 no archive", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_array_file_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)

    with pytest.raises(FileFormatError, match=f"a.npy {words}"):
        tnp.load(path)


def test_text_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xff\t1\n")

    with pytest.raises(FileFormatError, match=r"a\.txt cannot be read"):
        tnp.loadtxt(path)
    with pytest.raises(FileFormatError, match="no text in UTF-8"):
        tf.lookup.TextFileInitializer(str(path), "string", 0, "int64", 1)


@pytest.mark.parametrize("line", ["a", "a\tb"])
def test_a_line_of_a_table_without_its_number_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"x\t1\n{line}\n")

    with pytest.raises(FileFormatError, match=r"Line 2 of .* has no .*int64.* in column 1"):
        tf.lookup.TextFileInitializer(str(path), "string", 0, "int64", 1)


def test_bytes_that_are_no_base64_or_csv_are_refused() -> None:
    with pytest.raises(FileFormatError, match="web-safe base64"):
        tf.io.decode_base64(b"abcde")
    with pytest.raises(FileFormatError, match="CSV record is damaged"):
        tf.io.decode_csv(b"1\r2,3", [0, 0])


def test_a_name_of_a_feature_that_is_no_text_is_refused() -> None:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    message = tf.train.Example(features=tf.train.Features(feature={"name": feature}))
    damaged = message.SerializeToString().replace(b"name", b"na\xffe")

    with pytest.raises(FileFormatError, match="no UTF-8"):
        tf.train.Example.FromString(damaged)


def test_a_sound_that_is_cut_off_is_refused() -> None:
    whole = tf.audio.encode_wav([[0.5], [-0.5]], 8000)
    damaged = whole[:16] + b"\xff" + whole[17:]  # the length of the first chunk

    with pytest.raises(FileFormatError, match="no readable WAV file: it ends too early"):
        tf.audio.decode_wav(damaged)
    with pytest.raises(ArgumentError, match="sample_rate must be an integer from 1 on"):
        tf.audio.encode_wav([[0.5]], -1)


@pytest.mark.parametrize("part", ["word_counts", "index_word", "document_count"])
def test_a_tokenizer_without_a_part_is_refused(part: str) -> None:
    tokenizer = text.Tokenizer()
    tokenizer.fit_on_texts(["a b a"])
    content = json.loads(tokenizer.to_json())
    del content["config"][part]

    with pytest.raises(FileFormatError, match=f"'{part}' is missing"):
        text.tokenizer_from_json(json.dumps(content))
    with pytest.raises(FileFormatError, match=r"Tokenizer\.to_json"):
        text.tokenizer_from_json("no json")


def test_a_lack_of_memory_is_not_blamed_on_the_file_alone() -> None:
    with (
        pytest.raises(OutOfMemoryError, match=r"'m\.keras' cannot be read: the memory"),
        damage_explained("m.keras", "its description"),
    ):
        raise MemoryError


def test_a_cached_dataset_is_not_to_be_removed_for_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    path = str(tmp_path / "data")
    tf.data.Dataset.range(3).save(path)
    monkeypatch.setattr(zipfile.ZipFile, "open", fail)

    with pytest.raises(MemoryError) as caught:
        list(tf.data.Dataset.load(path))
    assert "Remove it" not in str(caught.value)


def test_an_infinite_mean_square_stays_infinite_in_eager_code_as_compiled() -> None:
    squares = np.array([np.inf, 4.0])
    results = []
    for wrap in (lambda f: f, tf.function):
        v = tf.Variable([1.0, 1.0], dtype="float64")
        optimizer = tf.optimizers.RMSprop(0.1, rho=0.5)
        optimizer.build([v])
        slot = next(s for s in optimizer.variables if s.shape == v.shape)
        slot.assign(squares)
        gradient = tf.constant([1.0, 1.0], "float64")
        wrap(lambda o=optimizer, pair=(gradient, v): o.apply_gradients([pair]))()
        results.append((v.numpy(), slot.numpy()))

    for found, wanted in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert results[0][0][0] == 1.0


def test_text_is_no_condition() -> None:
    with pytest.raises(TypeError, match="where needs truth values or numbers"):
        tf.where("a", 1.0, 2.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.compat.as_bytes("a", "bogus"), "no encoding named 'bogus'"),
        (lambda: tf.config.threading.set_intra_op_parallelism_threads("2"), "integer"),
        (lambda: tf.config.optimizer.set_jit([1, 2]), "enabled"),
        (lambda: tf.debug.check_indices(tf.constant([1, 2])), "on"),
        (lambda: keras.Sequential(tf.constant([1.0, 2.0])), "layer"),
        (lambda: keras.callbacks.History().on_epoch_end(0, "logs"), "logs must be a dict"),
        (lambda: keras.mixed_precision.set_global_policy([]), "Tensors hold values of"),
        (lambda: tf.extend.Primitive([1]), "must be text"),
        (lambda: keras.preprocessing.sequence.skipgrams([1, 2], 3, negative_samples=1e30), "pairs"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TapegradError, match=words):
        call()


def test_a_format_that_pillow_cannot_write_is_named(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    image = np.zeros((2, 2, 3))

    with pytest.raises(ArgumentError, match="cannot write the format 'bogus'"):
        keras.utils.save_img(tmp_path / "a.png", image, file_format="bogus")
    with pytest.raises(ArgumentError, match="Give a path with an extension"):
        keras.utils.save_img(tmp_path / "a", image)


def test_every_loader_reads_what_it_has_written() -> None:
    assert len(loaders()) > 25
    archives = [data for _, files in loaders() for data in files.values() if data[:2] == b"PK"]
    made = damaged_archive(archives[0], np.random.default_rng(0))
    assert zipfile.is_zipfile(io.BytesIO(made))


def test_a_feature_with_a_number_as_its_name_is_refused() -> None:
    with pytest.raises(FileFormatError, match="has the number 5 as its name"):
        tf.train.Example.FromString(b"\x0a\x04\x0a\x02\x08\x05")


def test_the_spacing_of_frequencies_may_be_a_tensor() -> None:
    d = tf.constant(0.5, tf.float64)

    with tf.GradientTape() as tape:
        tape.watch(d)
        found = tnp.fft.fftfreq(4, d)

    np.testing.assert_allclose(found, np.fft.fftfreq(4, 0.5))
    np.testing.assert_allclose(tnp.fft.rfftfreq(5, d), np.fft.rfftfreq(5, 0.5))
    assert float(tape.gradient(found, d)) == pytest.approx(-np.fft.fftfreq(4).sum() / 0.25)


def test_a_lack_of_memory_while_a_kernel_is_looked_up_is_raised_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubled = Primitive("doubled_with_little_memory", lambda xp, x: x + x)
    monkeypatch.setattr(Primitive, "kernel", Mock(side_effect=MemoryError("no room")))

    with pytest.raises(MemoryError, match="no room"):
        doubled(tf.constant([1.0]))

    monkeypatch.undo()
    assert doubled(tf.constant([1.0])).tolist() == [2.0]


def test_numbers_of_a_spectrum_or_a_histogram_may_be_tensors() -> None:
    x = np.random.default_rng(0).normal(size=64)
    rate = tf.constant(3.0, tf.float64)

    with tf.GradientTape() as tape:
        tape.watch(rate)
        found = tapegrad.scipy.signal.welch(x, fs=rate, nperseg=16)
    wanted = scipy.signal.welch(x, fs=3.0, nperseg=16)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert float(tape.gradient(found[0], rate)) == pytest.approx(np.fft.rfftfreq(16).sum())

    limits = [[0.0, 3.0], [-1.0, 1.0]]
    counts, *edges = tnp.histogram2d(x, x, 4, range=tf.constant(limits))
    expected, *theirs = np.histogram2d(x, x, 4, range=limits)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(edges, theirs)


def test_lengths_and_data_types_that_are_none_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="A shape needs integers and None"):
        tf.TensorShape(np.array([2.0, 3.0]))
    with pytest.raises(ArgumentTypeError, match="A shape needs integers and None"):
        tf.TensorShape(2.5)
    with pytest.raises(ArgumentTypeError, match="is not a data type"):
        tf.as_dtype(np.array([1.0, 2.0]))
