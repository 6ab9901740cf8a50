"""`tf.io`: whole files, and files and folders by `gfile`."""

from __future__ import annotations

import pytest

import tapegrad as tf

gfile = tf.io.gfile


def test_files_are_written_and_read_as_bytes(tmp_path):
    path = tmp_path / "new" / "a.txt"
    tf.io.write_file(path, "grün")
    assert tf.io.read_file(str(path)) == "grün".encode()

    tf.io.write_file(str(path).encode(), b"\x00\xff")
    assert tf.io.read_file(path) == b"\x00\xff"


def test_matching_files_are_sorted_and_hold_no_folder(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        tf.io.write_file(tmp_path / name, name)
    gfile.makedirs(tmp_path / "d.txt")
    found = tf.io.matching_files([f"{tmp_path}/*.txt", f"{tmp_path}/*.csv"])

    assert [path.rpartition(b"/")[2] for path in found.tolist()] == [b"a.txt", b"b.txt", b"c.csv"]
    assert len(gfile.glob(f"{tmp_path}/*.txt")) == 3


def test_folders_are_made_listed_walked_and_removed(tmp_path):
    inner = gfile.join(tmp_path, "a", "b")
    gfile.makedirs(inner)
    gfile.makedirs(inner)  # which exists
    tf.io.write_file(gfile.join(inner, "c.txt"), "123")

    assert gfile.isdir(inner)
    assert not gfile.isdir(gfile.join(inner, "c.txt"))
    assert gfile.listdir(inner) == ["c.txt"]
    assert gfile.stat(gfile.join(inner, "c.txt")).st_size == 3
    assert [(dirs, files) for _, dirs, files in gfile.walk(tmp_path)] == [
        (["a"], []),
        (["b"], []),
        ([], ["c.txt"]),
    ]
    gfile.rmtree(gfile.join(tmp_path, "a"))
    assert not gfile.exists(inner)


def test_files_are_copied_renamed_and_removed(tmp_path):
    a, b, c = (str(tmp_path / name) for name in "abc")
    tf.io.write_file(a, "A")
    gfile.copy(a, b)
    gfile.rename(b, c)
    assert sorted(gfile.listdir(tmp_path)) == ["a", "c"]

    tf.io.write_file(b, "B")
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        gfile.copy(b, c)
    gfile.copy(b, c, overwrite=True)
    assert tf.io.read_file(c) == b"B"
    gfile.remove(c)
    assert not gfile.exists(c)


def test_a_file_object_reads_and_writes(tmp_path):
    path = str(tmp_path / "lines.txt")
    with gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
        file.write("three\n")
        assert file.size() == 14
    with gfile.GFile(path) as file:
        assert (file.readline(), file.tell(), list(file)) == ("one\n", 4, ["two\n", "three\n"])
        file.seek(4)
        assert (file.read(3), file.readlines()) == ("two", ["\n", "three\n"])
    with gfile.GFile(path, "rb") as file:
        assert (file.name, file.mode, file.read()) == (path, "rb", b"one\ntwo\nthree\n")
    with gfile.GFile(str(tmp_path / "empty"), "wb"):
        pass
    assert gfile.exists(tmp_path / "empty")


@pytest.mark.parametrize(
    "act",
    [
        tf.io.read_file,
        gfile.listdir,
        gfile.remove,
        gfile.rmtree,
        gfile.stat,
        lambda path: gfile.GFile(path).read(),
        lambda path: gfile.copy(path, path + "x"),
        lambda path: gfile.mkdir(path + "/inner"),
    ],
)
def test_what_does_not_exist_is_named(act, tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="nowhere") as caught:
        act(str(tmp_path / "nowhere"))

    assert isinstance(caught.value, FileNotFoundError)


def test_other_wrong_arguments(tmp_path):
    with pytest.raises(tf.errors.AlreadyExistsError, match="exists already"):
        gfile.mkdir(tmp_path)
    with pytest.raises(TypeError, match="read_file takes a path"):
        tf.io.read_file(3)
    with pytest.raises(TypeError, match=r"bytes or text as contents. Got int"):
        tf.io.write_file(tmp_path / "a", 3)
    with pytest.raises(ValueError, match="one of the modes"):
        gfile.GFile(tmp_path / "a", "q")
    with pytest.raises(NotImplementedError, match="local files"):
        gfile.exists("gs://bucket/file")
