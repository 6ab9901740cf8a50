"""keras.utils.audio_dataset_from_directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lengths in (("no", (4, 6)), ("yes", (5, 5))):
        (tmp_path / name).mkdir()
        for k, length in enumerate(lengths):
            sound = np.linspace(-0.5, 0.5, length, dtype="float32")[:, None]
            (tmp_path / name / f"{k}.wav").write_bytes(tf.audio.encode_wav(sound, 8000))
    return tmp_path


def read(folder: Path, **options: object) -> list[object]:
    make = tf.keras.utils.audio_dataset_from_directory
    return list(make(folder, shuffle=False, verbose=False, batch_size=4, **options))


def test_sounds_are_padded_cut_or_ragged(folder: Path) -> None:
    ((padded, labels),) = read(folder)
    ((cut, _),) = read(folder, output_sequence_length=5)
    ((ragged, _),) = read(folder, ragged=True)

    assert labels.tolist() == [0, 0, 1, 1]
    assert padded.shape == (4, 6, 1)
    np.testing.assert_allclose(padded[0, :, 0], [-0.5, -1 / 6, 1 / 6, 0.5, 0, 0], atol=1e-4)
    assert cut.shape == (4, 5, 1)
    assert ragged.row_lengths().tolist() == [4, 6, 5, 5]


def test_classes_parts_and_wrong_arguments(folder: Path) -> None:
    make = tf.keras.utils.audio_dataset_from_directory

    train, valid = make(folder, validation_split=0.5, subset="both", seed=1, verbose=False)

    assert train.class_names == ["no", "yes"]
    assert len(train.file_paths) == len(valid.file_paths) == 2
    with pytest.raises(ValueError, match="sampling_rate"):
        make(folder, sampling_rate=4000)
    with pytest.raises(ValueError, match="No audio files found in directory"):
        make(folder / "no")


def test_a_file_that_is_gone_is_named(folder: Path) -> None:
    data = tf.keras.utils.audio_dataset_from_directory(folder, shuffle=False, verbose=False)
    (folder / "no" / "1.wav").unlink()

    with pytest.raises(tf.errors.NotFoundError, match=r"directory: there is no .*1\.wav"):
        list(data)
