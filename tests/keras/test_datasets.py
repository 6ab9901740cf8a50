"""get_file and keras.datasets, with local files."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import shutil
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from tapegrad import keras
from tapegrad.errors import ArgumentError, FileFormatError, TapegradError
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

    with pytest.raises(FileFormatError, match="outside the destination"):
        get_file(origin=source.as_uri(), extract=True)
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("name", ["../../evil.txt", "a/../../evil.txt", "/evil.txt"])
def test_a_zip_with_a_member_elsewhere_is_refused(origin, tmp_path, name):
    source = origin / "evil.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("words.txt", "all of it")
        archive.writestr(name, "evil")

    with pytest.raises(FileFormatError, match="would be written elsewhere"):
        get_file(origin=source.as_uri(), extract=True)
    assert not list(tmp_path.rglob("*.txt"))


# What may go wrong on the way


class Cut(BaseHTTPRequestHandler):
    """Announces more than it sends."""

    def do_GET(self):
        self.send_response(200)
        if self.path != "/unknown":
            self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Cut) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def test_a_download_that_ends_early_is_not_kept(server, origin, tmp_path):
    with pytest.raises(TapegradError, match=r"could not be downloaded: it sent 4 of 1,000 bytes"):
        get_file(origin=f"{server}/a.txt")
    assert list((tmp_path / "home" / "datasets").iterdir()) == []

    assert Path(get_file(origin=f"{server}/unknown")).read_text() == "half"


@pytest.mark.parametrize(
    "url", ["no-scheme", "gopher://a/b", "http://[::1/a", "http://127.0.0.1:1/a"]
)
def test_what_cannot_be_downloaded_ends_in_one_sentence(url, origin):
    with pytest.raises(TapegradError):
        get_file("a", url)


def test_hashes_may_be_written_in_capital_letters(origin):
    source = origin / "words.txt"
    source.write_text("new")
    for kind in ("md5", "sha1", "sha256", "sha512"):
        found = hashlib.new(kind, b"new").hexdigest().upper()
        assert Path(get_file(origin=source.as_uri(), file_hash=f" {found}\n")).read_text() == "new"
    found = hashlib.sha256(b"new").hexdigest().upper()
    get_file(origin=source.as_uri(), file_hash=found, hash_algorithm="sha256", force_download=True)
    for wrong in ("12", "x" * 64):
        with pytest.raises(ArgumentError, match="hexadecimal digits"):
            get_file(origin=source.as_uri(), file_hash=wrong)
    with pytest.raises(ArgumentError, match="hash_algorithm"):
        get_file(origin=source.as_uri(), file_hash=found, hash_algorithm="crc32")


def test_a_link_in_the_cache_is_replaced_and_not_followed(origin, tmp_path):
    source, outside = origin / "words.txt", tmp_path / "outside.txt"
    source.write_text("new")
    outside.write_text("mine")
    inside = tmp_path / "home" / "datasets" / "words.txt"
    inside.parent.mkdir(parents=True)
    inside.symlink_to(outside)

    get_file(origin=source.as_uri(), force_download=True)

    assert outside.read_text() == "mine"
    assert not inside.is_symlink()
    assert inside.read_text() == "new"


def zipped(path, **files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_links_in_an_unpacked_folder_are_not_followed(origin, tmp_path):
    source = zipped(origin / "a.zip", inside__words="new", note="new")
    folder = Path(get_file(origin=source.as_uri(), extract=True))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "words").write_text("mine")
    shutil.rmtree(folder / "inside")
    (folder / "inside").symlink_to(outside)
    (folder / "note").unlink()
    (folder / "note").symlink_to(outside / "words")
    (folder / "own").write_text("kept")

    get_file(origin=source.as_uri(), extract=True, force_download=True)

    assert (outside / "words").read_text() == "mine"
    assert (folder / "inside" / "words").read_text() == (folder / "note").read_text() == "new"
    assert (folder / "own").read_text() == "kept"


def test_archives_with_similar_names_have_folders_of_their_own(origin):
    names = ["data.zip", "data.v1.zip", "data.v2.zip", "data.tar.gz", "data.tgz"]
    folders = []
    for name in names:
        source = origin / name
        if name.endswith("zip"):
            zipped(source, **{name: name})
        else:
            with tarfile.open(source, "w:gz") as archive:
                info = tarfile.TarInfo(name)
                info.size = len(name)
                archive.addfile(info, io.BytesIO(name.encode()))
        folders.append(Path(get_file(origin=source.as_uri(), extract=True)))

    assert folders[0].name == "data_extracted"
    assert len({*folders}) == len(names)
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        [name] for name in names
    ]
    for name, folder in zip(names, folders):
        assert get_file(origin=(origin / name).as_uri(), extract=True) == str(folder)


def test_a_damaged_archive_ends_in_one_sentence(origin):
    source = zipped(origin / "a.zip", words="all of it")
    source.write_bytes(source.read_bytes()[:-30])
    (origin / "b.tar.gz").write_bytes(b"\x1f\x8b nothing")
    for name in ("a.zip", "b.tar.gz"):
        with pytest.raises(FileFormatError, match=r"cannot be unpacked .* Delete it"):
            get_file(origin=(origin / name).as_uri(), extract=True)
    assert not [path for path in (origin.parent / "home").rglob("*") if path.is_dir()][1:]


def test_the_default_folder_is_private(origin, tmp_path, monkeypatch):
    source = origin / "words.txt"
    source.write_text("new")
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    before = os.umask(0)
    try:
        path = Path(get_file(origin=source.as_uri()))
    finally:
        os.umask(before)
    assert path == tmp_path / "me" / ".keras" / "datasets" / "words.txt"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("HOME", "")
    with pytest.raises(ArgumentError, match="Pass cache_dir"):
        get_file(origin=source.as_uri())


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
