"""Every function that reads files or bytes, with a writer of valid ones."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad import keras


@dataclass(frozen=True)
class Loader:
    """`write` puts valid files into a folder; `load` reads them from there.

    `state` returns what a failed call of `load` must not change.
    """

    name: str
    write: Callable[[Path], Any]
    load: Callable[[Path], Any]
    state: Callable[[], Any] | None = None
    may_crash: bool = False
    """Whether a library in C reads the file, which may crash or never return; HDF5's does."""


def _model() -> Any:
    model = keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.BatchNormalization(),
         keras.layers.Dense(2)]
    )  # fmt: skip
    model.compile("adam", "mse")
    return model


def _into_model(
    name: str,
    save: Callable[[Any, Path], Any],
    load: Callable[[Any, Path], Any],
    may_crash: bool = False,
) -> Loader:
    """Return a loader that reads into a model which exists already."""
    source, target = _model(), _model()
    source.fit(np.ones((4, 3), "f4"), np.ones((4, 2), "f4"), verbose=0)
    target.fit(np.ones((4, 3), "f4"), np.zeros((4, 2), "f4"), verbose=0)
    return Loader(
        name,
        lambda folder: save(source, folder),
        lambda folder: load(target, folder),
        lambda: [v.numpy() for v in [*target.weights, *target.optimizer.variables]],
        may_crash,
    )


def _new_model(name: str, file: str) -> Loader:
    return Loader(
        name,
        lambda folder: _model().save(folder / file),
        lambda folder: keras.models.load_model(folder / file),
        may_crash=True,
    )


class _Module(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(np.arange(6.0).reshape(2, 3))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], "float64")])
    def __call__(self, x: Any) -> Any:
        return tf.tanh(tf.matmul(x, self.w)) + tf.reduce_sum(x)


def _saved_model() -> Loader:
    def load(folder: Path) -> Any:
        return tf.saved_model.load(str(folder))(tf.constant(np.ones((3, 2))))

    def write(folder: Path) -> None:
        module = _Module()
        module(tf.constant(np.ones((3, 2))))
        tf.saved_model.save(module, str(folder))

    return Loader("saved_model", write, load)


def _checkpoint() -> Loader:
    target = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0]), b=tf.Variable([[3, 4]]))
    source = tf.train.Checkpoint(a=tf.Variable([5.0, 6.0]), b=tf.Variable([[7, 8]]))

    def load(folder: Path) -> Any:
        return target.restore(str(folder / "ckpt-1")).assert_consumed()

    return Loader(
        "Checkpoint.restore",
        lambda folder: source.save(str(folder / "ckpt")),
        load,
        lambda: [target.a.numpy(), target.b.numpy(), int(target.save_counter)],
    )


def _checkpoint_reader() -> Loader:
    source = tf.train.Checkpoint(a=tf.Variable([5.0, 6.0]), b=tf.Variable([[7, 8]]))

    def load(folder: Path) -> Any:
        reader = tf.train.load_checkpoint(str(folder / "ckpt-1"))
        return [reader.get_tensor(name) for name in reader.get_variable_to_shape_map()]

    return Loader("load_checkpoint", lambda folder: source.save(str(folder / "ckpt")), load)


def _dataset() -> Loader:
    data = tf.data.Dataset.from_tensor_slices(
        {"a": np.arange(12.0).reshape(4, 3), "b": np.arange(4)}
    )
    return Loader(
        "Dataset.load",
        lambda folder: data.save(str(folder / "data")),
        lambda folder: list(tf.data.Dataset.load(str(folder / "data"))),
    )


def _example() -> bytes:
    features = tf.train.Features(
        feature={
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0])),
            "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, -4])),
            "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"abc"])),
        }
    )
    return bytes(tf.train.Example(features=features).SerializeToString())


_SPECS = {
    "x": tf.io.FixedLenFeature([2], "float32"),
    "n": tf.io.VarLenFeature("int64"),
    "s": tf.io.FixedLenFeature([], tf.string),
}


def _write_records(folder: Path) -> None:
    with tf.io.TFRecordWriter(str(folder / "a.tfrecord")) as writer:
        for _ in range(3):
            writer.write(_example())


def _read_records(folder: Path) -> Any:
    records = tf.data.TFRecordDataset([str(folder / "a.tfrecord")])
    return [tf.io.parse_single_example(one, _SPECS) for one in records]


def _write_wave(folder: Path) -> None:
    with wave.open(str(folder / "a"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(40, dtype="<i2").tobytes())


def _of_bytes(name: str, data: Callable[[], bytes], read: Callable[[bytes], Any]) -> Loader:
    return Loader(
        name,
        lambda folder: (folder / "a").write_bytes(data()),
        lambda folder: read((folder / "a").read_bytes()),
    )


def _png() -> bytes:
    pixels = np.arange(5 * 4 * 3, dtype="u1").reshape(5, 4, 3)
    return bytes(tf.io.encode_png(pixels).numpy())


def _text(name: str, text: str, read: Callable[[str], Any]) -> Loader:
    return Loader(
        name,
        lambda folder: (folder / "a.txt").write_text(text, encoding="utf-8"),
        lambda folder: read(str(folder / "a.txt")),
    )


def _json(path: str) -> Any:
    """Return the contents of a JSON file; those of a damaged one are an empty configuration."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        return {}


def _tokenizer() -> str:
    tokenizer = keras.preprocessing.text.Tokenizer()
    tokenizer.fit_on_texts(["some words and some more"])
    return str(tokenizer.to_json())


def _archive(path: Path, names: tuple[str, ...]) -> Any:
    """Read arrays of an archive, which is an object of NumPy and has NumPy's errors."""
    archive = tnp.load(path)
    try:
        return [archive[name] for name in names] if hasattr(archive, "files") else archive
    except Exception:
        return None
    finally:
        if hasattr(archive, "close"):
            archive.close()


def _table(path: str) -> Any:
    start = tf.lookup.TextFileInitializer(path, "string", 0, "int64", 1, delimiter=",")
    return tf.lookup.StaticHashTable(start, -1).lookup(tf.constant(["a"]))


def all_loaders() -> list[Loader]:
    """Return every loader."""
    array = np.arange(24.0).reshape(2, 3, 4)
    return [
        Loader("numpy.load npy", lambda f: np.save(f / "a.npy", array),
               lambda f: tnp.load(f / "a.npy")),
        Loader("numpy.load npz", lambda f: np.savez(f / "a.npz", a=array, b=array[0]),
               lambda f: _archive(f / "a.npz", ("a", "b"))),
        Loader("numpy.load packed", lambda f: np.savez_compressed(f / "a.npz", a=array),
               lambda f: _archive(f / "a.npz", ("a",))),
        _text("numpy.loadtxt", "1.5 2.5\n3.5 4.5\n", tnp.loadtxt),
        _new_model("load_model keras", "m.keras"),
        _new_model("load_model h5", "m.h5"),
        _into_model("load_weights h5", lambda m, f: m.save_weights(f / "a.weights.h5"),
                    lambda m, f: m.load_weights(f / "a.weights.h5"), may_crash=True),
        _into_model("load_weights safetensors", lambda m, f: m.save_weights(f / "a.safetensors"),
                    lambda m, f: m.load_weights(f / "a.safetensors")),
        _into_model("load_weights keras", lambda m, f: m.save(f / "a.keras"),
                    lambda m, f: m.load_weights(f / "a.keras")),
        _saved_model(),
        _checkpoint(),
        _checkpoint_reader(),
        _dataset(),
        Loader("TFRecordDataset", _write_records, _read_records),
        _of_bytes("parse_single_example", _example,
                  lambda b: tf.io.parse_single_example(b, _SPECS)),
        _of_bytes("parse_example", _example, lambda b: tf.io.parse_example([b, b], _SPECS)),
        _of_bytes("Example.FromString", _example, tf.train.Example.FromString),
        _of_bytes("parse_tensor", lambda: bytes(tf.io.serialize_tensor(array).numpy()),
                  lambda b: tf.io.parse_tensor(b, "float64")),
        _of_bytes("decode_png", _png, tf.io.decode_png),
        _of_bytes("decode_image", _png, tf.io.decode_image),
        Loader("decode_wav", _write_wave, lambda f: tf.audio.decode_wav((f / "a").read_bytes())),
        _of_bytes("decode_raw", lambda: array.tobytes(), lambda b: tf.io.decode_raw(b, "float64")),
        _of_bytes("decode_csv", lambda: b"1,2.5,abc", lambda b: tf.io.decode_csv(b, [0, 0.0, ""])),
        _of_bytes("decode_base64", lambda: bytes(tf.io.encode_base64(b"hello there").numpy()),
                  tf.io.decode_base64),
        Loader("load_img", lambda f: (f / "a.png").write_bytes(_png()),
               lambda f: keras.utils.img_to_array(keras.utils.load_img(f / "a.png"))),
        _text("TextLineDataset", "a\nb\nc\n", lambda p: list(tf.data.TextLineDataset(p))),
        _text("CsvDataset", "1,2.5\n3,4.5\n",
              lambda p: list(tf.data.experimental.CsvDataset(p, ["int32", "float32"]))),
        _text("FixedLengthRecordDataset", "abcdefgh",
              lambda p: list(tf.data.FixedLengthRecordDataset(p, 4))),
        _text("TextFileInitializer", "a,1\nb,2\n", _table),
        _text("model_from_json", _model().to_json(),
              lambda p: keras.models.model_from_json(Path(p).read_text(errors="replace"))),
        _text("layer from_config", json.dumps(keras.layers.Dense(3, "relu").get_config()),
              lambda p: keras.layers.Dense.from_config(_json(p))),
        _text("tokenizer_from_json", _tokenizer(),
              lambda p: keras.preprocessing.text.tokenizer_from_json(
                  Path(p).read_text(errors="replace"))),
    ]  # fmt: skip
