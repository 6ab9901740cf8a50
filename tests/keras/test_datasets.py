"""get_file and keras.datasets, with local files."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tapegrad import keras
from tapegrad.errors import ArgumentError, TapegradError
from tapegrad.keras import datasets
from tapegrad.keras.datasets import files
from tapegrad.keras.utils import get_file

RNG = np.random.default_rng(3)


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A folder that files are fetched from; they are kept in another one."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "origin"
    folder.mkdir()
    return folder


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Files


def test_a_file_is_fetched_once(origin):
    source = origin / "words.txt"
    source.write_text("first")
    path = Path(get_file(origin=source.as_uri()))
    source.write_text("second")

    assert path.parts[-3:] == ("home", "datasets", "words.txt")
    assert Path(get_file(origin=source.as_uri())).read_text() == "first"
    assert Path(get_file(origin=source.as_uri(), force_download=True)).read_text() == "second"
    assert Path(get_file("own.txt", source.as_uri(), cache_subdir="a/b")).parts[-3:-1] == ("a", "b")


def test_a_file_with_another_hash_is_fetched_again(origin):
    source = origin / "words.txt"
    source.write_text("old")
    get_file(origin=source.as_uri())
    source.write_text("new")

    assert Path(get_file(origin=source.as_uri(), file_hash=sha(source))).read_text() == "new"
    md5 = hashlib.md5(b"new").hexdigest()
    source.unlink()
    assert Path(get_file(origin=source.as_uri(), md5_hash=md5)).read_text() == "new"


def test_what_is_not_as_expected_is_not_kept(origin, tmp_path):
    source = origin / "words.txt"
    source.write_text("tampered")

    with pytest.raises(TapegradError, match="not the expected hash 0000"):
        get_file(origin=source.as_uri(), file_hash="0" * 64)
    assert list((tmp_path / "home" / "datasets").iterdir()) == []


def test_without_a_network_the_error_says_where_to_put_the_file(origin):
    with pytest.raises(
        TapegradError, match=r"gone.txt could not be downloaded: .* put the file at"
    ):
        get_file(origin=(origin / "gone.txt").as_uri())


@pytest.mark.parametrize(
    ("fname", "origin"),
    [("a", None), ("../a", "file:///a"), (None, "file:///"), ("..", "file:///a")],
)
def test_names_that_are_paths_are_refused(fname, origin):
    with pytest.raises(ArgumentError, match="a file name without folders"):
        get_file(fname, origin)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.parametrize("fname", [None, "plain"])
def test_archives_are_unpacked(origin, kind, fname):
    source = origin / f"words.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("inside/words.txt", "all of it")
    else:
        with tarfile.open(source, "w:gz") as archive:
            info = tarfile.TarInfo("inside/words.txt")
            info.size = 9
            archive.addfile(info, io.BytesIO(b"all of it"))

    folder = Path(get_file(fname, source.as_uri(), extract=True))

    assert folder.name == (fname or "words_extracted")
    assert (folder / "inside" / "words.txt").read_text() == "all of it"


def test_an_archive_cannot_write_elsewhere(origin, tmp_path):
    source = origin / "evil.tar"
    with tarfile.open(source, "w") as archive:
        archive.addfile(tarfile.TarInfo("../../../evil.txt"), io.BytesIO(b""))

    with pytest.raises(tarfile.OutsideDestinationError):
        get_file(origin=source.as_uri(), extract=True)
    assert not list(tmp_path.rglob("evil.txt"))


# Data


def offered(origin, monkeypatch, module, name, **arrays):
    """Put an .npz file where a module looks for it."""
    np.savez(origin / f"{name}.npz", **arrays)
    monkeypatch.setattr(files, "ORIGIN", f"{origin.as_uri()}/")
    monkeypatch.setattr(module, "_HASH", sha(origin / f"{name}.npz"))


def test_mnist(origin, monkeypatch):
    parts = {name: RNG.integers(0, 255, (6, 28, 28)[: 3 if "x" in name else 1]).astype(np.uint8)
             for name in ("x_train", "y_train", "x_test", "y_test")}  # fmt: skip
    offered(origin, monkeypatch, datasets.mnist, "mnist", **parts)

    (x, y), (x_test, y_test) = keras.datasets.mnist.load_data()

    for found, name in zip((x, y, x_test, y_test), parts, strict=True):
        np.testing.assert_array_equal(found, parts[name])


def test_fashion_mnist(origin, monkeypatch):
    monkeypatch.setattr(datasets.fashion_mnist, "ORIGIN", f"{origin.as_uri()}/")
    images = RNG.integers(0, 255, (2, 5, 28, 28)).astype(np.uint8)
    for part, pictures in zip(("train", "t10k"), images, strict=True):
        with gzip.open(origin / f"{part}-images-idx3-ubyte.gz", "w") as file:
            file.write(bytes(16) + pictures.tobytes())
        with gzip.open(origin / f"{part}-labels-idx1-ubyte.gz", "w") as file:
            file.write(bytes(8) + bytes([4, 3, 2, 1, 0]))

    train, test = datasets.fashion_mnist.load_data()

    np.testing.assert_array_equal(train[0], images[0])
    np.testing.assert_array_equal(test[0], images[1])
    assert train[1].tolist() == test[1].tolist() == [4, 3, 2, 1, 0]


def archive_of(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            data = pickle.dumps(content, 2)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def cifar(origin, monkeypatch, module, members):
    archive_of(origin / "cifar.tar.gz", members)
    monkeypatch.setattr(module, "_ORIGIN", (origin / "cifar.tar.gz").as_uri())
    monkeypatch.setattr(module, "_HASH", sha(origin / "cifar.tar.gz"))


def batch(start, *labels):
    """Pictures whose pixels tell number, colour, row and column, in the order of the files."""
    x = np.arange(start, start + 2 * 3072).reshape(2, 3072).astype(np.uint8)
    return {b"data": x, **{name: [start % 7, 1] for name in labels}}


def test_cifar10(origin, monkeypatch):
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    batches = [batch(3 * k, b"labels") for k in range(6)]
    members = {
        f"cifar-10-batches-py/{name}": part for name, part in zip(names, batches, strict=True)
    }
    cifar(origin, monkeypatch, datasets.cifar10, members)

    (x, y), (x_test, y_test) = datasets.cifar10.load_data()

    assert (x.shape, y.shape, x.dtype, y.dtype) == ((10, 32, 32, 3), (10, 1), np.uint8, np.uint8)
    assert (x_test.shape, y_test.tolist()) == ((2, 32, 32, 3), [[15 % 7], [1]])
    assert x[2, 5, 7, 1] == batches[1][b"data"][0, 1024 + 5 * 32 + 7]
    assert y[:4, 0].tolist() == [0, 1, 3, 1]


def test_cifar100(origin, monkeypatch):
    labels = (b"fine_labels", b"coarse_labels")
    members = {
        "cifar-100-python/train": batch(4, *labels),
        "cifar-100-python/test": batch(9, *labels),
    }
    members["cifar-100-python/train"][b"coarse_labels"] = [11, 12]
    cifar(origin, monkeypatch, datasets.cifar100, members)

    assert datasets.cifar100.load_data()[0][1].tolist() == [[4], [1]]
    assert datasets.cifar100.load_data("coarse")[0][1].tolist() == [[11], [12]]
    assert datasets.cifar100.load_data()[1][0].shape == (2, 32, 32, 3)
    with pytest.raises(ArgumentError, match="label_mode must be 'fine' or 'coarse'"):
        datasets.cifar100.load_data("rough")


def encode(text):
    raise AssertionError("called")


class Evil:
    def __init__(self, function):
        self.function = function

    def __reduce__(self):
        return (self.function, ("anything",))


@pytest.mark.parametrize("function", [print, np.fromfile, encode])
def test_pickles_can_name_nothing_but_arrays(function):
    with pytest.raises(pickle.UnpicklingError, match=f"must not contain .*{function.__name__}"):
        files.pictures(io.BytesIO(pickle.dumps(Evil(function), 2)), "labels")
