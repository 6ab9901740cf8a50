"""Images as arrays and as files, and datasets of a directory of images."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError, TapegradError
from tapegrad.keras.layers import Resizing
from tapegrad.keras.preprocessing.image import smart_resize
from tapegrad.keras.utils import (
    array_to_img,
    image_dataset_from_directory,
    img_to_array,
    load_img,
    save_img,
)
from tapegrad.keras.utils.directory_index import check_parts, indexed, parts_of

try:
    importlib.import_module("PIL.Image")
    HAS_PILLOW = True
except ImportError:
    HAS_PILLOW = False
with_pillow = pytest.mark.skipif(not HAS_PILLOW, reason="Pillow is not installed")
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, size=(6, 8, 3)).astype("uint8")


# Without Pillow


def test_the_error_without_pillow_says_what_to_install(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(), *sys.meta_path])
    calls: dict[str, Any] = {
        "array_to_img": lambda: array_to_img(np.ones((2, 2, 3))),
        "load_img": lambda: load_img("a.png"),
        "image_dataset_from_directory": lambda: image_dataset_from_directory(tmp_path),
    }

    for name, call in calls.items():
        with pytest.raises(TapegradError, match=rf"{name} needs Pillow.*pip install pillow\."):
            call()


class _Without:
    def find_spec(self, name: str, *rest: Any) -> None:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)


def test_images_become_arrays_with_a_channel():
    assert img_to_array([[0, 128], [255, 0]]).tolist() == [[[0], [128]], [[255], [0]]]
    assert img_to_array(PIXELS).dtype == "float32"
    assert img_to_array(PIXELS, "channels_first", "uint8").shape == (3, 6, 8)
    with pytest.raises(ShapeError, match="one image of 2 or 3 dimensions"):
        img_to_array(np.ones(3))
    with pytest.raises(ArgumentError, match="data_format must be"):
        img_to_array(PIXELS, "last")


def test_a_smart_resize_cuts_the_middle():
    x = RNG.normal(size=(8, 6, 3))

    y = smart_resize(x, (4, 4))

    np.testing.assert_allclose(y, Resizing(4, 4, dtype="float64")(x[1:7]).numpy(), rtol=1e-12)
    assert smart_resize(tf.constant(x[None]), (2, 3)).shape == (1, 2, 3, 3)
    first = smart_resize(np.moveaxis(x, -1, 0), (4, 4), data_format="channels_first")
    np.testing.assert_allclose(np.moveaxis(first, 0, -1), y, rtol=1e-12)
    np.testing.assert_array_equal(smart_resize(x, (8, 6)), x)
    with pytest.raises(ArgumentError, match=r"size must be \(height, width\)"):
        smart_resize(x, 3)


# The files of a directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cats/b.png", "cats/a.png", "dogs/old/c.PNG", "dogs/d.png", ".git/x.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "cats" / "notes.txt").touch()
    return tmp_path


def test_files_are_listed_by_class_in_the_order_of_their_names(folder):
    found = indexed(folder, "inferred", (".png",), None, False)

    names = [Path(path).name for path in found.paths]
    assert (names, found.labels, found.class_names) == (
        ["a.png", "b.png", "d.png", "c.PNG"],
        [0, 0, 1, 1],
        ["cats", "dogs"],
    )
    turned = indexed(folder, "inferred", (".png",), ["dogs", "cats"], False)
    assert (turned.labels, turned.class_names) == ([0, 0, 1, 1], ["dogs", "cats"])
    assert Path(turned.paths[0]).name == "d.png"


def test_labels_may_be_given_or_left_out(folder):
    given = indexed(folder / "cats", [1, 0], (".png",), None, False)

    assert (given.labels, given.class_names) == ([1, 0], ["0", "1"])
    assert indexed(folder / "cats", None, (".png",), None, False).labels is None


def test_the_order_depends_on_the_seed_and_keeps_labels_with_files(folder):
    found = indexed(folder, "inferred", (".png",), None, False)
    mixed = found.shuffled(3)

    assert mixed == found.shuffled(3)
    assert sorted(zip(mixed.paths, mixed.labels)) == sorted(zip(found.paths, found.labels))
    training, validation = parts_of(mixed, 0.25, "both")
    assert training.paths + validation.paths == mixed.paths
    assert len(validation.paths) == 1


def test_wrong_directories_and_parts_are_refused(folder):
    with pytest.raises(ArgumentError, match="is not a directory"):
        indexed(folder / "absent", "inferred", (".png",), None, False)
    with pytest.raises(ArgumentError, match=r"lists 'birds', but the subdirectories .* cats, dogs"):
        indexed(folder, "inferred", (".png",), ["birds", "cats"], False)
    with pytest.raises(ShapeError, match="one entry for each of the 2 files"):
        indexed(folder / "cats", [1], (".png",), None, False)
    with pytest.raises(ArgumentError, match="labels must be 'inferred', None, or a list"):
        indexed(folder, "all", (".png",), None, False)
    with pytest.raises(ArgumentError, match="together, or neither"):
        check_parts(0.5, None, True, 1)
    with pytest.raises(ArgumentError, match="Pass a seed if you shuffle"):
        check_parts(0.5, "training", True, None)
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        check_parts(1.5, "training", True, 1)
    with pytest.raises(ArgumentError, match="leaves no validation files"):
        parts_of(indexed(folder, "inferred", (".png",), None, False), 0.1, "training")


# With Pillow


@with_pillow
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_array_written_to_a_file_is_read_again(channels, tmp_path):
    x = RNG.integers(0, 256, size=(5, 7, channels)).astype("uint8")
    mode = {1: "grayscale", 3: "rgb", 4: "rgba"}[channels]
    save_img(tmp_path / "x.png", x, scale=False)

    image = load_img(tmp_path / "x.png", color_mode=mode)

    assert image.size == (7, 5)
    np.testing.assert_array_equal(img_to_array(image, dtype="uint8"), x)


@with_pillow
def test_scaling_maps_the_values_to_a_byte():
    x = np.array([[[-1.0], [0.0]], [[1.0], [3.0]]])

    assert np.asarray(array_to_img(x)).tolist() == [[0, 63], [127, 255]]
    assert np.asarray(array_to_img(np.zeros((2, 2, 1)))).tolist() == [[0, 0], [0, 0]]
    wide = array_to_img(np.array([[[300.0], [2.0]]]), scale=False)
    assert (wide.mode, np.asarray(wide).tolist()) == ("I", [[300, 2]])
    first = array_to_img(np.moveaxis(PIXELS, -1, 0), "channels_first", scale=False)
    np.testing.assert_array_equal(np.asarray(first), PIXELS)


@with_pillow
def test_loaded_images_are_resized_whole_or_in_their_middle(tmp_path):
    save_img(tmp_path / "x.png", PIXELS, scale=False)

    whole = load_img(tmp_path / "x.png", target_size=(3, 4))
    middle = load_img(str(tmp_path / "x.png"), target_size=(6, 6), keep_aspect_ratio=True)
    from_bytes = load_img(io.BytesIO((tmp_path / "x.png").read_bytes()))

    np.testing.assert_array_equal(np.asarray(whole), PIXELS[1::2, 1::2])
    np.testing.assert_array_equal(np.asarray(middle), PIXELS[:, 1:7])
    np.testing.assert_array_equal(np.asarray(from_bytes), PIXELS)
    with pytest.raises(ArgumentError, match="interpolation must be one of nearest, bilinear"):
        load_img(tmp_path / "x.png", target_size=(3, 3), interpolation="linear")
    with pytest.raises(ArgumentError, match=r"target_size must be \(height, width\)"):
        load_img(tmp_path / "x.png", target_size=3)


@with_pillow
def test_transparency_is_dropped_for_jpeg(tmp_path):
    with pytest.warns(UserWarning, match="JPEG has no transparency"):
        save_img(tmp_path / "x.jpg", np.ones((4, 4, 4)))

    assert load_img(tmp_path / "x.jpg", color_mode="rgba").mode == "RGBA"


@with_pillow
def test_damaged_files_and_wrong_arguments_are_named(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    with pytest.raises(ArgumentError, match=r"bad.png is damaged, or is not an image"):
        load_img(bad)
    save_img(bad, PIXELS)
    bad.write_bytes(bad.read_bytes()[:60])
    with pytest.raises(ArgumentError, match=r"bad.png is damaged, or is not an image"):
        load_img(bad)
    with pytest.raises(FileNotFoundError):
        load_img(tmp_path / "absent.png")
    with pytest.raises(ArgumentTypeError, match="takes the path of an image, or an open file"):
        load_img(PIXELS)
    with pytest.raises(ArgumentError, match="color_mode must be"):
        load_img(bad, color_mode="RGB")
    with pytest.raises(ShapeError, match="one image of 3 dimensions"):
        array_to_img(np.ones((2, 2)))
    with pytest.raises(ShapeError, match=r"1, 3 or 4 channels\. Got 2"):
        array_to_img(np.ones((2, 2, 2)))


@pytest.fixture
def pictures(tmp_path: Path) -> dict[str, Any]:
    """Images of one colour; the key is the path below the folder."""
    colours = {f"{name}/{k}.png": 20 * (4 * place + k) for place, name in enumerate("ab")
               for k in range(4)}  # fmt: skip
    for name, colour in colours.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_img(tmp_path / name, np.full((6, 8, 3), colour), scale=False)
    return {"folder": tmp_path, "colours": colours}


@with_pillow
def test_a_dataset_has_images_and_labels(pictures, capsys):
    folder, colours = pictures["folder"], list(pictures["colours"].values())

    dataset = image_dataset_from_directory(folder, shuffle=False, image_size=(4, 4), batch_size=3)

    assert capsys.readouterr().out == "Found 8 files belonging to 2 classes.\n"
    batches = list(dataset)
    assert [x.shape for x, _ in batches] == [(3, 4, 4, 3), (3, 4, 4, 3), (2, 4, 4, 3)]
    assert batches[0][0].dtype == "float32"
    assert batches[0][1].dtype == "int32"
    values = np.concatenate([x.numpy() for x, _ in batches])
    np.testing.assert_allclose(values, np.broadcast_to(np.reshape(colours, (8, 1, 1, 1)),
                                                       values.shape), rtol=1e-6)  # fmt: skip
    assert [int(y) for _, labels in batches for y in labels] == [0] * 4 + [1] * 4
    assert dataset.class_names == ["a", "b"]
    assert [Path(path).name for path in dataset.file_paths[:2]] == ["0.png", "1.png"]


@with_pillow
def test_forms_of_labels_and_images(pictures):
    def first(**options: Any) -> Any:
        dataset = image_dataset_from_directory(
            pictures["folder"], shuffle=False, image_size=(4, 4), verbose=False, **options
        )
        return next(iter(dataset))

    binary, categorical = first(label_mode="binary")[1], first(label_mode="categorical")[1]
    assert (binary.shape, binary.dtype.name) == ((8, 1), "float32")
    assert categorical.numpy().tolist() == [[1, 0]] * 4 + [[0, 1]] * 4
    assert first(label_mode=None, batch_size=None).shape == (4, 4, 3)
    assert first(color_mode="grayscale", data_format="channels_first")[0].shape == (8, 1, 4, 4)
    assert first(color_mode="rgba")[0].shape == (8, 4, 4, 4)
    assert first(crop_to_aspect_ratio=True)[0].numpy().max() == 140
    assert first(smart_resize=True)[0].numpy().max() == 140
    padded = first(pad_to_aspect_ratio=True, interpolation="nearest")[0].numpy()[-1, :, :, 0]
    assert padded.tolist() == [[140] * 4] * 3 + [[0] * 4]  # rows 1, 3, 5 and 7 of 8
    assert first(labels=[0, 1, 2, 3] * 2)[1].tolist() == [0, 1, 2, 3] * 2


@with_pillow
def test_images_are_resized_like_by_the_layer(tmp_path):
    (tmp_path / "a").mkdir()
    save_img(tmp_path / "a" / "x.png", PIXELS, scale=False)

    for interpolation in ("bilinear", "nearest", "bicubic"):
        dataset = image_dataset_from_directory(
            tmp_path, image_size=(5, 3), interpolation=interpolation, verbose=False
        )

        layer = Resizing(5, 3, interpolation=interpolation)
        wanted = layer(PIXELS.astype("float32")[None]).numpy()
        np.testing.assert_allclose(next(iter(dataset))[0].numpy(), wanted, rtol=1e-4, atol=1e-3)


@with_pillow
def test_two_parts_share_no_file_and_are_shuffled_anew(pictures, capsys):
    training, validation = image_dataset_from_directory(
        pictures["folder"], seed=1, validation_split=0.25, subset="both", image_size=(2, 2),
        batch_size=None,
    )  # fmt: skip

    assert capsys.readouterr().out.splitlines() == [
        "Found 8 files belonging to 2 classes.",
        "Using 6 files for training.",
        "Using 2 files for validation.",
    ]
    assert not set(training.file_paths) & set(validation.file_paths)
    assert len(training.file_paths) + len(validation.file_paths) == 8
    colours = [[float(x[0, 0, 0]) for x, _ in training] for _ in range(2)]
    assert sorted(colours[0]) == sorted(colours[1])
    assert colours[0] != colours[1]
    alone = image_dataset_from_directory(
        pictures["folder"], seed=1, validation_split=0.25, subset="validation", verbose=False
    )
    assert alone.file_paths == validation.file_paths


@with_pillow
def test_a_model_is_fitted_to_files(pictures):
    dataset = image_dataset_from_directory(
        pictures["folder"], label_mode="binary", image_size=(4, 4), seed=2, verbose=False
    )
    layers = keras.layers
    model = keras.Sequential(
        [layers.Rescaling(1 / 140), layers.GlobalAveragePooling2D(), layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy")

    losses = model.fit(dataset, epochs=40, verbose=0).history["loss"]

    assert losses[-1] < 0.7 * losses[0]


@with_pillow
def test_wrong_datasets_are_refused(pictures, tmp_path):
    folder = pictures["folder"]
    (tmp_path / "empty").mkdir()
    for options, sentence in [
        ({"directory": tmp_path / "empty"}, "No images found in directory"),
        ({"label_mode": "one_hot"}, "label_mode must be"),
        ({"interpolation": "linear"}, "interpolation must be one of nearest, bilinear"),
        ({"image_size": 4}, r"image_size must be \(height, width\)"),
        ({"format": "grain"}, "format must be 'tf'"),
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "exclude each other"),
        ({"class_names": ["a"], "label_mode": "binary"}, "needs 2 classes. Got 1"),
    ]:
        with pytest.raises(ArgumentError, match=sentence):
            image_dataset_from_directory(**{"directory": folder, "verbose": False, **options})
    (folder / "a" / "0.png").write_bytes(b"no image")
    dataset = image_dataset_from_directory(folder, shuffle=False, verbose=False)
    with pytest.raises(ArgumentError, match=r"0.png is damaged, or is not an image"):
        list(dataset)


def test_the_names_are_in_preprocessing_too():
    assert keras.preprocessing.image.load_img is load_img
    assert keras.preprocessing.image_dataset_from_directory is image_dataset_from_directory
    assert len(keras.preprocessing.sequence.pad_sequences([[1], [2, 3]])) == 2
